"""Large constants are copied once for all tapes, and anew when they have changed."""

import numpy as np

from blomodel.compiler.builder import TapeBuilder


def test_a_large_matrix_is_copied_once_and_again_after_a_change():
    values = np.random.default_rng(0).standard_normal((500, 300))

    def flat():
        builder = TapeBuilder((), ())
        return builder.nodes[builder.constant(values)].data

    first = flat()
    assert flat() is first and not first.flags.writeable
    assert np.array_equal(first, values.ravel(order="F"))
    values[3, 4] += 1.0
    assert np.array_equal(flat(), values.ravel(order="F")) and not np.array_equal(flat(), first)
