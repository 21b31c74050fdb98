"""A stopped run goes on as if it had not been stopped; whatever is not that run is refused."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import BlomodelError, FileFormatError, UnknownSettingError
from blomodel.methods.run.registry import method_classes

FEW = 9  # iterations before and after the stop: the lengths of stretches do not divide them

METHODS = {
    "pbgd": {},
    "jnt-pbgd": {},
    "v-pbgd": {},
    "alt-pbgd": {},
    "f2sa": {},
    "f2sa, printed": {"variant": "paper"},
    "pbgd-free": {"step_x": 0.05},
    "meha": {},
    "meha, growing": {"penalty": 0.5, "penalty_power": 0.3},
    "galet": {},
    "perturbed-gd": {},
    "bome": {},
    "implicit-cg": {},
    "implicit-neumann": {},
    "unrolled": {},
    "bda": {},
    "iaptt": {},
    "lv-hba": {},
    "bic-gaffa": {},
    "blocc": {"inner": "max-min"},
    "gam": {},
    "bamm": {},
    "brc": {},
    "alright": {},
}
WITH_ROWS = ("lv-hba", "bic-gaffa", "blocc", "gam")
ALWAYS = ("alt-pbgd", "meha, growing", "bome", "unrolled", "lv-hba", "gam")  # the others are slow tests


def stated(has_rows: bool = False, size: int = 5) -> bm.BilevelProblem:
    random = np.random.default_rng(3)
    x, y = cp.Variable(size, name="x"), cp.Variable(size, name="y")
    A = random.normal(size=(2 * size, size)) / np.sqrt(size)
    below = cp.sum_squares(A @ y - random.normal(size=2 * size)) + cp.sum_squares(y - x)
    above = cp.sum_squares(y - random.normal(size=size)) + 0.1 * cp.sum_squares(x - 1)
    lower = bm.Lower(cp.Minimize(below), [y <= 1 + x] if has_rows else [], variables=[y])
    return bm.BilevelProblem(cp.Minimize(above), [x >= -3, x <= 3], lower)


def digits(solution) -> list[bytes]:
    parts = [np.array(solution.value), *solution.values.values(), *solution.iterate.values()]
    return [np.asarray(part).tobytes() for part in parts]


def stopped(tmp_path, method="meha", **arguments):
    problem = stated()
    problem.solve(method, **({"max_iterations": FEW} | arguments))
    return problem, problem.solution.save(tmp_path / "run.json")


@pytest.mark.filterwarnings("ignore:pbgd-free")
@pytest.mark.parametrize(
    "name", [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_compiled_methods_go_on_bit_by_bit(name, tmp_path):
    method, has_rows, few = name.split(",")[0], name in WITH_ROWS, 1 if name == "gam" else FEW
    whole = stated(has_rows)
    whole.solve(method, max_iterations=2 * few, **METHODS[name])
    first = stated(has_rows)
    first.solve(method, max_iterations=few, **METHODS[name])
    path = first.solution.save(tmp_path / "run.json")
    second = stated(has_rows)
    second.solve(resume=path, max_iterations=few)
    assert second.solution.iterations == whole.solution.iterations > few
    assert digits(second.solution) == digits(whole.solution) != digits(first.solution)
    first.solve(resume=first.solution, max_iterations=few)  # without a file
    assert digits(first.solution) == digits(whole.solution)


def test_every_compiled_method_is_among_them():
    tested = {name.split(",")[0] for name in METHODS}
    for name, kind in method_classes().items():
        is_compiled = "blomodel.kernels.loops" in Path(inspect.getsourcefile(kind)).read_text()
        assert not is_compiled or name in tested, name


@pytest.mark.parametrize("method", ["igjo", "vf-idca"])
def test_methods_with_exact_lower_solves_go_on_from_their_best_point(method, tmp_path):
    first = stated()
    first.solve(method, max_iterations=3)
    path, before = first.solution.save(tmp_path / "run.json"), first.value
    second = stated()
    second.solve(resume=path, max_iterations=3)
    assert second.solution.iterations == 6
    assert second.value < before


def test_a_run_goes_on_in_another_process(tmp_path):
    whole = stated()
    whole.solve("alt-pbgd", max_iterations=2 * FEW)
    _, path = stopped(tmp_path, "alt-pbgd")
    code = f"""
