"""What every single-level reformulation has: a formula, requirements, exactness and functions."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import cvxpy as cp
import numpy as np
from cvxpy.utilities.canonical import Canonical

from blomodel.basics.registry import Registry
from blomodel.compiler.expressions.rewriting import Substitution
from blomodel.errors import NonconvexLowerError, ReformulationError
from blomodel.reformulations.export import write_problem
from blomodel.text.mathematics import Writer
from blomodel.text.notation import LATEX, TEXT, Notation

if TYPE_CHECKING:
    from blomodel.model.model import Model
    from blomodel.problem import BilevelProblem

EQUIVALENT, RELAXATION, APPROXIMATION = "equivalent", "relaxation", "approximation"

REFORMULATIONS: Registry[type[Reformulation]] = Registry(
    "reformulation", ("blomodel.reformulations",), ReformulationError
)


def reformulation(cls: type[Reformulation]) -> type[Reformulation]:
    """Class decorator: register a reformulation under its ``name``."""
    REFORMULATIONS.add(cls.name, cls)
    return cls


def create_reformulation(problem: BilevelProblem, name: str) -> Reformulation:
    """The reformulation of that name, after its requirements have been checked."""
    chosen = REFORMULATIONS[name]
    problem.check_data()
    if problem.plain_model.integer_y.any():
        raise ReformulationError(
            f"{name}: the lower level has integer variables, whose optimality no conditions or smooth "
            "value function describe; auto solves such problems by value cuts."
        )
    return chosen(problem)


@dataclass(frozen=True)
class Requirement:
    """Something that must hold, and what shows that it does."""

    statement: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.statement} ({self.evidence})"


@dataclass(frozen=True)
class Formula:
    """A single-level problem to be written down.

    Every line is a function of the writer, so that LaTeX and text come from one statement.
    """

    over: str  # names of what is minimised over, for a person
    objective: Callable[[Writer], str]
    rows: Sequence[Callable[[Writer], str]]
    where: Sequence[Callable[[Writer], str]] = ()


class Functions(Mapping[str, Callable[..., Any]]):
    """Functions of a reformulation by name, also as attributes; printing lists their meaning.

    x and y may be numbers, arrays, or lists with one array for each variable of the level.
    """

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self._functions = functions

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._functions:
            raise AttributeError(f"There is no function {name!r}; there are {', '.join(self)}.")
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._functions]

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}}  {self[name].__doc__}" for name in self)


class Reformulation(ABC):
    """A bilevel problem as a problem of one level.

    Attributes
    ----------
    name : str
    requires : tuple of Requirement
        What it needs of the problem; all of it holds, otherwise there is an error instead.
    exactness : {"equivalent", "relaxation", "approximation"}
    reason : str
        Why it is exact or not.
    functions : Functions
        Its functions, evaluated by the compiled model (both levels minimise there).
    problem : cvxpy.Problem or None
        The single-level problem itself, where cvxpy's nonlinear language can state it.
    """

    model: Model
    functions: Functions

    name: ClassVar[str]
    title: ClassVar[str]
    abstract_text: ClassVar[str]
    abstract_latex: ClassVar[str]

    def __init__(self, problem: BilevelProblem) -> None:
        self.bilevel = problem
        self.model = problem.plain_model
        self.requires: tuple[Requirement, ...] = tuple(self.check())
        self.functions = Functions(self.make_functions())

    # -- what each reformulation says --------------------------------------------------------

    @abstractmethod
    def check(self) -> Sequence[Requirement]:
        """The requirements, all of them met; raise ReformulationError where one is not."""

    @abstractmethod
    def judge(self) -> tuple[str, str]:
        """Whether it is equivalent, a relaxation or an approximation, and why."""

    @abstractmethod
    def formula(self) -> Formula:
        """The problem at hand, written out."""

    @abstractmethod
    def make_functions(self) -> dict[str, Callable[..., Any]]:
        """The functions by name."""

    # -- shared by them ----------------------------------------------------------------------

    @property
    def exactness(self) -> str:
        """One of "equivalent", "relaxation" and "approximation"."""
        return self.judge()[0]

    @property
    def reason(self) -> str:
        """Why it is exact or not."""
        return self.judge()[1]

    @property
    def problem(self) -> cp.Problem | None:
        """The single-level problem in cvxpy's nonlinear language, where it can state it."""
        return None

    def write(self, path: str | Path) -> Path:
        """Write ``problem`` as a file for other solvers: ``.lp``, ``.mps``, ``.nl`` or ``.cip``.

        Raises
        ------
        ReformulationError
            Where cvxpy cannot state the problem, or the format cannot hold it.
        """
        stated = self.problem
        if stated is None:
            raise ReformulationError(
                f"{self.name} contains functions without a formula, such as the lower level's "
                "value; write "
                "'kkt' or 'strong-duality'."
            )
        return write_problem(stated, path, self.name)

    @property
    def p(self) -> np.ndarray:
        """The parameters' present values."""
        return self.bilevel.parameter_values()

    def x(self, value: Any) -> np.ndarray:
        """An upper point as the model's vector."""
        return self.bilevel.levels.x.read(value, "upper variables", self.name)

    def y(self, value: Any) -> np.ndarray:
        """A lower point as the model's vector."""
        return self.bilevel.levels.y.read(value, "lower variables", self.name)

    @cached_property
    def in_users_variables(self) -> Substitution:
        """From the model's variables, which have no attributes, to those the user made."""
        return Substitution((*self.model.x.leaves, *self.model.y.leaves), self.bilevel.variables)

    @cached_property
    def lower_kind(self) -> str:
        """LP, QP, conic, or "nonconvex"."""
        try:
            return self.model.lower_program.kind
        except NonconvexLowerError:
            return "nonconvex"

    def convexity(self) -> Requirement:
        """The requirement that the lower level is convex in y."""
        try:
            program = self.model.lower_program
        except NonconvexLowerError as error:
            raise ReformulationError(
                f"{self.name}: the lower level must be convex in its variables. {error}"
            ) from error
        return Requirement("the lower level is convex in y at fixed x", program.reason)

    def names(self, level: str) -> str:
        """The names of a level's variables."""
        leaves = self.bilevel.levels.upper if level == "upper" else self.bilevel.levels.lower
        return ", ".join(leaf.name() for leaf in leaves)

    def upper_rows(self) -> list[Callable[[Writer], str]]:
        """The upper constraints."""
        return list(map(self.line, self.model.upper_constraints))

    def lower_rows(self) -> list[Callable[[Writer], str]]:
        """The lower constraints."""
        return list(map(self.line, self.model.lower_constraints))

    def line(self, part: Canonical) -> Callable[[Writer], str]:
        """An expression or constraint of the model, in the user's variables."""
        return lambda writer: writer.write(self.in_users_variables(part))

    def lower_set(self, writer: Writer) -> str:
        """The lower constraints after a colon, or nothing."""
        rows = ", ".join(row(writer) for row in self.lower_rows())
        return f" : {rows}" if rows else ""

    # -- writing -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The formula in plain text, abstract and then for this problem."""
        writer, formula = Writer(TEXT), self.formula()
        lines = [self.title, "", f"  {self.abstract_text}", "", "Here:", ""]
        lines.append(f"  minimise over {formula.over}")
        lines.append(f"      {formula.objective(writer)}")
        for k, row in enumerate(formula.rows):
            lines += ["  subject to"] if k == 0 else []
            lines.append(f"      {row(writer)}")
        for k, row in enumerate(formula.where):
            lines += ["  where"] if k == 0 else []
            lines.append(f"      {row(writer)}")
        lines += [f"      {entry}" for entry in writer.legend]
        return "\n".join(lines)

    @property
    def latex(self) -> str:
        """The formula of this problem as an ``aligned`` block, without dollar signs."""
        writer, formula = Writer(LATEX), self.formula()
        over = ",\\, ".join(map(LATEX.name, formula.over.split(", ")))
        lines = [rf"\min_{{{over}}}\quad & {formula.objective(writer)}"]
        for k, row in enumerate(formula.rows):
            mark = r"\text{s.t.}\quad & " if k == 0 else "& "
            lines.append(mark + row(writer))
        for k, row in enumerate(formula.where):
            lines.append((r"\text{where}\quad & " if k == 0 else "& ") + row(writer))
        lines += [f"& {entry}" for entry in writer.legend]
        body = " \\\\\n".join(lines)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def __str__(self) -> str:
        lines = [self.text, "", f"Exactness: {self.exactness}; {self.reason}", "Requires:"]
        lines += [f"  - {requirement}" for requirement in self.requires]
        lines += ["Functions:", *(f"  {line}" for line in repr(self.functions).split("\n"))]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<reformulation {self.name!r}: {self.exactness}>"

    def _repr_latex_(self) -> str:
        return f"$$\n{self.latex}\n$$"

    def _repr_html_(self) -> str:
        needs = "".join(f"<li>{html.escape(str(item))}</li>" for item in self.requires)
        return (
            f"<div><b>{html.escape(self.title)}</b>"
            f"<p>$${html.escape(self.abstract_latex)}$$</p><p>Here:</p>"
            f"<p>$${html.escape(self.latex)}$$</p>"
            f"<p><i>{self.exactness}</i>: {html.escape(self.reason)}</p>"
            f"<p>Requires:</p><ul>{needs}</ul></div>"
        )


def documented(function: Callable[..., Any], meaning: str) -> Callable[..., Any]:
    """A function with a sentence that tells what it gives."""
    function.__doc__ = meaning
    return function


def either(notation: Notation, text: str, latex: str) -> str:
    """The LaTeX or the text, by notation."""
    return latex if notation is LATEX else text
