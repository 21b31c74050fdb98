"""The shape of the tree: short files, no paths of one machine, packages and docs complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("blomodel", "kernels", "tests", "examples", "docs", ".ci")
SUFFIXES = {".py", ".md", ".toml", ".cff", ".cfg", ".txt", ".json", ".yml", ".yaml", ""}
MAX_LINES = 500


def _project_files() -> list[Path]:
    # .git is a file in a second work tree of the same repository.
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    found += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if path.suffix in SUFFIXES and "__pycache__" not in path.parts)


FILES = _project_files()


def test_no_python_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in FILES
        if path.suffix == ".py"
    }
    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
    assert not too_long, f"more than {MAX_LINES} lines; one subject per file: {too_long}"


def test_no_absolute_machine_paths() -> None:
    # written in pieces, so that this file does not find itself
    prefixes = "|".join(re.escape("/" + name + "/") for name in ("work", "opt", "tmp", "home", "root"))
    pattern = re.compile(rf"(?<![\w.\-/:]){'(?:' + prefixes + ')'}")
    wrong = [
        f"{path.relative_to(ROOT)}:{k}: {line.strip()}"
        for path in FILES
        for k, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_package_is_listed_for_installation() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(settings["tool"]["setuptools"]["packages"])
    found = {
        ".".join([package, *path.parent.relative_to(ROOT / folder).parts])
        for folder, package in (("blomodel", "blomodel"), ("kernels", "blomodel.kernels"))
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == found


def test_every_folder_with_modules_is_a_package() -> None:
    wrong = {
        str(path.parent.relative_to(ROOT))
        for folder in ("blomodel", "kernels")
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert not wrong


def test_kernels_are_installed_inside_the_package() -> None:
    import blomodel.kernels

    assert Path(blomodel.kernels.__file__).parent.name == "kernels"


def test_public_functions_are_not_hidden_by_modules() -> None:
    # importing a submodule binds its name in the package, over a function of the same name
    import blomodel.solve.solving

    packages = {"problems"}
    assert all(callable(getattr(blomodel, name)) for name in set(blomodel.__all__) - packages)


def test_versions_agree() -> None:
    import blomodel

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    version = settings["project"]["version"]
    assert blomodel.__version__ == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [path for path in FILES if path.suffix == ".md"], ids=lambda path: path.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    # What is made when the pages are built is checked there, by docs/_sphinx/check_links.py.
    targets = [target for target in targets if "generated/" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_what_is_checked_before_a_commit_is_checked_by_ci_too() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for entry in re.findall(r"entry: (.*)", hooks):
        assert f"run {entry.removesuffix(' --force-exclude')}" in script


def test_unit_tests_lie_where_the_code_lies() -> None:
    tested = {
        path.parent.relative_to(ROOT / "tests" / "unit")
        for path in (ROOT / "tests" / "unit").rglob("*.py")
    }
    strangers = [str(folder) for folder in tested if not (ROOT / "blomodel" / folder).is_dir()]
    assert not strangers, f"no such folder in blomodel/: {strangers}"
