"""Nothing that is read is ever executed: no eval, no exec, no pickle of a file or of a user's words."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FILES = [*(ROOT / "blomodel").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]

EXECUTING = {"eval", "exec", "__import__"}  # and the builtin compile(), which nothing else is called
LOADERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
# Runs are sent to worker processes of the same user in bytes that this very process has made.
MAY_PICKLE = {"blomodel/methods/run/parallel.py"}


def findings(path: Path) -> list[str]:
    name = path.relative_to(ROOT).as_posix()
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [part.name for part in node.names]
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            loaders = {module.split(".")[0] for module in modules} & LOADERS
            if loaders and name not in MAY_PICKLE:
                found.append(f"{where} imports {', '.join(sorted(loaders))}")
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in EXECUTING | {"compile"}:
            found.append(f"{where} calls {called.id}")
        given = {word.arg: word.value for word in node.keywords}
        if isinstance(called, ast.Attribute) and called.attr == "load":
            owner = ast.unparse(called.value)
            is_plain = isinstance(given.get("allow_pickle"), ast.Constant)
            if owner == "joblib" or (owner in ("np", "numpy") and not is_plain):
                found.append(f"{where} calls {owner}.load without allow_pickle=False")
        for word, wanted in (("allow_pickle", False), ("shell", False)):
            if word in given and getattr(given[word], "value", None) is not wanted:
                found.append(f"{where} says {word}={ast.unparse(given[word])}")
    return found


def test_nothing_that_is_read_is_executed() -> None:
    assert not [line for path in FILES for line in findings(path)]


def test_what_is_forbidden_is_found(tmp_path: Path, monkeypatch) -> None:
    wrong = tmp_path / "wrong.py"
    lines = [
        "import pickle", "eval('1')", "exec('x = 1')", "np.load(path)",
        "np.load(path, allow_pickle=True)", "subprocess.run(words, shell=True)", "joblib.load(path)",
        "__import__('os')", "compile('1', '', 'eval')",
    ]  # fmt: skip
    wrong.write_text("\n".join(lines))
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert {line.split()[0].rsplit(":", 1)[1] for line in findings(wrong)} == set("123456789")
