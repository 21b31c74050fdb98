"""How a problem enters the catalogue: what is known about it, and the function that states it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.problem import BilevelProblem, Lower
from blomodel.text import layout

Numbers = float | Sequence[float]
WIDTH = 100  # of a printed card
# What the lower level is in y for a given x, from easy to hard.
LOWER_CLASSES = ("LP", "QP", "conic", "convex", "nonconvex")
COLLECTIONS = {
    "BOLIB": "S. Zhou, A. B. Zemkoho and A. Tin, BOLIB: a library of bilevel test problems, 2020",
    "BASBLib": "R. Paulavicius and C. S. Adjiman, BASBLib: a library of bilevel test problems, 2017",
    "BilevelJuMP": "J. Dias Garcia, G. Bodin and A. Street, BilevelJuMP.jl, its tests, 2023",
    "papers": "the papers whose methods blomodel offers",
}


@dataclass(frozen=True)
class Levels:
    """Both levels, to be minimised, as a function of x and y states them."""

    f: Any
    upper: Sequence[Constraint]
    g: Any
    lower: Sequence[Constraint]


@dataclass(frozen=True)
class Facts:
    """What is known about a problem of the catalogue; ``print`` it for the whole card.

    Attributes
    ----------
    name : str
        What ``load()`` takes.
    lower_class : str
        What the lower level is in y: "LP", "QP", "conic", "convex" or "nonconvex".
    n_upper, n_lower : int
        Unknowns of the upper and of the lower level.
    best_value : float or None
        The best upper objective that is known; None: not known.
    is_optimal : bool
        Whether that value is known to be the global one, and not merely the best so far.
    best_x, best_y : tuple of float
        A point that has it, as far as it is printed; empty: not listed.
    reference : str
        Where the problem comes from.
    collection : str
        The collection that holds it: "BOLIB", "BASBLib", "BilevelJuMP" or "papers".
    note : str
        What is special about it.
    """

    name: str
    lower_class: str
    n_upper: int
    n_lower: int
    best_value: float | None
    is_optimal: bool
    reference: str
    collection: str
    note: str = ""
    best_x: tuple[float, ...] = ()
    best_y: tuple[float, ...] = ()
    build: Callable[..., BilevelProblem] = field(repr=False, compare=False, kw_only=True)

    def __str__(self) -> str:
        known = "not known"
        if self.best_value is not None:
            known = f"{self.best_value:.8g}, {'the optimum' if self.is_optimal else 'best known'}"
        rows = [
            ("from", self.reference),
            ("collection", f"{self.collection}: {COLLECTIONS[self.collection]}"),
            ("lower level", self.lower_class),
            ("unknowns", f"{self.n_upper} upper, {self.n_lower} lower"),
            ("best value", known),
            *([("note", self.note)] if self.note else []),
        ]
        return layout.titled(self.name, layout.columns(rows, WIDTH))


ENTRIES: dict[str, Facts] = {}


def stated(
    lower_class: str,
    collection: str,
    best_value: float,
    best: tuple[Numbers, Numbers],
    *,
    start: tuple[Numbers, Numbers],
    is_optimal: bool = True,
) -> Callable[[Callable[[cp.Variable, cp.Variable], Levels]], Callable[..., Levels]]:
    """Enter a function of x and y into the catalogue.

    Its name is the problem's, the first line of its docstring the reference, the rest the note. ``best``
    and ``start`` are points (x, y); their lengths are the sizes. A single unknown is a scalar.
    """

    def enter(levels: Callable[[cp.Variable, cp.Variable], Levels]) -> Callable[..., Levels]:
        x_best, y_best = (_tuple(part) for part in best)

        def build() -> BilevelProblem:
            x, y = _variable("x", start[0]), _variable("y", start[1])
            both = levels(x, y)
            lower = Lower(cp.Minimize(both.g), list(both.lower), variables=[y])
            upper = [x] if x_best else []  # in a simple bilevel problem there is no x
            return BilevelProblem(cp.Minimize(both.f), list(both.upper), lower, variables=upper)

        _enter(levels, lower_class, collection, best_value, is_optimal, (x_best, y_best), build)
        return levels

    return enter


def example(
    lower_class: str,
    sizes: tuple[int, int],
    best_value: float | None,
    best: tuple[Numbers, Numbers] = ((), ()),
    *,
    is_optimal: bool = True,
) -> Callable[[Callable[..., BilevelProblem]], Callable[..., BilevelProblem]]:
    """Enter a function that states a paper's example; it may take sizes, all with defaults."""

    def enter(build: Callable[..., BilevelProblem]) -> Callable[..., BilevelProblem]:
        point = (_tuple(best[0]), _tuple(best[1]))
        known = is_optimal and best_value is not None
        _enter(build, lower_class, "papers", best_value, known, point, build, sizes)
        return build

    return enter


def _enter(
    source: Callable[..., Any],
    lower_class: str,
    collection: str,
    best_value: float | None,
    is_optimal: bool,
    best: tuple[tuple[float, ...], tuple[float, ...]],
    build: Callable[..., BilevelProblem],
    sizes: tuple[int, int] | None = None,
) -> None:
    name = source.__name__
    assert lower_class in LOWER_CLASSES and collection in COLLECTIONS and name not in ENTRIES, name
    reference, _, note = (inspect.getdoc(source) or "").partition("\n\n")
    n_upper, n_lower = sizes or (len(best[0]), len(best[1]))
    ENTRIES[name] = Facts(
        name=name,
        lower_class=lower_class,
        n_upper=n_upper,
        n_lower=n_lower,
        best_value=None if best_value is None else float(best_value),
        is_optimal=is_optimal,
        reference=" ".join(reference.split()).removesuffix("."),
        collection=collection,
        note=" ".join(note.split()),
        best_x=best[0],
        best_y=best[1],
        build=build,
    )


def _tuple(part: Numbers) -> tuple[float, ...]:
    return tuple(float(number) for number in np.atleast_1d(np.asarray(part, float)))


def _variable(name: str, start: Numbers) -> cp.Variable:
    values = np.asarray(start, float)
    return cp.Variable(values.shape, name=name, value=values)
