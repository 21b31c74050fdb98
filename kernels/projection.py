"""Euclidean projection onto products of simple sets, in place.

A set is the tuple ``(rows, data, scratch)``. Each row of ``rows`` is one block of entries, disjoint
from the others::

    kind  first  count  offset         numbers in data, from offset on

    FREE                               none
    BOX                                lower (count), upper (count); infinities allowed
    SIMPLEX                            s:                {v >= 0, sum v = s}
    CAPPED                             s:                {v >= 0, sum v <= s}
    BALL                               centre (count), radius
    AFFINE                             r, d (r), Q (r rows of count): {Q v = d}, Q Q' = identity
    BUDGET                             lower, upper, a (count each), s, t:
                                       {lower <= v <= upper, s <= a'v <= t}
    L1_BALL                            s:                {sum |v| <= s}
    POLYHEDRON                         as polyhedron() has them: {A v <= right, = where low is minus
                                       infinity}, with the duals of the last call, near which the next
                                       one begins

A block of consecutive entries begins at ``first``. For any other block ``first`` is -1 and ``data``
holds, at ``offset``, the places of its entries (whole numbers) and then its own numbers. Entries in
no block are free. ``scratch`` has at least three times the size of the largest block.
"""

from __future__ import annotations

import numpy as np
from numba import carray, types

from .jit import compiled, helper
from .linked import ENDLESS, address, doubles, linked, signed

FREE, BOX, SIMPLEX, CAPPED, BALL, AFFINE, BUDGET, L1_BALL, POLYHEDRON = range(9)
SWEEPS, ACCURACY = 5000, 1e-13  # of the projection onto a polyhedron
SCATTERED = -1  # in the place of the first entry
N_COLUMNS = 4


@helper
def _box(v, first, count, data, offset):
    for i in range(count):
        value = v[first + i]
        if value < data[offset + i]:
            v[first + i] = data[offset + i]
        elif value > data[offset + count + i]:
            v[first + i] = data[offset + count + i]


@helper
def _simplex(v, first, count, total, scratch, begin):
    """Michelot's method: drop what lies below the threshold until nothing more does."""
    if count == 0:
        return
    largest = v[first]
    for i in range(count):
        largest = max(largest, v[first + i])
    # The projection does not see a shift of all entries; this one keeps the threshold accurate.
    for i in range(count):
        v[first + i] -= largest
        scratch[begin + i] = v[first + i]
    kept = count
    threshold = 0.0
    while True:
        added = 0.0
        for i in range(kept):
            added += scratch[begin + i]
        threshold = (added - total) / kept
        remaining = 0
        for i in range(kept):
            if not scratch[begin + i] < threshold:
                scratch[begin + remaining] = scratch[begin + i]
                remaining += 1
        if remaining == kept or remaining == 0:
            break
        kept = remaining
    for i in range(count):
        v[first + i] = max(v[first + i] - threshold, 0.0)


@helper
def _capped(v, first, count, total, scratch, begin):
    positive = 0.0
    for i in range(count):
        positive += max(v[first + i], 0.0)
    if positive > total:
        _simplex(v, first, count, total, scratch, begin)
    else:
        for i in range(count):
            v[first + i] = max(v[first + i], 0.0)


@helper
def _ball(v, first, count, data, offset):
    distance = 0.0
    for i in range(count):
        distance += (v[first + i] - data[offset + i]) ** 2
    distance = np.sqrt(distance)
    radius = data[offset + count]
    if distance > radius:
        for i in range(count):
            centre = data[offset + i]
            v[first + i] = centre + (v[first + i] - centre) * (radius / distance)


@helper
def _affine(v, first, count, data, offset, scratch, begin):
    rank = int(data[offset])
    level, basis = offset + 1, offset + 1 + rank
    for k in range(rank):
        excess = -data[level + k]
        for i in range(count):
            excess += data[basis + k * count + i] * v[first + i]
        scratch[begin + k] = excess
    for k in range(rank):
        for i in range(count):
            v[first + i] -= scratch[begin + k] * data[basis + k * count + i]


