"""From tapes to SCIP's expressions: every output of a tape as a formula in SCIP's variables.

The formulas say the same as the tape on its domain. Kinks become absolute values, which SCIP knows;
what it has no word for is refused by name, since a guess could end up in a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.passes.intervals import Interval, node_intervals
from blomodel.compiler.tape import Node, Tape
from blomodel.errors import ModelError
from blomodel.kernels import machine as op
from blomodel.solvers.branching.lengths import Lengths, length_after, lengths

Formula = Any  # a number or an expression of pyscipopt
MOST_TERMS = 3000  # of a product that is multiplied out; beyond it the product stays one
MOST_FACTORS = 3  # of a product that is one formula
PRODUCTS = frozenset((op.MUL, op.DIV, op.MATMUL, op.POWER))
# Written out, a formula may be far longer than its tape; to state it then takes for ever. Beyond the
# first number parts that are longer than the second get a variable each, sums apart, which stay sums.
LONGEST, LONGEST_PART = 100_000, 50
SUMS = frozenset((op.ADD, op.SUB, op.NEG, op.SUM, op.CUMSUM, op.SELECT, op.SPARSE, op.FILL, op.FREEZE))
WAVES = frozenset((op.SIN, op.COS, op.TAN))
# SCIP 10 takes some tangents of a sine for estimators of it that are none: where it stands at the end
# of an interval, its test finds the point of contact itself for the next crossing. Intervals that
# are shorter than 3.9 are safe, since there is no second crossing.
SAFE_ANGLE = 3.2
INFINITE = 1e20  # SCIP's word for infinity
EXPANDED_POWER = 2  # quadratic forms are multiplied out, whose curvature SCIP then sees


class UntranslatableError(ModelError):
    """A function for which SCIP has no word."""


def formulas(
    tape: Tape,
    inputs: Mapping[str, Sequence[Formula]],
    name: Callable[[Formula], Formula] | None = None,
    turn: Callable[[Formula, float, float], Formula] | None = None,
) -> list[Formula]:
    """The outputs of a tape as formulas.

    Parameters
    ----------
    tape : Tape
    inputs : mapping
        Numbers, variables or formulas for every entry of each block.
    name : function, optional
        Gives a variable for a formula. Products of many factors are then stated a few at a time, since
        SCIP encloses a product by all corners of the box of its factors.
    turn : function, optional
        Gives a variable in [0, 2 pi] for an angle between two bounds. Sines are then stated by half
        angles, since SCIP's estimators of a sine over long intervals may be wrong.

    Raises
    ------
    UntranslatableError
        Where a function has no counterpart.
    """
    return node_formulas(tape, inputs, name, turn)[tape.output]


def node_formulas(
    tape: Tape,
    inputs: Mapping[str, Sequence[Formula]],
    name: Callable[[Formula], Formula] | None = None,
    turn: Callable[[Formula, float, float], Formula] | None = None,
) -> list[list[Formula]]:
    """The same for every node of the tape."""
    known: list[list[Formula]] = []
    ranges: list[Interval] = []
    if turn is not None and any(node.op in WAVES for node in tape.nodes):
        bounds = {block: _bounds(inputs[block]) for block in tape.input_names if block in inputs}
        ranges = node_intervals(tape, bounds)
    parts = _Parts(tape, inputs, name) if name is not None else None
    for node in tape.nodes:
        if node.op == op.INPUT:
            known.append(list(inputs[tape.input_names[node.data]]))
        elif node.op == op.CONSTANT:
            known.append([float(value) for value in node.data])
        else:
            if ranges and node.op in WAVES:
                assert turn is not None
                angles, (low, high) = known[node.args[0]], ranges[node.args[0]]
                found = [
                    _wave(node.op, angle, float(low[k]), float(high[k]), turn)
                    for k, angle in enumerate(angles)
                ]
            elif parts is not None and parts.is_long and node.op == op.SEGMENT_MAX:
                found = _largest_of_runs(node, known[node.args[0]], parts.variable)
            else:
                found = _RULES(node, [known[arg] for arg in node.args])
            values = [_plain(value) for value in found]
            if name is not None and node.op in PRODUCTS:
                values = [name(value) if _n_factors(value) > MOST_FACTORS else value for value in values]
            known.append(values)
        if parts is not None and parts.is_long:
            known[-1] = parts.named(node, known[-1])
    return known


class _Parts:
    """Gives variables to long parts of a tape whose formulas would be too long written out."""

    def __init__(
        self, tape: Tape, inputs: Mapping[str, Sequence[Formula]], name: Callable[[Formula], Formula]
    ) -> None:
        numbers = [block for block in tape.input_names if all(map(is_number, inputs[block]))]
        whole = lengths(tape, numbers)[tape.output]
        self.is_long = bool(np.sum(whole) > LONGEST)
        self._tape, self._numbers, self._name = tape, numbers, name
        self._lengths: list[Lengths] = []  # of the formulas as they are, with variables for parts

    def variable(self, formula: Formula) -> Formula:
        """A variable that equals a formula; a number stays one."""
        return formula if is_number(formula) else self._name(formula)

    def named(self, node: Node, values: list[Formula]) -> list[Formula]:
        """The next node's formulas, with variables in place of long ones."""
        if node.op == op.INPUT:
            own = np.full(node.size, float(self._tape.input_names[node.data] not in self._numbers))
        elif node.op == op.CONSTANT:
            own = np.zeros(node.size)
        elif node.op == op.SEGMENT_MAX:
            own = np.ones(node.size)
        else:
            own = np.array(length_after(node, [self._lengths[arg] for arg in node.args]))
            for k in np.flatnonzero(own > LONGEST_PART) if node.op not in SUMS else ():
                values[k], own[k] = self.variable(values[k]), 1.0
        self._lengths.append(own)
        return values


