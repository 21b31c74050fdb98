"""Settings of methods: one vocabulary for all of them, further names, and the check of what is given."""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blomodel.basics.registry import nearest
from blomodel.errors import UnknownSettingError
from blomodel.methods.run.arguments import unknown_word


class Kind(enum.Enum):
    """What a setting measures."""

    STEP = "length of a step"
    COUNT = "whole number"
    WEIGHT = "weight"
    RATE = "rate"
    TOLERANCE = "tolerance"
    SWITCH = "yes or no"
    CHOICE = "one of some words"


@dataclasses.dataclass(frozen=True)
class Word:
    """A name that means the same in every method that has it."""

    kind: Kind
    meaning: str


# step_<what> is the length of a step in what it names, <what>_steps is a number of steps.
VOCABULARY: dict[str, Word] = {
    "step_x": Word(Kind.STEP, "step in x; in x and y together where a method moves both at once"),
    "step_y": Word(Kind.STEP, "step in y, or of the inner loop that looks for the lower answer"),
    "step_y_penalised": Word(Kind.STEP, "step in y of the inner loop that f takes part in"),
    "step_theta": Word(Kind.STEP, "step of theta, the proximal point near y"),
    "step_multiplier": Word(Kind.STEP, "step of the lower level's multipliers"),
    "inner_steps": Word(Kind.COUNT, "steps of the inner loop in each iteration"),
    "linear_steps": Word(Kind.COUNT, "steps of the linear solver in each iteration"),
    "batch_size": Word(
        Kind.COUNT, "rows of data drawn at random for each step; None: all rows in every step"
    ),
    "threads": Word(Kind.COUNT, "threads that share long products and sums; None: one"),
    "max_steps": Word(Kind.COUNT, "largest number of iterations, for each penalty weight if it grows"),
    "penalty": Word(Kind.WEIGHT, "weight of the lower level against f; the first one if it grows"),
    "penalty_first": Word(Kind.WEIGHT, "smallest weight of a path of growing weights"),
    "penalty_last": Word(Kind.WEIGHT, "largest weight of such a path"),
    "penalty_growth": Word(Kind.RATE, "factor from one weight of such a path to the next"),
    "penalty_power": Word(Kind.RATE, "power of the number of iterations with which the weight grows"),
    "upper_share": Word(Kind.RATE, "share of f where steps follow a mixture of both objectives"),
    "step_power": Word(Kind.RATE, "power of the number of iterations with which steps fall"),
    "proximal": Word(Kind.WEIGHT, "how far the proximal point theta may go from y; large: far"),
    "proximal_multiplier": Word(Kind.WEIGHT, "the same for the multipliers"),
    "multiplier_bound": Word(Kind.WEIGHT, "largest multiplier"),
    "restart": Word(
        Kind.SWITCH, "inner loops begin afresh in every iteration, not where they ended in the last one"
    ),
    "settled": Word(Kind.TOLERANCE, "relative change of f at which the iteration stops"),
    "stop_at": Word(Kind.TOLERANCE, "slope at which the iteration stops"),
    "stop_move": Word(
        Kind.TOLERANCE, "length of the last step in x, in the Euclidean norm, at which the method stops"
    ),
    "stop_relative_move": Word(
        Kind.TOLERANCE, "the same over the length of x, as in section A.11 of the MEHA paper"
    ),
    "stop_change": Word(
        Kind.TOLERANCE, "change of f in one iteration at which the method stops, as in the SVM of BLOCC"
    ),
    "variant": Word(
        Kind.CHOICE,
        "'paper': the algorithm as its paper prints it, with constant steps; 'default': what works best",
    ),
    "n_starts": Word(Kind.COUNT, "number of start points"),
    "n_points": Word(Kind.COUNT, "number of points to look at"),
}


# Further settings that are numbers in the units of the problem
OTHER_LENGTHS = ("rate", "rate_function", "theta", "stop_move", "stop_change")


