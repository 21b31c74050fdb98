"""Plain text for people: numbers, aligned tables, and a bilevel model written out as on paper."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from cvxpy.constraints.constraint import Constraint

if TYPE_CHECKING:
    from blomodel.methods.needs import Verdict
    from blomodel.methods.registry import MethodInfo
    from blomodel.problem import BilevelProblem

# How tightly each form binds; an argument that binds less tightly than its place is put in
# brackets.
_SUM, _PRODUCT, _NEGATION, _POWER, _ATOM = range(5)

_INLINE_ENTRIES = 4  # constant vectors up to this length are written out, larger data by its shape


def number(value: float, digits: int = 6) -> str:
    """A number in as few characters as keep ``digits`` significant digits.

    >>> number(2.0), number(0.1234567891), number(1.5e-9), number(-0.0)
    ('2', '0.123457', '1.5e-09', '0')
    """
    text = f"{float(value):.{digits}g}"
    return "0" if text == "-0" else text


def seconds(value: float) -> str:
    """A duration with the unit that suits it.

    >>> seconds(0.0000042), seconds(0.0153), seconds(2.5), seconds(90)
    ('4.2 us', '15.3 ms', '2.50 s', '90.0 s')
    """
    if value >= 1.0:
        return f"{value:.2f} s" if value < 10.0 else f"{value:.1f} s"
    if value >= 1e-3:
        return f"{value * 1e3:.1f} ms"
    return f"{value * 1e6:.1f} us"


def array(value: Any, digits: int = 6, entries: int = 10) -> str:
    """A scalar or an array on one line, its middle left out beyond ``entries`` numbers.

    >>> array([1.0, -2.5]), array(3.0), array(range(100), entries=4)
    ('[1, -2.5]', '3', '[0, 1, ..., 98, 99]')
    """
    flat = np.asarray(value, float).ravel(order="F")
    if np.ndim(value) == 0:
        return number(flat[0], digits)
    if flat.size <= entries:
        return "[" + ", ".join(number(entry, digits) for entry in flat) + "]"
    head = [number(entry, digits) for entry in flat[: entries // 2]]
    tail = [number(entry, digits) for entry in flat[-(entries // 2) :]]
    return "[" + ", ".join([*head, "...", *tail]) + "]"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Aligned columns under a ruled head; the columns named in ``right`` are set flush right.

    >>> print(table(["name", "value"], [["x", "1.5"], ["gap", "10"]], right=[1]))
    name  value
    ----  -----
    x       1.5
    gap      10
    """
    widths = [max(len(row[k]) for row in [headers, *rows]) for k in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(headers), line(["-" * w for w in widths]), *map(line, rows)])


def indent(text: str, width: int = 2) -> str:
    """The text moved to the right; empty lines stay empty."""
    return "\n".join(" " * width + line if line else line for line in text.split("\n"))


def titled(title: str, body: str) -> str:
    """A heading with an indented text below."""
    return f"{title}\n{indent(body)}"


def wrap(line: str, width: int) -> str:
    """A sentence broken into lines."""
    return "\n".join(textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False))


def columns(rows: Sequence[tuple[str, str]], width: int) -> str:
    """Names and what is said about them, side by side; a name is not repeated.

    >>> print(columns([("why", "one thing"), ("why", "another"), ("method", "auto")], 40))
    why     one thing
            another
    method  auto
    """
    first = max(len(name) for name, _ in rows)
    lines: list[str] = []
    last = None
    for name, said in rows:
        for k, part in enumerate(wrap(said, max(width - first - 2, 40)).split("\n")):
            shown = name if k == 0 and name != last else ""
            lines.append(f"{shown:<{first}}  {part}")
        last = name
    return "\n".join(lines)


def verdicts(judged: Sequence[Verdict], width: int) -> str:
    """Which methods apply, which do so against their assumptions, and which do not apply and why."""
    rows: list[tuple[str, str]] = []
    apply = [v.method for v in judged if v.applies and not v.caution]
    if apply:
        rows.append(("apply", ", ".join(apply)))
    for title, chosen in (
        ("run, but", [v for v in judged if v.caution]),
        ("do not apply", [v for v in judged if not v.applies]),
    ):
        by_reason: dict[str, list[str]] = {}
        for verdict in chosen:
            by_reason.setdefault(verdict.caution or verdict.reason, []).append(verdict.method)
        rows += [(title, f"{', '.join(names)}: {reason}") for reason, names in by_reason.items()]
    return columns(rows, width)


