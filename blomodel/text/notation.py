"""The two notations in which formulas are written: LaTeX and plain text."""

from __future__ import annotations

import re

import numpy as np

from blomodel.text.layout import number

_GREEK = {
    "alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi",
    "pi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega", "zeta",
}  # fmt: skip
_KNOWN_FUNCTIONS = {"sin", "cos", "tan", "sinh", "tanh", "log", "max", "min", "exp"}


# How tightly the outermost operation of a text binds. What binds less tightly than its place is put in
# brackets.
SUM, PRODUCT, NEGATION, POWER, ATOM = range(5)
Written = tuple[str, int]  # a text, and how tightly it binds


class Notation:
    """Plain text as one would type it; LaTeX overrides what looks different there."""

    at_most: str
    at_least: str
    equals: str

    at_most, at_least, equals = "<=", ">=", "=="
    semidefinite = ">>"
    dots = "..."
    negation = NEGATION  # how tightly a minus sign binds

    def name(self, name: str) -> str:
        """A variable's name."""
        return name

    def number(self, value: float) -> str:
        """A number, with as many digits as a reader wants."""
        return number(value)

    def brackets(self, text: str) -> str:
        """The text in brackets that fit its height."""
        return f"({text})"

    def power(self, base: str, exponent: str) -> str:
        """A power of which both parts have their brackets already."""
        return f"{base}**{exponent}"

    def times(self, left: str, right: str) -> str:
        """The product of two factors that have their brackets already."""
        return f"{left} * {right}"

    def squares(self, text: str) -> str:
        """The squares of all entries, added up."""
        return f"sum_squares({text})"

    def transposed(self, text: str) -> str:
        """The transpose of a matrix."""
        return f"{text}.T"

    def subscript(self, base: str, index: str) -> str:
        """Elements of an array."""
        return f"{base}[{index}]"

    def array(self, array: np.ndarray) -> str:
        """A small array of one or two dimensions."""
        rows = [f"[{', '.join(map(self.number, row))}]" for row in np.atleast_2d(array)]
        return rows[0] if array.ndim < 2 else f"[{', '.join(rows)}]"

    def shape(self, name: str, shape: tuple[int, ...]) -> str:
        """What a name stands for: an array of this shape."""
        return f"{name}: {' x '.join(map(str, shape))} numbers"


class LatexNotation(Notation):
    """LaTeX without dollar signs."""

    at_most: str
    at_least: str
    equals: str
    semidefinite: str
    element: str
    elementwise: str
    dot: str
    infinity: str
    dots: str

    at_most, at_least, equals = r"\le", r"\ge", "="
    semidefinite, element = r"\succeq", r"\in"
    elementwise, dot, infinity, dots = r"\circ", r"\cdot", r"\infty", r"\ldots"
    total = r"\mathbf{1}^{\top}"
    negation = SUM

    def name(self, name: str) -> str:
        """A name: Greek letters by name, what follows an underscore or a letter as an index."""
        base, _, index = name.partition("_")
        found = re.fullmatch(r"([A-Za-z]+)(\d+)", base)
        if found and not index:
            base, index = found.groups()
        if not base:  # nothing that an index could belong to
            return self.word(name)
        text = base if len(base) == 1 and base.isalnum() else self.word(base)
        text = rf"\{base}" if base in _GREEK else text
        if not index:
            return text
        shown = index if index.isdecimal() or (len(index) == 1 and index.isalnum()) else self.word(index)
        return f"{text}_{{{shown}}}"

    def word(self, text: str) -> str:
        """Upright text inside a formula."""
        return rf"\mathrm{{{_clean(text)}}}"

    def number(self, value: float) -> str:
        """A number; large and small ones with a power of ten."""
        mantissa, mark, exponent = f"{value:.6g}".partition("e")
        if not mark:
            return mantissa
        power = f"10^{{{int(exponent)}}}"
        return power if mantissa == "1" else rf"{mantissa} \cdot {power}"

    def brackets(self, text: str) -> str:
        """The text in brackets that grow with it."""
        return rf"\left({text}\right)"

    def function(self, name: str) -> str:
        """The name of a function, to be followed by brackets."""
        return rf"\{name}" if name in _KNOWN_FUNCTIONS else rf"\operatorname{{{_clean(name)}}}"

    def fraction(self, top: str, bottom: str) -> str:
        """A quotient, one above the other."""
        return rf"\frac{{{top}}}{{{bottom}}}"

    def power(self, base: str, exponent: str) -> str:
        """A power, the exponent raised."""
        return f"{base}^{{{exponent}}}"

    def times(self, left: str, right: str) -> str:
        """The factors side by side."""
        return f"{left} {right}"

    def root(self, text: str) -> str:
        """A square root."""
        return rf"\sqrt{{{text}}}"

    def exponential(self, text: str) -> str:
        """A power of e."""
        return f"e^{{{text}}}"

    def absolute(self, text: str) -> str:
        """An absolute value."""
        return rf"\left|{text}\right|"

    def norm(self, text: str, kind: str) -> str:
        """A norm with its kind as an index."""
        return rf"\left\|{text}\right\|_{{{kind}}}"

    def squares(self, text: str) -> str:
        """The square of the Euclidean norm."""
        return self.power(self.norm(text, "2"), "2")

    def transposed(self, text: str) -> str:
        """The transpose, by a raised sign."""
        return rf"{text}^{{\top}}"

    def subscript(self, base: str, index: str) -> str:
        """Elements of an array, by a lowered index."""
        return f"{base}_{{{index}}}" if "_" not in base else rf"\left({base}\right)_{{{index}}}"

    def array(self, array: np.ndarray) -> str:
        """A small array as a matrix in brackets."""
        rows = [map(self.number, row) for row in np.atleast_2d(array)]
        body = r" \\ ".join(" & ".join(row) for row in rows)
        return rf"\begin{{pmatrix}}{body}\end{{pmatrix}}"

    def shape(self, name: str, shape: tuple[int, ...]) -> str:
        """What a name stands for: an element of a space of arrays."""
        size = r" \times ".join(map(str, shape))
        return rf"{name} \in \mathbb{{R}}^{{{size}}}"


_PRINTED = {character: rf"\{character}" for character in "_&%#{}$ "} | {
    "\\": r"\backslash{}",
    "^": r"\wedge{}",
    "~": r"\sim{}",
    "<": "<{}",  # which no page takes for the beginning of a tag, should it be put there as it is
}


def _clean(text: str) -> str:
    """Text that LaTeX prints as it stands, whatever it is."""
    return "".join(
        _PRINTED.get(character, character if character.isprintable() else r"\ ") for character in text
    )


TEXT, LATEX = Notation(), LatexNotation()
