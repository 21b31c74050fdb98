"""Imports flow downwards: kernels at the bottom, the command line on top, no cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from blomodel.methods.run.registry import method_classes

ROOT = Path(__file__).resolve().parents[2]

# The rooms of the house, the lowest first. A module may import from its own room and from those before
# it, inside functions too. "" is the package itself, where users find the public names.
ORDER = (
    "errors",
    "status",
    "basics",
    "text",
    "_source_tree",
    "kernels",
    "kernels.loops",
    "compiler",
    "atoms",
    "compiler.expressions",
    "compiler.passes",
    "solvers.systems",
    "solvers",
    "solvers.branching",
    "programs",
    "declare",
    "model",
    "files",
    "transformations",
    "structure",
    "reformulations.forms",
    "reformulations",
    "methods.run",
    "methods.search",
    "methods.first_order",
    "methods.requirements",
    "methods",
    "methods.portfolio",
    "certification",
    "report",
    "solution",
    "solve",
    "studies",
    "problem",
    "comparison",
    "problems",
    "experiments",
    "sklearn",
    "",
    "cli",
    "__main__",
)
MAX_FILES = 25  # in one folder
MAX_LOOSE_FILES = 10  # directly in blomodel/


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


@cache
def _text(name: str) -> str:
    return MODULES[name].read_text(encoding="utf-8")


@cache
def _tree(name: str) -> ast.Module:
    return ast.parse(_text(name))


def _statements(tree: ast.AST, lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements; inside functions only if ``lazy``, for type checkers never."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif lazy or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(node, lazy)


@cache
def _imports(name: str, lazy: bool) -> set[str]:
    """Full names of what a module imports; a name imported from a package counts as its module."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in _statements(_tree(name), lazy):
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


def _room(name: str) -> str:
    """The room that a module lies in: the longest entry of ORDER that its name begins with."""
    inside = name.removeprefix("blomodel").removeprefix(".")
    return max((room for room in ORDER if room and _within(inside, room)), key=len, default="")


def test_imports_flow_downwards(capsys: pytest.CaptureFixture[str]) -> None:
    arrows = [
        (name, imported)
        for name in MODULES
        if name != "blomodel"  # shows the public names of all rooms
        for imported in sorted(_imports(name, lazy=True))
        if imported in MODULES
    ]
    upward = [
        f"{name} imports {imported}"
        for name, imported in arrows
        if ORDER.index(_room(imported)) > ORDER.index(_room(name))
    ]
    with capsys.disabled():
        print(f" [{len(arrows)} imports between modules, {len(upward)} of them upwards]", end="")
    assert not upward, "\n".join(upward)


def test_every_room_is_in_the_list() -> None:
    strangers = [name for name in MODULES if _room(name) == "" and name != "blomodel"]
    assert not strangers, f"give these a place in ORDER: {strangers}"
    empty = [room for room in ORDER if not any(_room(name) == room for name in MODULES)]
    assert not empty, f"no module lies in these rooms: {empty}"


def _files_of(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.py") if path.name != "__init__.py"]


def test_no_folder_is_crowded() -> None:
    folders = {path.parent for path in MODULES.values()}
    sizes = {str(folder.relative_to(ROOT)): len(_files_of(folder)) for folder in folders}
    assert max(sizes.values()) <= MAX_FILES, sizes
    assert len(list((ROOT / "blomodel").glob("*.py"))) <= MAX_LOOSE_FILES


def test_every_folder_says_what_lives_in_it() -> None:
    silent = [
        name
        for name, path in MODULES.items()
        if path.name == "__init__.py" and not ast.get_docstring(_tree(name))
    ]
    assert not silent


def test_every_file_of_methods_is_a_method() -> None:
    homes = {cls.__module__ for cls in method_classes().values()}
    files = {f"blomodel.methods.{path.stem}" for path in _files_of(ROOT / "blomodel" / "methods")}
    assert files <= homes, f"these register no method: {sorted(files - homes)}"


@pytest.mark.parametrize(
    ("word", "home"),
    [
        ("own_pairs", "blomodel.model.conditions"),  # who holds the lower level's multipliers
        ("kink_free", "blomodel.transformations.kinks"),  # whether a model had kinks
    ],
)
def test_special_cases_are_known_in_their_own_file_only(word: str, home: str) -> None:
    knowing = [name for name in MODULES if word in _text(name)]
    assert knowing == [home]


def test_kernels_do_not_know_cvxpy() -> None:
    allowed = {"numba", "numpy", "math", "__future__", "typing", "collections", "os", "pathlib"}
    allowed |= {"llvmlite", "ctypes", "_thread"}  # kernels.linked calls compiled code by address,
    allowed |= {"sys", "time"}  # and looks whether a thread has come back from it
    wrong = [
        f"{name} imports {imported}"
        for name in MODULES
        if _within(name, "blomodel.kernels")
        for imported in _imports(name, lazy=True)
        if not _within(imported, "blomodel.kernels") and imported.split(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_loops_do_not_import_one_another() -> None:
    # kernels.jit drops cached loops when a file directly in kernels/ changes, but not for another loop
    loops = [
        name for name in MODULES if _room(name) == "kernels.loops" and name != "blomodel.kernels.loops"
    ]
    wrong = [
        f"{name} imports {imported}"
        for name in loops
        for imported in _imports(name, lazy=True)
        if imported in loops
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_jit_module_calls_numba_njit() -> None:
    # one place sets the compiler's flags and the cache for all kernels
    wrong = [
        name
        for name in MODULES
        if name != "blomodel.kernels.jit" and "njit" in _text(name)
        for node in ast.walk(_tree(name))
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
