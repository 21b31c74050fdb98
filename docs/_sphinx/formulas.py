"""Formulas in the library's plain texts, such as F_gamma(x) and grad_y g, set as mathematics.

Terminals show the texts as they are; pages show the same texts with the symbols of the other pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable

GREEK = "gamma|theta|lambda|mu|alpha|beta|delta|rho|eta"
INSIDE = r"(?:[^()]|\([^()]*\))*"
# What is mathematics by itself, longest first: functions, tuples, norms, indices, letters.
PIECE = re.compile(
    r"\|grad_y g\|\^2"
    rf"|\b(?:[FfgvhYy]|phi)(?:_(?:{GREEK}|[a-zA-Z]))?\*?\((?=[xyz., _*kKT()]+\)){INSIDE}\)"
    rf"|\((?:x|y|z|g|v|delta|alpha)(?:(?:, | - )(?:x|y|z|g|v|alpha))+\)"
    rf"|\b[A-Za-z](?:_(?:{GREEK}|[a-zA-Z]|\d))\b\*?"
    rf"|\bgrad_[xy] [fg]\b|\bn\^d\b|\b1/(?:{GREEK}|c)\b"
    rf"|\b(?:{GREEK})\^2|\b(?:{GREEK}) [cst]\b|\(t - 1\)/\(t \+ 2\)|\(k \+ 1\)\^p\b"
    rf"|\b(?:{GREEK}|phi)\b"
    r"|\by\*"
    r"|(?<![\w'.=/-])[fgvxyzwXYKTNGnct](?![\w'.-]|(?:\.\w))"
    r"|(?<![\w'.=/-])[fgvxyzwXYKTN](?=\.(?:\s|$))"
)
JOINTS = {"", "/", " / ", " + ", " - ", " = ", " <= ", " >= "}
AFTER_GREEK = {" "}  # gamma (g - v)
WORDS = {
    "phi": r"\varphi ",
    **{name: rf"\{name} " for name in GREEK.split("|")},
    "grad": r"\nabla",
}


def latex(piece: str) -> str:
    """A piece of plain text in the language of formulas."""
    text = piece.replace("|grad_y g|^2", r"\Vert \nabla_y g \Vert^2")
    text = re.sub(rf"_({GREEK})\b", lambda match: rf"_{{\{match[1]}}}", text)
    text = re.sub(rf"(?<!\\)\b(phi|{GREEK}|grad)(?![a-z])", lambda match: WORDS[match[1]], text)
    text = (
        text.replace("y*", "y^*")
        .replace(", .", r", \cdot")
        .replace("<=", r"\le ")
        .replace(">=", r"\ge ")
    )
    return re.sub(r"\s+", " ", text).strip()


def with_formulas(text: str, plain: Callable[[str], str] = str, mark: str = "$%s$") -> str:
    """The text with its formulas marked; ``plain`` is applied to what lies between them."""
    pieces: list[tuple[int, int]] = []
    for match in PIECE.finditer(text):
        if pieces:
            begin, end = pieces[-1]
            between = text[end : match.start()]
            is_product = between in AFTER_GREEK and re.search(rf"(?:{GREEK}|\^2|= c)$", text[begin:end])
            if between in JOINTS or is_product:
                pieces[-1] = begin, match.end()
                continue
        pieces.append((match.start(), match.end()))
    parts, last = [], 0
    for begin, end in pieces:
        tail = re.match(r" (?:=|<=|>=) -?\d+\b", text[end:])
        end += tail.end() if tail else 0
        parts += [plain(text[last:begin]), mark % latex(text[begin:end])]
        last = end
    return "".join([*parts, plain(text[last:])])


def rst_with_formulas(text: str) -> str:
    """The same for a docstring; its own formulas and its code stay as they are."""
    kept = re.compile(r"(:math:`[^`]*`|``[^`]*``|^\.\. math::.*?(?=^\S|\Z))", re.DOTALL | re.MULTILINE)
    parts = kept.split(text)
    return "".join(
        part if k % 2 else with_formulas(part, mark=":math:`%s`") for k, part in enumerate(parts)
    )
