"""What compiled loops remember, written down so that a run can be resumed where it ended.

A method is plain Python around a few calls of compiled loops, and the Python part does the same again
when it is run again from the same start. So only the loops' own state is kept: at the end of each call
of ``run_in_slices`` all numbers that its functions hold are copied. A resumed run begins as the first
one did; calls that were finished then return at once what they returned, with the numbers put back,
and the call that was cut short goes on from its last iteration.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import FileFormatError

if TYPE_CHECKING:
    from blomodel.methods.run.run import Run

OWN_CODE = "blomodel.methods."  # objects of its classes may count iterations


@dataclass
class Call:
    """One call of ``run_in_slices``: how far it came, and what its functions held then."""

    base: int  # iterations of the run when it began
    length: int  # of the next stretch
    total: int  # iterations after the present stretch
    left: int = 0  # of the present stretch
    done: int = 0
    awaits_test: bool = False  # at the end of a stretch, before it is asked whether that was the last
    is_finished: bool = False
    residual: float = float("inf")
    next_gap: int = 1  # see Run
    asked: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # lower answers, in order
    state: list[Any] = field(default_factory=list)


class Journal:
    """The calls of a run, and those of an earlier run that it repeats first."""

    def __init__(self, earlier: Sequence[Call] = ()) -> None:
        self.calls: list[Call] = []
        self._earlier = list(earlier)
        self.present: Call | None = None  # while a loop is at work

    def begin(self, run: Run, memory: Memory, first: int, total: int) -> Call:
        """A new call, or the earlier run's that has come to its turn, with its state put back."""
        number = len(self.calls)
        if number < len(self._earlier):
            call = copy.copy(self._earlier[number])
            call.asked = list(call.asked)
            memory.put_back(call.state)
            run.iterations, run.next_gap = call.base + call.done, call.next_gap
            for x, near in call.asked:  # each lower solve starts from the last one
                run.model.solve_lower(x, run.p, near, deadline=run.deadline)
        else:
            call = Call(run.iterations, first, total, next_gap=run.next_gap)
        self.calls.append(call)
        self.present = call
        return call

    def end(self, memory: Memory) -> None:
        """Copy what is remembered: the loop has ended, or is left at a limit."""
        if self.present is not None:
            self.present.state = memory.copy()
        self.present = None


class Memory:
    """All numbers that the functions around a loop hold from one call to the next.

    These are the arrays, lists of numbers, counters and random generators in their closures and in the
    objects of methods that they belong to. Tapes are left out: their workspaces hold nothing that is
    not computed again, except points, which methods hold as arrays too.
    """

    def __init__(self, *functions: Any) -> None:
        self._items: list[Any] = []
        self._seen: dict[int, Any] = {}
        for function in functions:
            self._visit(function)

    def copy(self) -> list[Any]:
        """The present numbers."""
        return [_copied(item) for item in self._items]

    def put_back(self, state: Sequence[Any]) -> None:
        """Make the numbers what they were."""
        if len(state) != len(self._items):
            raise _does_not_fit(
                f"{len(state)} parts of a state, where this method has {len(self._items)}"
            )
        for item, kept in zip(self._items, state, strict=True):
            _put_back(item, kept)

    def _visit(self, found: Any) -> None:
        if id(found) in self._seen:
            return
        self._seen[id(found)] = found
        if isinstance(found, np.memmap):
            return  # data that lie in a file
        if isinstance(found, np.ndarray):
            if found.dtype == float and found.flags.writeable:
                self._items.append(found)
        elif isinstance(found, np.random.Generator) or _is_list_of_numbers(found):
            self._items.append(found)
        elif isinstance(found, tuple | list | dict):
            parts = list(found.values()) if isinstance(found, dict) else list(found)
            if not any(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in parts):
                for part in parts:  # else it is a tape or a set
                    self._visit(part)
        elif isinstance(found, types.FunctionType):
            for cell in found.__closure__ or ():
                try:
                    self._visit(cell.cell_contents)
                except ValueError:  # the cell is empty
                    continue
        elif isinstance(found, types.MethodType):
            self._visit(found.__self__)
        elif isinstance(found, functools.partial):
            self._visit((found.func, *found.args, *found.keywords.values()))
        elif type(found).__module__.startswith(OWN_CODE) and not dataclasses.is_dataclass(found):
            if hasattr(found, "run"):
                return  # what a method has set up, which is set up again
            for name, part in vars(found).items():
                if isinstance(part, int | float) and not isinstance(part, bool):
                    self._items.append((found, name))
                else:
                    self._visit(part)


def _is_list_of_numbers(found: Any) -> bool:
    return (
        isinstance(found, list)
        and bool(found)
        and all(isinstance(part, int | float) and not isinstance(part, bool) for part in found)
    )


def _copied(item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return item.copy()
    if isinstance(item, np.random.Generator):
        return copy.deepcopy(item.bit_generator.state)
    return list(item) if isinstance(item, list) else getattr(*item)


def _put_back(item: Any, kept: Any) -> None:
    if isinstance(item, np.ndarray):
        if not isinstance(kept, np.ndarray) or kept.shape != item.shape:
            raise _does_not_fit("an array has another shape")
        item[...] = kept
    elif isinstance(item, np.random.Generator):
        try:
            item.bit_generator.state = kept
        except (TypeError, ValueError, KeyError) as error:
            raise _does_not_fit("the state of its random numbers is of another kind") from error
    elif isinstance(item, list):
        if not _is_list_of_numbers(kept):
            raise _does_not_fit("a list of numbers is none")
        item[:] = kept
    else:
        if not isinstance(kept, int | float):
            raise _does_not_fit("a number is none")
        owner, name = item
        setattr(owner, name, type(getattr(owner, name))(kept))


def _does_not_fit(what: str) -> FileFormatError:
    return FileFormatError(
        f"The saved run does not fit this problem and method ({what}); begin a new one without resume=."
    )