def is_number(value: Formula) -> bool:
    """Whether a formula holds no variable."""
    return isinstance(value, float | int)


def _plain(value: Formula) -> Formula:
    """A polynomial without vanished terms; a number where no variable is left."""
    if isinstance(value, float | int | np.floating):
        return float(value)
    terms = getattr(value, "terms", None)
    if terms is None or all(terms.values()):
        return value
    from pyscipopt import Expr

    kept = {term: factor for term, factor in terms.items() if factor}
    if not any(len(term) for term in kept):
        return float(sum(kept.values()))
    return Expr(kept)


# One instruction


def _pairwise(node: Node, args: list[list[Formula]]) -> list[Formula]:
    left, right = (_repeated(arg, node.size) for arg in args)
    return [_binary(node.op, a, b) for a, b in zip(left, right, strict=True)]


def _repeated(values: list[Formula], size: int) -> list[Formula]:
    return values * size if len(values) == 1 and size != 1 else values


def refuse(opcode: int) -> UntranslatableError:
    """The error for an instruction without a counterpart."""
    name = op.NAMES[opcode].lower().replace("_", " ")
    return UntranslatableError(f"SCIP has no word for the function {name!r}")


def _exp(value: Formula) -> Formula:
    from pyscipopt import exp

    if is_number(value):
        with np.errstate(over="ignore"):
            return float(np.exp(value))
    return exp(value)


def _log(value: Formula) -> Formula:
    from pyscipopt import log

    if is_number(value):
        return math.log(value) if value > 0 else (-math.inf if value == 0 else math.nan)
    return log(value)


def _sqrt(value: Formula) -> Formula:
    from pyscipopt import sqrt

    if is_number(value):
        return math.sqrt(value) if value >= 0 else math.nan
    return sqrt(value)


def _sin(value: Formula) -> Formula:
    from pyscipopt import sin

    return math.sin(value) if is_number(value) else sin(value)


def _cos(value: Formula) -> Formula:
    from pyscipopt import cos

    return math.cos(value) if is_number(value) else cos(value)


def _wave(
    opcode: int,
    angle: Formula,
    low: float,
    high: float,
    turn: Callable[[Formula, float, float], Formula],
) -> Formula:
    """A sine, cosine or tangent of an angle within bounds, by half angles where these are far apart."""
    if is_number(angle) or high - low <= SAFE_ANGLE:
        return _unary(opcode, angle)
    if high - low > 2 * math.pi:
        angle = turn(angle, low, high)
    cosine = 1.0 - 2.0 * _power(_sin(0.5 * angle), 2.0)
    if opcode == op.COS:
        return cosine
    sine = 1.0 - 2.0 * _power(_sin(0.25 * math.pi - 0.5 * angle), 2.0)
    return sine if opcode == op.SIN else _divide(sine, cosine)


