"""Whether a fall of f without limit is told from one that ends far away."""

from __future__ import annotations

import numpy as np
import pytest

from blomodel.methods.search.fall import _is_endless


@pytest.mark.parametrize(
    ("values", "is_endless"),
    [
        ([-(10.0**k) for k in range(9)], True),  # a line
        ([-(10.0 ** (2 * k)) for k in range(9)], True),  # a square
        ([-float(k) for k in range(9)], True),  # a logarithm
        ([10.0**-k for k in range(9)], False),  # towards zero
        ([-(10.0**k) for k in range(8)] + [0.0], False),  # rises at last
        ([-(10.0**k) for k in range(4)], False),  # not seen for long enough
        ([-1.0, -1e20, -1e200, -np.inf], True),  # until numbers end
        ([], False),
    ],
)
def test_values_over_decades(values, is_endless):
    assert _is_endless(values) is is_endless
