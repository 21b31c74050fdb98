"""What every registered atom declares is true, and every pass that asks sees it.

Also: an atom with a kink added from outside, and what happens when a declaration is forgotten.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from atom_cases import CASES, POSITIVE, REAL, SMALL, Case, Leaves
from blomodel.kernels import machine as op
from cvxpy.atoms.elementwise.elementwise import Elementwise

import blomodel as bm
import blomodel.atoms  # the atoms of this library register their rules
from blomodel.compiler.atoms import TRAITS, Smoothness, traits_of
from blomodel.compiler.blocks import Block
from blomodel.compiler.expressions.convexity import is_smooth
from blomodel.compiler.expressions.domains import hidden_domains
from blomodel.compiler.expressions.kinks import kinks
from blomodel.compiler.lowering import lower
from blomodel.compiler.passes.derivatives import gradient, jvp
from blomodel.compiler.rules import RULES, rule
from blomodel.compiler.traits import declare
from blomodel.errors import UnsupportedAtomError
from blomodel.programs.lifting import Lifting
from blomodel.reformulations import symbolic
from blomodel.reformulations.smooth_parts import SmoothParts

# Where slopes jump if they jump at all: zeros, ties of entries, thresholds of the cases.
AWKWARD = {
    REAL: (np.zeros(6), np.ones(6), np.full(6, 0.1), np.full(6, 0.7)),
    POSITIVE: (np.ones(6), np.full(6, 0.5)),
    SMALL: (np.zeros(6), np.full(6, 0.5)),
}


def _atoms(expression: Any) -> list[Any]:
    """The atoms of an expression that are not constant."""
    if not expression.args or expression.is_constant():
        return []
    return [expression, *(atom for argument in expression.args for atom in _atoms(argument))]


def _built(case: Case) -> tuple[Leaves, Any]:
    leaves = Leaves()
    return leaves, case.build(leaves.x, leaves.y, leaves.p)


def _least(case: Case) -> Smoothness:
    return min(traits_of(atom).smoothness(atom) for atom in _atoms(_built(case)[1]))


SMOOTH = [case for case in CASES if _least(case) is Smoothness.TWICE]
# log_normcdf squares the positive part of its argument, which takes the kink away.
KINKED = [c for c in CASES if _least(c) is Smoothness.KINKED and c.name != "log_normcdf"]


@pytest.mark.parametrize("atom", sorted(RULES, key=lambda atom: atom.__name__), ids=lambda a: a.__name__)
def test_every_atom_with_a_rule_declares_its_traits(atom: type) -> None:
    assert atom in TRAITS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_trait_has_an_answer(case: Case) -> None:
    for atom in _atoms(_built(case)[1]):
        traits = traits_of(atom)
        assert isinstance(traits.smoothness(atom), Smoothness)
        assert all(isinstance(part, cp.Expression) for part in traits.hidden_domain(atom))
        assert traits.is_guarded(atom) in (True, False)
        assert traits.flattens_kink(atom) in (True, False)
        if traits.is_kink_at_zero(atom):
            assert traits.smoothness(atom) is Smoothness.KINKED


def _slopes_from_both_sides(case: Case, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Gradients of the summed case a little before and after each awkward point, along one direction."""
    leaves, expression = _built(case)
    slope = gradient(lower([cp.sum(expression)], leaves.blocks), ("x", "y"))
    rng, found = np.random.default_rng(seed), []
    for at in AWKWARD[case.domain]:
        direction = rng.normal(size=9)
        sides = []
        for step in (1e-9, -1e-9):
            moved = step * direction
            sides.append(slope(at[:3] + moved[:3], at + moved[3:], np.ones(2)))
        found.append((sides[0], sides[1]))
    return found


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_slopes_of_smooth_atoms_do_not_jump(case: Case) -> None:
    for before, after in _slopes_from_both_sides(case):
        if np.all(np.isfinite(before)):
            np.testing.assert_allclose(before, after, atol=1e-4 * (1 + np.abs(before).max()))


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: case.name)
def test_second_derivatives_of_smooth_atoms_fit_differences(case: Case) -> None:
    leaves, expression = _built(case)
    first = gradient(lower([cp.sum(expression)], leaves.blocks), ("x", "y"))
    point, rng = leaves.set(case.domain, 5), np.random.default_rng(1)
    direction = rng.normal(size=9)
    exact = jvp(first, ("x", "y"))(*point, direction)
    step = 1e-6
    ends = [
        first(point[0] + sign * step * direction[:3], point[1] + sign * step * direction[3:], point[2])
        for sign in (1, -1)
    ]
    difference = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(exact, difference, rtol=1e-4, atol=1e-4 * (1 + np.abs(exact).max()))