def _bounds(values: Sequence[Formula]) -> Interval:
    """Bounds of variables, and of sums of them."""
    ends = np.array([_ends(value) for value in values], dtype=float).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _ends(value: Formula) -> tuple[float, float]:
    if is_number(value):
        return value, value
    if hasattr(value, "getLbOriginal"):
        low, high = value.getLbOriginal(), value.getUbOriginal()
        return low if low > -INFINITE else -math.inf, high if high < INFINITE else math.inf
    terms = getattr(value, "terms", None)
    if terms is None or any(len(term) > 1 for term in terms):
        return -math.inf, math.inf
    low = high = 0.0
    for term, factor in terms.items():
        ends = _ends(term[0]) if len(term) else (1.0, 1.0)
        one, other = factor * ends[0], factor * ends[1]
        low, high = low + min(one, other), high + max(one, other)
    return low, high


def _divide(a: Formula, b: Formula) -> Formula:
    if is_number(b):
        return a / b if b else math.nan
    return 0.0 if is_number(a) and a == 0.0 else a / b


def _tanh(value: Formula) -> Formula:
    return 1.0 - _divide(2.0, _exp(2.0 * value) + 1.0)


def _asinh(value: Formula) -> Formula:
    return _log(value + _sqrt(value * value + 1.0))


def _atanh(value: Formula) -> Formula:
    return 0.5 * _log(_divide(1.0 + value, 1.0 - value))


UNARY: dict[int, Callable[[Formula], Formula]] = {
    op.NEG: lambda a: -a,
    op.EXP: _exp,
    op.LOG: _log,
    op.LOG1P: lambda a: _log(1.0 + a),
    op.SIN: _sin,
    op.COS: _cos,
    op.TAN: lambda a: _divide(_sin(a), _cos(a)),
    op.SINH: lambda a: 0.5 * (_exp(a) - _exp(-a)),
    op.COSH: lambda a: 0.5 * (_exp(a) + _exp(-a)),
    op.TANH: _tanh,
    op.ASINH: _asinh,
    op.ATANH: _atanh,
    op.SQRT: _sqrt,
    op.ABS: abs,
    op.SOFTPLUS: lambda a: _log(1.0 + _exp(a)),
    op.SIGMOID: lambda a: _divide(1.0, 1.0 + _exp(-a)),
    op.ENTR: lambda a: -_product(a, _log(a)),
}


def _unary(opcode: int, value: Formula) -> Formula:
    if opcode in UNARY:
        if opcode == op.ENTR and is_number(value) and value == 0.0:
            return 0.0
        return UNARY[opcode](value)
    if is_number(value) and opcode == op.SIGN:
        return float(np.sign(value))
    raise refuse(opcode)


def _binary(opcode: int, a: Formula, b: Formula) -> Formula:
    if opcode == op.ADD:
        return a + b
    if opcode == op.SUB:
        return a - b
    if opcode == op.MUL:
        return _product(a, b)
    if opcode == op.DIV:
        return _divide(a, b)
    if opcode == op.POWER:
        return _power(a, b)
    if opcode in (op.MAXIMUM, op.MINIMUM):
        return _largest(a, b, 1.0 if opcode == op.MAXIMUM else -1.0)
    if opcode == op.REL_ENTR:  # x log(x / y)
        return _product(a, _log(a)) - _product(a, _log(b))
    if is_number(a) and is_number(b):
        if opcode == op.SAFE_DIV:
            return a / b if a else 0.0
        if opcode == op.GREATER_EQUAL:
            return float(a >= b)
    raise refuse(opcode)


def _largest(a: Formula, b: Formula, sign: float) -> Formula:
    if is_number(a) and is_number(b):
        return max(a, b) if sign > 0 else min(a, b)
    return 0.5 * (a + b) + 0.5 * sign * abs(a - b)


def _largest_of_runs(
    node: Node, values: list[Formula], variable: Callable[[Formula], Formula]
) -> list[Formula]:
    """The largest of each run, with a variable for every step and for what it is the largest of."""
    count, length, _ = node.data
    found = []
    for number in range(count):
        largest, *others = map(variable, values[number * length : (number + 1) * length])
        for value in others:
            largest = variable(_largest(largest, value, 1.0))
        found.append(largest)
    return found


def _n_terms(value: Formula) -> int:
    return len(getattr(value, "terms", ())) or 1


def _n_factors(value: Formula) -> int:
    """Different factors of the largest product that a formula is, at its top."""
    terms = getattr(value, "terms", None)
    if terms is not None:
        return max((len({id(factor) for factor in term}) for term in terms), default=0)
    children = getattr(value, "children", ())
    is_product = type(value).__name__ == "ProdExpr"
    return len(children) if is_product else 1