import sys
sys.path.append({os.path.dirname(__file__)!r})
from test_resuming import FEW, digits, stated
problem = stated()
problem.solve(resume={str(path)!r}, max_iterations=FEW)
print(b"".join(digits(problem.solution)).hex())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == b"".join(digits(whole.solution)).hex(), found.stderr


def test_a_chain_of_stops_and_a_stop_rule(tmp_path):
    rule = {"stop_move": 1e-3}
    whole = stated()
    whole.solve("meha", **rule)
    problem = stated()
    problem.solve("meha", max_iterations=7, **rule)
    for _ in range(200):
        if problem.solution.stopped_by != "iteration limit":
            break
        problem.solve(resume=problem.solution.save(tmp_path / "run.json"), max_iterations=7)
    assert problem.solution.iterations == whole.solution.iterations
    assert digits(problem.solution) == digits(whole.solution)
    iterations = problem.solution.history["iteration"]
    assert np.all(np.diff(iterations) > 0) and np.all(np.diff(problem.solution.history["time"]) > 0)


def tree(size: int = 22) -> bm.BilevelProblem:
    random = np.random.default_rng(1)
    x, y = cp.Variable(size, name="x"), cp.Variable(size, name="y")
    A, B, c = (random.normal(size=shape) for shape in ((size, size), (size, size), size))
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - A @ x / size)), [B @ y <= 1 + x], variables=[y])
    above = cp.sum_squares(x - c) + cp.sum_squares(y - 1)
    return bm.BilevelProblem(cp.Minimize(above), [x >= -2, x <= 2], lower)


