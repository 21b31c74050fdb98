"""Parts of pages that are made from the library itself, so that they cannot fall behind it.

A line such as ``{{ method_facts("meha") }}`` in a page is replaced by what the function of that
name returns, before the page is read.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bibliography import groups, with_links, works
from formulas import rst_with_formulas, with_formulas

import blomodel as bm
from blomodel import errors
from blomodel.basics.limits import LIMITS
from blomodel.methods.run.registry import MethodInfo, method_classes
from blomodel.methods.run.settings import VOCABULARY
from blomodel.solvers.question import ProblemClass
from blomodel.solvers.registry import SOLVERS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES = Path(__file__).resolve().parents[1]
PLACEHOLDER = re.compile(r"^\{\{ (\w+)\((.*?)\) \}\}$", re.MULTILINE)


def escaped(text: object) -> str:
    """Text for a cell of a Markdown table, letter by letter."""
    return str(text).replace("|", r"\|").replace("*", r"\*").replace("_", r"\_")


def cell(text: object) -> str:
    """Text for a cell of a Markdown table, its formulas set as such."""
    return with_formulas(" ".join(str(text).split()), plain=escaped)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def information(name: str) -> MethodInfo:
    """The registry's entry."""
    return next(info for info in bm.methods() if info.name == name)


def if_there(page: str, before: str = "", after: str = "") -> str:
    """A link to a page with the text around it, where the page exists; an entry of a contents list."""
    path = PAGES / page
    if not path.exists():
        return ""
    if not before:
        return path.stem
    title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"{before}[{title}](/{page}){after}"


def method_table() -> str:
    """Every method with what it takes, assumes, costs and claims, and where it comes from."""
    rows = [
        [
            f"[{info.name}](methods/{info.name}.md)",
            cell(info.takes),
            cell(info.assumes),
            cell(info.costs),
            cell(info.claims),
            with_links(escaped(info.reference)),
        ]
        for info in bm.methods()
    ]
    return table(["method", "takes", "assumes", "one step costs", "claims", "reference"], rows)