@pytest.mark.parametrize("case", KINKED, ids=lambda case: case.name)
def test_kinked_atoms_are_seen_by_every_pass(case: Case) -> None:
    leaves, expression = _built(case)
    kinked = [a for a in _atoms(expression) if traits_of(a).smoothness(a) is Smoothness.KINKED]
    found = kinks(expression, {leaves.x.id, leaves.y.id})
    assert found and {id(part) for part in found} <= {id(atom) for atom in kinked}
    assert not is_smooth([cp.sum(expression)], [])
    # Symbolic derivatives refuse a kink, but for norms whose slope is right wherever there is one.
    is_norm = all(isinstance(atom, cp.Pnorm) for atom in kinked)
    if not is_norm:
        with pytest.raises(UnsupportedAtomError, match="no symbolic derivative"):
            symbolic.gradient(cp.sum(expression), [leaves.x, leaves.y])


def test_every_kinked_class_jumps_somewhere() -> None:
    """A class that is called kinked without reason would only cost speed; still it would be untrue."""
    jumping = set()
    for case in KINKED:
        if any(not np.allclose(a, b, atol=1e-4) for a, b in _slopes_from_both_sides(case)):
            kinked = {a for a in _atoms(_built(case)[1])}
            jumping |= {type(a) for a in kinked if traits_of(a).smoothness(a) is Smoothness.KINKED}
    declared = {
        type(atom)
        for case in KINKED
        for atom in _atoms(_built(case)[1])
        if traits_of(atom).smoothness(atom) is Smoothness.KINKED
    }
    # the exact norm occurs in the cases with p = 1.5 only, whose slope at a tie does not jump
    assert declared - jumping <= {cp.Pnorm}


def test_where_cvxpy_says_otherwise() -> None:
    """cvxpy knows no atom that is smooth once, and says nothing of its log-log function 1 - u."""
    differing = {
        type(atom).__name__
        for case in CASES
        for atom in _atoms(_built(case)[1])
        if (traits_of(atom).smoothness(atom) is Smoothness.TWICE) != atom.is_atom_smooth()
    }
    assert differing == {"one_minus_pos"}
    y = cp.Variable()
    assert cp.power(y, 1.5).is_atom_smooth()
    assert traits_of(cp.power(y, 1.5)).smoothness(cp.power(y, 1.5)) is Smoothness.ONCE
    assert traits_of(cp.huber(y)).smoothness(cp.huber(y)) is Smoothness.ONCE


@pytest.mark.parametrize(
    ("part", "hidden"),
    [
        (lambda y: y[0] ** 3, 1),
        (lambda y: y[0] ** 4, 0),
        (lambda y: cp.sqrt(y[0]), 0),
        (lambda y: cp.inv_pos(y[0]), 0),
        (lambda y: cp.quad_over_lin(y, y[1]), 0),
        (lambda y: cp.log(y[0]), 0),
        (lambda y: cp.kl_div(y[0], y[1]), 0),
        (lambda y: cp.geo_mean(y), 0),
        (lambda y: cp.harmonic_mean(y), 0),
        (lambda y: cp.norm(y, 3), 0),
        (lambda y: cp.nlp.tan(y[0]), 0),
        (lambda y: cp.power(y[0], cp.Parameter()), 1),
    ],
)
def test_hidden_domains(part, hidden: int) -> None:
    assert len(hidden_domains([part(cp.Variable(3, name="y"))])) == hidden


@pytest.mark.parametrize(
    "part",
    [
        lambda y: cp.inv_pos(y[0]),
        lambda y: y[0] ** -2,
        lambda y: cp.quad_over_lin(y, y[0]),
        lambda y: cp.harmonic_mean(y),
    ],
)
def test_what_hides_nothing_has_no_value_outside(part) -> None:
    y = cp.Variable(3, name="y")
    tape = lower([part(y)], [Block("y", [y])])
    inside, outside = np.array([0.5, 2.0, 3.0]), np.array([-0.5, 2.0, 3.0])
    y.value = inside
    np.testing.assert_allclose(tape(inside), part(y).value, rtol=1e-14)
    assert np.isnan(tape(outside)).all()


# An atom from outside: its class, its rule and its traits stand together.


