r"""A function as :math:`\sum_j \varphi_j(x)\,\psi_j(y)`, stated so that cuts on its values share phi.

A cut on the lower value holds the difference of g at y and at a known lower point,
:math:`\sum_j \varphi_j(x)\,(\psi_j(y) - \psi_j(y_k))`. With a variable for each :math:`\varphi_j` it is
linear but for the products :math:`\varphi_j\,\psi_j(y)`, which every cut shares. Multiplied out, the
parts of :math:`\varphi_j` meet y one by one, each with an error that branching has to close.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blomodel.compiler.kinds import Rules, first_operand
from blomodel.compiler.tape import Node, Tape
from blomodel.kernels import machine as op
from blomodel.solvers.branching.scip import ScipProgram
from blomodel.solvers.branching.scip_expressions import Formula, is_number, node_formulas

Entry = tuple[int, int]  # a node of a tape, and one of its elements
Product = tuple[tuple[Entry, ...], tuple[Entry, ...]]  # factors that hold x only, and y only
Sum = dict[Product, float]
MOST_TERMS = 300  # of a sum; a longer one stays as it is written
EXPANDED_POWER = 2.0


class _InseparableError(Exception):
    """A function that is no short sum of products of parts in x and parts in y."""


@dataclass(frozen=True)
class Separation:
    """What a tape with one output is the sum of; parts in x alone are left out, as they cancel.

    Attributes
    ----------
    tape : Tape
    parts : mapping
        For each product of parts in y the sum that it is multiplied with.
    """

    tape: Tape
    parts: Mapping[tuple[Entry, ...], Mapping[tuple[Entry, ...], float]]

    @property
    def is_simple(self) -> bool:
        """Whether y meets single entries of x only, so that variables for the sums change nothing."""
        return all(
            len(sums) == 1
            and all(len(factors) <= 1 and all(map(self._is_entry, factors)) for factors in sums)
            for sums in self.parts.values()
        )

    def _is_entry(self, entry: Entry) -> bool:
        """Whether a part is an entry of an input."""
        return self.tape.nodes[entry[0]].op == op.INPUT

    def state(self, program: ScipProgram, inputs: Mapping[str, Sequence[Formula]]) -> StatedSeparation:
        """Give variables to the sums in x and to the parts in y."""
        return StatedSeparation(self, program, inputs)


class StatedSeparation:
    """A separation in the variables of a program."""

    def __init__(
        self, separation: Separation, program: ScipProgram, inputs: Mapping[str, Sequence[Formula]]
    ) -> None:
        self._tape, self._inputs = separation.tape, inputs
        known = node_formulas(separation.tape, inputs, program.named, program.within_a_turn)
        variables: dict[Any, Formula] = {}  # multiples of a sum share its variable

        def formula(factors: tuple[Entry, ...]) -> Formula:
            return math.prod((known[node][k] for node, k in factors), start=1.0)

        def variable(key: Any, value: Formula) -> Formula:
            if key not in variables:
                is_short = is_number(value) or hasattr(value, "getLbOriginal")
                variables[key] = value if is_short else program.named(value)
            return variables[key]

        self._terms: list[tuple[tuple[Entry, ...], Formula, Formula]] = []
        for own, sums in separation.parts.items():
            first = next(iter(sums.values()))
            shape = tuple((factors, factor / first) for factors, factor in sums.items())
            upper = variable(shape, sum(factor * formula(factors) for factors, factor in shape))
            is_alone = is_number(upper)
            below = formula(own) if is_alone else variable(own, formula(own))
            self._terms.append((own, first * upper, below))

    @property
    def value(self) -> Formula:
        """The function without what x alone decides."""
        return sum((upper * below for _, upper, below in self._terms), start=0.0)

    def value_at(self, y: Sequence[float]) -> Formula:
        """The same at a fixed y, in the same variables."""
        known = node_formulas(self._tape, {**self._inputs, "y": list(y)})
        total: Formula = 0.0
        for own, upper, _ in self._terms:
            total = total + math.prod((known[node][k] for node, k in own), start=1.0) * upper
        return total


def separated(tape: Tape) -> Separation | None:
    """The separation of a tape with one output; None where there is no short one."""
    blocks: list[frozenset[str]] = []
    known: list[list[Sum]] = []
    try:
        for number, node in enumerate(tape.nodes):
            own = frozenset().union(*(blocks[arg] for arg in node.args))
            if node.op == op.INPUT:
                own = frozenset({tape.input_names[node.data]} & {"x", "y"})
            blocks.append(own)
            sums: list[Sum]
            if node.op == op.CONSTANT and node.size <= MOST_TERMS:
                sums = [{((), ()): float(value)} for value in node.data]
            elif len(own) == 2:
                sums = _RULES(node, [known[arg] for arg in node.args])
            else:
                parts = [_origin(tape, number, k) for k in range(node.size)]
                sums = [{((), (part,)) if "y" in own else ((part,), ()): 1.0} for part in parts]
            if sum(map(len, sums)) > MOST_TERMS:
                raise _InseparableError
            known.append(sums)
    except _InseparableError:
        return None
    found: dict[tuple[Entry, ...], dict[tuple[Entry, ...], float]] = {}
    for (upper, below), factor in known[tape.output][0].items():
        if below and factor:
            found.setdefault(below, {})[upper] = factor
    return Separation(tape, found)


def _origin(tape: Tape, number: int, k: int) -> Entry:
    """Where an element comes from, so that an entry of x is the same wherever it was chosen."""
    node = tape.nodes[number]
    while node.op == op.SELECT and len(node.args) == 1 and node.data[1] is None:
        number, k = node.args[0], int(node.data[0][k])
        node = tape.nodes[number]
    return number, k


def _added(sums: Sequence[Sum], factors: Sequence[float] | None = None) -> Sum:
    total: Sum = {}
    for place, each in enumerate(sums):
        factor = 1.0 if factors is None else factors[place]
        for product, value in each.items():
            total[product] = total.get(product, 0.0) + factor * value
    return total


def _multiplied(a: Sum, b: Sum) -> Sum:
    if len(a) * len(b) > MOST_TERMS:
        raise _InseparableError
    total: Sum = {}
    for (upper, below), value in a.items():
        for (further_upper, further_below), factor in b.items():
            product = (
                tuple(sorted((*upper, *further_upper))),
                tuple(sorted((*below, *further_below))),
            )
            total[product] = total.get(product, 0.0) + value * factor
    return total


def _repeated(sums: list[Sum], size: int) -> list[Sum]:
    return sums * size if len(sums) == 1 else sums


def _unary(node: Node, args: list[list[Sum]]) -> list[Sum]:
    if node.op != op.NEG:
        raise _InseparableError
    return [_added([each], [-1.0]) for each in args[0]]


def _binary(node: Node, args: list[list[Sum]]) -> list[Sum]:
    pairs = list(zip(*(_repeated(arg, node.size) for arg in args), strict=True))
    if node.op in (op.ADD, op.SUB):
        return [_added(pair, [1.0, 1.0 if node.op == op.ADD else -1.0]) for pair in pairs]
    if node.op == op.MUL:
        return [_multiplied(*pair) for pair in pairs]
    if node.op == op.DIV and all(set(divisor) == {((), ())} for _, divisor in pairs):
        return [_added([a], [1.0 / divisor[(), ()]]) for a, divisor in pairs]
    if node.op == op.POWER and all(exponent == {((), ()): EXPANDED_POWER} for _, exponent in pairs):
        return [_multiplied(base, base) for base, _ in pairs]
    raise _InseparableError


def _select(node: Node, args: list[list[Sum]]) -> list[Sum]:
    source, target = node.data
    together = [each for arg in args for each in arg]
    chosen = [together[place] for place in source]
    if target is None:
        return chosen
    found: list[list[Sum]] = [[] for _ in range(node.size)]
    for each, place in zip(chosen, target, strict=True):
        found[place].append(each)
    return [_added(part) for part in found]


def _segments(node: Node, args: list[list[Sum]]) -> list[Sum]:
    if node.op != op.SUM:
        raise _InseparableError
    count, length, _ = node.data
    return [_added(args[0][number * length : (number + 1) * length]) for number in range(count)]


def _matmul(node: Node, args: list[list[Sum]]) -> list[Sum]:
    m, k, n, transposed = node.data
    if m * k * n > MOST_TERMS:
        raise _InseparableError
    left, right = args
    by_row, by_column = transposed % 2 == 1, (transposed >> 1) % 2 == 0
    return [
        _added(
            [
                _multiplied(
                    left[row * k + inner if by_row else inner * m + row],
                    right[column * k + inner if by_column else inner * n + column],
                )
                for inner in range(k)
            ]
        )
        for column in range(n)
        for row in range(m)
    ]


def _sparse(node: Node, args: list[list[Sum]]) -> list[Sum]:
    matrix, columns = node.data
    csr, width = matrix.csr, matrix.shape[1]
    found = []
    for column in range(columns):
        for row in range(matrix.shape[0]):
            where = slice(csr.indptr[row], csr.indptr[row + 1])
            places = [column * width + int(place) for place in csr.indices[where]]
            found.append(_added([args[0][place] for place in places], csr.data[where].tolist()))
    return found


_RULES = Rules[list[Sum]](
    purpose="the separation of the levels",
    unary=_unary,
    binary=_binary,
    fill=lambda node, args: _repeated(args[0], node.size),
    freeze=first_operand,
    select=_select,
    matmul=_matmul,
    sparse=_sparse,
    segments=_segments,
)