@helper
def _spent(v, first, count, data, offset, price):
    """The budget spent, a'w, for w = v - price a cut to the bounds."""
    total = 0.0
    for i in range(count):
        slope = data[offset + 2 * count + i]
        moved = v[first + i] - price * slope
        total += slope * min(max(moved, data[offset + i]), data[offset + count + i])
    return total


@helper
def _budget(v, first, count, data, offset, scratch, begin):
    """Find the price at which the amount spent is right: bisection over the breakpoints."""
    low, high = data[offset + 3 * count], data[offset + 3 * count + 1]
    spent = _spent(v, first, count, data, offset, 0.0)
    price = 0.0
    if spent > high or spent < low:
        target = high if spent > high else low
        # What is spent falls with the price; no breakpoint lies between these two in the end.
        cheap = 0.0 if spent > high else -np.inf
        dear = np.inf if spent > high else 0.0
        n_points = 0
        for i in range(count):
            slope = data[offset + 2 * count + i]
            if slope != 0.0:
                for side in range(2):
                    point = (v[first + i] - data[offset + side * count + i]) / slope
                    if cheap < point < dear:
                        scratch[begin + n_points] = point
                        n_points += 1
        while n_points > 0:
            middle = scratch[begin + n_points // 2]
            if _spent(v, first, count, data, offset, middle) >= target:
                cheap = middle
            else:
                dear = middle
            kept = 0
            for k in range(n_points):
                if cheap < scratch[begin + k] < dear:
                    scratch[begin + kept] = scratch[begin + k]
                    kept += 1
            n_points = kept
        if np.isinf(cheap):
            inside = dear - 1.0 - abs(dear)
        elif np.isinf(dear):
            inside = cheap + 1.0 + abs(cheap)
        else:
            inside = 0.5 * (cheap + dear)
        fixed, squares = 0.0, 0.0
        for i in range(count):
            slope = data[offset + 2 * count + i]
            moved = v[first + i] - inside * slope
            if moved <= data[offset + i]:
                fixed += slope * data[offset + i]
            elif moved >= data[offset + count + i]:
                fixed += slope * data[offset + count + i]
            else:
                fixed += slope * v[first + i]
                squares += slope * slope
        price = min(max((fixed - target) / squares, cheap), dear) if squares > 0.0 else inside
    for i in range(count):
        moved = v[first + i] - price * data[offset + 2 * count + i]
        v[first + i] = min(max(moved, data[offset + i]), data[offset + count + i])


@helper
def _l1_ball(v, first, count, total, scratch, begin):
    size = 0.0
    for i in range(count):
        size += abs(v[first + i])
    if size <= total:
        return
    for i in range(count):
        scratch[begin + i] = abs(v[first + i])
    _simplex(scratch, begin, count, total, scratch, begin + count)
    for i in range(count):
        v[first + i] = scratch[begin + i] if v[first + i] >= 0.0 else -scratch[begin + i]


@helper
def _polyhedron(v, first, data, offset):
    """Hildreth's method: one row after another, until no multiplier changes any more."""
    n_rows = int(data[offset])
    right, low = offset + 1, offset + 1 + n_rows
    duals, squares = low + n_rows, low + 2 * n_rows
    starts = squares + n_rows  # of the rows among the entries: n_rows + 1 numbers
    places = starts + n_rows + 1
    entries = places + int(data[starts + n_rows])
    for k in range(n_rows):
        if data[duals + k] != 0.0:
            for i in range(int(data[starts + k]), int(data[starts + k + 1])):
                v[first + int(data[places + i])] -= data[duals + k] * data[entries + i]
    for _ in range(SWEEPS):
        change = 0.0
        for k in range(n_rows):
            begin, end, square = int(data[starts + k]), int(data[starts + k + 1]), data[squares + k]
            if square == 0.0:
                continue
            excess = -data[right + k]
            for i in range(begin, end):
                excess += data[entries + i] * v[first + int(data[places + i])]
            moved = max(data[duals + k] + excess / square, data[low + k]) - data[duals + k]
            if moved != 0.0:
                data[duals + k] += moved
                for i in range(begin, end):
                    v[first + int(data[places + i])] -= moved * data[entries + i]
                change = max(change, abs(moved) * np.sqrt(square))
        if not change > ACCURACY:
            break


@linked(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64)
def project_at(rows_at, n_rows, data_at, scratch_at, v_at):
    """:func:`project` with the arrays as addresses; returns 0."""
    rows, data = carray(signed(rows_at), (ENDLESS, N_COLUMNS)), carray(doubles(data_at), ENDLESS)
    scratch, v = carray(doubles(scratch_at), ENDLESS), carray(doubles(v_at), ENDLESS)
    for block in range(n_rows):
        kind, first, count, offset = rows[block, 0], rows[block, 1], rows[block, 2], rows[block, 3]
        is_scattered = first == SCATTERED
        # The entries of a scattered block are gathered at the beginning of the scratch.
        target, own, begin = v, offset, 0
        if is_scattered:
            for i in range(count):
                scratch[i] = v[int(data[offset + i])]
            target, first, own, begin = scratch, 0, offset + count, count
        if kind == BOX:
            _box(target, first, count, data, own)
        elif kind == SIMPLEX:
            _simplex(target, first, count, data[own], scratch, begin)
        elif kind == CAPPED:
            _capped(target, first, count, data[own], scratch, begin)
        elif kind == BALL:
            _ball(target, first, count, data, own)
        elif kind == AFFINE:
            _affine(target, first, count, data, own, scratch, begin)
        elif kind == BUDGET:
            _budget(target, first, count, data, own, scratch, begin)
        elif kind == L1_BALL:
            _l1_ball(target, first, count, data[own], scratch, begin)
        elif kind == POLYHEDRON:
            _polyhedron(target, first, data, own)
        if is_scattered:
            for i in range(count):
                v[int(data[offset + i])] = scratch[i]
    return 0


@compiled
def project(spec, v):
    """Replace v by the nearest point of the set."""
    rows, data, scratch = spec
    if len(rows) > 0:
        project_at(address(rows), len(rows), address(data), address(scratch), address(v))


def polyhedron(matrix, right, low):
    """The numbers of a POLYHEDRON: rows ``matrix @ v <= right``, equal where ``low`` is minus infinity.

    Number of rows, right, low, duals, squared norms of the rows, then the matrix without its zeros:
    where each row begins, the places and the entries.
    """
    rows, places = np.nonzero(matrix)
    starts = np.searchsorted(rows, np.arange(len(right) + 1))
    squares = (np.asarray(matrix) ** 2).sum(axis=1)
    duals = np.zeros(len(right))
    return np.concatenate(
        [[len(right)], right, low, duals, squares, starts, places, np.asarray(matrix)[rows, places]]
    )


def build_set(blocks):
    """The tuple that :func:`project` takes.

    Parameters
    ----------
    blocks : iterable of (kind, places, numbers)
        ``places`` are the entries of a block, in order; ``numbers`` as listed above.
    """
    rows, data, largest, used = [], [], 0, 0
    for kind, places, numbers in blocks:
        places = np.asarray(places, dtype=np.int64)
        numbers = np.asarray(numbers, dtype=float).ravel()
        if places.size == 0 or kind == FREE:
            continue
        is_run = np.all(np.diff(places) == 1)
        rows.append((kind, int(places[0]) if is_run else SCATTERED, places.size, used))
        data += [numbers] if is_run else [places.astype(float), numbers]
        used += numbers.size + (0 if is_run else places.size)
        largest = max(largest, places.size)
    table = np.array(rows, dtype=np.int64).reshape(-1, N_COLUMNS)
    # BUDGET has up to two breakpoints for each entry, beside the copy of a scattered block.
    return table, np.concatenate([np.zeros(0), *data]), np.zeros(3 * largest)