def method_list() -> str:
    """Every method with one line about what it does, for the page above the methods' pages."""
    rows = [[f"[{info.name}]({info.name}.md)", cell(info.summary)] for info in bm.methods()]
    names = "\n".join(info.name for info in bm.methods())
    return table(["method", "what it does"], rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```"


def method_facts(name: str) -> str:
    """What the registry knows about a method, as a table."""
    info = information(name)
    facts = [
        ["what it does", cell(info.summary)],
        ["takes", cell(info.takes)],
        ["assumes", cell(info.assumes)],
        ["one step costs", cell(info.costs)],
        ["claims", cell(info.claims)],
        ["reference", with_links(escaped(info.reference))],
        *(["package", f"`{extra.how_to_install}`"] for extra in info.packages),
    ]
    return table(["", ""], facts)


PAPERS = {
    "the ALT-PBGD paper": "Jiang, Xiao, Chen and Chen (2025)",
    "the BLOCC paper": "Jiang et al. (2024)",
    "the MEHA paper": "Liu, Liu, Yao, Zeng and Zhang (2024)",
    "the GALET paper": "Xiao, Lu and Chen (2023)",
    "the paper on global optimality": "Xiao and Chen (2024)",
}


def method_text(name: str) -> str:
    """The text that stands beside the method's code; papers lead to their entries where first named."""
    text = rst_with_formulas(inspect.cleandoc(method_classes()[name].__doc__ or ""))
    for paper, cited in PAPERS.items():
        key = next(work.key for work in sum(groups().values(), []) if work.cited == cited)
        text = text.replace(paper, f"{paper} (:ref:`{cited} <{key}>`)", 1)
    return f"```{{eval-rst}}\n{text}\n```"


def method_settings(name: str) -> str:
    """The settings with their other names, defaults and meaning."""
    info = information(name)
    if not info.settings:
        return "## Settings\n\nThis method has none."
    rows = [
        [f"`{key}`", names(info.aliases[key]), f"`{default!r}`", cell(meaning)]
        for key, (default, meaning) in info.settings.items()
    ]
    note = "The defaults need no change in most cases."
    if any(default is None for default, _ in info.settings.values()):
        note = "Where the default is `None`, the method chooses by itself."
    head = table(["setting", "also", "default", "meaning"], rows)
    words = "[The words](index.md#words-for-settings) mean the same in all methods."
    return f"## Settings\n\nPass them to `solve()`. {note} {words}\n\n{head}"


def names(words: Sequence[str]) -> str:
    """Names in the type of code; "not" before one is said in words."""
    return ", ".join(f"not `{word[4:]}`" if word.startswith("not ") else f"`{word}`" for word in words)


def setting_words() -> str:
    """The vocabulary of settings: what each word means, in which methods, and its other names there."""
    rows = []
    for name, word in VOCABULARY.items():
        users = []
        for info in bm.methods():
            if name in info.settings:
                also = f" ({names(info.aliases[name])})" if info.aliases[name] else ""
                users.append(f"[{info.name}]({info.name}.md){also}")
        rows.append([f"`{name}`", word.kind.value, cell(word.meaning), ", ".join(users)])
    return table(["word", "is a", "meaning", "in the methods (other names there)"], rows)


def limit_table() -> str:
    """Every limit of size with its unit and its reason."""
    rows = [
        [f"`{name}`", f"{limit.value:,}", cell(limit.unit), cell(limit.reason)]
        for name, limit in LIMITS.items()
    ]
    return table(["limit", "value", "of", "reason"], rows)


def error_classes() -> list[type[Exception]]:
    """The library's exceptions, the base class first."""
    return [
        cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.BlomodelError)
    ]


def error_list() -> str:
    """Every exception: what it means and what it derives from."""
    rows = []
    for cls in error_classes():
        bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        rows.append([f"`{cls.__name__}`", cell(inspect.getdoc(cls)), bases])
    return table(["error", "meaning", "is also a"], rows)


def status_list() -> str:
    """Every status and its meaning."""
    rows = [
        [
            f"[{status}](/status/{status}.md)",
            cell(status.meaning),
            "yes" if status.has_point else "no",
            cell(status.next_step),
        ]
        for status in bm.Status
    ]
    return table(["status", "meaning", "has a certified point", "what next"], rows)


def status_meaning(name: str) -> str:
    """What a status means, as the library says it, and whether there is a point."""
    status = bm.Status(name)
    point = "There is a certified point." if status.has_point else "There is no certified point."
    return f"*{status.meaning[0].upper()}{status.meaning[1:]}.* {point}"


def solver_table() -> str:
    """Every inner solver: what it takes, and where it comes from."""
    rows = []
    for name, cls in SOLVERS.items():
        classes = [cell(kind.value) for kind in ProblemClass if kind in cls.classes]
        comes = f"`{cls.install}`" if cls.install else "comes along"
        rows.append([f"`{name}`", ", ".join(classes), cell(inspect.getdoc(cls)), comes])
    return table(["solver", "takes", "what it is", "installed by"], rows)


def atom_list() -> str:
    """The cvxpy atoms that the compiler has a rule for."""
    import blomodel.atoms
    import blomodel.compiler.atoms  # noqa: F401 - both register rules
    from blomodel.compiler.rules import RULES

    names = sorted({cls.__name__ for cls in RULES}, key=str.lower)
    return ", ".join(f"`{name}`" for name in names)


def growth_table() -> str:
    """Time against size beside the plain alternative, as tests/benchmarks/growth.py has measured it."""
    rows = []
    for row in json.loads((PAGES / "growth.json").read_text(encoding="utf-8")):
        size = " x ".join(map(str, row["size"])) if isinstance(row["size"], list) else str(row["size"])
        better = row["better"]
        times = [f"{row[key]:.2f} s" for key in ("seconds", "plain_seconds")]
        said = (
            "the same"
            if abs(better) < 1e-5
            else f"{abs(better):.2g} {'better' if better > 0 else 'worse'}"
        )
        rows.append([row["family"], size, *times, f"`{row['status']}`", said])
    return table(["family", "size", "blomodel", "by hand", "status", "value, against by hand"], rows)


KINDS = {
    "market": ("linear lower level with prices, such as bids into a market", "buses x hours"),
    "ridge": ("hyper-parameters of a smooth lower level without constraints", "features"),
    "pricing": ("many followers, each with a small quadratic program", "followers"),
    "controller": ("one quadratic program with constraints, such as a controller", "steps"),
}
BEYOND = 1.5  # times the largest measured size: as far as the last slope is trusted


def expected_seconds(sizes: Sequence[float], seconds: Sequence[float], size: float) -> float | None:
    """The time at a size, by straight lines on logarithmic scales; None: too far from what is known."""
    if not sizes[0] <= size <= BEYOND * sizes[-1]:
        return None
    logs = np.log(sizes), np.log(seconds)
    if size <= sizes[-1]:
        return float(np.exp(np.interp(np.log(size), *logs)))
    slope = (logs[1][-1] - logs[1][-2]) / (logs[0][-1] - logs[0][-2])
    return float(seconds[-1] * (size / sizes[-1]) ** max(slope, 1.0))


def rounded(seconds: float) -> str:
    """A time that is known to about a digit."""
    return f"{seconds:.1g} s" if seconds < 1 else f"{seconds:.0f} s"


def expectation_table() -> str:
    """What the measured growth says about 30, 100, 300 and 1000 of a kind."""
    measured = json.loads((PAGES / "growth.json").read_text(encoding="utf-8"))
    asked = (30, 100, 300, 1000)
    rows = []
    for family, (kind, unit) in KINDS.items():
        own = [row for row in measured if row["family"] == family]
        sizes = [float(np.prod(row["size"])) for row in own]
        times = [expected_seconds(sizes, [row["seconds"] for row in own], size) for size in asked]
        said = [
            "not measured" if time is None else f"{time:.1g} s" if time < 1 else f"{time:.0f} s"
            for time in times
        ]
        claims = ", ".join(f"`{status}`" for status in dict.fromkeys(row["status"] for row in own))
        rows.append([kind, unit, *said, claims])
    return table(
        ["your kind of problem", "n counts", *(f"n = {size}" for size in asked), "claimed"], rows
    )


PARTS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        if_there,
        method_table,
        method_list,
        method_facts,
        method_text,
        method_settings,
        setting_words,
        limit_table,
        error_list,
        status_list,
        status_meaning,
        solver_table,
        atom_list,
        growth_table,
        expectation_table,
        works,
    )
}


def fill(text: str) -> str:
    """The page with every placeholder replaced."""

    def replace(match: re.Match[str]) -> str:
        arguments = ast.literal_eval(f"({match[2]},)") if match[2] else ()
        return PARTS[match[1]](*arguments)

    return PLACEHOLDER.sub(replace, text)


def fill_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sphinx calls this with the text of each page."""
    if Path(str(app.env.doc2path(docname))).suffix == ".md":
        source[0] = fill(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the replacement."""
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}