def test_a_tree_goes_on_from_its_open_nodes(tmp_path):
    whole, problem, again = tree(), tree(), tree()
    value = whole.solve("kkt-mip")
    nodes = int(whole.certificate.bound_source.split(", ")[1].split()[0])
    problem.solve("kkt-mip", max_nodes=nodes // 3)
    assert problem.certificate.claim != "optimal"
    path = problem.solution.save(tmp_path / "run.json")
    assert again.solve(resume=path, max_nodes=10 * nodes) == pytest.approx(value, rel=1e-8)
    assert again.status == "optimal"
    assert "resumed" in again.certificate.bound_source
    assert any("open node" in note for note in again.solution.notes)
    # Nodes that were looked at before are not looked at again.
    assert abs(int(again.certificate.bound_source.split(", ")[1].split()[0]) - nodes) <= nodes // 4


def test_the_global_method_keeps_point_bound_and_cuts(tmp_path):
    def sine():
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        g = cp.nlp.sin(3 * y) + cp.square(y - x)
        lower = bm.Lower(cp.Minimize(g), [y >= -2, y <= 2], variables=[y])
        return bm.BilevelProblem(
            cp.Minimize(cp.square(x - 0.3) + cp.square(y - 1)), [x >= -1, x <= 1], lower
        )

    problem, again = sine(), sine()
    problem.solve("global", max_iterations=2)
    bound = problem.solution.run_state.bound
    path = problem.solution.save(tmp_path / "run.json")
    again.solve(resume=path)
    assert again.status == "optimal"
    assert again.value == pytest.approx(0.18745, abs=1e-4)
    assert again.solution.run_state is None or again.solution.run_state.bound >= bound


def test_other_problems_data_and_settings_are_refused(tmp_path):
    problem, path = stopped(tmp_path)
    other = stated(size=6)
    with pytest.raises(FileFormatError, match="another problem"):
        other.solve(resume=path)
    with pytest.raises(FileFormatError, match="another problem"):
        stated(has_rows=True).solve(resume=path)
    for wrong in ({"method": "alt-pbgd"}, {"tolerance": 1e-3}, {"step_x": 0.1}, {"seed": 3}):
        with pytest.raises(UnknownSettingError, match="resume"):
            problem.solve(resume=path, **wrong)
    with pytest.raises(UnknownSettingError, match="neither"):
        problem.solve(resume=3)


def test_parameters_must_have_the_values_that_they_had(tmp_path):
    weight, x, y = cp.Parameter(nonneg=True, value=1.0), cp.Variable(2), cp.Variable(2)
    lower = bm.Lower(cp.Minimize(weight * cp.sum_squares(y) + cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(x - 1) + cp.sum(y)), [], lower)
    problem.solve("meha", max_iterations=FEW)
    solution = problem.solution
    path = solution.save(tmp_path / "run.json")
    weight.value = 2.0
    for run in (solution, path):
        with pytest.raises(FileFormatError, match="values of (its|the) parameters"):
            problem.solve(resume=run)
    weight.value = 1.0
    problem.solve(resume=path, max_iterations=1)


def test_functions_are_given_again(tmp_path):
    problem, path = stopped(tmp_path, step_x=lambda k: 0.01 / (k + 1), step_y=0.01)
    with pytest.raises(UnknownSettingError, match="function"):
        problem.solve(resume=path)
    problem.solve(resume=path, max_iterations=3, step_x=lambda k: 0.01 / (k + 1))
    assert problem.solution.iterations == FEW + 3


def test_what_has_ended_is_not_resumed(tmp_path):
    problem = stated()
    problem.solve("alt-pbgd")
    with pytest.raises(FileFormatError, match="ended by itself"):
        problem.solve(resume=problem.solution)


def damaged(text: str) -> dict[str, str]:
    data = json.loads(text)
    state = data["run"]["data"]
    changed = {}

    def variant(name, change):
        copy = json.loads(text)
        change(copy)
        changed[name] = json.dumps(copy)

    variant("one digit", lambda d: d["run"]["data"].update(iterations=state["iterations"] + 1))
    variant("no checksum", lambda d: d["run"].pop("checksum"))
    variant("run is a word", lambda d: d.update(run="import os"))
    variant("run is a list", lambda d: d.update(run=[1, 2]))
    variant("later version", lambda d: d.update(version=99))
    changed["cut off"] = text[: len(text) // 2]
    changed["empty"] = ""
    changed["deep"] = "[" * 100_000
    changed["pickle"] = "cos\nsystem\n(S'true'\ntR."
    return changed


def resigned(text: str, change) -> str:
    """A file that was changed by somebody who knows about checksums."""
    from blomodel.methods.run.run_state import _checksum

    data = json.loads(text)
    change(data["run"]["data"])
    data["run"]["checksum"] = _checksum(data["run"]["data"])
    return json.dumps(data)


def test_damaged_files_are_refused(tmp_path):
    problem, path = stopped(tmp_path)
    for name, text in damaged(path.read_text()).items():
        (tmp_path / "damaged.json").write_text(text)
        with pytest.raises(FileFormatError):
            problem.solve(resume=tmp_path / "damaged.json")
        assert name


def test_forged_files_are_refused(tmp_path):
    problem, path = stopped(tmp_path)
    text = path.read_text()
    huge = {"float64": "AAAA", "shape": [10**12]}
    forgeries = [
        lambda s: s.update(fingerprint="0" * 64),
        lambda s: s.update(version="99.0"),
        lambda s: s["calls"][0]["state"].pop(),
        lambda s: s["calls"][0]["state"].__setitem__(0, huge),
        lambda s: s["calls"][0]["state"].__setitem__(0, "__import__('os')"),
        lambda s: s["calls"][0].update(left=-5),
        lambda s: s["calls"][0].update(extra=1),
        lambda s: s.update(start=[{"float64": "", "shape": [0]}, None]),
        lambda s: s.pop("calls"),
        lambda s: s.update(method="no such method"),
    ]
    for forge in forgeries:
        (tmp_path / "forged.json").write_text(resigned(text, forge))
        with pytest.raises(BlomodelError):
            problem.solve(resume=tmp_path / "forged.json")
    problem.solve(resume=path, max_iterations=1)  # nothing of it has stayed


def test_ctrl_c_leaves_a_run_that_goes_on(monkeypatch, tmp_path):
    from blomodel.methods.run.run import Run

    whole = stated()
    whole.solve("meha", max_iterations=40)
    step = Run.step

    def interrupted(self, count=1, **figures):
        if self.iterations + count >= 20:
            raise KeyboardInterrupt
        step(self, count, **figures)

    problem = stated()
    with monkeypatch.context() as patch:
        patch.setattr(Run, "step", interrupted)
        problem.solve("meha")
    assert problem.status == "interrupted"
    assert problem.solution.values
    path = problem.solution.save(tmp_path / "run.json")
    done = problem.solution.run_state.calls[-1]
    again = stated()
    again.solve(resume=path, max_iterations=40 - problem.solution.run_state.iterations)
    assert done.base + done.done >= 20
    assert digits(again.solution) == digits(whole.solution)
