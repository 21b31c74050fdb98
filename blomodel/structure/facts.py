"""Single statements about a bilevel problem, each with the expression or number that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

from blomodel.compiler.expressions.integers import integer_entries
from blomodel.compiler.expressions.kinks import kinks
from blomodel.compiler.passes.polynomial import AFFINE, CONSTANT, polynomial
from blomodel.compiler.tape import Tape
from blomodel.declare.followers import Lower, follower_name
from blomodel.errors import ModelError, NonconvexLowerError
from blomodel.model.model import Model
from blomodel.programs.objective import summands
from blomodel.solvers.question import Cone, ConeKind
from blomodel.structure.curvature import StrongConvexity
from blomodel.structure.prox_terms import split_objective
from blomodel.structure.sets import simple_set
from blomodel.text.layout import counted
from blomodel.text.shorten import shorten, some_of
from blomodel.transformations.kinks import without_kinks

MOST_NAMES = 12  # of a level's variables
MAX_SHOWN = 3  # constraints or variables written out as evidence
WIDTH = 60  # characters of an expression shown as evidence


@dataclass(frozen=True)
class Fact:
    """One statement about a problem and what shows it.

    Attributes
    ----------
    name, value : str
    note : str
        The number or the reason behind the value.
    shown_by : tuple of cvxpy expressions and constraints
        The parts of the problem that show it.
    """

    name: str
    value: str
    note: str = ""
    shown_by: tuple[Any, ...] = ()

    @property
    def evidence(self) -> str:
        """The parts and the note as text."""
        parts = [shorten(part, WIDTH) for part in self.shown_by[:MAX_SHOWN]]
        if len(self.shown_by) > MAX_SHOWN:
            parts.append(f"and {len(self.shown_by) - MAX_SHOWN} more")
        return "; ".join([*parts, self.note] if self.note else parts)

    def __str__(self) -> str:
        return f"{self.name}: {self.value} ({self.evidence})"


def variables_fact(name: str, variables: Sequence[cp.Variable]) -> Fact:
    """How many numbers a level decides, and under which names."""
    total = sum(variable.size for variable in variables)
    n_whole = sum(int(integer_entries(variable).sum()) for variable in variables)
    names = some_of((f"{v.name()} {v.shape}" if v.ndim else v.name() for v in variables), MOST_NAMES)
    count = f"{total}, {n_whole} of them integer" if n_whole else str(total)
    return Fact(name, count, names or "none")


def follower_facts(followers: Sequence[Lower]) -> list[Fact]:
    """Who the followers are, where there are several, and whose multipliers have been asked for."""
    found = []
    if len(followers) > 1:
        decided = [
            f"{follower_name(followers, k)} decides {some_of(v.name() for v in follower.variables)}"
            for k, follower in enumerate(followers)
        ]
        found.append(Fact("followers", str(len(followers)), some_of(decided, separator="; ")))
    asked = [m.constraint for follower in followers for m in follower.multipliers.values()]
    if asked:
        note = "the lower answer includes the multipliers, chosen in favour of the upper level"
        found.append(Fact("multipliers", "asked for", note, tuple(asked)))
    return found


def holding(constraints: Sequence[Constraint], variables: Sequence[cp.Variable]) -> list[Constraint]:
    """The constraints that hold one of the variables."""
    ids = {variable.id for variable in variables}
    return [c for c in constraints if any(variable.id in ids for variable in c.variables())]


def coupling_fact(
    name: str, constraints: Sequence[Constraint], variables: Sequence[cp.Variable]
) -> Fact:
    """Which of a level's constraints hold the other level's variables."""
    held = holding(constraints, variables)
    if not held:
        return Fact(name, "none", f"{counted(len(constraints), 'constraint')} looked at")
    return Fact(name, f"{len(held)} of {len(constraints)}", shown_by=tuple(held))


def lower_class(model: Model) -> str:
    """LP, QP or conic, in y at fixed x; "nonconvex" where that is not known to hold."""
    try:
        return model.lower_program.kind
    except NonconvexLowerError:
        return "nonconvex"


def lower_class_fact(model: Model) -> Fact:
    """The lower level's class in y at fixed x."""
    name = "lower level at fixed x"
    if model.integer_y.any():
        kind = "linear" if model.integer_lower.is_linear else "nonlinear"
        return Fact(name, f"mixed-integer, {kind}", f"answered by {model.integer_lower.served_by}")
    try:
        program = model.lower_program
    except NonconvexLowerError as error:
        found = kinks(model.g_expression, {leaf.id for leaf in model.y.leaves})
        kind = "nonsmooth" if found else "smooth"
        return Fact(name, f"{kind}, not known to be convex", _first_sentence(str(error)))
    if program.kind != "conic":
        return Fact(name, program.kind, program.reason)
    cones = _cones(program.cones)
    value = f"convex, {' and '.join(cones)}" if cones else "convex"
    return Fact(name, value, program.reason)


def _first_sentence(text: str) -> str:
    """What is wrong, without the advice that follows it."""
    return text.split("; ")[0].split(". ")[0]


