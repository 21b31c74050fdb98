"""What a report says about the problem behind a solution, as plain text and numbers that pickle."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from blomodel.methods.portfolio.plan import make_plan
from blomodel.report.model_math import Row, model_rows

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

PACKAGES = ("blomodel", "cvxpy", "numpy", "scipy", "numba", "osqp", "clarabel", "highspy")


@dataclass(frozen=True)
class Background:
    """A problem in words.

    Attributes
    ----------
    model : tuple of Row
        The model as mathematics.
    facts : tuple of (name, value, evidence)
        What kind of problem it is.
    choice : str
        The plan of ``method="auto"``: a line for each step and for each that is left out.
    parameters : dict
        The parameters' sizes by name.
    versions : dict
        Of everything that had a part in the answer.
    """

    model: tuple[Row, ...]
    facts: tuple[tuple[str, str, str], ...]
    choice: str
    parameters: dict[str, int]
    versions: dict[str, str]


def describe(problem: BilevelProblem) -> Background:
    """Write down what a report needs."""
    structure = problem.structure
    plan = make_plan(structure.model, structure.p)
    return Background(
        model=tuple(model_rows(problem)),
        facts=tuple((fact.name, fact.value, fact.evidence) for fact in structure.facts),
        choice="\n".join(f"{name}: {said}" for name, said in plan.rows),
        parameters={parameter.name(): parameter.size for parameter in problem.parameters},
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """Python, the machine, and the packages that compute."""
    found = {"Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a source tree, or an optional solver
            continue
    return found
