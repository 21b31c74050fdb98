"""A property that is compiled once, and refused once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from blomodel.errors import NonconvexLowerError

T = TypeVar("T")


class compiled_once(Generic[T]):
    """Like ``functools.cached_property``, but a NonconvexLowerError is remembered as well.

    To find out again that an expression is not convex would cost as much as compiling it.
    """

    def __init__(self, build: Callable[[Any], T]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> compiled_once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> compiled_once[T] | T:
        if instance is None:
            return self
        # Without __set__ this is reached only until the value lies in the instance under its name.
        refusals = vars(instance).setdefault("_refusals", {})
        if self.name in refusals:
            raise NonconvexLowerError(refusals[self.name])
        try:
            built = self.build(instance)
        except NonconvexLowerError as error:
            refusals[self.name] = str(error)
            raise
        vars(instance)[self.name] = built
        return built