def expression(expr: cp.Expression) -> str:
    """A cvxpy expression in the notation one would write it in.

    >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
    >>> expression((y - 2 * x) ** 2 / (2 + cp.exp(-x)))
    '(y - 2 * x)**2 / (2 + exp(-x))'
    """
    return _render(expr)[0]


def constraint(item: Constraint) -> str:
    """A constraint as one line, each side written by `expression`.

    >>> constraint(cp.Variable(name="y") <= 3)
    'y <= 3'
    """
    if isinstance(item, cp.constraints.Inequality):
        return f"{expression(item.args[0])} <= {expression(item.args[1])}"
    if isinstance(item, cp.constraints.Equality):
        return f"{expression(item.args[0])} == {expression(item.args[1])}"
    if isinstance(item, cp.constraints.PSD):
        return f"{expression(item.args[0])} >> 0"
    arguments = ", ".join(expression(argument) for argument in item.args)
    return f"{type(item).__name__}({arguments})"


def part(item: cp.Expression | Constraint) -> str:
    """An expression or a constraint as text."""
    return expression(item) if isinstance(item, cp.Expression) else constraint(item)


def model(problem: BilevelProblem) -> str:
    """The bilevel problem written out, the lower level indented below the upper one."""
    parts = [_level(problem.objective, problem.levels.upper, problem.constraints)]
    for follower in problem.followers:
        answered = ", ".join(variable.name() for variable in follower.variables)
        name = "" if follower.name == "lower level" else f" ({follower.name})"
        parts += [
            f"where {answered} solves the lower level{name}:",
            indent(_level(follower.objective, follower.variables, follower.constraints), 4),
        ]
    return "\n".join(parts)


def answer(problem: BilevelProblem) -> str:
    """Status with its meaning, value, variables and method of a solved problem, aligned."""
    solution = problem.solution
    if solution is None:
        return "not solved yet"
    lines = [
        ("status", f"{solution.status}: {solution.status.meaning}"),
        ("value", "none" if problem.value is None else number(problem.value)),
        *((v.name(), _value_of(v)) for v in problem.variables),
        ("method", f"{solution.method}, iterations: {solution.iterations}"),
    ]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _value_of(variable: cp.Variable) -> str:
    if variable.value is None:
        return "none"
    return array(variable.value, digits=6 if variable.size <= 5 else 4)


def methods(entries: Sequence[MethodInfo]) -> str:
    """A table of methods, then for each what it assumes and claims, its settings and its source."""
    parts = [table(["method", "what it does"], [[entry.name, entry.summary] for entry in entries])]
    for entry in entries:
        lines = [("assumes", entry.assumes), ("claims", entry.claims), ("source", entry.reference)]
        lines += [
            ("setting", f"{name} = {default!r}: {meaning}")
            for name, (default, meaning) in entry.settings.items()
        ]
        parts.append("\n".join([entry.name, *(f"  {word:<7}  {line}" for word, line in lines)]))
    return "\n\n".join(parts)


def _level(
    objective: cp.Minimize | cp.Maximize,
    variables: Sequence[cp.Variable],
    constraints: Sequence[Constraint],
) -> str:
    sense = "maximise" if isinstance(objective, cp.Maximize) else "minimise"
    text = [
        f"{sense:<10}  {expression(objective.args[0])}",
        f"{'over':<10}  {', '.join(_declaration(variable) for variable in variables)}",
    ]
    for k, item in enumerate(constraints):
        text.append(f"{'subject to' if k == 0 else '':<10}  {constraint(item)}")
    return "\n".join(text)


def _declaration(variable: cp.Variable) -> str:
    """Name, shape and declared attributes, e.g. ``x (10, nonneg)``."""
    notes = ["x".join(str(length) for length in variable.shape)] if variable.shape else []
    notes += [name for name, value in variable.attributes.items() if value is True]
    if variable.attributes.get("bounds") is not None:
        notes.append("bounds")
    return f"{variable.name()} ({', '.join(notes)})" if notes else variable.name()


def _render(expr: cp.Expression) -> tuple[str, int]:
    """The text of an expression and how tightly its outermost operation binds."""
    label = getattr(expr, "label", None)
    if label:
        return str(label), _ATOM
    if isinstance(expr, cp.Constant):
        return _constant(expr)
    if not expr.args:
        return expr.name(), _ATOM
    rule = _RULES.get(type(expr).__name__)
    return rule(expr) if rule else _atom(expr)


def _bracketed(expr: cp.Expression, place: int) -> str:
    text, binding = _render(expr)
    return text if binding >= place else f"({text})"


