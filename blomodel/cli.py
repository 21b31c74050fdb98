"""The command line: ``blomodel demo``, ``blomodel methods``, ``blomodel --version``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

# cvxpy and Numba are imported inside the commands, so that --version and --help answer at once and
# Ctrl-C during a slow import is caught like any other.
if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

INTERRUPTED = 130  # the exit code shells use for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return options.command(options)
    except KeyboardInterrupt:
        print("\nblomodel: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        print(f"blomodel: {error.strerror or error}: {error.filename}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="blomodel", description="Bilevel optimisation stated in cvxpy."
    )
    parser.add_argument("--version", action="version", version=f"blomodel {version('blomodel')}")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands")

    demo = commands.add_parser(
        "demo",
        help="solve two small problems, print answers and certificates, save a plot",
        description="Solve a scalar problem with two local solutions and a random bilevel QP with "
        "coupled constraints; print each model, answer and certificate; save a plot.",
    )
    demo.add_argument(
        "--output",
        type=Path,
        default=Path("."),
        metavar="DIR",
        help="folder for the plot (default: the current one); made if missing",
    )
    demo.add_argument("--no-plot", action="store_true", help="print only, save nothing")
    demo.set_defaults(command=_demo)

    methods = commands.add_parser(
        "methods",
        help="list the methods solve() can use",
        description="List the methods that problem.solve(method=...) accepts.",
    )
    methods.set_defaults(command=_methods)
    return parser


def _demo(options: argparse.Namespace) -> int:
    if not options.no_plot:
        options.output.mkdir(parents=True, exist_ok=True)  # fail before the work, not after it
    scalar = scalar_problem()
    _show(
        "1. A scalar problem with two local solutions",
        "The lower level follows 2x as closely as y <= x allows. The model is Example 4 of\n"
        '"Efficient Penalty-Based Bilevel Methods" by Jiang, Xiao, Chen and Chen.',
        scalar,
    )
    _show(
        "2. A random bilevel QP with coupled constraints",
        "The lower level is a QP whose right-hand side b + B x moves with the upper decision.",
        coupled_qp(),
    )
    if not options.no_plot:
        path = options.output / "blomodel_demo.png"
        scalar.plot(path=path)
        print(f"\nPlot of the first problem saved to {path.resolve()}")
    return 0


def _show(title: str, story: str, problem: BilevelProblem) -> None:
    """Print the model, solve it, print the answer with its certificate and times."""
    from blomodel.report import text

    print(f"\n{title}\n{'=' * len(title)}\n{story}\n")
    print(text.indent(text.model(problem)) + "\n")
    problem.solve()
    solution = problem.solution
    assert solution is not None  # solve() leaves one behind or raises
    if solution.stopped_by == "user":
        raise KeyboardInterrupt  # solve() keeps the best point; a demo should just end
    print(f"{text.answer(problem)}\n\n{problem.certificate}\n")
    print(
        f"times   compile {text.seconds(solution.compile_time)}, solve "
        f"{text.seconds(solution.solve_time)}, certify {text.seconds(solution.certify_time)}"
    )


def scalar_problem() -> BilevelProblem:
    """Example 4 of Jiang, Xiao, Chen and Chen: one variable at each level, coupled by y <= x."""
    import cvxpy as cp

    import blomodel as bm

    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    lower = bm.Lower(cp.Minimize((y - 2 * x) ** 2), [y <= x, 0 <= y, y <= 3], variables=[y])
    cost = cp.exp(2 - y) / (2 + cp.nlp.cos(4 * x)) + cp.log((4 * x - 2) ** 2 + 1) / 2 + x**2
    return bm.BilevelProblem(cp.Minimize(cost), [0 <= x, x <= 3], lower)


def coupled_qp(n: int = 10, seed: int = 2) -> BilevelProblem:
    """A random bilevel QP: strongly convex lower level, right-hand side affine in x.

    With the default seed three of the ten coupled constraints bind at the solution; with seed 0 none.
    """
    import cvxpy as cp
    import numpy as np

    import blomodel as bm

    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    Q = cp.Constant(root @ root.T / n + np.eye(n), name="Q")
    C = cp.Constant(rng.standard_normal((n, n)) / np.sqrt(n), name="C")
    A = cp.Constant(rng.standard_normal((n, n)) / np.sqrt(n), name="A")
    B = cp.Constant(0.3 * rng.standard_normal((n, n)) / np.sqrt(n), name="B")
    b = cp.Constant(rng.uniform(0.2, 1.0, n), name="b")
    x_wanted = cp.Constant(rng.standard_normal(n), name="x_wanted")
    y_wanted = cp.Constant(rng.standard_normal(n), name="y_wanted")

    x, y = cp.Variable(n, name="x"), cp.Variable(n, name="y")
    lower = bm.Lower(
        cp.Minimize(0.5 * cp.quad_form(y, Q) + (C @ x) @ y), [A @ y <= b + B @ x], variables=[y]
    )
    distance = 0.5 * cp.sum_squares(x - x_wanted) + 0.5 * cp.sum_squares(y - y_wanted)
    return bm.BilevelProblem(cp.Minimize(distance), [-5 <= x, x <= 5], lower)


def _methods(options: argparse.Namespace) -> int:
    import blomodel.solving  # noqa: F401 - registers the methods
    from blomodel.methods.registry import methods
    from blomodel.report import text

    print(text.methods(methods()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
