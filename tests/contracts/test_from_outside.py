"""Files of a contributor are found and used as those of the library are: one of each, from outside.

Atoms, inner solvers and transformations from outside have tests of their own (test_atoms.py here,
tests/unit/solvers/test_preference.py, tests/unit/transformations/test_outside.py).
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.basics.registry import kept_registries
from blomodel.methods import run as methods_run
from blomodel.methods.run.registry import METHODS, method_classes

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def taking_turns():
    """Import the method's two files, as a user's own package would."""
    with kept_registries():
        sys.modules.pop("taking_turns", None)
        yield importlib.import_module("taking_turns").TakingTurns


def duopoly() -> bm.BilevelProblem:
    """Two firms: the follower's answer is 1 - x/2, Stackelberg's leader takes 1, a Nash player 2/3."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y**2 + x * y - 2 * y), [y >= 0], variables=[y])
    return bm.BilevelProblem(cp.Minimize(x**2 + x * y - 2 * x), [0 <= x, x <= 2], lower)


def test_a_compiled_method_takes_two_files(taking_turns):
    problem = duopoly()
    problem.solve(method="taking-turns")
    x, y = problem.variables
    assert x.value == pytest.approx(2 / 3, abs=1e-5)
    assert y.value == pytest.approx(2 / 3, abs=1e-5)
    # Neither player would move, but a leader would: that is no answer of the bilevel problem.
    assert problem.status == "feasible"
    assert problem.certificate.accepted


def test_it_is_described_and_explained_like_the_others(taking_turns):
    assert "taking-turns" in [info.name for info in bm.methods()]
    assert "taking-turns" in bm.methods().__str__()
    assert "taking-turns" in duopoly().explain()


def test_its_settings_are_checked(taking_turns):
    with pytest.raises(bm.BlomodelError, match="step_x"):
        duopoly().solve(method="taking-turns", step_x=0)


def test_its_capabilities_are_checked(taking_turns):
    problem = duopoly()
    x, y = problem.variables
    tied = bm.BilevelProblem(problem.objective, [*problem.constraints, x + y <= 1], problem.lower)
    with pytest.raises(bm.BlomodelError, match=r"taking-turns.*x \+ y <= 1"):
        tied.solve(method="taking-turns")


@pytest.mark.parametrize("forgotten", ["capabilities", "needs", "assumptions", "costs", "claims"])
def test_a_forgotten_declaration_is_an_error(taking_turns, forgotten):
    bare = {key: value for key, value in vars(taking_turns).items() if key != forgotten}
    with pytest.raises(bm.BlomodelError, match=forgotten):
        methods_run.registry.method(type("Forgetful", (), bare))


def test_a_file_in_the_folder_is_enough(tmp_path, monkeypatch):
    """A copy of the method's file in a folder that the registry lists is found without an import."""
    package = tmp_path / "house_methods"
    package.mkdir()
    (package / "__init__.py").write_text('"""Methods of a house of its own."""\n', encoding="utf-8")
    shutil.copy(SUPPORT / "taking_turns.py", package / "taking_turns.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("taking_turns", None)
    with kept_registries():
        monkeypatch.setattr(METHODS, "packages", ("house_methods",))
        monkeypatch.setattr(METHODS, "_is_complete", False)
        assert "taking-turns" in method_classes()
    assert "taking-turns" not in method_classes()
