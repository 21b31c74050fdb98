"""The catalogue: its table, names, and every model at its best known point."""

import numpy as np
import pytest

import blomodel as bm
from blomodel.errors import DataError
from blomodel.problems.catalogue import _plain

NAMES = bm.problems.list().names
LISTED = [entry.name for entry in bm.problems.list() if entry.best_y]
WITH_VALUE = [entry.name for entry in bm.problems.list() if entry.best_value is not None]
FEW = ["bard_1988_1", "conic_apex", "mitsos_barton_2006_3_14", "toll_setting_1", "penalty_example_4"]


def at_best_point(name):
    """The problem with its variables at the point that the catalogue lists."""
    problem = bm.problems.load(name)
    for variables, point in (
        (problem.levels.upper, problem.facts.best_x),
        (problem.levels.lower, problem.facts.best_y),
    ):
        ends = np.cumsum([variable.size for variable in variables])
        for variable, part in zip(variables, np.split(np.array(point), ends[:-1]), strict=False):
            variable.value = part.reshape(variable.shape, order="F")
    return problem


def violation(constraints):
    return max((float(np.max(row.violation())) for row in constraints), default=0.0)


def test_the_literature_and_the_papers_are_there():
    assert len(NAMES) >= 113 + 15
    assert NAMES == sorted(NAMES)
    assert len({_plain(name) for name in NAMES}) == len(NAMES)
    assert {entry.collection for entry in bm.problems.list()} == {
        "BOLIB",
        "BASBLib",
        "BilevelJuMP",
        "papers",
    }
    assert sum(entry.best_value is not None for entry in bm.problems.list()) >= 113


@pytest.mark.parametrize("name", NAMES)
def test_each_loads_with_the_sizes_that_it_lists(name):
    problem = bm.problems.load(name)
    assert isinstance(problem, bm.BilevelProblem)
    assert sum(variable.size for variable in problem.levels.upper) == problem.facts.n_upper
    assert sum(variable.size for variable in problem.levels.lower) == problem.facts.n_lower
    assert problem.facts.reference and problem.facts.name == name


@pytest.mark.parametrize("name", LISTED)
def test_the_best_point_is_feasible_and_has_the_best_value(name):
    problem = at_best_point(name)
    known = problem.facts.best_value
    scale = 1 + max(map(abs, problem.facts.best_x + problem.facts.best_y))
    assert problem.objective.value == pytest.approx(known, rel=2e-4, abs=2e-4)
    assert violation(problem.constraints) <= 2e-4 * scale
    assert violation(problem.followers[0].constraints) <= 2e-4 * scale


@pytest.mark.parametrize("name", FEW)
def test_the_best_point_is_one_that_the_follower_keeps(name):
    problem = bm.problems.load(name)
    known = problem.facts
    certificate = bm.certify(problem, known.best_x, known.best_y, tolerance=1e-3)
    assert certificate.lower_gap <= 1e-3


@pytest.mark.parametrize("name", FEW)
def test_solve_finds_the_best_value(name):
    problem = bm.problems.load(name)
    known = problem.facts.best_value
    assert problem.solve() <= known + 1e-3 * (1 + abs(known))
    assert problem.certificate.accepted


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_VALUE if name not in FEW])
def test_solve_finds_the_best_value_of_all(name):
    test_solve_finds_the_best_value(name)


def test_names_of_other_collections_are_understood():
    assert bm.problems.facts("Bard1988Ex2").name == "bard_1988_2"
    assert bm.problems.facts("MitsosBarton2006Ex38").name == "mitsos_barton_2006_3_08"
    with pytest.raises(DataError, match="did you mean 'bard_1988_1'"):
        bm.problems.load("bart_1988_1")
    with pytest.raises(DataError, match="BOLIB, BASBLib"):
        bm.problems.list(collection="bolib")


def test_the_table_and_the_card_are_readable():
    table = str(bm.problems.list())
    head = "name lower level upper lower best value source"
    assert table.splitlines()[0].split() == head.split()
    assert "bard_1988_1" in table and "-8.9172*" in table
    card = str(bm.problems.facts("dempe_1992_b"))
    assert "28.25, the optimum" in card and "KKT" in card
    assert "<td" in bm.problems.list(lower_class="conic")._repr_html_()


def test_the_table_as_a_frame():
    pytest.importorskip("pandas")
    frame = bm.problems.list(lower_class="QP").to_frame()
    assert frame.loc["bard_1988_1", "best_value"] == 17.0
    assert (frame["lower_class"] == "QP").all()


def test_sizes_of_a_family_can_be_chosen():
    assert bm.problems.load("meha_77", n=3).solve() == pytest.approx(0.75, abs=1e-6)
