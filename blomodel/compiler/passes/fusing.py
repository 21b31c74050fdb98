"""Products of one large constant matrix with several others, done in one pass over the matrix."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from blomodel.basics import limits
from blomodel.compiler.builder import TapeBuilder
from blomodel.compiler.tape import Tape
from blomodel.kernels import machine as op


def fuse_products(tape: Tape) -> Tape:
    """The same function, with A B and A C as parts of A [B C] wherever A is constant and large.

    The time of such a product is that of reading A. Products are put together when equally many products
    come before them, so that none of them needs another one's result, and when both or neither depend on
    the last input, since what does not is computed less often.
    """
    level, is_late = [0] * len(tape.nodes), [False] * len(tape.nodes)
    last = len(tape.input_names) - 1
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, node in enumerate(tape.nodes):
        level[number] = max((level[arg] for arg in node.args), default=0)
        is_late[number] = any(is_late[arg] for arg in node.args)
        if node.op == op.INPUT:
            is_late[number] = node.data == last
        if node.op == op.MATMUL:
            level[number] += 1
            m, k, _, transposed = node.data
            is_constant = tape.nodes[node.args[0]].op == op.CONSTANT
            if is_constant and not limits.SEPARATE_PRODUCTS.allows(m * k) and transposed < 2:
                groups[node.args[0], m, k, transposed, level[number], is_late[number]].append(number)
    partners = {numbers[0]: numbers for numbers in groups.values() if len(numbers) > 1}

    def name_of_operand(number: int) -> str:
        operand = tape.nodes[tape.nodes[number].args[1]]
        return tape.input_names[operand.data] if operand.op == op.INPUT else ""

    for numbers in partners.values():
        numbers.sort(key=name_of_operand)  # so that several tapes put the same points together alike
    if not partners:
        return tape
    b = TapeBuilder(tape.input_names, tape.input_sizes)
    new: dict[int, int] = {}
    # First of each level its products, whose operands are of lower levels.
    for number in sorted(
        range(len(tape.nodes)), key=lambda k: (level[k], tape.nodes[k].op != op.MATMUL, k)
    ):
        node = tape.nodes[number]
        if number in partners:
            _emit_fused(b, tape, partners[number], new)
        elif number not in new:
            new[number] = b.emit(node.op, tuple(new[arg] for arg in node.args), node.size, node.data)
    return b.finish(new[tape.output], tape.output_slices)


def _emit_fused(b: TapeBuilder, tape: Tape, numbers: list[int], new: dict[int, int]) -> None:
    nodes = [tape.nodes[number] for number in numbers]
    m, k, _, transposed = nodes[0].data
    columns = b.concatenate([new[node.args[1]] for node in nodes])
    total = sum(node.data[2] for node in nodes)
    fused = b.matmul(new[nodes[0].args[0]], columns, m, k, total, a_transposed=transposed == 1)
    end = 0
    for number, node in zip(numbers, nodes, strict=True):
        begin, end = end, end + node.size
        new[number] = b.gather(fused, np.arange(begin, end))