def _constant(expr: cp.Constant) -> tuple[str, int]:
    if expr.name().isidentifier():  # cp.Constant(..., name="A"); without a name it is the numbers
        return expr.name(), _ATOM
    if expr.size == 1:
        value = expr.value.toarray() if hasattr(expr.value, "toarray") else expr.value
        text = number(np.asarray(value).item())
        return text, _NEGATION if text.startswith("-") else _ATOM
    if expr.ndim == 1 and expr.size <= _INLINE_ENTRIES:
        return array(expr.value), _ATOM
    shape = "x".join(str(length) for length in expr.shape)
    return f"[{shape} {'vector' if expr.ndim == 1 else 'array'}]", _ATOM


def _call(name: str, arguments: Sequence[cp.Expression]) -> tuple[str, int]:
    return f"{name}({', '.join(expression(argument) for argument in arguments)})", _ATOM


def _atom(expr: cp.Expression) -> tuple[str, int]:
    """Any other atom: its name, its arguments, and the settings it was built with."""
    name = type(expr).__name__
    settings = [item for item in expr.get_data() or () if item is not None and item is not False]
    written = [expression(argument) for argument in expr.args]
    written += [expression(s) if isinstance(s, cp.Expression) else str(s) for s in settings]
    return f"{name[0].lower()}{name[1:]}({', '.join(written)})", _ATOM


def _sum(expr: cp.Expression) -> tuple[str, int]:
    # cvxpy writes A >> 0 as A + (-0) >> 0; nobody wants to read the zero
    terms = [term for term in expr.args if not (term.is_constant() and term.is_zero())]
    text = _bracketed(terms[0], _SUM) if terms else "0"
    for term in terms[1:]:
        if type(term).__name__ == "NegExpression" and not getattr(term, "label", None):
            text += f" - {_bracketed(term.args[0], _PRODUCT)}"
        else:
            written = _bracketed(term, _SUM)
            text += f" - {written[1:]}" if written.startswith("-") else f" + {written}"
    return text, _SUM


def _product(operator: str) -> Any:
    def rule(expr: cp.Expression) -> tuple[str, int]:
        left = _bracketed(expr.args[0], _PRODUCT)
        # a / (b * c) and a * (b / c) need their brackets, so the right side must bind more tightly
        return f"{left} {operator} {_bracketed(expr.args[1], _POWER)}", _PRODUCT

    return rule


def _power(expr: cp.Expression) -> tuple[str, int]:
    exponent = expr.args[1] if len(expr.args) > 1 else expr.p
    written = _bracketed(cp.Constant(exponent) if np.isscalar(exponent) else exponent, _POWER)
    return f"{_bracketed(expr.args[0], _ATOM)}**{written}", _POWER


def _index(expr: cp.Expression) -> tuple[str, int]:
    # cvxpy's own name ends in the key; only the indexed expression needs our notation
    key = expr.name()[len(expr.args[0].name()) :]
    return f"{_bracketed(expr.args[0], _ATOM)}{key}", _ATOM


def _quadratic_over_linear(expr: cp.Expression) -> tuple[str, int]:
    if isinstance(expr.args[1], cp.Constant) and expr.args[1].value == 1.0:
        return _call("sum_squares", expr.args[:1])
    return _call("quad_over_lin", expr.args)


_RULES: dict[str, Any] = {
    "AddExpression": _sum,
    "NegExpression": lambda expr: (f"-{_bracketed(expr.args[0], _PRODUCT)}", _NEGATION),
    "MulExpression": _product("@"),
    "multiply": _product("*"),
    "DivExpression": _product("/"),
    "Power": _power,
    "PowerApprox": _power,
    "power": _power,
    "index": _index,
    "special_index": _index,
    "Promote": lambda expr: _render(expr.args[0]),
    "transpose": lambda expr: (f"{_bracketed(expr.args[0], _ATOM)}.T", _ATOM),
    "quad_over_lin": _quadratic_over_linear,
    "QuadForm": lambda expr: _call("quad_form", expr.args),
    "Hstack": lambda expr: _call("hstack", expr.args),
    "Vstack": lambda expr: _call("vstack", expr.args),
    "reshape": lambda expr: _render(expr.args[0]) if expr.size == 1 else _atom(expr),
    "PnormApprox": lambda expr: (f"norm({expression(expr.args[0])}, {number(expr.p)})", _ATOM),
    "Pnorm": lambda expr: (f"norm({expression(expr.args[0])}, {number(expr.p)})", _ATOM),
}
