"""Imports flow downwards: kernels at the bottom, the command line on top, no cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What each part of the library must not import, because it lies above it or beside it.
ABOVE = (
    "problem",
    "solving",
    "solution",
    "certificate",
    "methods",
    "reformulations",
    "report",
    "cli",
)
FORBIDDEN = {
    "blomodel.errors": ("",),
    "blomodel.status": ("",),
    "blomodel.kernels": ("",),
    "blomodel.compiler": ABOVE,
    "blomodel.inner": ABOVE,
    "blomodel.analysis": ABOVE,
    "blomodel.reformulations": tuple(name for name in ABOVE if name != "reformulations"),
    "blomodel.methods": ("problem", "solving", "solution", "certificate", "report", "cli"),
    "blomodel.certificate": ("problem", "solving", "methods", "report", "cli"),
    "blomodel.lower_check": ("problem", "solving", "certificate", "methods", "report", "cli"),
    "blomodel.outcome": ("problem", "solving", "report", "cli"),
    "blomodel.solution": ("problem", "solving", "methods", "report", "cli"),
    "blomodel.solving": ("problem", "report", "cli"),
    "blomodel.problem": ("report", "cli"),
    "blomodel.report": ("problem", "solving", "methods", "cli"),
}

# Arrows against the rule, with the reason; all of them inside functions or for a single fact.
EXCEPTIONS = {
    ("blomodel.methods", "blomodel.solving"): "bm.methods() lists what solving registers",
    ("blomodel.certificate", "blomodel.report.certificate_text"): "str(certificate) delegates",
    ("blomodel.certificate", "blomodel.report.html"): "notebooks show a table",
    ("blomodel.analysis.structure", "blomodel.report.html"): "notebooks show a table",
    ("blomodel.solution", "blomodel.report.background"): "what a report says of the problem",
    ("blomodel.solution", "blomodel.report.convergence"): "solution.plot() delegates",
    ("blomodel.solution", "blomodel.report.html"): "notebooks show a table",
    ("blomodel.solution", "blomodel.report.page"): "solution.report() delegates",
    ("blomodel.problem", "blomodel.report.model_math"): "notebooks show the model",
    ("blomodel.problem", "blomodel.report.problem_plot"): "problem.plot() delegates",
    ("blomodel.report.background", "blomodel.methods.auto"): "a report tells what auto chose",
    **{
        ("blomodel.reformulations.reformulation", f"blomodel.report.{part}"): "writes its formula"
        for part in ("mathematics", "notation")
    },
}


def _modules() -> dict[str, Path]:
    """Every module of the library by the name it is installed under."""
    found = {}
    for folder, package in (
        (ROOT / "blomodel", "blomodel"),
        (ROOT / "kernels", "blomodel.kernels"),
    ):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join([package, *parts])] = path
    return found


MODULES = _modules()


def _statements(tree: ast.AST, lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements; inside functions only if ``lazy``, for type checkers never."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(node, lazy)


def _imports(name: str, lazy: bool) -> set[str]:
    """Full names of what a module imports; a name imported from a package counts as its module."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")), lazy):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = node.module or ""
        if node.level:
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        for alias in node.names:
            member = f"{base}.{alias.name}"
            found.add(member if member in MODULES else base)
    return found


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_flow_downwards(package: str) -> None:
    wrong = [
        f"{name} imports {imported}"
        for name in MODULES
        if _within(name, package)
        for imported in _imports(name, lazy=True)
        if not _within(imported, package)
        and (name, imported) not in EXCEPTIONS
        and any(
            _within(imported, f"blomodel.{upper}" if upper else "blomodel")
            for upper in FORBIDDEN[package]
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_exceptions_are_still_needed() -> None:
    stale = [pair for pair in EXCEPTIONS if pair[1] not in _imports(pair[0], lazy=True)]
    assert not stale, f"remove from EXCEPTIONS: {stale}"


def test_kernels_do_not_know_cvxpy() -> None:
    allowed = {"numba", "numpy", "math", "__future__", "typing", "collections", "os", "pathlib"}
    allowed |= {"llvmlite", "ctypes", "_thread"}  # kernels.linked calls compiled code by address
    wrong = [
        f"{name} imports {imported}"
        for name in MODULES
        if _within(name, "blomodel.kernels")
        for imported in _imports(name, lazy=True)
        if not _within(imported, "blomodel.kernels") and imported.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_jit_module_calls_numba_njit() -> None:
    # one place sets the compiler's flags and the cache for all kernels
    wrong = [
        name
        for name, path in MODULES.items()
        if name != "blomodel.kernels.jit"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.ImportFrom)
        and ("numba.njit" in ast.unparse(node) or "from numba import njit" in ast.unparse(node))
    ]
    assert not wrong, f"use blomodel.kernels.jit instead of numba.njit in {wrong}"


def test_no_import_cycles() -> None:
    graph = {
        # a package's __init__ gathers what lies below it; the arrow from a module to its own
        # package is how Python loads modules, not a dependency
        name: {
            imported
            for imported in _imports(name, lazy=False)
            if imported in MODULES and imported != name and not _within(name, imported)
        }
        for name in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " -> ".join(error.args[1]))


def test_nobody_imports_matplotlib_or_casadi_at_import_time() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name in MODULES
        for imported in _imports(name, lazy=False)
        if imported.split(".")[0] in ("matplotlib", "casadi")
    ]
    assert not wrong, "\n".join(wrong)
