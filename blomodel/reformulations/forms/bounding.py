r"""A relaxation of a bilevel problem whose global minimum bounds the upper objective from below.

It holds both levels' constraints and three kinds of conditions that every lower minimiser satisfies:

- With c the lower inequalities and h the equalities, a minimiser has multipliers with

  .. math:: \lambda_0 \nabla_y g + \lambda\cdot\nabla_y c + \mu\cdot\nabla_y h = 0, \quad
            0 \le \lambda \perp -c \ge 0, \quad \lambda_0 + \sum_{c_i \text{ not affine}} \lambda_i = 1.

  These conditions (Fritz John) need no qualification, whatever the curvature, where g, c and h have
  gradients. Rows that are affine in y need not enter the sum, so that :math:`\lambda_0 = 1` where all
  are: then they are the KKT conditions. With equations that are not affine, :math:`\mu^2` enters it.
- Where the statement itself holds the lower level's multipliers, its pairs of row and multiplier.
- For a lower point :math:`y_k(x)` that is known: some lower row excludes it at x, or
  :math:`g(x, y) \le g(x, y_k(x))`. Along affine lower equations :math:`y_k` moves with x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.basics.memory import remembered
from blomodel.compiler.passes.dependence import dependence
from blomodel.compiler.passes.intervals import intervals
from blomodel.compiler.passes.polynomial import polynomial
from blomodel.compiler.passes.smoothness import is_smooth
from blomodel.compiler.tape import Tape
from blomodel.errors import ModelError
from blomodel.model.flat_lower import variation
from blomodel.model.model import Model
from blomodel.model.rows import Rows
from blomodel.reformulations.forms.exclusion import carry, elsewhere, linking_columns
from blomodel.reformulations.forms.floors import MARGIN, find_floors, state_floors
from blomodel.reformulations.forms.separation import Separation, separated
from blomodel.solvers.branching.poles import HIGHEST, Poles, find_poles, is_at_a_pole
from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import Formula, is_number
from blomodel.solvers.branching.steep import stays_in_range
from blomodel.solvers.branching.words import check_words
from blomodel.transformations.equivalent import Equivalent
from blomodel.transformations.kinks import rows_for_kinks

if TYPE_CHECKING:
    from blomodel.reformulations.forms.floors import Floor


Array = np.ndarray
NO_GRADIENT = "the lower level may have no gradient somewhere"
NO_MOVE = 1e-14  # a lower point that moves by less with x stays
SMALL_UNIT, SMALLEST_UNIT = 2.0**-6, 2.0**-24  # variation of g at a lower point's x
MAGNIFIED = 2.0**6  # so large is a cut made where g hardly varies
CUT_SLACK = 1e-8  # relative to 1 + |g|: what the violation of a lower point's own rows may be worth


@dataclass(frozen=True, eq=False)
class LowerPoint:
    """A point of the lower level at ``x``, which stands for others at other x."""

    x: Array
    y: Array


class BoundingProblem:
    """The relaxation of one model at given parameters.

    Attributes
    ----------
    has_conditions : bool
        Whether the multipliers of the lower level are among the unknowns.
    why_no_conditions : str
        What keeps them out.
    """

    model: Model
    p: Array
    equivalent: Equivalent
    why_no_conditions: str
    stated: Model
    has_conditions: bool
    floors: tuple[Floor, ...]
    n_values: int

    def __init__(self, model: Model, p: Array) -> None:
        self.model, self.p = model, p
        self.equivalent = Equivalent.to_itself(model)
        self.why_no_conditions = _why_no_conditions(model, p)
        if self.why_no_conditions == NO_GRADIENT:
            # With variables for its kinks the lower level may have gradients.
            lifted = rows_for_kinks(model)
            if not lifted.is_same and not _why_no_conditions(lifted.model, p):
                self.equivalent, self.why_no_conditions = lifted, ""
        self.stated = self.equivalent.model
        self.has_conditions = not self.why_no_conditions
        self.floors = find_floors(model, p)
        self.n_values = self.stated.x.size + self.stated.y.size + len(self.floors)
        self._inputs: dict[str, Any] = {}  # of the model as it is stated for SCIP

    @cached_property
    def is_exact(self) -> bool:
        """Whether every point of the relaxation is bilevel feasible, without any lower point."""
        model = self.stated
        if not model.is_convex_below:
            return False
        if not model.conditions.multipliers_are_unknowns:
            return True
        return self.has_conditions and bool(np.all(self._affine_in) and np.all(self._affine_eq))

    @cached_property
    def _affine_in(self) -> Array:
        return _is_affine_in_y(self.stated.lower_in.tape)

    @cached_property
    def _affine_eq(self) -> Array:
        return _is_affine_in_y(self.stated.lower_eq.tape)

    def split(self, values: Array) -> tuple[Array, Array]:
        """x and y of the model, from the values of the program's first variables."""
        x, y, _ = np.split(values, [self.stated.x.size, self.stated.x.size + self.stated.y.size])
        x, y = x[: self.model.x.size], y[: self.model.y.size]  # variables for kinks come last
        model = self.model
        x = np.clip(np.where(model.integer_x, np.round(x), x), *model.bounds(self.p))
        y = np.clip(np.where(model.integer_y, np.round(y), y), *model.y_bounds)
        return x, y

    def join(self, x: Array, y: Array) -> Array:
        """Values of the program's first variables, from a point of the model."""
        whole = [floor.value(x) for floor in self.floors]
        return np.concatenate([*self.equivalent.forward(x, y, self.p), whole])

    def seen(self, values: Array) -> Array:
        """What the lower level sees of the program's x, in whole numbers."""
        return np.round(values[len(values) - len(self.floors) :])

    def is_at_a_jump(self, values: Array) -> bool:
        """Whether the program's x lies where what the lower level sees of it is about to change."""
        x, _ = self.split(values)
        numbers = [float(entry) for entry in x]
        return any(
            floor.side(numbers) > w + 1.0 - MARGIN / 2
            for floor, w in zip(self.floors, self.seen(values), strict=True)
        )

    def program(
        self,
        lower_points: Sequence[LowerPoint] = (),
        *,
        finds_points: bool = True,
        with_conditions: bool = True,
        empty: Sequence[Array] = (),
        inside: Array | None = None,
        margin: float = 0.0,
        is_other: bool = False,
    ) -> ScipProgram:
        """The relaxation with a cut for each lower point; its first variables are x and y.

        Without ``with_conditions`` it is the high-point relaxation: no gradient of the Lagrangian.
        ``empty``: what the lower level sees of x at no x at all. With ``inside``, what it sees of x:
        that part of the relaxation, with a margin from where this changes; its minimum is no bound.
        ``is_other``: stated in another way, which leads SCIP to another tree.
        """
        model = self.stated
        program = ScipProgram(finds_points=finds_points, is_other=is_other)
        x = program.variables(*model.bounds(self.p), model.integer_x)
        y = program.variables(*model.y_bounds, model.integer_y)
        self._inputs = {"x": x, "y": y, "p": [float(value) for value in self.p]}
        self._whole = state_floors(program, self.floors, x, y, margin=margin, empty=empty)
        if inside is not None:
            program.equal_zero([w - round(v) for w, v in zip(self._whole, inside, strict=True)])
        program.at_most_zero(program.formulas(model.upper_in.tape, self._inputs))
        program.equal_zero(program.formulas(model.upper_eq.tape, self._inputs))
        self._add_lower_level(program, with_conditions=with_conditions)
        if lower_points:
            self._add_cuts(program, lower_points)
        (f,) = program.formulas(model.f, self._inputs)
        program.minimise(f)
        return program

    def at(self, x: Array, level: float) -> tuple[ScipProgram, dict[str, Any]]:
        """The lower level's conditions at one x, with g at most ``level``; still without an objective.

        The first variables of the program are y. The inputs of the model's functions come with it.
        """
        stated, model = self.stated, self.model
        program = ScipProgram()
        y = program.variables(*stated.y_bounds, stated.integer_y)
        own = {"x": [float(value) for value in x], "y": y[: model.y.size]}
        # Variables for kinks of the upper level are in none of the lower level's rows.
        further = [0.0] * (stated.x.size - model.x.size)
        self._inputs = {"x": own["x"] + further, "y": y, "p": [float(value) for value in self.p]}
        inputs = {**self._inputs, **own}
        self._add_lower_level(program)
        (g,) = program.formulas(model.g, inputs)
        program.at_most_zero([g - level])
        return program, inputs

    def _add_lower_level(self, program: ScipProgram, *, with_conditions: bool = True) -> None:
        """Rows of the lower level, with multipliers where they are known to exist."""
        model = self.stated
        program.equal_zero(program.formulas(model.lower_eq.tape, self._inputs))
        rows = program.formulas(model.lower_in.tape, self._inputs)
        if not model.conditions.multipliers_are_unknowns:
            self._add_pairs(program, rows)
        elif self.has_conditions and with_conditions:
            self._add_conditions(program, rows)
        else:
            program.at_most_zero(rows)

    def check(self) -> None:
        """Raise an ``UntranslatableError`` where the relaxation cannot be stated for SCIP."""
        model = self.stated
        tapes = [model.upper_in.tape, model.upper_eq.tape, model.lower_in.tape, model.lower_eq.tape]
        if model.conditions.multipliers_are_unknowns and self.has_conditions:
            tapes.append(model.lagrangian_gradient)
        for tape in (*tapes, model.f, self.model.g):
            if tape is not None:
                check_words(tape)

    def _add_pairs(self, program: ScipProgram, rows: list[Formula]) -> None:
        """Pairs of a row and a multiplier that y holds."""
        conditions = self.stated.conditions
        partner = dict(zip(conditions.rows, conditions.columns, strict=True))
        unknowns = [*self._inputs["x"], *self._inputs["y"]]
        program.at_most_zero([row for k, row in enumerate(rows) if k not in partner])
        for k, column in partner.items():
            program.one_is_zero(program.slack_of(rows[k]), unknowns[column])

    def _add_conditions(self, program: ScipProgram, rows: list[Formula]) -> None:
        """Multipliers, the gradient of the Lagrangian, and complementarity."""
        model = self.stated
        n_in, n_eq = len(rows), len(model.lower_eq)
        counted = ~self._affine_in
        counts_equations = not np.all(self._affine_eq)
        if counts_equations:
            counted = np.ones(n_in, dtype=bool)
        is_normal = not counted.any() and not counts_equations
        multipliers = program.variables(np.zeros(n_in), np.where(counted, 1.0, np.inf))
        end = 1.0 if counts_equations else np.inf
        of_equations = program.variables(np.full(n_eq, -end), np.full(n_eq, end))
        weight: Any = 1.0
        if not is_normal:
            (weight,) = program.variables(np.zeros(1), np.ones(1))
            total = weight + sum(multipliers[k] for k in np.flatnonzero(counted))
            if counts_equations:
                total = total + sum(factor * factor for factor in of_equations)
            program.equal_zero([total - 1.0])
        gradient = model.lagrangian_gradient
        weights = [weight, *multipliers, *of_equations]
        inputs = {**self._inputs, gradient.input_names[-1]: weights}
        program.equal_zero(program.formulas(gradient, inputs))
        for row, multiplier in zip(rows, multipliers, strict=True):
            program.one_is_zero(program.slack_of(row), multiplier)

    def _add_cuts(self, program: ScipProgram, lower_points: Sequence[LowerPoint]) -> None:
        model = self.model
        x, y = self._inputs["x"][: model.x.size], self._inputs["y"][: model.y.size]
        inputs = {**self._inputs, "x": x, "y": y}
        (g,) = program.formulas(model.g, inputs)
        own_values: dict[float, Any] = {}  # g times a factor
        separation = self._separation
        stated = None if separation is None else separation.state(program, inputs)
        if stated is not None:
            g = stated.value
        for point in lower_points:
            if model.has_integers:
                self._add_integer_cut(program, inputs, g, point)
                continue
            moved = {**inputs, "y": self._moved(point, x)}
            if stated is None:
                (value,) = program.formulas(model.g, moved)
            else:
                value = stated.value_at(moved["y"])
            factor = self._cut_factor(point)
            if factor not in own_values:
                own_values[factor] = program.named(g if factor == 1.0 else factor * g, at_least=True)
            scale = 1 + factor * abs(float(model.g(point.x, point.y, self.p)[0]))
            excluding = [-row for row in program.formulas(model.lower_in.tape, moved)]
            options = [row for row in excluding if not is_number(row)]
            program.one_holds([own_values[factor] - factor * value - CUT_SLACK * scale, *options])

    @cached_property
    def _separation(self) -> Separation | None:
        """g by parts in x and parts in y, where that helps and lower points stay where they are."""
        model = self.model
        if model.has_integers or _holds(model.lower_eq, "x"):
            return None
        separation = separated(model.g)
        return None if separation is None or separation.is_simple else separation

    def _cut_factor(self, point: LowerPoint) -> float:
        """What to multiply a cut with: SCIP would not see one on values that hardly vary at its x."""
        change = variation(self.model, point.x, point.y, self.p)
        if not SMALLEST_UNIT <= change < SMALL_UNIT:
            return 1.0
        return float(MAGNIFIED * 2.0 ** -np.round(np.log2(change)))

    def _add_integer_cut(
        self, program: ScipProgram, inputs: dict[str, Any], g: Formula, point: LowerPoint
    ) -> None:
        """The cut of a lower point where variables are whole, which may hold at its own x only."""
        model, x = self.model, inputs["x"]
        known = float(model.g(point.x, point.y, self.p)[0])
        slack = CUT_SLACK * (1 + abs(known))
        carried = carry(model, self.p, point.x, point.y, x, self._sharp(point.y, self._whole))
        if carried is not None:
            (value,) = program.formulas(model.g, {**inputs, "y": carried.y})
            program.one_holds([g - value - slack, *carried.excluding])
        if carried is None or not carried.is_sharp:
            others = elsewhere(model, point.x, x, model.bounds(self.p))
            if others is not None:
                program.one_holds([g - known - slack, *others])

    def _sharp(self, y: Array, whole: Sequence[Formula]) -> dict[int, Formula]:
        """For each rounded row what is ``<= 0`` where it excludes a lower point, by whole numbers."""
        return {floor.row: w + 1.0 - floor.own(y) for floor, w in zip(self.floors, whole, strict=True)}

    def is_sharp(self, x: Array, y: Array) -> bool:
        """Whether the cut of a lower point holds at the x at which it was found."""
        model = self.model
        if not model.has_integers:
            return False
        if np.all(model.integer_x[linking_columns(model)]):
            return True
        sharp = self._sharp(y, [floor.value(x) for floor in self.floors])
        carried = carry(model, self.p, x, y, [float(value) for value in x], sharp)
        return carried is not None and carried.is_sharp

    def _moved(self, point: LowerPoint, x: Sequence[Formula]) -> list[Formula]:
        """The lower point as it moves with x, along affine lower equations."""
        model = self.model
        y: list[Formula] = [float(value) for value in point.y]
        if not len(model.lower_eq):
            return y
        slopes = model.lower_eq.linearise(point.x, point.y, self.p)
        moves = -np.linalg.pinv(slopes.in_y.toarray()) @ slopes.in_x.toarray()
        moves[np.abs(moves) < NO_MOVE] = 0.0
        for row, column in zip(*np.nonzero(moves), strict=True):
            step = float(moves[row, column])
            y[row] = y[row] + step * (x[column] - float(point.x[column]))
        return y

    @cached_property
    def takes_lower_points(self) -> bool:
        """Whether a lower point at one x tells anything about others."""
        model = self.model
        if not model.conditions.multipliers_are_unknowns or model.lower_in.spectral:
            return False
        if model.has_integers and np.all(model.integer_x[linking_columns(model)]):
            return True
        holds_x = _holds(model.lower_eq, "x")
        return not holds_x or model.lower_eq.is_affine

    def stays_in_range(self, value: float = math.inf) -> bool:
        """Whether SCIP can count all exponentials, and all of f, where f is at most ``value``."""
        model = self.model
        parts = (
            (model.upper_in, False),
            (model.upper_eq, True),
            (model.lower_in, False),
            (model.lower_eq, True),
        )
        rows = [(part.tape, is_equality) for part, is_equality in parts if part.tape is not None]
        box = {"x": model.bounds(self.p), "y": model.y_bounds, "p": (self.p, self.p)}
        level = (model.f, value) if math.isfinite(value) else None
        tapes = [model.f, model.g, *(tape for tape, _ in rows)]
        return stays_in_range(tapes, box, rows, level, objective=model.f)

    @cached_property
    def _poles(self) -> Poles:
        model = self.model
        rows = (model.upper_in, model.upper_eq, model.lower_in, model.lower_eq)
        tapes = [model.f, model.g, *(part.tape for part in rows if part.tape is not None)]
        return find_poles(tapes, {"x": model.bounds(self.p), "y": model.y_bounds, "p": (self.p, self.p)})

    def rests_on_a_pole(self, bound: float, values: Array | None) -> bool:
        """Whether a bound may only be the edge of what SCIP leaves out, with the point that has it."""
        if not self._poles:
            return False
        if values is None:
            return bound < -HIGHEST
        x, y = self.split(values)
        return is_at_a_pole(self._poles, {"x": (x, x), "y": (y, y), "p": (self.p, self.p)})

    @cached_property
    def coupled_rows(self) -> Array:
        """Which lower inequalities hold x, so that they may exclude a lower point elsewhere."""
        tape = self.model.lower_in.tape
        if tape is None:
            return np.zeros(0, dtype=bool)
        return np.asarray(dependence(tape, "x").any(axis=1))

    def is_allowed_everywhere(self, y: Array) -> bool:
        """Whether no x within its bounds lets a lower inequality exclude y."""
        tape = self.model.lower_in.tape
        if tape is None:
            return True
        box = {"x": self.model.bounds(self.p), "y": (y, y), "p": (self.p, self.p)}
        return bool(np.all(intervals(tape, box)[1][self.coupled_rows] <= 0))


