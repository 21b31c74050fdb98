"""solve() end to end, on problems whose answers are known."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import blomodel as bm
from blomodel.problems.penalty_paper import example_4


def test_example_4_without_any_setting():
    problem = example_4()
    x, y = problem.variables
    value = problem.solve()
    assert value == pytest.approx(2.654498, abs=1e-6)
    assert x.value == pytest.approx(0.300705, abs=1e-5)
    assert y.value == pytest.approx(0.300705, abs=1e-5)
    assert problem.status == "optimal"
    assert value - 2e-4 <= problem.certificate.bound <= value


@cache
def by_blocc(gamma, eta):
    """Example 4 after steps from x = 0.5."""
    problem = example_4()
    problem.variables[0].value = 0.5
    problem.solve(method="blocc", gamma=gamma, step_size=eta, max_steps=20000)
    return problem


@pytest.mark.parametrize("gamma", [10.0, pytest.param(100.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("step", ["large", "safe"])
def test_blocc_converges_on_example_4_as_the_paper_says(gamma, step):
    """Figure 10: step 0.05 and step 1/(10 gamma) both converge, whatever gamma."""
    problem = by_blocc(gamma, 0.05 if step == "large" else 1 / (10 * gamma))
    assert problem.variables[0].value == pytest.approx(0.300705, abs=2.0 / gamma)
    assert problem.solution.stopped_by is None
    assert problem.solution.history["stationarity"][-1] < 1e-5


def test_blocc_larger_step_needs_fewer_iterations():
    iterations = {eta: by_blocc(100.0, eta).solution.iterations for eta in (0.05, 1e-3)}
    assert iterations[0.05] < iterations[1e-3] / 3


def test_senses_at_both_levels():
    """The same problem in all four combinations of senses has the same answer."""
    answers = []
    for upper_sense in (cp.Minimize, cp.Maximize):
        for lower_sense in (cp.Minimize, cp.Maximize):
            x, y = cp.Variable(name="x"), cp.Variable(name="y")
            f, g = (x - 3) ** 2 + (y - 2) ** 2, (y - 5) ** 2
            f = f if upper_sense is cp.Minimize else -f
            g = g if lower_sense is cp.Minimize else -g
            lower = bm.Lower(
                lower_sense(g),
                [-2 * x + y <= 1, x - 2 * y <= -2, x + 2 * y <= 14],
                variables=[y],
            )
            problem = bm.BilevelProblem(upper_sense(f), [0 <= x, x <= 8], lower)
            value = problem.solve()
            assert value == pytest.approx(5.0 if upper_sense is cp.Minimize else -5.0, abs=1e-6)
            answers.append((float(x.value), float(y.value)))
    np.testing.assert_allclose(answers, [(1.0, 3.0)] * 4, atol=1e-6)


def test_duals_of_lower_constraints_are_filled():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    bound = y <= x
    lower = bm.Lower(cp.Minimize((y - 2) ** 2), [bound], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2), [], lower)
    problem.solve()
    assert y.value == pytest.approx(1.0, abs=1e-6)
    assert bound.dual_value == pytest.approx(2.0, abs=1e-5)
    assert problem.solution.multipliers[0] == pytest.approx(2.0, abs=1e-5)


def test_duals_of_a_cone_are_filled_part_by_part():
    """The nearest point of the unit ball to (3, 4) is (0.6, 0.8); the distance's slope is 2 * 4."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    ball = cp.SOC(x, y)
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - np.array([3.0, 4.0]))), [ball], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 1) ** 2), [x >= 0.5], lower)
    problem.solve()
    np.testing.assert_allclose(y.value, [0.6, 0.8], atol=1e-5)
    bound, vector = (variable.value for variable in ball.dual_variables)
    assert bound == pytest.approx(8.0, abs=1e-3)
    np.testing.assert_allclose(np.ravel(vector), [-4.8, -6.4], atol=1e-3)


def test_matrix_variables_and_attributes():
    """The lower level projects X onto the nonnegative matrices; the upper wants Y near a target."""
    target = np.array([[1.0, -1.0], [2.0, 0.5]])
    x = cp.Variable((2, 2), name="X")
    y = cp.Variable((2, 2), nonneg=True, name="Y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize(cp.sum_squares(y - target) + 0.01 * cp.sum_squares(x)), [], lower
    )
    problem.solve()
    expected = np.maximum(target, 0) / 1.01
    np.testing.assert_allclose(y.value, expected, atol=1e-5)
    assert x.value.shape == (2, 2)


