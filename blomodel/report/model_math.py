"""A bilevel problem as mathematics, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from blomodel.text.mathematics import Writer
from blomodel.text.notation import LATEX

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

SUBJECT_TO = r"\text{subject to}"
MAX_ROWS = 12  # constraints of one level written out


@dataclass(frozen=True)
class Row:
    """One line of the model.

    ``depth`` is 0 for the upper level and 1 for the lower one; ``lead`` is what stands before the
    formula, such as "min" or "subject to". Both parts are LaTeX.
    """

    depth: int
    lead: str
    formula: str


def model_rows(problem: BilevelProblem) -> list[Row]:
    """The upper level, then the lower level (or each of several) below it, then what names stand for."""
    writer = Writer(LATEX)
    rows = _level_rows(writer, 0, problem.objective, problem.levels.upper, problem.constraints)
    for lower in problem.followers:
        answered = _names(lower.variables)
        kind = "min" if isinstance(lower.objective, cp.Minimize) else "max"
        best = rf"\underset{{{answered}}}{{\operatorname{{arg{kind}}}}}"
        tuple_of = answered if len(lower.variables) == 1 else rf"\left({answered}\right)"
        first, *others = _level_rows(writer, 1, lower.objective, lower.variables, lower.constraints)
        lead = "" if len(rows) > 1 else SUBJECT_TO
        rows.append(Row(0, lead, rf"{tuple_of} \in {best}\; {first.formula}"))
        rows += others
    if writer.legend:
        rows.append(Row(0, r"\text{with data}", r",\ ".join(writer.legend)))
    return rows


def model_latex(problem: BilevelProblem) -> str:
    r"""The whole model as one LaTeX formula.

    >>> import blomodel as bm
    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
    >>> print(model_latex(bm.BilevelProblem(cp.Minimize(x * y), [x >= 0], lower)))
    \begin{aligned}
    \underset{x}{\min} \quad & x y \\
    \text{subject to} \quad & 0 \le x \\
     \quad & y \in \underset{y}{\operatorname{argmin}}\; \left(y - x\right)^{2} \\
     \quad & \qquad \text{subject to} \quad y \le 1
    \end{aligned}
    """
    lines = []
    for row in model_rows(problem):
        if row.depth:
            # Within the lower level the lead is followed by the formula, all right of the column.
            lead = row.lead or rf"\phantom{{{SUBJECT_TO}}}"
            lines.append(rf" \quad & \qquad {lead} \quad {row.formula}")
        else:
            lines.append(rf"{row.lead} \quad & {row.formula}")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _names(variables: Sequence[cp.Variable]) -> str:
    return ", ".join(LATEX.name(variable.name()) for variable in variables)


def _level_rows(
    writer: Writer,
    depth: int,
    objective: Any,
    variables: Sequence[cp.Variable],
    constraints: Sequence[Any],
) -> list[Row]:
    sense = r"\min" if isinstance(objective, cp.Minimize) else r"\max"
    lead = rf"\underset{{{_names(variables)}}}{{{sense}}}" if variables else sense
    rows = [Row(depth, lead, writer.write(objective.args[0]))]
    written = [writer.write(item) for item in constraints[:MAX_ROWS]]
    if len(constraints) > MAX_ROWS:
        written.append(rf"\text{{and {len(constraints) - MAX_ROWS} more}}")
    written += [line for variable in variables if (line := _domain(writer, variable))]
    for position, formula in enumerate(written):
        rows.append(Row(depth, SUBJECT_TO if position == 0 else "", formula))
    return rows


def _domain(writer: Writer, variable: cp.Variable) -> str:
    """Shape and declared attributes, e.g. x in R^10, x >= 0; nothing for a free scalar."""
    name = LATEX.name(variable.name())
    sets = [LATEX.shape(name, variable.shape)] if variable.ndim else []
    signs = {"nonneg": r"\ge 0", "pos": "> 0", "nonpos": r"\le 0", "neg": "< 0", "PSD": r"\succeq 0"}
    sets += [f"{name} {sign}" for key, sign in signs.items() if variable.attributes.get(key) is True]
    if variable.attributes.get("symmetric") is True:
        sets.append(f"{name} = {LATEX.transposed(name)}")
    bounds = variable.attributes.get("bounds")
    if bounds is not None:
        low, high = (_bound(writer, side) for side in bounds)
        sets.append((rf"{low} \le " if low else "") + name + (rf" \le {high}" if high else ""))
    return r",\ ".join(sets)


def _bound(writer: Writer, side: Any) -> str:
    """One side of a variable's bounds; empty where it is open."""
    if side is None or np.all(np.isinf(np.asarray(side, dtype=float))):
        return ""
    return writer.write(cp.Constant(side))
