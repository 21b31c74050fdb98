"""Large constants are copied once for all tapes, and anew when they have changed."""

import numpy as np
from blomodel.kernels import machine as op

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


def test_selections_are_those_of_numpy():
    """Whole, reversed, repeated, with gaps and with sums; by one piece and by two."""
    random = np.random.default_rng(0)
    values = random.standard_normal(6)
    places = [np.arange(6), np.arange(6)[::-1], np.array([2, 2, 2, 2, 2, 2]), random.integers(0, 6, 6)]
    places += [np.array([0, 1, 1, 3, 4, 5]), np.array([0, 2, 1, 3, 4, 5])]
    for source in places:
        for target in places:
            for n_pieces in (1, 2):
                builder = TapeBuilder(("x",), (6,))
                x = builder.input("x")
                pieces = [(x, source, target), (builder.unary(op.NEG, x), target, source)][:n_pieces]
                wanted = np.zeros(6)
                np.add.at(wanted, target, values[source])
                if n_pieces == 2:
                    np.add.at(wanted, source, -values[target])
                found = builder.finish(builder.select(6, pieces))(values)
                assert np.allclose(found, wanted)
