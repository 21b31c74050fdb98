"""The order in which the examples of a group stand in the gallery."""

from __future__ import annotations

from pathlib import Path

# Of each group, those to read first; the others follow by name.
FIRST = [
    "first_bilevel_problem.py",
    "toll_setting.py",
    "stackelberg_cournot.py",
    "network_design.py",
    "cross_validation.py",
    "four_models.py",
    "hyper_cleaning.py",
    "adversarial_training.py",
    "meta_learning.py",
    "preferences.py",
    "robust_portfolio.py",
    "compare_methods.py",
]


class ReadingOrder:
    """Sort key of sphinx-gallery: examples to read first, then the others by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).name
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)

    def __repr__(self) -> str:
        return "ReadingOrder"  # the same in every build, so that pages are not built again for it