def _cones(cones: Sequence[Cone]) -> list[str]:
    """How many cones there are of each kind that has a name."""
    found = Counter(cone.kind for cone in cones)
    counted = {
        "second-order": found[ConeKind.SECOND_ORDER],
        "exponential": found[ConeKind.EXPONENTIAL],
        "semidefinite": found[ConeKind.SEMIDEFINITE],
        "power": found[ConeKind.POWER] + found[ConeKind.GENERAL_POWER],
    }
    return [f"{count} {name} cone{'s' if count > 1 else ''}" for name, count in counted.items() if count]


def lower_smoothness_fact(model: Model, shown: cp.Expression) -> Fact:
    """Whether g is smooth in y, and if not, which proximal step its kinks have."""
    name = "lower objective"
    found = kinks(model.g_expression, {leaf.id for leaf in model.y.leaves})
    try:
        split = split_objective(model)
    except ModelError as error:
        note = "" if found else _first_sentence(str(error))
        return Fact(name, "nonsmooth, without a proximal step", note, tuple(found[:1]))
    if split.is_smooth:
        return Fact(name, "smooth in y", shown_by=(shown,))
    return Fact(name, f"nonsmooth with a proximal step: {split.text}", shown_by=tuple(found[:1]))


def strong_convexity_fact(found: StrongConvexity) -> Fact:
    """The modulus of strong convexity of g in y."""
    name = "strong convexity of g in y"
    if found.constant is None:
        return Fact(name, "not known", found.evidence)
    if found.constant <= 0:
        return Fact(name, "none", f"{found.constant:.6g}: {found.evidence}", found.terms)
    value = f"{found.constant:.6g}" if found.is_proven else f"at most {found.constant:.6g}"
    return Fact(name, value, found.evidence, found.terms)


def degree_name(tape: Tape) -> str:
    """Constant, linear, quadratic or nonlinear in (x, y) together."""
    in_x = polynomial(tape, variable="x", coefficient="y")
    in_y = polynomial(tape, variable="y", coefficient="x")
    degree = max(in_x.degree[0], in_y.degree[0])
    x_in_slope = in_y.coefficient_class[0, 1]  # how the terms linear in y depend on x
    if degree > 2 or x_in_slope > AFFINE:
        return "nonlinear"
    if max(in_x.coefficient_class[0, 2], in_y.coefficient_class[0, 2]) > CONSTANT:
        return "nonlinear"
    if degree == 2 or x_in_slope == AFFINE:
        return "quadratic"
    return "linear" if degree == 1 else "constant"


def upper_objective_fact(model: Model, shown: cp.Expression) -> Fact:
    """Linear, quadratic or nonlinear in (x, y), and whether smooth."""
    leaves = {leaf.id for leaf in (*model.x.leaves, *model.y.leaves)}
    found = kinks(model.f_expression, leaves)
    if found:
        return Fact("upper objective", "nonlinear, nonsmooth", shown_by=(found[0],))
    return Fact("upper objective", f"{degree_name(model.f)}, smooth", shown_by=(shown,))


def direct_dependence_fact(model: Model, shown: cp.Expression, upper: Sequence[cp.Variable]) -> Fact:
    """Whether f holds x itself or feels it through y only."""
    name = "upper objective contains x"
    if not model.f.depends_on("x"):
        return Fact(name, "no, only through y", shown_by=(shown,))
    ids = {variable.id for variable in upper}
    terms = [part for part in summands(shown) if any(v.id in ids for v in part.variables())]
    return Fact(name, "yes", shown_by=tuple(terms))


def upper_set_fact(model: Model, p: np.ndarray) -> Fact:
    """The shape of X: what the upper constraints on x alone allow."""
    own = [c for c in model.upper_constraints if c not in model.coupling_constraints]
    low, high = model.bounds(p)
    n_closed = int((np.isfinite(low) & np.isfinite(high)).sum())
    evidence = (
        f"{counted(len(own), 'constraint')}; {n_closed} of "
        f"{counted(low.size, 'entry', 'entries')} bounded both ways"
    )
    try:
        return Fact("X", simple_set(model, "x", p).text, evidence)
    except ModelError as error:  # no projection, but a shape all the same
        affine = model.has_affine_upper_rows
        shape = "polyhedron" if affine else "curved set without a simple projection"
        return Fact("X", shape, _first_sentence(str(error)))


def pieces_fact(model: Model) -> Fact:
    """The lower level's KKT conditions: how many pairs, and whether linear."""
    name = "KKT conditions of the lower level"
    if not model.has_smooth_kkt:
        return Fact(name, "not written by rows", "the lower level has a matrix constraint")
    equivalent = without_kinks(model)
    model, kinks = equivalent.model, "" if equivalent.is_same else ", with variables for kinks"
    kind = "linear" if model.has_linear_kkt else "nonlinear"
    return Fact(name, kind, f"{counted(model.n_pairs, 'complementarity pair')}{kinks}")