class tolerance(Elementwise):
    """max(|z| - 1, 0), element by element."""

    def __init__(self, z: Any) -> None:
        super().__init__(z)

    @Elementwise.numpy_numeric
    def numeric(self, values):
        return np.maximum(np.abs(values[0]) - 1.0, 0.0)

    def sign_from_args(self):
        return (True, False)

    def is_atom_convex(self):
        return False

    def is_atom_concave(self):
        return False

    def is_incr(self, idx):
        return self.args[idx].is_nonneg()

    def is_decr(self, idx):
        return self.args[idx].is_nonpos()

    def _grad(self, values):
        raise NotImplementedError


class without_definition(tolerance):
    """The same, of which only the rule is known."""


def _lower_tolerance(lowering, atom, args):
    b = lowering.builder
    excess = b.sub(b.unary(op.ABS, args[0].node), b.constant(1.0), atom.size)
    return b.binary(op.MAXIMUM, excess, b.constant(0.0), atom.size)


@pytest.fixture
def outside_atoms():
    """Register both atoms, and forget them again."""
    rule(without_definition, smoothness=Smoothness.KINKED)(_lower_tolerance)
    rule(
        tolerance,
        smoothness=Smoothness.KINKED,
        definition=lambda atom: cp.maximum(cp.abs(atom.args[0]) - 1, 0),
    )(_lower_tolerance)
    yield
    for atom in (tolerance, without_definition):
        del RULES[atom], TRAITS[atom]


def test_a_forgotten_declaration_is_an_error_at_registration() -> None:
    with pytest.raises(UnsupportedAtomError, match="'tolerance' does not say whether it is smooth"):
        rule(tolerance)(_lower_tolerance)
    assert tolerance not in RULES and tolerance not in TRAITS


@pytest.mark.parametrize(
    "ask",
    [
        lambda atom, y: kinks(atom, {y.id}),
        lambda atom, y: is_smooth([atom], []),
        lambda atom, y: hidden_domains([atom]),
        lambda atom, y: lower([atom], [Block("y", [y])]),
    ],
)
def test_an_undeclared_atom_is_an_error_at_first_use(ask) -> None:
    y = cp.Variable(name="y")
    with pytest.raises(UnsupportedAtomError, match="'tolerance'"):
        ask(tolerance(y), y)
    declare(tolerance, smoothness=Smoothness.KINKED)
    try:
        assert kinks(tolerance(y), {y.id}) and not is_smooth([tolerance(y)], [])
    finally:
        del TRAITS[tolerance]


def _problem(atom, where: str) -> bm.BilevelProblem:
    x, y = cp.Variable(name="x"), cp.Variable(name="y")
    above = atom(x - 3) + y**2 if where == "above" else (x - 1) ** 2 + (y - 1) ** 2
    below = (y - x) ** 2 if where == "above" else atom(y - 2 * x) + 0.1 * (y - x) ** 2
    level = bm.Lower(cp.Minimize(below), [y <= 1], variables=[y])
    return bm.BilevelProblem(cp.Minimize(above), [0 <= x, x <= 3], level)


@pytest.mark.parametrize("where", ["above", "below"])
@pytest.mark.parametrize("atom", [tolerance, without_definition])
@pytest.mark.usefixtures("outside_atoms")
def test_an_atom_with_a_kink_from_outside(atom: type, where: str) -> None:
    problem = _problem(atom, where)
    problem.solve()
    # Above: no cost from x = 2 on, where y is held at 1. Below: y = x = 1 costs neither level anything.
    assert problem.value == pytest.approx(1.0 if where == "above" else 0.0, abs=1e-4)
    fact = problem.structure["upper objective" if where == "above" else "lower objective"]
    assert "nonsmooth" in fact.value and atom.__name__ in str(problem.structure)
    if atom is tolerance:
        assert problem.status == "optimal"  # its definition leads to linear complementarity conditions


@pytest.mark.usefixtures("outside_atoms")
def test_definitions_reach_every_layer() -> None:
    leaves = Leaves()
    y = leaves.y[0, 0]
    bounds = (np.full(3, -np.inf), np.full(3, np.inf))
    assert len(Lifting([tolerance(y)], [], leaves.blocks, bounds).definitions) == 2
    assert not Lifting([without_definition(y)], [], leaves.blocks, bounds).definitions
    parts = SmoothParts()
    parts.split_kinks(tolerance(y))
    assert len(parts.parts) == 2
    slope = symbolic.gradient(cp.sum(bm.sigmoid(leaves.x)), [leaves.x])[0]
    leaves.set(REAL)
    expected = np.exp(-leaves.x.value) / (1 + np.exp(-leaves.x.value)) ** 2
    np.testing.assert_allclose(slope.value, expected)
    for atom in (tolerance, without_definition):
        with pytest.raises(UnsupportedAtomError, match="no symbolic derivative"):
            symbolic.gradient(atom(y), [leaves.y])
