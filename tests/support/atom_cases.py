"""Expressions that between them use every atom the compiler knows, and points to try them at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.wraps import nonneg_wrap, psd_wrap, symmetric_wrap

from blomodel.atoms import sigmoid
from blomodel.compiler.blocks import Block

_RNG = np.random.default_rng(7)
A = _RNG.normal(size=(4, 3))
B = _RNG.normal(size=(2, 5))
P = A.T @ A
WIDE = sp.csr_array(np.where(_RNG.uniform(size=(20, 3)) < 0.4, 1.0, 0.0) * 1.5)
TALL = sp.csc_array(np.where(_RNG.uniform(size=(2, 20)) < 0.4, -0.5, 0.0))
MOSTLY_ZERO = np.kron(np.eye(100), np.ones((1, 3)))[:, :3]

REAL, POSITIVE, SMALL = "real", "positive", "small"


def assign(block: Block, vector: np.ndarray) -> None:
    """Set the values of a block's leaves."""
    for leaf, value in block.unpack(vector).items():
        leaf.save_value(value.copy())


class Leaves:
    """An upper vector, a lower matrix and a parameter, as the three blocks of a model."""

    def __init__(self) -> None:
        self.x = cp.Variable(3, name="x")
        self.y = cp.Variable((3, 2), name="y")
        self.p = cp.Parameter(2, name="p")
        self.blocks = [Block("x", [self.x]), Block("y", [self.y]), Block("p", [self.p])]

    def set(self, domain: str, seed: int = 0) -> list[np.ndarray]:
        """Give the leaves values in a domain; return them as the blocks' vectors."""
        rng = np.random.default_rng(seed)
        draw = {
            REAL: lambda n: rng.normal(size=n),
            POSITIVE: lambda n: rng.uniform(0.3, 2.0, size=n),
            SMALL: lambda n: rng.uniform(-0.8, 0.8, size=n),
        }[domain]
        point = [draw(3), draw(6), rng.uniform(1.0, 2.0, size=2)]
        for block, vector in zip(self.blocks, point, strict=True):
            assign(block, vector)
        return point


@dataclass(frozen=True)
class Case:
    """An expression of the leaves; ``engine`` if cvxpy's derivative engine covers it."""

    name: str
    build: Callable[..., cp.Expression]
    domain: str = REAL
    engine: bool = False


