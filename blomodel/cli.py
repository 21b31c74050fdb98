"""The command line: ``blomodel solve model.py``, ``explain``, ``problems``, ``methods``, ``demo``."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

# cvxpy and Numba are imported inside the commands, so that --version and --help answer at once and
# Ctrl-C during a slow import is caught like any other.
if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem

INTERRUPTED = 130  # the exit code shells use for Ctrl-C
UNREAD = 141  # and for a pipe whose reader went away


class _Refusal(Exception):
    """What was asked for cannot be done; its text is for the user."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        code = options.command(options)
        sys.stdout.flush()  # so that a reader who has gone away is noticed here
        return code
    except BrokenPipeError:  # "| head" has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except _Refusal as refusal:
        print(f"blomodel: {refusal}", file=sys.stderr)
        return 1
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

    solve = commands.add_parser(
        "solve",
        help="solve the problem that a Python file states",
        description="Run a Python file, solve the bm.BilevelProblem that it names 'problem' (or its "
        "only one), and print the answer with its certificate. The exit code is 0 when there is an "
        "accepted answer, else 1.",
    )
    _model_arguments(solve)
    solve.add_argument("--method", default="auto", help="see 'blomodel methods' (default: auto)")
    solve.add_argument("--time-limit", type=float, metavar="SECONDS")
    solve.add_argument("--verbose", action="store_true", help="show progress")
    solve.add_argument(
        "--report", type=Path, metavar="FILE", help="write a page (HTML) about the answer"
    )
    solve.set_defaults(command=_solve)

    explain = commands.add_parser(
        "explain",
        help="tell what the problem of a Python file is and which methods apply",
        description="Run a Python file and print what is recognised about its problem, which methods "
        "apply, and what solve() would do. Nothing is solved.",
    )
    _model_arguments(explain)
    explain.set_defaults(command=_explain)

    problems = commands.add_parser(
        "problems",
        help="list the literature's problems, or show one",
        description="List the problems that bm.problems.load(...) states, or show one: where it comes "
        "from, its best known value, and the model.",
    )
    problems.add_argument("name", nargs="?", metavar="NAME", help="the problem to show")
    problems.set_defaults(command=_problems)

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


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", type=Path, metavar="MODEL.py", help="a Python file that states a problem"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the problem's name in the file, if it has several"
    )


def _stated_problem(path: Path, name: str | None) -> BilevelProblem:
    """Run a Python file and return the problem that it states."""
    from blomodel.problem import BilevelProblem

    if not path.is_file():
        raise _Refusal(f"there is no file {path}")
    arguments, sys.argv = sys.argv, [str(path)]
    sys.path.insert(0, str(path.resolve().parent))  # where a script finds its neighbours
    try:
        # Not "__main__": what a script does only when it is run, such as solving, is left out.
        names = runpy.run_path(str(path), run_name="blomodel_model")
    except (Exception, SystemExit) as error:
        own = [
            frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
        ]
        line = f", line {own[-1].lineno}" if own else ""
        raise _Refusal(f"{path}{line} stopped with {type(error).__name__}: {error}") from error
    finally:
        sys.argv = arguments
        sys.path.pop(0)
    problems = {key: value for key, value in names.items() if isinstance(value, BilevelProblem)}
    wanted = name or ("problem" if "problem" in problems or len(problems) != 1 else next(iter(problems)))
    if wanted in problems:
        return problems[wanted]
    if not problems:
        raise _Refusal(
            f"{path} states no problem: give a bm.BilevelProblem the name 'problem' at the level of the "
            "module, not inside a function"
        )
    listed = ", ".join(sorted(problems))
    if name:
        raise _Refusal(f"{path} has no problem '{name}'; it has {listed}")
    raise _Refusal(f"{path} states several problems ({listed}): choose one with --name")


def _solve(options: argparse.Namespace) -> int:
    from blomodel.errors import BlomodelError
    from blomodel.report import text

    problem = _stated_problem(options.model, options.name)
    if problem.solution is not None and problem.solution.stopped_by == "user":
        raise KeyboardInterrupt  # the file's own solve() was interrupted: nobody waits for another one
    try:
        problem.solve(options.method, time_limit=options.time_limit, verbose=options.verbose)
    except BlomodelError as error:
        raise _Refusal(f"{type(error).__name__}: {error}") from error
    solution = problem.solution
    assert solution is not None  # solve() leaves one behind or raises
    if solution.status.has_point:
        print(text.answer(problem))
    else:
        print(f"{solution.status}: {solution.status.meaning}")
    if problem.certificate is not None:
        print(f"\n{problem.certificate}")
    if options.report:
        print(f"\nReport saved to {solution.report(options.report).resolve()}")
    is_accepted = problem.certificate is not None and problem.certificate.accepted
    return 0 if solution.status.has_point and is_accepted else 1


def _explain(options: argparse.Namespace) -> int:
    from blomodel.errors import BlomodelError

    problem = _stated_problem(options.model, options.name)
    try:
        print(problem.explain())
    except BlomodelError as error:
        raise _Refusal(f"{type(error).__name__}: {error}") from error
    return 0


def _problems(options: argparse.Namespace) -> int:
    from blomodel import problems
    from blomodel.errors import DataError
    from blomodel.report import text
    from blomodel.text import layout

    if options.name is None:
        print(problems.list())
        return 0
    try:
        problem = problems.load(options.name)
    except DataError as error:
        raise _Refusal(str(error).replace("bm.problems.list()", "'blomodel problems'")) from error
    print(f"{problem.facts}\n\n{layout.indent(text.model(problem))}")
    return 0


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