def setting(
    default: Any,
    meaning: str,
    *,
    aliases: tuple[str, ...] = (),
    opposites: tuple[str, ...] = (),
    minimum: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    own: bool = False,
) -> Any:
    """Declare a dataclass field as a setting of a method.

    The annotation of the field says what a value may be: ``float``, ``int``, ``bool`` or ``str``, with
    ``| Schedule`` where it may change with the iterations, and ``| None`` where the method can choose by
    itself.

    Parameters
    ----------
    default : object
        Value where the user gives none.
    meaning : str
        One line for the tables.
    aliases : tuple of str
        Further names that users may give, such as the letter of the paper.
    opposites : tuple of str
        Names that mean the contrary of a setting that is true or false.
    minimum, above : float, optional
        Smallest value, or a number that the value must exceed.
    choices : tuple of str
        The words that are allowed.
    own : bool
        Whether the name belongs to this method alone. All other names are those of VOCABULARY.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "meaning": meaning,
            "aliases": aliases,
            "opposites": opposites,
            "minimum": minimum,
            "above": above,
            "choices": choices,
            "own": own,
        },
    )


def other_names(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """The further names of a setting as tables show them."""
    return (*field.metadata["aliases"], *(f"not {word}" for word in field.metadata["opposites"]))


def check_settings(cls: Any) -> None:
    """Refuse a method whose settings are outside of the vocabulary, or share a name."""
    taken: set[str] = set()
    for field in dataclasses.fields(cls):
        if "meaning" not in field.metadata:
            raise UnknownSettingError(
                f"{cls.name}: the field {field.name!r} has no meaning; declare it with setting(...)."
            )
        is_common = field.name in VOCABULARY
        if is_common and field.metadata["own"]:
            raise UnknownSettingError(
                f"{cls.name}: {field.name!r} is a word of all methods "
                f"({VOCABULARY[field.name].meaning}), so that it cannot be this method's own."
            )
        if not is_common and not field.metadata["own"]:
            raise UnknownSettingError(
                f"{cls.name}: the setting {field.name!r} is no word of the vocabulary{_near(field)}. "
                "Use a word of "
                "blomodel.methods.run.settings.VOCABULARY, or declare this one as the method's own with "
                "setting(..., own=True)."
            )
        words = (field.name, *field.metadata["aliases"], *field.metadata["opposites"])
        for word in words:
            if word in taken or (word in VOCABULARY and word != field.name):
                raise UnknownSettingError(
                    f"{cls.name}: {word!r} cannot be a name of {field.name!r}; it means something else."
                )
            taken.add(word)


def _near(field: dataclasses.Field[Any]) -> str:
    like = nearest(field.name, VOCABULARY)
    return "" if like is None else f"; the nearest one is {like!r}"


def words_of(cls: Any) -> dict[str, str]:
    """Every name that a method's settings may be given by, with the setting that it means."""
    return {
        word: field.name
        for field in dataclasses.fields(cls)
        for word in (field.name, *field.metadata["aliases"], *field.metadata["opposites"])
    }


