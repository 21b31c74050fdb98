"""The loop of MEHA speaks with the letters of this library: f above, g below."""

from __future__ import annotations

import inspect

from blomodel.kernels.loops import meha


def test_the_step_in_theta_is_said_to_follow_the_lower_objective():
    source = inspect.getsource(meha)
    step = source[source.index("# (9)") : source.index("# (10)")]
    assert "g_y(x, theta)" in step and "f_y" not in step
