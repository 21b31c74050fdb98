"""What has been found out about an object, kept on that object and gone with it."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from blomodel.errors import DataError, ModelError

Arguments = ParamSpec("Arguments")
T = TypeVar("T")

_HOME = "_memory"  # where an object keeps what functions remember about it


@dataclass(frozen=True)
class _Finding:
    asked: tuple[Any, ...]
    answer: Any = None
    refusal: ModelError | None = None


def remembered(
    find: Callable[Concatenate[Any, Arguments], T],
) -> Callable[Concatenate[Any, Arguments], T]:
    """Decorator: a function of an object, worked out once for that object.

    Of further arguments, such as the values of parameters, the last ones are remembered. So is a
    ModelError: to find out again that an expression is not convex would cost as much as compiling it.
    Only a DataError is not, since data may be put right.

    Examples
    --------
    >>> class Model:
    ...     pass
    >>> @remembered
    ... def size(model):
    ...     print("looking")
    ...     return 3
    >>> model = Model()
    >>> size(model), size(model)
    looking
    (3, 3)
    """
    name = f"{find.__module__}.{find.__qualname__}"

    @wraps(find)
    def recall(owner: Any, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> T:
        memory: dict[str, _Finding] = vars(owner).setdefault(_HOME, {})
        known = memory.get(name)
        asked: tuple[Any, ...] = ()
        if arguments or keywords:  # programs are asked for without, and in every evaluation
            asked = tuple(map(_comparable, (*arguments, *keywords.values())))
        if known is None or known.asked != asked:
            try:
                known = _Finding(asked, find(owner, *arguments, **keywords))
            except DataError:
                raise
            except ModelError as error:
                memory[name] = _Finding(asked, refusal=copy(error))
                raise
            memory[name] = known
        if known.refusal is not None:
            raise copy(known.refusal)
        answer: T = known.answer
        return answer

    return recall


def _comparable(argument: Any) -> Any:
    return argument.tobytes() if isinstance(argument, np.ndarray) else argument


def bare_copy(owner: T) -> T:
    """A copy without what the object computes on demand; refusals stay, since they are only words."""
    bare = object.__new__(type(owner))
    for name, value in vars(owner).items():
        if not isinstance(getattr(type(owner), name, None), cached_property):
            vars(bare)[name] = value
    refusals = {k: v for k, v in vars(owner).get(_HOME, {}).items() if v.refusal is not None}
    vars(bare)[_HOME] = refusals
    return bare
