"""Projection onto a polyhedron by Hildreth's method, for rows that share variables."""

from __future__ import annotations

from .jit import compiled


@compiled
def project_onto_rows(matrix, right, low, duals, v, sweeps, tolerance):
    """Replace v by the nearest point with matrix v <= right (= where ``low`` is minus infinity).

    ``duals`` starts from the last call, whose point was near; rows are handled one at a time.
    Returns the largest change of the last sweep.
    """
    n_rows, size = matrix.shape
    for k in range(n_rows):
        if duals[k] != 0.0:
            for i in range(size):
                v[i] -= duals[k] * matrix[k, i]
    change = 0.0
    for _ in range(sweeps):
        change = 0.0
        for k in range(n_rows):
            excess, length = -right[k], 0.0
            for i in range(size):
                excess += matrix[k, i] * v[i]
                length += matrix[k, i] * matrix[k, i]
            if length == 0.0:
                continue
            moved = max(duals[k] + excess / length, low[k]) - duals[k]
            if moved != 0.0:
                duals[k] += moved
                for i in range(size):
                    v[i] -= moved * matrix[k, i]
                change = max(change, abs(moved) * length**0.5)
        if change <= tolerance:
            break
    return change
