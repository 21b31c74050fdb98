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
    from blomodel.problems.penalty_paper import example_4
    from blomodel.problems.random_families import coupled_qp

    if not options.no_plot:
        options.output.mkdir(parents=True, exist_ok=True)  # fail before the work, not after it
    scalar = example_4()
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
    from blomodel.text import layout

    print(f"\n{title}\n{'=' * len(title)}\n{story}\n")
    print(layout.indent(text.model(problem)) + "\n")
    problem.solve()
    solution = problem.solution
    assert solution is not None  # solve() leaves one behind or raises
    if solution.stopped_by == "user":
        raise KeyboardInterrupt  # solve() keeps the best point; a demo should just end
    print(f"{text.answer(problem)}\n\n{problem.certificate}\n")
    print(
        f"times   compile {layout.seconds(solution.compile_time)}, solve "
        f"{layout.seconds(solution.solve_time)}, certify {layout.seconds(solution.certify_time)}"
    )


def _methods(options: argparse.Namespace) -> int:
    from blomodel.methods.run.registry import methods
    from blomodel.report import text

    print(text.methods(methods()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