def resolve(
    cls: Any, given: dict[str, Any], owners: Callable[[str], Sequence[str]] | None = None
) -> dict[str, Any]:
    """What a user gave, checked, under the names of the method's fields.

    ``owners`` tells which methods have a setting of some name, for the message.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    words = words_of(cls)
    chosen: dict[str, Any] = {}
    given_as: dict[str, str] = {}
    for word, value in given.items():
        if word not in words:
            raise UnknownSettingError(unknown_word(cls.name, word, words, owners or (lambda _: ())))
        field = fields[words[word]]
        if field.name in chosen:
            raise UnknownSettingError(
                f"{cls.name}: {given_as[field.name]!r} and {word!r} are two names of one setting, "
                f"{field.name!r}; give one of them."
            )
        wrong = _complaint(field, value)
        if wrong:
            also = "" if word == field.name else f" ({word} is another name of {field.name})"
            raise UnknownSettingError(f"{cls.name}: {word} = {value!r} {wrong}{also}.")
        is_opposite = word in field.metadata["opposites"] and value is not None
        chosen[field.name], given_as[field.name] = not value if is_opposite else value, word
    return chosen


def has_stated_units(cls: Any, given: dict[str, Any]) -> bool:
    """Whether what a user gave holds lengths or weights, which are numbers in the problem's own units.

    The numbers that a paper prints are such numbers too.
    """
    words, kinds = words_of(cls), {Kind.STEP, Kind.WEIGHT}
    for word, value in given.items():
        name = words.get(word, word)
        kind = VOCABULARY[name].kind if name in VOCABULARY else None
        if name == "variant":
            if value == "paper":
                return True
        elif value is not None and (kind in kinds or name.startswith("step_") or name in OTHER_LENGTHS):
            return True
    return False


def _complaint(field: dataclasses.Field[Any], value: Any) -> str:
    """Why a setting cannot have this value, and what would work; empty where it can."""
    kinds = _kinds(field)
    if not kinds:
        return ""
    automatic = ", or None for an automatic choice" if "None" in kinds else ""
    if value is None:
        return "" if automatic else f"is no value; it must be {_wanted(field, kinds)}"
    is_right = any(_is_a(value, kind) for kind in kinds - {"None"})
    if is_right and callable(value):
        return _complaint_of_schedule(field, value)
    if not is_right or (field.metadata["choices"] and value not in field.metadata["choices"]):
        return f"does not fit; it must be {_wanted(field, kinds)}{automatic}"
    minimum, above = field.metadata["minimum"], field.metadata["above"]
    if minimum is not None and not value >= minimum:
        return f"is too small; it must be at least {minimum:g}{automatic}"
    if above is not None and not value > above:
        return f"is too small; it must be larger than {above:g}{automatic}"
    return ""


def _complaint_of_schedule(field: dataclasses.Field[Any], schedule: Callable[[int], float]) -> str:
    """Why a function of the iteration cannot be a schedule of this setting; a few are tried."""
    minimum, above = field.metadata["minimum"], field.metadata["above"]
    for k in (0, 1, 100):
        try:
            value = float(schedule(k))
        except Exception as error:
            return f"gives no number at iteration {k} ({type(error).__name__}: {error})"
        if not np.isfinite(value) or (minimum is not None and value < minimum):
            return f"gives {value:g} at iteration {k}; it must be at least {minimum or 0:g}"
        if above is not None and not value > above:
            return f"gives {value:g} at iteration {k}; it must be larger than {above:g}"
    return ""


def _kinds(field: dataclasses.Field[Any]) -> set[str]:
    """The parts of the annotation; nothing where it is not made of the kinds that are known here."""
    written = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    parts = {part.strip() for part in written.split("|")}
    return parts if parts <= {"float", "int", "bool", "str", "Schedule", "None"} else set()


def _is_a(value: Any, kind: str) -> bool:
    # NumPy's numbers are registered with these classes; a bool would pass for a number otherwise.
    is_switch = isinstance(value, bool | np.bool_)
    if kind == "bool":
        return is_switch
    if kind == "str":
        return isinstance(value, str)
    if kind == "Schedule":
        return callable(value)
    if kind == "int":
        return isinstance(value, numbers.Integral) and not is_switch
    return isinstance(value, numbers.Real) and not is_switch and value == value


def _wanted(field: dataclasses.Field[Any], kinds: set[str]) -> str:
    if field.metadata["choices"]:
        return "one of " + ", ".join(map(repr, field.metadata["choices"]))
    known = {"bool": "True or False", "int": "a whole number", "float": "a number", "str": "a word"}
    known["Schedule"] = "a schedule of bm.schedules, or another function of the iteration"
    return " or ".join(text for kind, text in known.items() if kind in kinds)
