"""Proximal steps of weighted norms over blocks of entries, in place.

A penalty is the tuple ``(rows, places)``; the weights come separately, because they may depend on the
upper variables. Each row of ``rows`` is one block::

    kind  first  count  weight  begin

Its entries are ``v[places[first]], ..., v[places[first + count - 1]]``, its weights begin at
``weight``; ``begin`` is its first entry where the entries follow one another, else -1::

    L1         sum w_i |v_i|           count weights
    GROUP      w |v|_2                 one weight

Rows are applied in their order. L1 blocks may lie inside a GROUP if they come before it: the two steps
in turn are then the exact step.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from .jit import compiled, helper
from .linked import ENDLESS, address, doubles, linked, signed

L1, GROUP = range(2)
N_COLUMNS = 5


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


@linked(types.int64, *(types.int64,) * 4, types.float64, types.int64)
def prox_at(rows_at, n_rows, places_at, weights_at, step, v_at):
    """:func:`prox` with the arrays as addresses; returns 0."""
    rows, places = carray(signed(rows_at), (ENDLESS, N_COLUMNS)), carray(signed(places_at), ENDLESS)
    weights, v = carray(doubles(weights_at), ENDLESS), carray(doubles(v_at), ENDLESS)
    for block in range(n_rows):
        kind, first, count, weight = rows[block, 0], rows[block, 1], rows[block, 2], rows[block, 3]
        if kind == L1:
            for i in range(count):
                at = places[first + i]
                v[at] = _shrink(v[at], step * weights[weight + i])
        elif kind == GROUP:
            size = _norm(v, places, first, count)
            amount = step * weights[weight]
            # A group of NaN stays NaN, so that the caller notices.
            factor = 0.0 if size <= amount else 1.0 - amount / size
            for i in range(count):
                v[places[first + i]] *= factor
    return 0


@compiled
def prox(spec, weights, step, v):
    """Replace v by the minimiser of ``step * penalty(u) + |u - v|^2 / 2``."""
    rows, places = spec
    prox_at(address(rows), len(rows), address(places), address(weights), step, address(v))


@compiled
def penalty_values(spec, v, out):
    """What each weight multiplies: |v_i| or the norm of a group, in ``out``."""
    rows, places = spec
    for block in range(rows.shape[0]):
        kind, first, count, weight = rows[block, 0], rows[block, 1], rows[block, 2], rows[block, 3]
        if kind == L1:
            for i in range(count):
                out[weight + i] = abs(v[places[first + i]])
        if kind == GROUP:
            out[weight] = _norm(v, places, first, count)


def build_penalty(blocks):
    """The tuple that :func:`prox` takes.

    Parameters
    ----------
    blocks : iterable of (kind, places, weight)
        The entries of a block, and where its weights begin.
    """
    rows, places, n_places = [], [], 0
    for kind, entries, weight in blocks:
        entries = np.asarray(entries, dtype=np.int64)
        is_run = entries.size > 0 and np.all(np.diff(entries) == 1)
        begin = int(entries[0]) if is_run else -1
        rows.append((kind, n_places, entries.size, weight, begin))
        places.append(entries)
        n_places += entries.size
    return (
        np.array(rows, dtype=np.int64).reshape(-1, N_COLUMNS),
        np.concatenate([np.zeros(0, dtype=np.int64), *places]),
    )
