"""A first-order method from outside the library: two files, this one and its compiled loop."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import taking_turns_loop as kernel

from blomodel.compiler.passes.directions import Term, point_in
from blomodel.methods.first_order.arrays import filled
from blomodel.methods.first_order.constants import safe_step
from blomodel.methods.first_order.first_order import set_up
from blomodel.methods.first_order.frame import iterate_until_small
from blomodel.methods.requirements.needs import projections
from blomodel.methods.run.capabilities import Assumption, Capability
from blomodel.methods.run.registry import Need, method, setting


@method
@dataclass(frozen=True, kw_only=True)
class TakingTurns:
    """Steps in x along f alone and in y along g alone, which is a Nash game and no bilevel method."""

    name: ClassVar[str] = "taking-turns"
    summary: ClassVar[str] = "gradient steps of both levels in turn"
    assumes: ClassVar[str] = "nothing that would make it right"
    claims: ClassVar[str] = "a point that neither level alone would leave"
    reference: ClassVar[str] = "none"
    costs: ClassVar[str] = "one gradient step at each level"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LOWER_CONSTRAINTS})
    assumptions: ClassVar[frozenset[Assumption]] = frozenset({Assumption.SMOOTH_LOWER})
    needs: ClassVar[tuple[Need, ...]] = (projections,)

    step_x: float | None = setting(None, "step in x; None: from the curvature", above=0.0)
    step_y: float | None = setting(None, "step in y; None: from the curvature", above=0.0)
    max_steps: int = setting(10_000, "largest number of rounds", minimum=1)

    def run(self, run):
        """Iterate until nothing moves."""
        setup = set_up(run)
        to_x, to_y, _ = setup.shared_directions(
            ([Term(setup.f_slope("x"))], ("y", "x")),
            ([Term(setup.g_slope("y"))], ("x", "y")),
            points={"x": setup.x, "y": setup.y},
        )
        x, y = point_in(to_y, 1), point_in(to_y, 2)
        constants = setup.constants
        settings = filled(
            kernel.N_SETTINGS,
            {
                kernel.STEP_X: self.step_x or safe_step(constants.f_xx),
                kernel.STEP_Y: self.step_y or safe_step(constants.g_yy),
            },
        )
        loop, work = setup.loop(kernel.taking_turns), setup.work(kernel.N_ROWS)
        nothing = np.zeros(0)
        iterate_until_small(
            setup,
            self.name,
            lambda n: loop(n, to_x, to_y, *setup.sets, setup.penalty, settings, x, y, nothing, work),
            x=x,
            y=y,
            max_steps=self.max_steps,
        )
