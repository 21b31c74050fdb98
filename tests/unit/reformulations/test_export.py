"""Reformulations as files, solved by those who read them."""

from __future__ import annotations

import cvxpy as cp
import pytest

import blomodel as bm
from blomodel.errors import ReformulationError

pyscipopt = pytest.importorskip("pyscipopt")


def problem(is_smooth=False, integer=False):
    x, y = cp.Variable(name="x", integer=integer), cp.Variable(name="y 1")
    below = [y <= 1 + x / 2]
    g = (y - 2 * x) ** 2 + (0.1 * cp.exp(y) if is_smooth else 0)
    lower = bm.Lower(cp.Minimize(g), below, variables=[y])
    return bm.BilevelProblem(cp.Minimize(x + (y - 2) ** 2), [0 <= x, x <= 2], lower)


def value_of(path):
    scip = pyscipopt.Model()
    scip.hideOutput()
    scip.readProblem(str(path))
    scip.optimize()
    return scip.getObjVal(), [variable.name for variable in scip.getVars()]


@pytest.mark.parametrize("ending", ["lp", "mps", "nl", "cip"])
def test_the_file_has_the_same_optimum(tmp_path, ending):
    stated = problem()
    kkt = stated.reformulate("kkt")
    kkt.relaxation.value = 0.0
    value, names = value_of(kkt.write(tmp_path / f"kkt.{ending}"))
    assert value == pytest.approx(stated.solve(), abs=1e-4)
    assert {"x", "y_1"} <= set(names)


def test_integers_are_written(tmp_path):
    stated = problem(integer=True)
    kkt = stated.reformulate("kkt")
    kkt.relaxation.value = 0.0
    value, _ = value_of(kkt.write(tmp_path / "kkt.lp"))
    by_hand = min(x + (min(2 * x, 1 + x / 2) - 2) ** 2 for x in (0, 1, 2))
    assert value == pytest.approx(by_hand, abs=1e-5)


def test_what_a_format_cannot_hold(tmp_path):
    kkt = problem(is_smooth=True).reformulate("kkt")
    kkt.relaxation.value = 0.0
    with pytest.raises(ReformulationError, match=r"\.nl or \.cip"):
        kkt.write(tmp_path / "kkt.lp")
    assert not (tmp_path / "kkt.lp").exists()
    assert kkt.write(tmp_path / "kkt.nl").exists()
    with pytest.raises(ReformulationError, match="no ending that is known"):
        kkt.write(tmp_path / "kkt.txt")
    with pytest.raises(ReformulationError, match="without a formula"):
        problem().reformulate("value-function").write(tmp_path / "value.nl")
