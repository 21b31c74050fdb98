"""A quadratic function by its coefficients: value and gradient from one product with its Hessian.

``sum_squares(B @ y - d)`` of many samples costs three products with B for a value and a gradient; with
B'B, found once, it costs one product with a matrix as small as y.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from blomodel.compiler.passes.derivatives import hessian
from blomodel.compiler.tape import Tape

WORTH = 3  # how often the tape's products must exceed those with the Hessian
CANCELLED = 1e-4  # of its terms: a smaller value has lost too many digits
FULL = 0.2  # share of nonzeros from which the Hessian is kept as a plain matrix


class QuadraticForm:
    """c + q'z + z'Qz/2 with z = (x, y), in place of a tape of (x, y, p)."""

    q: np.ndarray
    constant: float

    def __init__(self, value: Tape, gradient: Tape, p: np.ndarray) -> None:
        self._value, self._gradient, self._p = value, gradient, p
        sizes = [value.input_size(name) for name in ("x", "y")]
        origin = [np.zeros(size) for size in sizes]
        self.Q: sp.csc_array | np.ndarray = hessian(value, ("x", "y"), (*origin, p))
        self.q = gradient(*origin, p)
        self.constant = float(value(*origin, p)[0])
        nonzeros = self.Q.nnz
        self.is_worth_it: bool = value.n_products > WORTH * nonzeros
        if nonzeros > FULL * sum(sizes) ** 2:
            self.Q = self.Q.toarray()

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; the value comes from the tape where terms cancel."""
        z = np.concatenate([x, y])
        curved = self.Q @ z
        terms = self.constant, float(self.q @ z), 0.5 * float(z @ curved)
        value = sum(terms)
        if not abs(value) >= CANCELLED * max(map(abs, terms)):
            value = float(self._value(x, y, self._p)[0])
        return value, self.q + curved
