"""The exceptions of this library; each message names what was asked, what is wrong and what works."""

from __future__ import annotations


class BlomodelError(Exception):
    """Base class: catch this to catch every error the library raises on purpose."""


class ModelError(BlomodelError, ValueError):
    """The problem as stated cannot be a bilevel problem of this library."""


class LevelError(ModelError):
    """A variable belongs to no level, or to both."""


class VariableTypeError(ModelError):
    """Complex variables, or whole ones where the chosen method takes none."""


class DataError(ModelError):
    """Data that is missing, not finite or of the wrong shape."""


class UnsupportedAtomError(ModelError):
    """A cvxpy atom that the compiler has no rule for."""


class UnknownInstructionError(BlomodelError, AssertionError):
    """A pass over a tape met an instruction that it has no entry for: a gap in this library."""


class NonconvexLowerError(ModelError):
    """The lower level is not convex in its own variables, which the chosen method needs."""


class ReformulationError(ModelError):
    """A single-level problem was asked for whose requirements the problem does not meet."""


class MissingPackageError(BlomodelError, ImportError):
    """A package or solver that comes with an extra of this one is not installed."""


class UnknownMethodError(BlomodelError, ValueError):
    """No method has this name."""


class IncompleteMethodError(BlomodelError, TypeError):
    """A class was registered as a method without declaring all that a method must."""


class UnknownSettingError(BlomodelError, TypeError):
    """The method has no setting of this name, or the value cannot be one."""


class UnknownSolverError(UnknownSettingError):
    """No inner solver has this name."""


class NotSolvedError(BlomodelError, AttributeError):
    """Something was asked that only a solve can tell."""


class LevelWarning(UserWarning):
    """A variable is declared at a level where it is probably not meant to be."""


class UnsuitableMethodWarning(UserWarning):
    """The method's own conditions do not hold here, and its answer may be wrong."""


class SolverError(BlomodelError, RuntimeError):
    """A numerical solver failed in a way that leaves no answer to report."""


class LowerLevelError(ModelError):
    """The lower level has no answer (infeasible or unbounded) at any x that was tried."""

    def __init__(self, message: str, x: object = None) -> None:
        super().__init__(message)
        self.x = x


class FileFormatError(ModelError):
    """A file of a bilevel problem that cannot be read; the message has its line."""
