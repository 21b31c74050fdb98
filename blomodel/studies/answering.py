"""The lower level as functions of x, as users call them on a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from blomodel.solve.asked import AskedProblem

if TYPE_CHECKING:
    from blomodel.problem import BilevelProblem
    from blomodel.studies.answers import LowerAnswer, LowerAnswers


class AnsweringProblem(AskedProblem):
    """A problem whose lower level can be asked at any x."""

    @overload
    def answer(self, x: float | Mapping[Any, Any]) -> LowerAnswer: ...

    @overload
    def answer(self, x: Any) -> LowerAnswer | LowerAnswers: ...

    def answer(self, x: Any) -> LowerAnswer | LowerAnswers:
        """What the lower level answers when the upper level decides x: y*(x).

        Of several answers, the one that the upper level likes best. The variables keep their values.

        Parameters
        ----------
        x : number, array, dict from variable to array, or array with an x in each row
            An array stands for all upper variables, flattened column by column. With many x the result
            is a sequence, whose ``y`` and ``value`` are arrays.

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
        >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [x >= 0], lower)
        >>> found = problem.answer(2.5)
        >>> float(found.values["y"].round(6)), round(found.lower_value, 6), found.certificate.accepted
        (1.0, 2.25, True)
        >>> problem.answer([0.5, 1.0, 2.0]).y.ravel().round(6)
        array([0.5, 1. , 1. ])
        """
        from blomodel.studies.answers import LowerAnswers, LowerFunctions, read_points

        points, is_single = read_points(self.levels, x, "answer")
        functions = LowerFunctions(cast("BilevelProblem", self))
        found = tuple(functions.answer(point) for point in points)
        return found[0] if is_single else LowerAnswers(found)

    def value_at(self, x: Any, gradient: bool = False) -> Any:
        """The upper objective when the upper level decides x and the lower level answers: phi(x).

        Parameters
        ----------
        x : see ``answer``
        gradient : bool
            Return the pair of value and gradient; the gradient is NaN where it is not known to exist,
            as at a kink of phi.

        Returns
        -------
        float or array
            NaN where the lower level has no answer. Upper constraints are not looked at: see
            ``answer(x).is_allowed``.

        Examples
        --------
        >>> import cvxpy as cp, blomodel as bm
        >>> x, y = cp.Variable(name="x"), cp.Variable(name="y")
        >>> lower = bm.Lower(cp.Minimize((y - x) ** 2), [y <= 1], variables=[y])
        >>> problem = bm.BilevelProblem(cp.Minimize((x - 2) ** 2 + (y - 2) ** 2), [x >= 0], lower)
        >>> value, slope = problem.value_at([0.5, 2.5], gradient=True)
        >>> value.round(6), slope.round(6).ravel()
        (array([4.5 , 1.25]), array([-6.,  1.]))
        """
        return self._evaluate(x, "value", "value_at", gradient)

    def lower_value(self, x: Any, gradient: bool = False) -> Any:
        """The lower level's optimal value when the upper level decides x: v(x).

        Parameters and result are those of ``value_at``.
        """
        return self._evaluate(x, "lower_value", "lower_value", gradient)

    def _evaluate(self, x: Any, name: str, asked_by: str, has_gradient: bool) -> Any:
        from blomodel.studies.answers import LowerFunctions, read_points

        points, is_single = read_points(self.levels, x, asked_by)
        functions = LowerFunctions(cast("BilevelProblem", self))
        values = np.array([getattr(functions.answer(point), name) for point in points])
        found: Any = float(values[0]) if is_single else values
        if not has_gradient:
            return found
        slope = functions.value_gradient if name == "value" else functions.lower_value_gradient
        slopes = np.array([slope(point) for point in points])
        return found, slopes[0] if is_single else slopes
