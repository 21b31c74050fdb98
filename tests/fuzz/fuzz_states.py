"""Random models as the library sees them."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from fuzz_pieces import Atoms, Model

import blomodel as bm


def variable(low, high, whole, name, style):
    """A vector of scalars, some whole, its variables, and the box as constraints."""
    n, is_real = len(low), not whole.any()
    is_bounded = np.all(np.isfinite(low)) and np.all(np.isfinite(high))
    if whole.any() and not whole.all():
        parts = [cp.Variable(name=f"{name}{i}", integer=bool(whole[i])) for i in range(n)]
        z, own = cp.hstack(parts), parts
    elif style in (4, 5) and is_real and np.all(low == 0) and np.all(np.isfinite(high)):
        z_ = cp.Variable((n, 1) if style == 5 else n, name=name, nonneg=True)
        z = cp.reshape(z_, (n,), order="F") if style == 5 else z_
        return z, [z_], [z <= high]
    elif style == 6 and is_real:
        z, own = in_a_matrix(n, name)
    elif style == 7 and is_real:
        own = [cp.Variable(name=name if n == 1 else f"{name}{i}") for i in range(n)]
        z = cp.hstack(own)
    elif style == 8 and is_real:
        z, nothing = cp.Variable(n, name=name), cp.Variable(0, name=f"{name}0")
        return z, [z, nothing], [z >= low, z <= high, nothing >= 0] if is_bounded else [nothing >= 0]
    elif style == 9 and is_real and np.all(high == 0):
        z = cp.Variable(n, name=name, nonpos=True)
        return z, [z], [z >= low]
    elif style == 1 and is_bounded:
        z = cp.Variable(n, name=name, bounds=[low, high], integer=bool(whole.any()))
        return z, [z], []
    elif whole.all() and np.all(low == 0) and np.all(high == 1):
        z = cp.Variable(n, name=name, boolean=True)
        return z, [z], []
    else:
        z = cp.Variable(n, name=name, integer=bool(whole.any()))
        own = [z]
    rows = []
    if np.any(np.isfinite(low)):
        rows.append(z[np.isfinite(low)] >= low[np.isfinite(low)])
    if np.any(np.isfinite(high)):
        rows.append(z[np.isfinite(high)] <= high[np.isfinite(high)])
    return z, own, rows


def in_a_matrix(n, name):
    """A vector whose entries are those of a (1, 1), a diagonal, a symmetric, or any other matrix."""
    if n == 2:
        matrix = cp.Variable((2, 2), name=name, diag=True)
        return cp.diag(matrix), [matrix]
    if n == 3:
        matrix = cp.Variable((2, 2), name=name, symmetric=True)
        return cp.hstack([matrix[0, 0], matrix[1, 0], matrix[1, 1]]), [matrix]
    matrix = cp.Variable((1, n), name=name)
    return cp.vec(matrix, order="C"), [matrix]


def state(model: Model):
    """The problem for the library, and a function that reads x and y in the judge's units."""
    if hasattr(model, "state"):
        return model.state()
    unit = {"x": 1.0, "y": 1.0, "f": 1.0, "g": 1.0, "rows": 1.0, **model.units}
    big, _, above = variable(
        model.low * unit["x"], model.high * unit["x"], model.whole, model.names[0], model.style
    )
    x = big if unit["x"] == 1 else big / unit["x"]
    later = []  # values of parameters that are set after a first solve
    right, factor = 0.0, 1.0
    if model.parameters:
        right, factor = cp.Parameter(name="right"), cp.Parameter(nonneg=True, name="factor")
        right.value, factor.value = model.parameters["right"], model.parameters["f"]
        later = [(right, 0.0), (factor, 1.0)]
    lowers, ys, replies = [], [], []
    for k, each in enumerate(model.followers):
        name = model.names[1] if len(model.followers) == 1 else f"{model.names[1]}{'abc'[k]}"
        large, names, rows = variable(
            each.low * unit["y"], each.high * unit["y"], each.whole, name, model.style
        )
        y = large if unit["y"] == 1 else large / unit["y"]
        scales = model.row_units or [1.0] * len(each.rows)
        rows += [
            s * unit["rows"] * row(x, y, Atoms) <= right
            for s, row in zip(scales, each.rows, strict=True)
        ]
        rows += [row(x, y, Atoms) == 0 for row in each.equations]
        g = unit["g"] * each.g(x, y, Atoms)
        if model.parameters:
            prices = cp.Parameter(len(each.low), name="prices", value=model.parameters["q"])
            g = model.parameters["g"](x, y, Atoms) + prices @ y
            later.append((prices, model.parameters["now"]))
        lowers.append(
            bm.Lower(cp.Minimize(g) if each.sense > 0 else cp.Maximize(g), rows, variables=names)
        )
        ys.append(y)
        replies.append(large)
    y = ys[0] if len(ys) == 1 else cp.hstack(ys)
    f = unit["f"] * model.f(x, y, Atoms) * factor
    above += [unit["rows"] * row(x, y, Atoms) <= 0 for row in model.rows]
    objective = cp.Minimize(f) if model.sense > 0 else cp.Maximize(f)
    problem = bm.BilevelProblem(objective, above, lowers[0] if len(lowers) == 1 else lowers)
    if later:
        problem.solve(effort="quick", time_limit=5)
    for parameter, value in later:
        parameter.value = value

    def read():
        at_x = np.ravel(big.value) / unit["x"]
        at_y = np.concatenate([np.ravel(each.value) for each in replies]) / unit["y"]
        return at_x, at_y

    return problem, read
