"""Which leaf belongs to which level, and the checks on a model before anything is computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.atoms.affine.sum import Sum
from cvxpy.constraints.constraint import Constraint

from blomodel.basics.arrays import dense
from blomodel.compiler.blocks import Block
from blomodel.errors import DataError, LevelError, LevelWarning, ModelError, VariableTypeError
from blomodel.text.shorten import shorten

REFUSED_ATTRIBUTES = ("complex", "imag", "hermitian")


@dataclass(frozen=True)
class Levels:
    """The leaves of a bilevel problem by level, in the order in which they first occur."""

    upper: tuple[cp.Variable, ...]
    lower: tuple[cp.Variable, ...]
    parameters: tuple[cp.Parameter, ...]

    @cached_property
    def x(self) -> Block:
        """The upper variables as one vector."""
        return Block("x", self.upper)

    @cached_property
    def y(self) -> Block:
        """The lower variables as one vector."""
        return Block("y", self.lower)

    @cached_property
    def p(self) -> Block:
        """The parameters as one vector."""
        return Block("p", self.parameters)


def check_objective(objective: object, level: str) -> Any:
    """The objective; anything but cp.Minimize or cp.Maximize of a real expression is refused.

    Like cvxpy it may have a single entry in an array, such as the shape (1,), which is taken out of it.
    """
    parts = objective if isinstance(objective, list | tuple) else [objective]
    if parts and all(isinstance(part, Constraint) for part in parts):
        shown = ", ".join(shorten(part, 40) for part in parts[:3])
        where = "bm.Lower(objective, constraints, variables=[...])"
        where = where if level == "lower" else "bm.BilevelProblem(objective, constraints, lower)"
        raise ModelError(
            f"The first argument is the {level} objective, and constraints ({shown}) stand there; the "
            f"order is {where}. An objective is an expression: wrap it in cp.Minimize(...) or "
            "cp.Maximize(...)."
        )
    if not isinstance(objective, cp.Minimize | cp.Maximize):
        kind = (
            "an expression" if isinstance(objective, cp.Expression) else f"a {type(objective).__name__}"
        )
        shown = f"[{', '.join(map(shorten, parts))}]" if parts is objective else shorten(objective)
        raise ModelError(
            f"The {level} objective is {shown!r}, {kind}; wrap what is to be minimised in "
            "cp.Minimize(...), or in cp.Maximize(...)."
        )
    inner = objective.args[0]
    return type(objective)(cp.reshape(inner, (), order="F")) if inner.ndim else objective


def check_constraints(constraints: object, level: str) -> list[Constraint]:
    """The constraints as a list, refusing what is not a cvxpy constraint."""
    if isinstance(constraints, Constraint):
        raise ModelError(f"The {level} constraints must be a list; write [{shorten(constraints)}].")
    if not isinstance(constraints, Iterable):
        hint = (
            "" if level == "lower" else " The order is bm.BilevelProblem(objective, constraints, lower)."
        )
        raise ModelError(
            f"The {level} constraints must be a list of cvxpy constraints, not a "
            f"{type(constraints).__name__}.{hint}"
        )
    checked = list(constraints)
    for position, constraint in enumerate(checked):
        if isinstance(constraint, bool | np.bool_):
            raise ModelError(
                f"Constraint {position} of the {level} level is the plain value {constraint}: both "
                "sides were numbers, so Python compared them. Use a cvxpy expression on one side."
            )
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"Constraint {position} of the {level} level is {shorten(constraint)!r}, a "
                f"{type(constraint).__name__}, not a cvxpy constraint such as y <= x."
            )
    return checked


def check_lower_variables(variables: object) -> tuple[cp.Variable, ...]:
    """The declared lower variables, refusing expressions, repetitions and an empty list."""
    if isinstance(variables, cp.Variable):
        variables = [variables]
    if variables is None or not isinstance(variables, Iterable):
        raise ModelError("Lower needs variables=[...]: the cvxpy variables that it decides.")
    declared = tuple(variables)
    if not declared:
        raise LevelError("Lower got variables=[]; name at least one variable that it decides.")
    for variable in declared:
        if not isinstance(variable, cp.Variable):
            raise ModelError(
                f"{shorten(variable)!r} in variables=[...] is a {type(variable).__name__}; list whole "
                "cp.Variable objects (split a variable in two if each level decides a part)."
            )
    if len({variable.id for variable in declared}) < len(declared):
        raise LevelError("A variable occurs twice in variables=[...] of the lower level.")
    return declared


def check_ranking(objective: cp.Expression, variables: Sequence[cp.Variable], name: str) -> None:
    """Refuse an objective of the lower level that holds nothing the level decides."""
    decided = {variable.id for variable in variables}
    if not decided & {variable.id for variable in objective.variables()}:
        names = ", ".join(variable.name() for variable in variables)
        raise ModelError(
            f"The lower objective {shorten(objective)!r} of {name} contains none of the lower variables "
            f"({names}), so it ranks no answer; put them into it, or move the constraints up."
        )


def sort_levels(
    upper_parts: Sequence[cp.Expression | Constraint],
    lower_parts: Sequence[cp.Expression | Constraint],
    lower_variables: Sequence[cp.Variable],
    declared_upper: Sequence[cp.Variable] | None,
) -> Levels:
    """Sort every leaf into its level and check that each belongs to exactly one.

    Raises
    ------
    LevelError
        When a variable has no level or two.
    """
    lower_ids = {variable.id for variable in lower_variables}
    seen: dict[int, cp.Variable] = {}
    parameters: dict[int, cp.Parameter] = {}
    for part in (*upper_parts, *lower_parts):
        for variable in part.variables():
            seen.setdefault(variable.id, variable)
        for parameter in part.parameters():
            parameters.setdefault(parameter.id, parameter)
    for variable in lower_variables:
        # A variable of the upper level alone is one whose every value is a lower answer.
        if variable.id not in seen:
            raise LevelError(
                f"'{variable.name()}' is declared a lower variable but occurs in neither level, so "
                "nothing decides it; drop it from variables=[...]."
            )
    upper = tuple(variable for key, variable in seen.items() if key not in lower_ids)
    if declared_upper is not None:
        upper = _check_declared(upper, tuple(declared_upper), lower_ids)
    for variable in (*upper, *lower_variables):
        _check_type(variable)
    return Levels(upper, tuple(lower_variables), tuple(parameters.values()))


def warn_of_levels(
    levels: Levels,
    upper_parts: Sequence[cp.Expression | Constraint],
    lower_parts: Sequence[cp.Expression | Constraint],
    declared_upper: Sequence[cp.Variable] | None,
    stacklevel: int,
) -> bool:
    """Warn where the lower level decides what it was probably not meant to decide; whether it was so.

    Both cases have a meaning, so that they are no errors: an upper level without variables chooses
    among the lower minimisers, and a lower variable that its level does not hold is the upper level's.
    """
    is_told = False
    used = {variable.id for part in lower_parts for variable in part.variables()}
    idle = [v.name() for v in levels.lower if v.id not in used and not hasattr(v, "constraint")]
    if idle:
        names = ", ".join(f"'{name}'" for name in idle)
        is_one = len(idle) == 1
        warnings.warn(
            f"{names} {'is a lower variable' if is_one else 'are lower variables'} by declaration, but "
            f"only the upper level uses {'it' if is_one else 'them'}: every value is a lower answer, so "
            "that in effect the upper level decides. If that is meant, leave it out of variables=[...]; "
            "else put it into the lower objective or constraints.",
            LevelWarning,
            stacklevel=stacklevel,
        )
        is_told = True
    above = {variable.id for part in upper_parts for variable in part.variables()}
    decided = {variable.id for variable in levels.lower}
    for part in lower_parts:
        held = part.variables() if isinstance(part, Constraint) else []
        stray = [variable for variable in held if variable.id not in above]
        if stray and declared_upper is None and not decided & {variable.id for variable in held}:
            names = ", ".join(variable.name() for variable in levels.lower)
            warnings.warn(
                f"The lower constraint {shorten(part)!r} contains none of the variables that its level "
                f"decides ({names}), and '{stray[0].name()}' does not occur in the upper level: was it "
                "forgotten in variables=[...] of bm.Lower? As it stands, the upper level decides it.",
                LevelWarning,
                stacklevel=stacklevel,
            )
            is_told = True
            break
    if not levels.upper and declared_upper is None:
        names = ", ".join(variable.name() for variable in levels.lower)
        warnings.warn(
            f"Every variable ({names}) is declared lower, so that the upper level decides nothing: it "
            "only chooses among the lower level's optimal answers. Take what the upper level decides "
            "out of variables=[...] of bm.Lower, or say bm.BilevelProblem(..., variables=[]) if this "
            "is meant.",
            LevelWarning,
            stacklevel=stacklevel,
        )
        is_told = True
    return is_told


def _check_declared(
    occurring: tuple[cp.Variable, ...], declared: tuple[cp.Variable, ...], lower_ids: set[int]
) -> tuple[cp.Variable, ...]:
    declared_ids = {variable.id for variable in declared}
    for variable in declared:
        if variable.id in lower_ids:
            raise LevelError(
                f"'{variable.name()}' is declared at both levels; the level that decides it is the "
                "only one that may list it (the other may still use it)."
            )
    for variable in occurring:
        if variable.id not in declared_ids:
            raise LevelError(
                f"'{variable.name()}' occurs but is declared at no level; add it to the variables of "
                "the upper or of the lower level, or leave out the upper list altogether."
            )
    return tuple(variable for variable in declared if variable.id in {v.id for v in occurring})


def _check_type(variable: cp.Variable) -> None:
    for attribute in REFUSED_ATTRIBUTES:
        if variable.attributes.get(attribute):
            raise VariableTypeError(
                f"'{variable.name()}' is declared {attribute}=True; only real variables are supported. "
                "State its real and imaginary parts as two variables."
            )


def check_constants(parts: Sequence[cp.Expression | Constraint]) -> None:
    """Refuse NaN and infinite numbers inside the model, naming the expression that holds them."""
    for part in parts:
        for constant in part.constants():
            value = constant.value
            numbers = value.data if hasattr(value, "tocsr") else np.asarray(value)
            if np.iscomplexobj(numbers):
                raise DataError(f"Complex data in {shorten(part)!r}; only real data are supported.")
            if not np.all(np.isfinite(numbers)):
                kind = "NaN" if np.any(np.isnan(numbers)) else "infinite"
                raise DataError(
                    f"{kind} data in {shorten(part)!r}; replace it by finite numbers (drop a "
                    "constraint whose bound is infinite)."
                )
        _check_computed(part, with_parameters=False)


def _check_computed(part: cp.Expression | Constraint, *, with_parameters: bool) -> None:
    """Refuse numbers that the model computes from its data and that are not finite, such as 1 / 0."""
    known: dict[int, bool] = {}  # whether a sub-expression holds a variable, by its id

    def holds_variable(expression: Any) -> bool:
        if id(expression) not in known:
            held = [holds_variable(argument) for argument in expression.args]
            known[id(expression)] = isinstance(expression, cp.Variable) or any(held)
            is_of_nothing = expression.args and expression.args[0].size == 0
            if is_of_nothing and expression.size and not isinstance(expression, Sum):
                raise ModelError(
                    f"{shorten(expression, 60)!r} is a function of no number at all, since "
                    f"{shorten(expression.args[0], 40)} has shape {expression.args[0].shape}; leave it "
                    "out."
                )
            if any(held):
                for argument, has_variable in zip(expression.args, held, strict=True):
                    if not has_variable:
                        check(expression, argument)
        return known[id(expression)]

    def check(parent: Any, constant: Any) -> None:
        is_divisor = isinstance(parent, DivExpression) and constant is parent.args[1]
        if not is_divisor and not constant.args:
            return  # data as they were given
        if not with_parameters and constant.parameters():
            return  # whose values may be others when the problem is solved
        with np.errstate(all="ignore"):
            value = constant.value
            if value is None:  # of a parameter that has none yet
                return
            numbers = value.data if hasattr(value, "tocsr") else np.asarray(value)
            numbers = 1.0 / dense(value) if is_divisor else numbers
        if not np.all(np.isfinite(numbers)):
            what = f"a division by {shorten(constant, 40)}" if is_divisor else shorten(constant, 40)
            raise DataError(
                f"{shorten(part)!r} holds {what}, which is not finite; replace it by finite numbers."
            )

    holds_variable(part)


def check_computed(parts: Sequence[cp.Expression | Constraint]) -> None:
    """Refuse numbers computed from parameters that are not finite at their present values."""
    for part in parts:
        if part.parameters():
            _check_computed(part, with_parameters=True)


def check_parameters(parameters: Sequence[cp.Parameter]) -> None:
    """Refuse parameters without a value or with a value that is not finite."""
    for parameter in parameters:
        if parameter.value is None:
            raise DataError(
                f"Parameter '{parameter.name()}' has no value; set {parameter.name()}.value before "
                "solve()."
            )
        value = parameter.value
        numbers = value.data if hasattr(value, "tocsr") else np.asarray(value)
        if not np.all(np.isfinite(numbers)):
            raise DataError(f"Parameter '{parameter.name()}' contains NaN or infinite values.")