CASES = [
    # elementwise
    Case("exp", lambda x, y, p: cp.exp(y), REAL, True),
    Case("log", lambda x, y, p: cp.log(y), POSITIVE, True),
    Case("log1p", lambda x, y, p: cp.log1p(y), POSITIVE),
    Case("logistic", lambda x, y, p: cp.logistic(y), REAL, True),
    Case("sigmoid", lambda x, y, p: sigmoid(y)),
    Case("sin", lambda x, y, p: cp.nlp.sin(y), REAL, True),
    Case("cos", lambda x, y, p: cp.nlp.cos(y), REAL, True),
    Case("tan", lambda x, y, p: cp.nlp.tan(y), SMALL, True),
    Case("sinh", lambda x, y, p: cp.nlp.sinh(y), REAL, True),
    Case("asinh", lambda x, y, p: cp.nlp.asinh(y), REAL, True),
    Case("tanh", lambda x, y, p: cp.nlp.tanh(y), REAL, True),
    Case("atanh", lambda x, y, p: cp.nlp.atanh(y), SMALL, True),
    Case("normcdf", lambda x, y, p: cp.nlp.normcdf(y), REAL, True),
    Case("entr", lambda x, y, p: cp.entr(y), POSITIVE, True),
    Case("xexp", lambda x, y, p: cp.xexp(y), POSITIVE, True),
    Case("abs", lambda x, y, p: cp.abs(y)),
    Case("pos", lambda x, y, p: cp.pos(y)),
    Case("neg", lambda x, y, p: cp.neg(y)),
    Case("scalene", lambda x, y, p: cp.scalene(y, 2.0, 0.5)),
    Case("square", lambda x, y, p: cp.square(y), REAL, True),
    Case("sqrt", lambda x, y, p: cp.sqrt(y), POSITIVE, True),
    Case("inv_pos", lambda x, y, p: cp.inv_pos(y), POSITIVE, True),
    Case("cube", lambda x, y, p: cp.power(y, 3), REAL, True),
    Case("power_4", lambda x, y, p: cp.power(y, 4), REAL, True),
    Case("power_2.5", lambda x, y, p: cp.power(y, 2.5), POSITIVE, True),
    Case("power_-1.5", lambda x, y, p: cp.power(y, -1.5, approx=False), POSITIVE, True),
    Case("power_0", lambda x, y, p: cp.power(y, 0) + y),
    Case("constant_base", lambda x, y, p: cp.power(2.0, x)),
    Case("huber", lambda x, y, p: cp.huber(y, 0.7)),
    Case("rel_entr", lambda x, y, p: cp.rel_entr(x, y[:, 0]), POSITIVE),
    Case("rel_entr_scalar", lambda x, y, p: cp.rel_entr(x, y[0, 0]), POSITIVE),
    Case("kl_div", lambda x, y, p: cp.kl_div(x, y[:, 0]), POSITIVE),
    Case("maximum", lambda x, y, p: cp.maximum(x, y[:, 1], 0.1, p[0] * x)),
    Case("minimum", lambda x, y, p: cp.minimum(x, y[:, 1], 0.1)),
    Case("maximum_scalar", lambda x, y, p: cp.maximum(y, x[0])),
    Case("loggamma", lambda x, y, p: cp.loggamma(y), POSITIVE),
    Case("log_normcdf", lambda x, y, p: cp.log_normcdf(y)),
    # rearrangements
    Case("index", lambda x, y, p: y[1:, ::-1], REAL, True),
    Case("index_negative_step", lambda x, y, p: x[::-2]),
    Case("special_index", lambda x, y, p: y[[2, 0, 0], :] * 2.0, REAL, True),
    Case("boolean_index", lambda x, y, p: y[np.array([True, False, True])]),
    Case("reshape_F", lambda x, y, p: cp.reshape(y, (2, 3), order="F"), REAL, True),
    Case("reshape_C", lambda x, y, p: cp.reshape(y, (2, 3), order="C"), REAL, True),
    Case("vec_C", lambda x, y, p: cp.vec(y, order="C")),
    Case("transpose", lambda x, y, p: y.T, REAL, True),
    Case("swapaxes", lambda x, y, p: cp.swapaxes(cp.reshape(y, (1, 3, 2), order="F"), 0, 2)),
    Case("hstack", lambda x, y, p: cp.hstack([x, y[:, 0], 1.0, p]), REAL),
    Case("vstack", lambda x, y, p: cp.vstack([x, y.T]), REAL, True),
    Case("bmat", lambda x, y, p: cp.bmat([[y, np.ones((3, 1))], [y * 2, np.zeros((3, 1))]])),
    Case("concatenate", lambda x, y, p: cp.concatenate([y, 2 * y, np.ones((3, 1))], axis=1)),
    Case("stack", lambda x, y, p: cp.stack([x, y[:, 1]], axis=1)),
    Case("squeeze", lambda x, y, p: cp.squeeze(cp.reshape(x, (3, 1), order="F"))),
    Case("promote", lambda x, y, p: x[0] + y, REAL, True),
    Case("broadcast_to", lambda x, y, p: cp.broadcast_to(x, (2, 3)), REAL, True),
    Case("broadcast_sum", lambda x, y, p: y + cp.reshape(x, (3, 1), order="F")),
    Case("diag_vec", lambda x, y, p: cp.diag(x), REAL, True),
    Case("diag_vec_k", lambda x, y, p: cp.diag(x, 1)),
    Case("diag_mat", lambda x, y, p: cp.diag(y @ y.T), REAL),
    Case("upper_tri", lambda x, y, p: cp.upper_tri(y @ y.T)),
    Case("vec_to_upper_tri", lambda x, y, p: cp.vec_to_upper_tri(x)),
    Case("wraps", lambda x, y, p: nonneg_wrap(x) + symmetric_wrap(y @ y.T) @ x),
    # affine maps and products
    Case("sum", lambda x, y, p: cp.sum(y), REAL, True),
    Case("sum_axis0", lambda x, y, p: cp.sum(y, axis=0), REAL, True),
    Case("sum_axis1", lambda x, y, p: cp.sum(y, axis=1, keepdims=True), REAL),
    Case("mean", lambda x, y, p: cp.mean(y, axis=0)),
    Case("trace", lambda x, y, p: cp.trace(y.T @ y), REAL, True),
    Case("trace_plain", lambda x, y, p: cp.trace(cp.diag(x) + x[0]), REAL, True),
    Case("cumsum", lambda x, y, p: cp.cumsum(y, axis=1)),
    Case("cumsum_axis0", lambda x, y, p: cp.cumsum(y, axis=0)),
    Case("cumsum_flat", lambda x, y, p: cp.cumsum(y, axis=None)),
    Case("diff", lambda x, y, p: cp.diff(y, axis=0)),
    Case("tv", lambda x, y, p: cp.tv(x)),
    Case("negation", lambda x, y, p: -y - x[0], REAL, True),
    Case("many_terms", lambda x, y, p: sum((k + 1) * x[k % 3] * y[k % 3, 0] for k in range(20))),
    Case("multiply", lambda x, y, p: cp.multiply(x, y[:, 0]), REAL, True),
    Case("multiply_sparse", lambda x, y, p: cp.multiply(sp.csr_array(np.eye(3)), y @ y.T)),
    Case("scaled_by_parameter", lambda x, y, p: p[0] * y, REAL, True),
    Case("division", lambda x, y, p: x / y[:, 0], POSITIVE),
    Case("division_by_scalar", lambda x, y, p: y / (x[0] + p[1]), POSITIVE),
    Case("matmul_left", lambda x, y, p: A @ y, REAL, True),
    Case("matmul_right", lambda x, y, p: y @ B, REAL, True),
    Case("matmul_sparse_left", lambda x, y, p: WIDE @ y, REAL, True),
    Case("matmul_sparse_right", lambda x, y, p: y @ TALL, REAL, True),
    Case("matmul_mostly_zero", lambda x, y, p: MOSTLY_ZERO @ y),
    Case("matmul_variables", lambda x, y, p: y.T @ y, REAL, True),
    Case("matmul_vectors", lambda x, y, p: x @ y, REAL, True),
    Case("matmul_parameter", lambda x, y, p: y @ p, REAL),
    Case("matmul_batched", lambda x, y, p: cp.reshape(y, (1, 3, 2), order="F") @ B),
    Case(
        "matmul_large",
        lambda x, y, p: cp.kron(np.ones((8, 8)), y) @ cp.kron(np.arange(64.0).reshape(8, 8) / 64, y.T),
    ),
    Case("outer", lambda x, y, p: cp.outer(x, y[:, 0])),
    Case("kron_left", lambda x, y, p: cp.kron(B, y)),
    Case("kron_right", lambda x, y, p: cp.kron(y, B)),
    Case("kron_parameter", lambda x, y, p: cp.kron(cp.reshape(p, (1, 2), order="F"), y)),
    Case("convolve", lambda x, y, p: cp.convolve(np.array([1.0, -2.0]), x), REAL, True),
    Case("convolve_parameter", lambda x, y, p: cp.convolve(p, x)),
    Case("einsum", lambda x, y, p: cp.einsum("ij,jk->ik", A, y)),
    Case("partial_trace", lambda x, y, p: cp.partial_trace(cp.kron(np.eye(2), y @ y.T), [2, 3])),
    # nonlinear reductions
    Case("quad_form", lambda x, y, p: cp.quad_form(x, P), REAL, True),
    Case("quad_form_sparse", lambda x, y, p: cp.quad_form(x, sp.csc_array(np.diag([1.0, 0, 2])))),
    Case("quad_form_parameter", lambda x, y, p: cp.quad_form(y[:2, 0], psd_wrap(cp.diag(p)))),
    Case("quad_over_lin", lambda x, y, p: cp.quad_over_lin(y, x[0]), POSITIVE),
    Case("quad_over_lin_axis", lambda x, y, p: cp.quad_over_lin(y, x[0], axis=1), POSITIVE),
    Case("sum_squares", lambda x, y, p: cp.sum_squares(A @ y)),
    Case("norm2", lambda x, y, p: cp.norm(x)),
    Case("norm_fro", lambda x, y, p: cp.norm(A @ y, "fro")),
    Case("norm2_axis", lambda x, y, p: cp.norm(y, 2, axis=1)),
    Case("norm1", lambda x, y, p: cp.norm1(x)),
    Case("norm1_axis", lambda x, y, p: cp.norm(y, 1, axis=1)),
    Case("norm_inf", lambda x, y, p: cp.norm_inf(x)),
    Case("norm_inf_axis", lambda x, y, p: cp.norm(y, "inf", axis=0)),
    Case("matrix_norm1", lambda x, y, p: cp.norm(y, 1)),
    Case("mixed_norm", lambda x, y, p: cp.mixed_norm(y, 2, 1)),
    Case("pnorm_3", lambda x, y, p: cp.pnorm(x, 3)),
    Case("pnorm_1.5", lambda x, y, p: cp.pnorm(x, 1.5, approx=False)),
    Case("pnorm_0.5", lambda x, y, p: cp.pnorm(x, 0.5), POSITIVE),
    Case("pnorm_-1", lambda x, y, p: cp.pnorm(x, -1), POSITIVE),
    Case("harmonic_mean", lambda x, y, p: cp.harmonic_mean(x), POSITIVE),
    Case("geo_mean", lambda x, y, p: cp.geo_mean(x), POSITIVE),
    Case("geo_mean_weights", lambda x, y, p: cp.geo_mean(x, [1, 0, 3], approx=False), POSITIVE),
    Case("geo_mean_axis", lambda x, y, p: cp.geo_mean(y, axis=0), POSITIVE),
    Case("log_sum_exp", lambda x, y, p: cp.log_sum_exp(y)),
    Case("log_sum_exp_axis", lambda x, y, p: cp.log_sum_exp(y, axis=1, keepdims=True)),
    Case("prod", lambda x, y, p: cp.prod(x), REAL, True),
    Case("prod_axis", lambda x, y, p: cp.prod(y, axis=0), REAL, True),
    Case("prod_all", lambda x, y, p: cp.prod(y)),
    Case("max", lambda x, y, p: cp.max(y)),
    Case("max_axis", lambda x, y, p: cp.max(y, axis=1)),
    Case("min", lambda x, y, p: cp.min(y)),
    Case("min_axis", lambda x, y, p: cp.min(y, axis=0, keepdims=True)),
    Case("ptp", lambda x, y, p: cp.ptp(y, axis=0)),
    Case("sum_largest", lambda x, y, p: cp.sum_largest(y, 2)),
    Case("sum_largest_fraction", lambda x, y, p: cp.sum_largest(y, 1.5, axis=0)),
    Case("sum_largest_all", lambda x, y, p: cp.sum_largest(x, 3)),
    Case("sum_smallest", lambda x, y, p: cp.sum_smallest(y, 2)),
    Case("cvar", lambda x, y, p: cp.cvar(x, 0.5)),
    Case("cumprod", lambda x, y, p: cp.cumprod(y, axis=0)),
    Case("cummax", lambda x, y, p: cp.cummax(y, axis=0)),
    Case("one_minus_pos", lambda x, y, p: cp.one_minus_pos(x), SMALL),
    Case("variance", lambda x, y, p: cp.var(x)),
    # compositions
    Case("nested", lambda x, y, p: cp.exp(cp.nlp.sin(A @ y)) @ p, REAL),
    Case(
        "demo",
        lambda x, y, p: (
            cp.exp(2 - y[0, 0]) / (2 + cp.nlp.cos(4 * x[0]))
            + cp.log((4 * x[0] - 2) ** 2 + 1) / 2
            + x[0] ** 2
        ),
    ),
    Case(
        "logistic_loss",
        lambda x, y, p: (
            cp.sum(cp.logistic(-cp.multiply([1, -1, 1, 1], A @ x))) + cp.exp(y[0, 0]) * cp.sum_squares(x)
        ),
    ),
]