def _holds(rows: Rows, name: str) -> bool:
    return rows.tape is not None and rows.tape.depends_on(name)


def _is_affine_in_y(tape: Tape | None) -> Array:
    if tape is None:
        return np.zeros(0, dtype=bool)
    return np.asarray(polynomial(tape, variable="y", coefficient="x").degree <= 1)


def _why_no_conditions(model: Model, p: Array) -> str:
    """What keeps the gradient of the lower Lagrangian out of the relaxation."""
    if not model.conditions.multipliers_are_unknowns:
        return "the lower level's own rows contain its multipliers"
    if model.integer_y.any():
        return "the lower level has integer variables"
    if not model.has_smooth_kkt:
        return "the lower level has matrix inequalities"
    ranges = {"x": model.bounds(p), "y": model.y_bounds, "p": (p, p)}
    for tape in (model.g, model.lower_in.tape, model.lower_eq.tape):
        if tape is not None and not is_smooth(tape, "y", ranges):
            return NO_GRADIENT
    return ""


@remembered
def why_no_bounds(model: Model) -> str | None:
    """What keeps SCIP from a model: a function or a kind of row; None where nothing does."""
    if model.upper_in.spectral or model.lower_in.spectral:
        return "it has matrix inequalities"
    try:
        BoundingProblem(model, np.zeros(model.p.size)).check()
    except ModelError as error:
        return str(error)
    return None
