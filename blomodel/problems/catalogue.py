"""All problems that have a name: a table of them, and each of them as a model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from blomodel.errors import DataError
from blomodel.problem import BilevelProblem
from blomodel.problems.entries import COLLECTIONS, ENTRIES, LOWER_CLASSES, Facts
from blomodel.text import html, layout

if TYPE_CHECKING:
    import pandas

COLUMNS = ("name", "lower level", "upper", "lower", "best value", "source")


class KnownProblem(BilevelProblem):
    """A problem of the catalogue: a BilevelProblem that knows where it comes from.

    Attributes
    ----------
    facts : Facts
        Class, sizes, best known value with its source, and what is special.
    """

    facts: Facts


class Catalogue(list[Facts]):
    """Facts about problems, in the order of their names; ``print`` it for a table."""

    @property
    def names(self) -> list[str]:
        """What ``load()`` takes."""
        return [entry.name for entry in self]

    def rows(self) -> list[list[str]]:
        """The cells of the table; a value with ``*`` is the best known, not known to be optimal."""
        return [
            [
                entry.name,
                entry.lower_class,
                str(entry.n_upper),
                str(entry.n_lower),
                _value(entry),
                entry.reference,
            ]
            for entry in self
        ]

    def to_frame(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame, a problem in each row."""
        import pandas

        fields = ("lower_class", "n_upper", "n_lower", "best_value", "is_optimal", "collection")
        rows = [
            {name: getattr(entry, name) for name in (*fields, "reference", "note")} for entry in self
        ]
        return pandas.DataFrame(rows, index=pandas.Index(self.names, name="name"))

    def __str__(self) -> str:
        table = layout.table(COLUMNS, self.rows(), right=(2, 3, 4))
        return f"{table}\n{len(self)} problems; *: best known, not known to be optimal"

    def _repr_html_(self) -> str:
        return html.table([[escape(cell) for cell in row] for row in self.rows()], COLUMNS)


def list_problems(lower_class: str | None = None, collection: str | None = None) -> Catalogue:
    """The problems that ``load()`` knows, as a list that prints as a table.

    Parameters
    ----------
    lower_class : str, optional
        Only those whose lower level is "LP", "QP", "conic", "convex" or "nonconvex".
    collection : str, optional
        Only those of "BOLIB", "BASBLib", "BilevelJuMP" or "papers".

    Examples
    --------
    >>> import blomodel as bm
    >>> bm.problems.list(lower_class="conic").names
    ['chi_2014_3_1', 'conic_apex', 'meha_21']
    """
    _check("lower_class", lower_class, LOWER_CLASSES)
    _check("collection", collection, COLLECTIONS)
    return Catalogue(
        entry
        for _, entry in sorted(_entries().items())
        if lower_class in (None, entry.lower_class) and collection in (None, entry.collection)
    )


def facts(name: str) -> Facts:
    """What is known about a problem, without stating it.

    Parameters
    ----------
    name : str
        As in ``list()``; capitals, underscores and the word "Ex" of other collections do not matter.

    Examples
    --------
    >>> import blomodel as bm
    >>> bm.problems.facts("Bard1988Ex1").best_value
    17.0
    """
    entries = _entries()
    if name in entries:
        return entries[name]
    plain = {_plain(known): known for known in entries}
    if _plain(name) in plain:
        return entries[plain[_plain(name)]]
    near = difflib.get_close_matches(name.lower(), entries, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise DataError(f"There is no problem '{name}'; {hint}bm.problems.list() has all names.")


def load(name: str, **sizes: Any) -> KnownProblem:
    """State a problem of the catalogue, its variables at the start that the literature lists.

    Parameters
    ----------
    name : str
        As in ``list()``.
    **sizes
        What the function behind an example of a paper takes, such as ``n``; ``facts`` then still tells
        of the default size.

    Returns
    -------
    KnownProblem
        A BilevelProblem with ``facts``.

    Examples
    --------
    >>> import blomodel as bm
    >>> problem = bm.problems.load("bard_1988_1")
    >>> round(problem.solve(), 4), problem.facts.best_value
    (17.0, 17.0)
    """
    known = facts(name)
    stated = known.build(**sizes)
    upper = list(stated.levels.upper)
    problem = KnownProblem(stated.objective, stated.constraints, stated.followers, variables=upper)
    problem.facts = known
    return problem


@cache
def _entries() -> dict[str, Facts]:
    """All entries; their files are read when they are first asked for."""
    from blomodel.problems import papers as papers
    from blomodel.problems.literature import (
        convex,
        linear,
        linear_from_tools,
        nonconvex,
        quadratic,
    )

    assert all((convex, linear, linear_from_tools, nonconvex, papers, quadratic))
    return ENTRIES


def _plain(name: str) -> str:
    """A name without capitals, marks, leading zeros and the word for "example"."""
    words = re.findall(r"[a-z]+|\d+", name.lower().replace("etal", ""))
    return "".join(word.lstrip("0") or "0" for word in words if word not in ("ex", "p"))


def _value(entry: Facts) -> str:
    if entry.best_value is None:
        return ""
    return layout.number(entry.best_value) + ("" if entry.is_optimal else "*")


def _check(what: str, given: str | None, known: Iterable[str]) -> None:
    if given is not None and given not in known:
        raise DataError(f"{what}='{given}': take one of {', '.join(known)}.")