def _product(a: Formula, b: Formula) -> Formula:
    for one, other in ((a, b), (b, a)):
        if is_number(one):
            return 0.0 if one == 0.0 else one * other
    if _n_terms(a) * _n_terms(b) > MOST_TERMS:
        return _kept_whole(a) * b
    return a * b


def _kept_whole(value: Formula) -> Formula:
    """A polynomial as a tree, which products and powers do not multiply out."""
    from pyscipopt.scip import buildGenExprObj

    return buildGenExprObj(value) if getattr(value, "terms", None) is not None else value


def _power(base: Formula, exponent: Formula) -> Formula:
    if not is_number(exponent):
        if is_number(base) and base > 0:
            return _exp(math.log(base) * exponent)
        return _exp(_product(exponent, _log(base)))
    if is_number(base):
        with np.errstate(all="ignore"):
            return float(np.power(base, exponent))
    if exponent == 0.0:
        return 1.0
    if exponent == 1.0:
        return base
    if exponent == 0.5:
        return _sqrt(base)
    is_whole = exponent == int(exponent)
    if is_whole and 0 < exponent <= EXPANDED_POWER and _n_terms(base) ** 2 <= MOST_TERMS:
        return base * base
    power = int(exponent) if is_whole else exponent
    return _kept_whole(base) ** power


# Sums, selections, runs and products with matrices


def _sum(values: Sequence[Formula]) -> Formula:
    from pyscipopt import quicksum

    numbers = sum(value for value in values if is_number(value))
    others = [value for value in values if not is_number(value)]
    if not others:
        return float(numbers)
    total = others[0] if len(others) == 1 else quicksum(others)
    return total + numbers if numbers else total


def _select(node: Node, args: list[list[Formula]]) -> list[Formula]:
    source, target = node.data
    together = [value for arg in args for value in arg]
    chosen = [together[place] for place in source]
    if target is None:
        return chosen
    parts: list[list[Formula]] = [[] for _ in range(node.size)]
    for value, place in zip(chosen, target, strict=True):
        parts[place].append(value)
    return [_sum(part) for part in parts]


def _runs(node: Node, values: list[Formula]) -> list[Formula]:
    count, length, k = node.data
    runs = [values[number * length : (number + 1) * length] for number in range(count)]
    if node.op == op.SUM:
        return [_sum(run) for run in runs]
    if node.op == op.NORM:
        return [_sqrt(_sum([_product(value, value) for value in run])) for run in runs]
    if node.op == op.SEGMENT_MAX:
        found = []
        for run in runs:
            largest = run[0]
            for value in run[1:]:
                largest = _largest(largest, value, 1.0)
            found.append(largest)
        return found
    if node.op == op.CUMSUM:
        sums: list[Formula] = []
        for run in runs:
            ordered = run[::-1] if k else run
            steps = [_sum(ordered[: end + 1]) for end in range(length)]
            sums += steps[::-1] if k else steps
        return sums
    raise refuse(node.op)


def _matmul(node: Node, left: list[Formula], right: list[Formula]) -> list[Formula]:
    m, k, n, transposed = node.data
    is_left, is_right = transposed % 2 == 1, (transposed >> 1) % 2 == 1

    def a(row: int, inner: int) -> Formula:
        return left[row * k + inner] if is_left else left[inner * m + row]

    def b(inner: int, column: int) -> Formula:
        return right[inner * n + column] if is_right else right[column * k + inner]

    return [
        _sum([_product(a(row, inner), b(inner, column)) for inner in range(k)])
        for column in range(n)
        for row in range(m)
    ]


def _sparse(node: Node, values: list[Formula]) -> list[Formula]:
    matrix, columns = node.data
    csr, found = matrix.csr, []
    for column in range(columns):
        part = values[column * matrix.shape[1] : (column + 1) * matrix.shape[1]]
        for row in range(matrix.shape[0]):
            where = slice(csr.indptr[row], csr.indptr[row + 1])
            pairs = zip(csr.data[where], csr.indices[where], strict=True)
            found.append(_sum([_product(float(entry), part[place]) for entry, place in pairs]))
    return found


_RULES = Rules[list[Formula]](
    purpose="the translation to SCIP",
    unary=lambda node, args: [_unary(node.op, value) for value in args[0]],
    binary=_pairwise,
    fill=lambda node, args: _repeated(args[0], node.size),
    freeze=first_operand,
    select=_select,
    matmul=lambda node, args: _matmul(node, *args),
    sparse=lambda node, args: _sparse(node, *args),
    segments=lambda node, args: _runs(node, *args),
)
