"""The lower objective as a smooth part plus weighted norms that have a proximal step.

Every norm of lower variables in the objective is put in for by a variable of its own. The rest must
be linear in these stand-ins with coefficients that do not hold y: the coefficients are the weights,
whatever products, sums and indices stand between, and what remains at zero is the smooth part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.elementwise.abs import abs as abs_atom
from cvxpy.atoms.norm1 import norm1
from cvxpy.atoms.pnorm import Pnorm, PnormApprox

from blomodel.basics.memory import remembered
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.kinks import kinks
from blomodel.compiler.expressions.rewriting import rewrite
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jacobian, vjp
from blomodel.compiler.passes.polynomial import ABSENT, CONSTANT, polynomial
from blomodel.compiler.rules import run_order
from blomodel.compiler.tape import Tape
from blomodel.errors import ModelError
from blomodel.kernels.prox import GROUP, L1, build_penalty, penalty_values
from blomodel.model.model import Model
from blomodel.model.sizes import SimplerSizes
from blomodel.programs.objective import summands, total
from blomodel.text.layout import counted
from blomodel.text.shorten import shorten

PenaltySpec = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class SplitObjective:
    """g(x, y) = smooth(x, y) + sum_k weights_k(x) penalty_k(y).

    Attributes
    ----------
    smooth : Tape
        The smooth part of g; ``model.g`` itself when g has no kinks.
    spec : tuple of arrays
        The penalties |y_i| and |y_group|, for kernels/prox.py.
    weights : Tape
        Inputs x, y, p; the weights, which do not depend on y.
    text : str
        What the penalties are, for a person.
    """

    smooth: Tape
    spec: PenaltySpec
    weights: Tape
    text: str

    @property
    def n_weights(self) -> int:
        """Number of weights; 0 when g is smooth."""
        return self.weights.n_outputs

    @property
    def is_smooth(self) -> bool:
        """Whether there is nothing to take a proximal step of."""
        return self.n_weights == 0

    @cached_property
    def weights_vjp(self) -> Tape:
        """Transposed Jacobian of the weights in x times a vector: inputs x, y, p, cotangent."""
        return vjp(self.weights, ("x",))

    def penalties(self, y: np.ndarray) -> np.ndarray:
        """What each weight multiplies at y."""
        out = np.zeros(self.n_weights)
        penalty_values(self.spec, np.asarray(y, dtype=float), out)
        return out

    def penalty(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> float:
        """The weighted penalties."""
        return float(self.weights(x, y, p) @ self.penalties(y))

    def value(self, x: np.ndarray, y: np.ndarray, p: np.ndarray) -> float:
        """g(x, y)."""
        return float(self.smooth(x, y, p)[0]) + self.penalty(x, y, p)


@remembered  # hundreds of norms take a second
def split_objective(model: Model) -> SplitObjective:
    """Split the lower objective into a smooth part and norms of lower variables with weights.

    Raises
    ------
    ModelError
        When a term has a kink that is no weighted sum of |y_i| and |y_group| over disjoint groups.
    """
    return _Splitter(model).split()


@dataclass(frozen=True, eq=False)
class _Norm:
    """A norm of lower variables: its elements are sums of sizes of entries, or sizes of groups."""

    part: Any
    places: np.ndarray  # of each element of the argument, in the order of ``order``
    factors: np.ndarray
    order: np.ndarray
    length: int  # entries in a group; 1 for |y_i|


class _Splitter:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.ids = {leaf.id for leaf in model.y.leaves}
        self.simpler = SimplerSizes(model.blocks, model.x_bounds)
        self.norms: dict[int, _Norm] = {}
        self.groups: dict[tuple[int, ...], int] = {}

    def split(self) -> SplitObjective:
        model = self.model
        smooth: list[cp.Expression] = []
        kinked: list[cp.Expression] = []
        for term in summands(model.g_expression):
            term = rewrite(term, self.simpler)
            found = kinks(term, self.ids)
            for kink in found:
                self.norms[id(kink)] = self._read(kink, term)
            (kinked if found else smooth).append(term)
        if not kinked:
            nothing = lower([np.zeros(0)], model.blocks)
            return SplitObjective(model.g, build_penalty(()), nothing, "smooth")
        self._number()
        stand_ins = [rewrite(term, self._stand_in) for term in kinked]
        for term, linear in zip(kinked, stand_ins, strict=True):
            self._check_linear(term, linear)
            rest = rewrite(linear, lambda part: self.nothing if part is self.sizes else None)
            facts = polynomial(lower([rest], model.blocks))
            if np.any(facts.coefficient_class != ABSENT):
                smooth.append(rest)
        weights = self._weights(total(stand_ins))
        n_single = self.singles.size
        blocks: list[tuple[int, Any, int]] = []
        if n_single:
            blocks.append((L1, self.singles, 0))
        blocks += [(GROUP, group, n_single + k) for group, k in self.groups.items()]
        return SplitObjective(
            lower([total(smooth)], model.blocks), build_penalty(blocks), weights, self._text()
        )

    def _read(self, kink: Any, term: Any) -> _Norm:
        if not isinstance(kink, abs_atom | norm1 | Pnorm | PnormApprox):
            raise _refusal(term, kink, "it is no sum of absolute values or Euclidean norms")
        is_group = isinstance(kink, Pnorm | PnormApprox)
        if is_group and kink.p != 2:
            raise _refusal(term, kink, "only the norms 1 and 2 have a proximal step here")
        tape = lower([kink.args[0]], self.model.blocks)
        if not self._is_linear_in_y(tape):
            raise _refusal(term, kink, "its argument is no selection of lower variables")
        zeros = [np.zeros(size) for size in tape.input_sizes]
        slopes = sp.csr_array(jacobian(tape, ("y",), zeros))
        slopes.sum_duplicates()
        slopes.eliminate_zeros()
        counts = np.diff(slopes.indptr)
        if np.any(counts != 1):
            raise _refusal(term, kink, "an entry of its argument mixes several lower variables")
        factors, places = np.abs(slopes.data), slopes.indices.astype(np.int64)
        order, length = np.arange(places.size), 1
        if is_group:
            order, length = run_order(kink.args[0].shape, kink.axis)
        runs, sizes = places[order].reshape(-1, length), factors[order].reshape(-1, length)
        if np.any(np.ptp(sizes, axis=1) > 1e-12 * sizes[:, 0]):
            raise _refusal(term, kink, "the entries of a group have different coefficients")
        if length > 1 and any(np.unique(run).size < length for run in runs):
            raise _refusal(term, kink, "a lower variable occurs twice in a group")
        return _Norm(kink, runs, sizes[:, 0], order, length)

    def _is_linear_in_y(self, tape: Tape) -> bool:
        """Whether the coefficients of y are numbers and nothing is added to them."""
        for other in ("x", "p"):
            facts = polynomial(tape, variable="y", coefficient=other)
            classes = facts.coefficient_class
            if np.any(facts.degree > 1) or np.any(classes[:, 1] > CONSTANT):
                return False
        return not np.any(classes[:, 0] != ABSENT)

    def _number(self) -> None:
        """Give each entry and each group that occurs its place among the weights."""
        norms = list(self.norms.values())
        single = [norm.places.ravel() for norm in norms if norm.length == 1]
        self.singles = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *single]))
        owner: dict[int, tuple[int, ...]] = {}
        for norm in norms:
            for run in norm.places if norm.length > 1 else ():
                group = tuple(sorted(int(place) for place in run))
                for place in group:
                    if owner.setdefault(place, group) != group:
                        raise ModelError(
                            f"The lower objective contains {shorten(norm.part)!r}, whose group shares "
                            "lower variables with another one; proximal steps need disjoint groups. Use "
                            "one norm for them, or a method without proximal steps (method='auto')."
                        )
                self.groups.setdefault(group, len(self.groups))
        n_weights = self.singles.size + len(self.groups)
        self.sizes = cp.Variable(n_weights, name="sizes")
        self.nothing = cp.Constant(np.zeros(n_weights))

    def _stand_in(self, part: cp.Expression) -> cp.Expression | None:
        """The norm as a linear function of the sizes of entries and groups."""
        norm = self.norms.get(id(part))
        if norm is None:
            return None
        if norm.length == 1:
            columns = np.searchsorted(self.singles, norm.places.ravel())
        else:
            keys = [tuple(sorted(int(place) for place in run)) for run in norm.places]
            columns = self.singles.size + np.array([self.groups[key] for key in keys])
        count, atom = len(columns), norm.part
        rows = norm.order if norm.length == 1 else np.arange(count)
        shape = (count, self.sizes.size)
        spread = sp.csr_array((norm.factors, (rows, columns)), shape=shape)
        values = cp.Constant(spread) @ self.sizes
        if isinstance(atom, norm1):
            values = cp.reshape(values, atom.args[0].shape, order="F")
            return cp.sum(values, axis=atom.axis, keepdims=atom.keepdims)
        return cp.reshape(values, atom.shape, order="F")

    def _check_linear(self, term: Any, linear: cp.Expression) -> None:
        blocks = (*self.model.blocks, Block("sizes", [self.sizes]))
        facts = polynomial(lower([linear], blocks), variable="sizes", coefficient="y")
        if facts.degree[0] > 1 or facts.coefficient_class[0, 1] > CONSTANT:
            raise _refusal(term, term, "a norm of lower variables does not stand in it linearly")

    def _weights(self, linear: cp.Expression) -> Tape:
        """Slopes in the sizes; a linear function's slopes do not hold the sizes themselves."""
        blocks = (*self.model.blocks, Block("sizes", [self.sizes]))
        slopes = gradient(lower([linear], blocks), ("sizes",))
        assert not slopes.depends_on("sizes")
        return Tape(slopes.input_names[:-1], slopes.input_sizes[:-1], slopes.nodes, slopes.output)

    def _text(self) -> str:
        parts = []
        if self.singles.size:
            parts.append(f"weighted l1 norm of {counted(self.singles.size, 'entry', 'entries')}")
        if self.groups:
            sizes = sorted({len(group) for group in self.groups})
            of = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
            norms = counted(len(self.groups), "weighted group norm")
            parts.append(f"{norms} of {of} {'entry' if of == '1' else 'entries'}")
        return "smooth part + " + " + ".join(parts)


def _refusal(term: Any, kink: Any, why: str) -> ModelError:
    inside = "" if kink is term else f" in {shorten(term)!r}"
    return ModelError(
        f"The lower objective is not smooth: {shorten(kink)!r}{inside} has no proximal step, because "
        f"{why}. What works: weights that contain no lower variables times cp.norm1(y), cp.abs(y), or "
        "cp.norm(y, 2) of (disjoint selections of) lower variables; or a method for any convex lower "
        "level, such as method='auto'."
    )