def test_upper_attributes_are_constraints():
    x = cp.Variable(2, name="x", bounds=[0.5, 2.0])
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [], lower)
    assert problem.solve() == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(x.value, 0.5, atol=1e-6)


def test_parameter_changes_without_compiling_again():
    limit = cp.Parameter(name="limit", value=1.0)
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= limit], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 3) ** 2), [x <= 4], lower)
    problem.solve()
    assert (x.value, y.value) == (pytest.approx(2.0, abs=1e-5), pytest.approx(1.0, abs=1e-5))
    model, program = problem.model, problem.model.lower_program
    limit.value = 10.0
    problem.solve()
    # y = 2x: minimise (x-2)^2 + (2x-3)^2, x = 8/5
    assert x.value == pytest.approx(1.6, abs=1e-5)
    assert y.value == pytest.approx(3.2, abs=1e-5)
    assert problem.model is model and model.lower_program is program


def test_parametric_bounds_of_x_are_read_again():
    top = cp.Parameter(name="top", value=1.0)
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(y), [0 <= x, x <= top], lower)
    assert problem.solve() == pytest.approx(1.0, abs=1e-6)
    top.value = 5.0
    assert problem.solve() == pytest.approx(5.0, abs=1e-6)


def test_equalities_at_both_levels():
    x, y = cp.Variable(2, name="x"), cp.Variable(3, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y)), [cp.sum(y) == cp.sum(x)], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [x[0] - x[1] == 1], lower)
    assert problem.solve() == pytest.approx(0.0, abs=1e-8)
    np.testing.assert_allclose(x.value, [2.0, 1.0], atol=1e-4)
    assert problem.status == "optimal"


def test_upper_constraint_on_the_lower_answer():
    """y = x, but the upper level insists on y >= 1."""
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 2], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x**2), [y >= 1], lower)
    problem.solve()
    assert x.value == pytest.approx(1.0, abs=1e-5)


