"""The lower Lagrangian in compiled loops: values, slopes, the KKT matrix of an active set.

``weights`` is (1, multipliers): the cotangent of the tape (g, constraint rows). Rows are ``<= 0``
where ``low`` is 0 and ``== 0`` where it is minus infinity.
"""

from __future__ import annotations

import numpy as np

from .calls import INPUTS, LENGTH, OUTPUT, OUTPUT_SIZE, START
from .jit import compiled
from .machine import run


@compiled
def evaluate_lagrangian(tape, x, y, weights, direction, out):
    """Run any tape of the lower Lagrangian.

    One function for all of them, because each one that holds the machine costs a second to compile.
    ``weights`` and ``direction`` are empty for tapes that do not have them.
    """
    code, integers, workspace, layout = tape
    for i in range(len(x)):
        workspace[layout[INPUTS] + i] = x[i]
    for i in range(len(y)):
        workspace[layout[INPUTS + 2] + i] = y[i]
    for i in range(len(weights)):
        workspace[layout[INPUTS + 6] + i] = weights[i]
    for i in range(len(direction)):
        workspace[layout[INPUTS + 8] + i] = direction[i]
    run(code, integers, workspace, layout[START], layout[LENGTH])
    layout[len(layout) - 1] += 1
    for i in range(layout[OUTPUT_SIZE]):
        out[i] = workspace[layout[OUTPUT] + i]


@compiled
def solve_in_place(matrix, right, size):
    """Gaussian elimination with row exchanges; the answer replaces ``right``.

    A pivot that vanishes is replaced by a tiny one: dependent rows then get some multipliers.
    """
    largest = 0.0
    for i in range(size):
        for j in range(size):
            largest = max(largest, abs(matrix[i, j]))
    tiny = 1e-13 * max(largest, 1e-300)
    for k in range(size):
        best = k
        for i in range(k + 1, size):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
        if best != k:
            for j in range(k, size):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
            right[k], right[best] = right[best], right[k]
        if abs(matrix[k, k]) < tiny:
            matrix[k, k] = -tiny
        for i in range(k + 1, size):
            factor = matrix[i, k] / matrix[k, k]
            if factor != 0.0:
                for j in range(k + 1, size):
                    matrix[i, j] -= factor * matrix[k, j]
                right[i] -= factor * right[k]
    for k in range(size - 1, -1, -1):
        total = right[k]
        for j in range(k + 1, size):
            total -= matrix[k, j] * right[j]
        right[k] = total / matrix[k, k]


@compiled
def kkt_matrix(slope_y, curve_yy, x, y, weights, active, unit, column, row, matrix):
    """Fill [H J'; J 0] for the active rows; returns its size. ``unit`` and ``row`` are scratch."""
    n_y, n_rows = len(y), len(weights) - 1
    for j in range(n_y):
        for i in range(n_y):
            column[i] = 0.0
        column[j] = 1.0
        evaluate_lagrangian(curve_yy, x, y, weights, column, row)
        for i in range(n_y):
            matrix[i, j] = row[i]
    size = n_y
    for k in range(n_rows + 1):
        unit[k] = 0.0
    for k in range(n_rows):
        if active[k] == 0.0:
            continue
        unit[k + 1] = 1.0
        evaluate_lagrangian(slope_y, x, y, unit, row[:0], row)
        unit[k + 1] = 0.0
        for i in range(n_y):
            matrix[size, i] = row[i]
            matrix[i, size] = row[i]
        size += 1
    for i in range(n_y, size):
        for j in range(n_y, size):
            matrix[i, j] = 0.0
    return size


@compiled
def kkt_residual(weights, low, values, slope):
    """Largest violation of the lower KKT conditions, from (g, rows) and the slope in y."""
    worst = 0.0
    for i in range(len(slope)):
        worst = max(worst, abs(slope[i]))
        if slope[i] != slope[i]:
            return np.inf
    for k in range(len(low)):
        moved = max(weights[k + 1] + values[k + 1], low[k])
        worst = max(worst, abs(moved - weights[k + 1]))
        if values[k + 1] != values[k + 1]:
            return np.inf
    return worst


@compiled
def mark_active(weights, low, values, active):
    """1 for the rows that hold the lower answer, 0 for the others."""
    for k in range(len(low)):
        active[k] = 1.0 if weights[k + 1] + values[k + 1] > low[k] else 0.0
