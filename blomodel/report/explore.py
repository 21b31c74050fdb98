"""An interactive page: move x, and see the lower problem, its answer and what the upper level gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import ModelError
from blomodel.model.model import Model
from blomodel.report.curve_kinks import find_kinks
from blomodel.report.landscape import Landscape, UpperView, sample
from blomodel.report.model_math import model_rows
from blomodel.report.page import as_utf8, model_table
from blomodel.report.problem_plot import has_answer, names_of, spans_of

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

SHOWN = 6  # entries of y with a curve: as many as there are colours
SLICE_POINTS = 81  # values of y at which g is drawn for each x
WIDER = 0.3  # of the range of the answers, on either side, where y has no bounds
HELD = 1e-6  # relative: slack of a row that holds with equality


def write_exploration(
    problem: BilevelProblem,
    path: str | Path,
    *,
    span: Any = None,
    gammas: Sequence[float] = (0.1, 1.0, 10.0),
    points: int = 121,
) -> Path:
    """See BilevelProblem.explore."""
    problem.check_data()
    n_x = sum(variable.size for variable in problem.levels.upper)
    if n_x != 1 or problem.plain_model.has_integers:
        what = f"{n_x} upper unknowns" if n_x != 1 else "integer variables"
        raise ModelError(
            f"explore: the page has one slider, for one real upper unknown; this problem has {what}. "
            "problem.plot() draws maps over two, and problem.solution.report(path) describes any solve."
        )
    (ends,) = spans_of(problem, span, n_x)
    grid = np.linspace(*ends, points)
    if has_answer(problem):  # the answer itself is a stop of the slider
        at = float(problem.levels.x.pack()[0])
        grid = np.unique(np.append(grid, at)) if ends[0] <= at <= ends[1] else grid
    data = _figures(problem, grid, gammas)
    # A name may hold what ends a script, or begins a comment within one.
    as_json = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = Template(_asset("explore.html")).substitute(
        title="A bilevel problem to explore",
        style=_asset("explore.css"),
        script=_asset("explore.js"),
        model=model_table(model_rows(problem)),
        x_name=escape(names_of(problem.levels.upper)[0], quote=True),
        data=as_json,
    )
    written = Path(path)
    written.write_bytes(as_utf8(page))
    return written


def _asset(name: str) -> str:
    return (files("blomodel.report") / "assets" / name).read_text(encoding="utf-8")


def _figures(problem: BilevelProblem, grid: np.ndarray, gammas: Sequence[float]) -> dict[str, Any]:
    model, p, sign = problem.plain_model, problem.parameter_values(), problem.sign
    landscape = sample(model, p, grid[:, None], gammas)
    names = names_of(problem.levels.lower)
    with np.errstate(invalid="ignore"):
        moves = np.nan_to_num(np.nanmax(landscape.y, axis=0) - np.nanmin(landscape.y, axis=0))
    shown = sorted(int(k) for k in np.argsort(-moves, kind="stable")[:SHOWN])
    gaps = _gaps(model, p, grid, landscape)
    lower_sign = problem.followers[0].sign if len(problem.followers) == 1 else 1.0
    own_value = np.array(
        [float(model.g(x, y, p)[0]) for x, y in zip(grid[:, None], landscape.y, strict=True)]
    )
    is_one = len(problem.followers) == 1
    answer = None
    if has_answer(problem):
        answer = [float(problem.levels.x.pack()[0]), float(problem.value or 0.0)]
    return {
        "xName": names_of(problem.levels.upper)[0],
        "x": _numbers(grid),
        "phi": _numbers(np.where(landscape.is_allowed, sign * landscape.value, np.nan), gaps),
        "forbidden": _numbers(np.where(landscape.is_allowed, np.nan, sign * landscape.value)),
        "penalised": [
            {"gamma": f"{gamma:g}", "values": _numbers(sign * values)}
            for gamma, values in landscape.penalised.items()
        ],
        "y": [{"name": names[k], "values": _numbers(landscape.y[:, k], gaps)} for k in shown],
        "v": _numbers(lower_sign * own_value),
        "lowerName": "lower objective" if is_one else "sum of the lower objectives, minimised",
        "slices": [_slice(model, p, landscape, k, names[k], lower_sign) for k in shown],
        "rows": [*model.lower_in.labels, *model.lower_eq.labels],
        "active": [_held(model, p, x, y) for x, y in zip(grid[:, None], landscape.y, strict=True)],
        "answer": answer,
    }


def _gaps(model: Model, p: np.ndarray, grid: np.ndarray, landscape: Landscape) -> np.ndarray:
    """Samples after which a curve is broken, since the answer jumps."""
    view = UpperView(model, p)

    def curves(place: float) -> np.ndarray:
        value, y, *_ = view.look(np.array([place]))
        return np.concatenate([[value], y])

    kinks = find_kinks(curves, grid, np.column_stack([landscape.value, landscape.y]))
    jumps = [kink.place for kink in kinks if kink.is_jump]
    return np.unique(np.clip(np.searchsorted(grid, jumps), 0, grid.size - 1)).astype(int)


def _slice(
    model: Model, p: np.ndarray, landscape: Landscape, entry: int, name: str, sign: float
) -> dict[str, Any]:
    """The lower objective along one entry of y, the others at the answer, for each x."""
    low, high = (float(ends[entry]) for ends in model.y_bounds)
    answers = landscape.y[:, entry]
    known = answers[np.isfinite(answers)]
    first, last = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    margin = WIDER * max(last - first, 1.0)
    ends = (low if np.isfinite(low) else first - margin, high if np.isfinite(high) else last + margin)
    places = np.linspace(ends[0], ends[1], SLICE_POINTS)
    heights, allowed = [], []
    for x, y in zip(landscape.x, landscape.y, strict=True):
        moved = np.tile(y, (places.size, 1))
        moved[:, entry] = places
        with np.errstate(all="ignore"):
            heights.append(_numbers(np.array([sign * float(model.g(x, each, p)[0]) for each in moved])))
        allowed.append("".join("1" if _is_inside(model, p, x, each) else "0" for each in moved))
    return {
        "name": name,
        "y": _numbers(places),
        "g": heights,
        "allowed": allowed,
        "at": _numbers(answers),
    }


def _is_inside(model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    """Whether the lower constraints allow a y."""
    if not np.all(np.isfinite(y)):
        return False
    size = HELD * (1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)))
    worst = model.lower_in.values(x, y, p).max(initial=-np.inf)
    return bool(worst <= size and np.abs(model.lower_eq.values(x, y, p)).max(initial=0.0) <= size)


def _held(model: Model, p: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[int]:
    """Rows below that hold with equality: inequalities, then equalities."""
    if not np.all(np.isfinite(y)):
        return []
    size = HELD * (1 + max(np.abs(x).max(initial=0), np.abs(y).max(initial=0)))
    tight = np.flatnonzero(model.lower_in.values(x, y, p) >= -size)
    return [*map(int, tight), *range(len(model.lower_in), len(model.lower_in) + len(model.lower_eq))]


def _numbers(values: np.ndarray, gaps: np.ndarray | None = None) -> list[float | None]:
    """Values for JSON: seven digits, None where there is none and where the curve is broken."""
    shown = [float(f"{value:.7g}") if np.isfinite(value) else None for value in values]
    for gap in () if gaps is None else gaps:
        shown[gap] = None
    return shown