def test_optimistic_choice_among_lower_minimisers():
    """The lower level only fixes y1 + y2; the upper level prefers y2."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(y)), [y >= 0, cp.sum(y) >= 1 - x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((x - 0.25) ** 2 + cp.exp(y[0])), [0 <= x, x <= 1], lower)
    problem.solve()
    assert problem.value == pytest.approx(1.0, abs=1e-5)
    assert x.value == pytest.approx(0.25, abs=1e-3)
    np.testing.assert_allclose(y.value, [0.0, 0.75], atol=1e-3)


def test_curved_upper_set():
    x, y = cp.Variable(2, name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), [y >= -5], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(cp.sum(y)), [cp.norm(x, 2) <= 1], lower)
    assert problem.solve() == pytest.approx(np.sqrt(2), abs=1e-5)
    np.testing.assert_allclose(x.value, np.sqrt(0.5), atol=1e-3)


def test_semidefinite_upper_set():
    x = cp.Variable((2, 2), symmetric=True, name="X")
    y = cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - cp.trace(x)) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(y), [x >> 0, x[0, 1] == 1, cp.sum_squares(x) <= 100], lower)
    assert problem.solve() == pytest.approx(2.0, abs=1e-3)


def test_semidefinite_lower_level():
    """Y = (t/2 - 1/40) times the matrix of ones, so t minimises (t/2 - 13/40)^2 + t^2/100: t = 5/8."""
    t, y = cp.Variable(name="t"), cp.Variable((2, 2), PSD=True, name="Y")
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - t * swap) + 0.1 * cp.trace(y)), [], variables=[y])
    problem = bm.BilevelProblem(
        cp.Minimize((y[0, 1] - 0.3) ** 2 + 0.01 * t**2), [t >= -2, t <= 2], lower
    )
    assert problem.solve() == pytest.approx(0.0040625, abs=1e-6)
    assert t.value == pytest.approx(0.625, abs=1e-3)
    np.testing.assert_allclose(y.value, 0.2875, atol=1e-3)
    assert problem.certificate.accepted


def test_conic_lower_level_with_exponential_and_norm():
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(cp.sum(cp.exp(y)) - x * y[0]), [cp.norm(y, 2) <= 1 + x], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize((y[0] - 0.2) ** 2 + 0.1 * x**2), [0.1 <= x, x <= 3], lower)
    value = problem.solve()
    assert problem.certificate.accepted
    grid, inner, at = [], cp.Variable(2), cp.Parameter()
    below = cp.Problem(cp.Minimize(cp.sum(cp.exp(inner)) - at * inner[0]), [cp.norm(inner, 2) <= 1 + at])
    for trial in np.linspace(0.1, 3, 60):
        at.value = trial
        below.solve(solver=cp.CLARABEL)
        grid.append((inner.value[0] - 0.2) ** 2 + 0.1 * trial**2)
    assert value <= min(grid) + 1e-6


def test_infeasible_problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [x + y >= 3, x <= 1, y <= 1], lower)
    assert problem.solve() == np.inf
    assert problem.status == "infeasible"
    assert x.value is None


def test_infeasible_because_every_lower_answer_breaks_an_upper_constraint():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize(y), [y >= x, y <= 4], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(x), [0 <= x, x <= 1, y >= 2], lower)
    assert problem.solve() == np.inf
    assert problem.status == "infeasible"


def test_unbounded_problem():
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - x) ** 2), [y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(-y), [x >= 0], lower)
    assert problem.solve() == -np.inf
    assert problem.status == "unbounded"


def test_iteration_limit_keeps_the_best_point():
    problem = example_4()
    x, _ = problem.variables
    problem.solve(max_iterations=2)
    assert problem.solution.stopped_by == "iteration limit"
    assert problem.solution.iterations == 2
    assert x.value is None or problem.certificate is not None


def test_interrupted_solve_keeps_the_best_point(monkeypatch):
    from blomodel.methods.run.run import Run

    problem = example_4()
    x, _ = problem.variables
    original = Run.step

    def interrupting(self, **figures):
        original(self, **figures)
        if self.iterations == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "step", interrupting)
    problem.solve()
    assert problem.status == "interrupted"
    assert problem.solution.stopped_by == "user"
    assert x.value is not None
    assert problem.certificate.accepted


def test_same_seed_same_answer():
    values = []
    for _ in range(2):
        problem = example_4()
        x, _ = problem.variables
        problem.solve(seed=3)
        values.append(float(x.value))
    assert values[0] == values[1]


def test_start_point_is_used():
    problem = example_4()
    x, _ = problem.variables
    x.value = 2.9
    problem.solve(method="blocc", gamma=10.0, step_size=1e-9, max_steps=1)
    assert problem.solution.history["x"][0] == pytest.approx(2.9)


def test_verbose_prints_lines_on_the_way(capsys):
    problem = example_4()
    _, _ = problem.variables
    problem.solve(method="blocc", gamma=10.0, step_size=0.05, verbose=True, max_iterations=3)
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) >= 3
    assert "value" in lines[-1]


def test_solution_reports_the_work():
    problem = example_4()
    _, _ = problem.variables
    problem.solve()
    solution = problem.solution
    assert solution.method == "auto"
    assert solution.iterations > 0
    assert solution.evaluations > 0
    assert min(solution.compile_time, solution.solve_time, solution.certify_time) >= 0
    assert len(solution.history["time"]) == solution.iterations


def test_problem_without_upper_variables_chooses_among_lower_minimisers():
    """A simple bilevel problem: of all y with y1 + y2 = 1 take the one nearest to (1, 1)."""
    y = cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize((y[0] + y[1] - 1) ** 2), [], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1)), [], lower)
    assert problem.solve() == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(y.value, 0.5, atol=1e-6)
    assert problem.status == "optimal"


def test_pricing_problem_is_solved_globally():
    """Sell at price x against a rival at 3; the buyer takes the cheaper offer (optimistic at 3)."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    lower = bm.Lower(cp.Minimize(x * y[0] + 3 * y[1]), [cp.sum(y) == 1, y >= 0], variables=[y])
    problem = bm.BilevelProblem(cp.Maximize(x * y[0]), [x >= 0], lower)
    assert problem.solve() == pytest.approx(3.0, abs=1e-5)
    assert problem.status == "optimal"


def test_iterate_is_where_the_method_itself_ended():
    """f + 3 g is least at x = 3/7, y = 4/7; the lower level answers y = x."""
    x, y = cp.Variable(name="x"), cp.Variable((1, 2), name="y")
    lower = bm.Lower(cp.Minimize(cp.sum_squares(y - x)), variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y - 1) + 2 * x**2), [], lower)
    problem.solve("pbgd", gamma=3.0)
    own = problem.solution.iterate
    assert own["x"] == pytest.approx(3 / 7, abs=1e-4)
    assert own["y"] == pytest.approx(np.full((1, 2), 4 / 7), abs=1e-4)
    np.testing.assert_allclose(y.value, np.full((1, 2), x.value), atol=1e-6)
    assert problem.certificate.accepted
    own["y"][:] = 0.0  # a copy: the answer does not change with it
    assert y.value[0, 0] == pytest.approx(3 / 7, abs=1e-4)
    problem.solve()
    assert problem.solution.iterate == {}  # several points, not one that moves
