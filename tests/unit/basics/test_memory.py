"""What cannot be compiled is found out once."""

import pytest

from blomodel.basics.memory import remembered
from blomodel.errors import NonconvexLowerError


class Model:
    def __init__(self, is_convex):
        self.is_convex, self.builds = is_convex, 0

    @property
    @remembered
    def program(self) -> str:
        """A program."""
        self.builds += 1
        if not self.is_convex:
            raise NonconvexLowerError("'y1 * y2' is not convex")
        return "program"


def test_built_once():
    model = Model(True)
    assert [model.program, model.program] == ["program", "program"]
    assert model.builds == 1
    assert Model.program.__doc__ == "A program."


def test_refused_once_with_the_same_message():
    model, other = Model(False), Model(True)
    for _ in range(3):
        with pytest.raises(NonconvexLowerError, match=r"'y1 \* y2' is not convex"):
            _ = model.program
    assert model.builds == 1
    assert other.program == "program"
