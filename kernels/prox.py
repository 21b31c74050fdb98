"""Proximal steps of weighted norms over blocks of entries, in place.

A penalty is the tuple ``(rows, places, data)``; the weights come separately, because they may depend
on the upper variables. Each row of ``rows`` is one block::

    kind  first  count  weight  offset  begin

Its entries are ``v[places[first]], ..., v[places[first + count - 1]]``, its weights begin at
``weight``, its numbers in ``data`` at ``offset``; ``begin`` is its first entry where the entries follow
one another, else -1::

    NOTHING                            no weights
    L1         sum w_i |v_i|           count weights
    GROUP      w |v|_2                 one weight
    ELASTIC    sum w_i |v_i| + u_i v_i^2 / 2      the weights w, then u
    BOX_L1     sum w_i |v_i| and bounds           count weights; data: lower, upper
    BOX        bounds                  no weights; data: lower, upper

Rows are applied in their order. Blocks of L1 kinds may lie inside a GROUP if they come before it and
their bounds are cones (0 or infinite): for such functions the two steps in turn are the exact step.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from .jit import compiled, helper
from .linked import ENDLESS, address, doubles, linked, signed

NOTHING, L1, GROUP, ELASTIC, BOX_L1, BOX = range(6)
N_COLUMNS = 6


@helper
def _shrink(value, amount):
    if value > amount:
        return value - amount
    if value < -amount:
        return value + amount
    return value if value != value else 0.0


@helper
def _norm(v, places, first, count):
    total = 0.0
    for i in range(count):
        total += v[places[first + i]] ** 2
    return np.sqrt(total)


@linked(types.int64, *(types.int64,) * 5, types.float64, types.int64)
def prox_at(rows_at, n_rows, places_at, data_at, weights_at, step, v_at):
    """:func:`prox` with the arrays as addresses; returns 0."""
    rows, data = carray(signed(rows_at), (ENDLESS, N_COLUMNS)), carray(doubles(data_at), ENDLESS)
    places, weights = carray(signed(places_at), ENDLESS), carray(doubles(weights_at), ENDLESS)
    v = carray(doubles(v_at), ENDLESS)
    for block in range(n_rows):
        kind, first, count = rows[block, 0], rows[block, 1], rows[block, 2]
        weight, offset = rows[block, 3], rows[block, 4]
        if kind == L1 or kind == BOX_L1:
            for i in range(count):
                at = places[first + i]
                v[at] = _shrink(v[at], step * weights[weight + i])
        elif kind == ELASTIC:
            for i in range(count):
                at = places[first + i]
                shrunk = _shrink(v[at], step * weights[weight + i])
                v[at] = shrunk / (1.0 + step * weights[weight + count + i])
        elif kind == GROUP:
            size = _norm(v, places, first, count)
            amount = step * weights[weight]
            # A group of NaN stays NaN, so that the caller notices.
            factor = 0.0 if size <= amount else 1.0 - amount / size
            for i in range(count):
                v[places[first + i]] *= factor
        if kind == BOX_L1 or kind == BOX:
            for i in range(count):
                at = places[first + i]
                v[at] = min(max(v[at], data[offset + i]), data[offset + count + i])
    return 0


@compiled
def prox(spec, weights, step, v):
    """Replace v by the minimiser of ``step * penalty(u) + |u - v|^2 / 2``."""
    rows, places, data = spec
    prox_at(address(rows), len(rows), address(places), address(data), address(weights), step, address(v))


@compiled
def prox_value(spec, weights, v):
    """The penalty at v; bounds are taken to hold."""
    rows, places, _ = spec
    total = 0.0
    for block in range(rows.shape[0]):
        kind, first, count, weight = rows[block, 0], rows[block, 1], rows[block, 2], rows[block, 3]
        if kind == L1 or kind == BOX_L1 or kind == ELASTIC:
            for i in range(count):
                total += weights[weight + i] * abs(v[places[first + i]])
        if kind == ELASTIC:
            for i in range(count):
                total += 0.5 * weights[weight + count + i] * v[places[first + i]] ** 2
        if kind == GROUP:
            total += weights[weight] * _norm(v, places, first, count)
    return total


@compiled
def penalty_values(spec, v, out):
    """What each weight multiplies: |v_i|, v_i^2 / 2 or the norm of a group, in ``out``."""
    rows, places, _ = spec
    for block in range(rows.shape[0]):
        kind, first, count, weight = rows[block, 0], rows[block, 1], rows[block, 2], rows[block, 3]
        if kind == L1 or kind == BOX_L1 or kind == ELASTIC:
            for i in range(count):
                out[weight + i] = abs(v[places[first + i]])
        if kind == ELASTIC:
            for i in range(count):
                out[weight + count + i] = 0.5 * v[places[first + i]] ** 2
        if kind == GROUP:
            out[weight] = _norm(v, places, first, count)


def build_penalty(blocks):
    """The tuple that :func:`prox` takes.

    Parameters
    ----------
    blocks : iterable of (kind, places, weight, numbers)
        The entries of a block, where its weights begin, and its numbers as listed above.
    """
    rows, places, data, n_places, n_data = [], [], [], 0, 0
    for kind, entries, weight, numbers in blocks:
        entries = np.asarray(entries, dtype=np.int64)
        numbers = np.asarray(numbers, dtype=float).ravel()
        is_run = entries.size > 0 and np.all(np.diff(entries) == 1)
        begin = int(entries[0]) if is_run else -1
        rows.append((kind, n_places, entries.size, weight, n_data, begin))
        places.append(entries)
        data.append(numbers)
        n_places += entries.size
        n_data += numbers.size
    return (
        np.array(rows, dtype=np.int64).reshape(-1, N_COLUMNS),
        np.concatenate([np.zeros(0, dtype=np.int64), *places]),
        np.concatenate([np.zeros(0), *data]),
    )
