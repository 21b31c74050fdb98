"""Solutions as dicts, as JSON and in files, and as tables."""

import json
import math

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import FileFormatError, MissingPackageError


@pytest.fixture(scope="module")
def problem():
    t, y = cp.Variable(name="t"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - (10 - t))), [0 <= y], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(t * cp.sum(y)), [0 <= t, t <= 10], lower)
    problem.solve(method="reduced-penalty")
    return problem


def test_what_is_saved_is_read(problem, tmp_path):
    solution = problem.solution
    found = bm.load_solution(solution.save(tmp_path / "answer.json"))
    assert found.problem is None
    assert json.loads(found.to_json()) == json.loads(solution.to_json())
    assert found.value == solution.value and found.status is solution.status
    assert np.array_equal(found.values["y"], solution.values["y"])
    assert found.history.keys() == solution.history.keys()
    for name, figures in solution.history.items():
        assert np.array_equal(found.history[name], figures, equal_nan=True)
    assert str(found.certificate) == str(solution.certificate)
    assert str(found) == str(solution)
    assert found.plot() is not None and found._repr_html_()


def test_json_is_json_by_the_book(problem):
    def refuse(word):
        raise AssertionError(word)

    text = problem.solution.to_json()
    data = json.loads(text, parse_constant=refuse)
    assert data["format"] == "blomodel solution" and data["value"] == problem.value
    assert json.loads(json.dumps(problem.solution.to_dict()["values"])) == data["values"]


def test_a_solve_without_an_answer_is_saved_with_its_reason(tmp_path):
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 1, y <= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [], lower)
    problem.solve()
    found = bm.load_solution(problem.solution.save(tmp_path / "none.json"))
    assert found.value == math.inf and found.status == problem.status
    assert found.no_answer.sentence == problem.solution.no_answer.sentence
    assert found.certificate is None


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "line .* not JSON"),
        (lambda text: "", "not JSON"),
        (lambda text: "[1, 2]", "not a solution"),
        (lambda text: text.replace("blomodel solution", "other"), "not a solution"),
        (lambda text: text.replace('"version": 1', '"version": 99'), "version 99"),
        (lambda text: text.replace('"iterations"', '"iteration_s"'), "'iterations' is missing"),
        (lambda text: text.replace('"stopped_by": null', '"stopped_by": 3'), "3 stands where"),
        (lambda text: text.replace('"accepted": true', '"accepted": "yes"'), "'yes' stands where"),
        (lambda text: text.replace('"claim": "', '"claim": "very_'), "damaged"),
    ],
)
def test_a_damaged_file_is_refused(problem, tmp_path, damage, said):
    path = problem.solution.save(tmp_path / "answer.json")
    text = path.read_text(encoding="utf-8")
    path.write_text(damage(text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    with pytest.raises(FileFormatError, match=said):
        bm.load_solution(path)


def test_a_pickle_is_not_opened(tmp_path):
    path = tmp_path / "answer.json"
    path.write_bytes(b"\x80\x04\x95\xff\x00")
    with pytest.raises(FileFormatError, match="no text file"):
        bm.load_solution(path)
    with pytest.raises(FileNotFoundError):
        bm.load_solution(tmp_path / "nowhere.json")


def test_the_history_is_a_table_in_the_users_sense(problem):
    pandas = pytest.importorskip("pandas")
    frame = problem.solution.history_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert {"time", "iteration", "value", "x[0]"} <= set(frame.columns)
    assert len(frame) == len(problem.solution.history["time"])
    assert frame["value"].iloc[-1] > 0  # a revenue, though methods minimise its negative


def test_a_comparison_is_a_table(problem):
    pytest.importorskip("pandas")
    frame = bm.compare(problem, ["auto", "kkt-mip"]).to_frame()
    assert list(frame["method"]) == ["auto", "kkt-mip"]
    assert frame["value"][0] == pytest.approx(50.0, rel=1e-4)
    assert frame["value"].dtype.kind == "f"


def test_without_pandas_it_is_named(problem, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match="pip install pandas"):
        problem.solution.history_frame()
