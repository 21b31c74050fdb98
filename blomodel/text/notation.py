"""The two notations in which formulas are written: LaTeX and plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega", "zeta",
}  # fmt: skip
_KNOWN_FUNCTIONS = {"sin", "cos", "tan", "sinh", "tanh", "log", "max", "min", "exp"}


class Notation:
    """Plain text; LaTeX overrides what looks different there."""

    at_most, at_least, equals = "<=", ">=", "=="
    semidefinite, element = ">>", "in"
    elementwise, dot, total, infinity, dots = "o", "*", "sum", "inf", "..."
    has_fractions = False

    def name(self, name: str) -> str:
        """A variable's name."""
        return name

    def word(self, text: str) -> str:
        """Upright text inside a formula."""
        return text

    def number(self, value: float) -> str:
        """A number, with as many digits as a reader wants."""
        return f"{value:.6g}"

    def brackets(self, text: str) -> str:
        return f"({text})"

    def function(self, name: str) -> str:
        """The name of a function, to be followed by brackets."""
        return name

    def fraction(self, top: str, bottom: str) -> str:
        return f"({top}) / ({bottom})"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{exponent}" if re.fullmatch(r"\w+", exponent) else f"{base}^({exponent})"

    def root(self, text: str) -> str:
        return f"sqrt({text})"

    def exponential(self, text: str) -> str:
        return f"exp({text})"

    def absolute(self, text: str) -> str:
        return f"|{text}|"

    def norm(self, text: str, kind: str) -> str:
        return f"|{text}|_{kind}"

    def transposed(self, text: str) -> str:
        return f"{text}'"

    def subscript(self, base: str, index: str) -> str:
        return f"{base}[{index}]"

    def array(self, rows: Sequence[Sequence[str]]) -> str:
        """A small array, row by row."""
        return "[" + "; ".join(", ".join(row) for row in rows) + "]"

    def shape(self, name: str, shape: tuple[int, ...]) -> str:
        """What a name stands for: an array of this shape."""
        return f"{name}: {' x '.join(map(str, shape))} numbers"


class LatexNotation(Notation):
    """LaTeX without dollar signs."""

    at_most, at_least, equals = r"\le", r"\ge", "="
    semidefinite, element = r"\succeq", r"\in"
    elementwise, dot, infinity, dots = r"\circ", r"\cdot", r"\infty", r"\ldots"
    total = r"\mathbf{1}^{\top}"
    has_fractions = True

    def name(self, name: str) -> str:
        base, _, index = name.partition("_")
        found = re.fullmatch(r"([A-Za-z]+)(\d+)", base)
        if found and not index:
            base, index = found.groups()
        text = base if len(base) == 1 else rf"\mathrm{{{_clean(base)}}}"
        text = rf"\{base}" if base in _GREEK else text
        if not index:
            return text
        shown = index if index.isdigit() or len(index) == 1 else rf"\mathrm{{{_clean(index)}}}"
        return f"{text}_{{{shown}}}"

    def word(self, text: str) -> str:
        return rf"\mathrm{{{_clean(text)}}}"

    def number(self, value: float) -> str:
        mantissa, mark, exponent = f"{value:.6g}".partition("e")
        if not mark:
            return mantissa
        power = f"10^{{{int(exponent)}}}"
        return power if mantissa == "1" else rf"{mantissa} \cdot {power}"

    def brackets(self, text: str) -> str:
        return rf"\left({text}\right)"

    def function(self, name: str) -> str:
        return rf"\{name}" if name in _KNOWN_FUNCTIONS else rf"\operatorname{{{_clean(name)}}}"

    def fraction(self, top: str, bottom: str) -> str:
        return rf"\frac{{{top}}}{{{bottom}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}^{{{exponent}}}"

    def root(self, text: str) -> str:
        return rf"\sqrt{{{text}}}"

    def exponential(self, text: str) -> str:
        return f"e^{{{text}}}"

    def absolute(self, text: str) -> str:
        return rf"\left|{text}\right|"

    def norm(self, text: str, kind: str) -> str:
        return rf"\left\|{text}\right\|_{{{kind}}}"

    def transposed(self, text: str) -> str:
        return rf"{text}^{{\top}}"

    def subscript(self, base: str, index: str) -> str:
        return f"{base}_{{{index}}}" if "_" not in base else rf"\left({base}\right)_{{{index}}}"

    def array(self, rows: Sequence[Sequence[str]]) -> str:
        body = r" \\ ".join(" & ".join(row) for row in rows)
        return rf"\begin{{pmatrix}}{body}\end{{pmatrix}}"

    def shape(self, name: str, shape: tuple[int, ...]) -> str:
        size = r" \times ".join(map(str, shape))
        return rf"{name} \in \mathbb{{R}}^{{{size}}}"


def _clean(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return re.sub(r"([_&%#{}$])", r"\\\1", text).replace("^", r"\hat{}").replace(" ", r"\ ")


TEXT, LATEX = Notation(), LatexNotation()
