"""The examples of the papers behind the methods, as entries of the catalogue."""

from __future__ import annotations

import numpy as np

from blomodel.problem import BilevelProblem
from blomodel.problems import (
    global_optimality_paper,
    meha_paper,
    penalty_paper,
    random_families,
    smooth_papers,
)
from blomodel.problems.entries import example


@example("QP", (1, 1), -35.0, (-5, -6))
def penalty_example_1() -> BilevelProblem:
    """Jiang, Xiao, Chen and Chen, Efficient penalty-based bilevel methods, Example 1.

    PBGD-Free goes wrong here: it leaves out that the answer moves, and ends at x = 0.
    """
    return penalty_paper.example_1()


@example("nonconvex", (1, 1), 1.1960999, (0.36279354, 0.31842518))
def penalty_example_3() -> BilevelProblem:
    """Jiang, Xiao, Chen and Chen, Efficient penalty-based bilevel methods, Example 3.

    Alternating steps of 0.1 work, joint ones do not.
    """
    return penalty_paper.example_3()


@example("QP", (1, 1), 2.654498, (0.300705, 0.300705))
def penalty_example_4() -> BilevelProblem:
    """Jiang, Xiao, Chen and Chen, Efficient penalty-based bilevel methods, Example 4.

    Coupled by y <= x; there is a second local solution.
    """
    return penalty_paper.example_4()


@example("convex", (1, 1), 0.85364255, (-7.1937519, -0.51793618))
def fine_tuning_toy() -> BilevelProblem:
    """Jiang, Xiao, Chen and Chen, Efficient penalty-based bilevel methods, section 6.2.2.

    Preferences above, the likelihood of one response below.
    """
    return penalty_paper.fine_tuning_toy()


@example("QP", (10, 10), 2.5, ((0.5,) * 10, (0.5,) * 10))
def meha_77(n: int = 10) -> BilevelProblem:
    """Liu, Liu, Yao, Zeng and Zhang, MEHA, (77): strongly convex.

    The value is n / 4.
    """
    return meha_paper.strongly_convex(n)


@example("QP", (10, 20), 0.0, ((1,) * 10, (1,) * 20))
def meha_18(n: int = 10) -> BilevelProblem:
    """Liu, Liu, Yao, Zeng and Zhang, MEHA, (18): merely convex.

    Half of the lower unknowns do not matter below.
    """
    return meha_paper.merely_convex(n)


@example("nonconvex", (1, 1), 0.253749, (2.3561945, 4.3561945))
def meha_19(n: int = 1) -> BilevelProblem:
    """Liu, Liu, Yao, Zeng and Zhang, MEHA, (19) with a = c = 2: a sine below.

    The value is n / (n + 1) times the square of 3 pi / 2 - 4.
    """
    return meha_paper.nonconvex(n)


@example("convex", (6, 6), -0.5, ((1, 1, 1, 0, 0, 0), (0, 0, 0, -1 / 6, -1 / 6, -1 / 6)))
def meha_20(n: int = 6) -> BilevelProblem:
    """Liu, Liu, Yao, Zeng and Zhang, MEHA, (20): a lasso with a weight for each coefficient."""
    return meha_paper.lasso(n)


@example("conic", (5, 30), None)
def meha_21(m: int = 30, n_groups: int = 5, n_samples: int = 20, seed: int = 0) -> BilevelProblem:
    """Liu, Liu, Yao, Zeng and Zhang, MEHA, (21): a group lasso on random data."""
    random = np.random.default_rng(seed)
    return meha_paper.group_lasso(random, m, n_groups, n_samples, n_ones=6)[0]


@example("QP", (1, 1), 0.0, (0, 0))
def global_optimality_example_1() -> BilevelProblem:
    """Xiao and Chen, global optimality of penalty-based bilevel methods, Example 1.

    Three points have the value 0: u = 0 and u = 2 sin(u).
    """
    return global_optimality_paper.example_1()


@example("QP", (240, 60), None)
def representation_learning(
    n_train: int = 6, n_validation: int = 4, m: int = 8, n: int = 2, h: int = 30, seed: int = 0
) -> BilevelProblem:
    """Xiao and Chen, global optimality of penalty-based bilevel methods, appendix H.1, smaller.

    The paper's sizes are n_train=30, n_validation=20, m=40, n=10, h=300.
    """
    random = np.random.default_rng(seed)
    return global_optimality_paper.representation_learning(random, n_train, n_validation, m, n, h)[0]


@example("QP", (20, 60), 0.0)
def linear_cleaning(
    n_train: int = 20, n_validation: int = 5, m: int = 30, n: int = 2, seed: int = 0
) -> BilevelProblem:
    """Xiao and Chen, global optimality of penalty-based bilevel methods, appendix H.2, smaller.

    A fifth of the labels is polluted. The paper's sizes are n_train=100, n_validation=10, m=200, n=10.
    """
    random = np.random.default_rng(seed)
    return global_optimality_paper.linear_cleaning(random, n_train, n_validation, m, n)[0]


@example("nonconvex", (1, 2), -0.25, (0.5, (-0.5, 0)))
def galet_example_1() -> BilevelProblem:
    """Xiao, Lu and Chen, GALET, Example 1.

    The lower level is not convex and satisfies the PL condition; its minima are a curve.
    """
    return smooth_papers.flat_lower()


@example("QP", (20, 20), None)
def perturbed_c_1_1(n: int = 20, condition: float = 3.0, seed: int = 0) -> BilevelProblem:
    """Perturbed gradient descent by a convex QP, appendix C.1.1, on random data."""
    return smooth_papers.waves(n, condition, seed)


@example("QP", (4, 2), 0.0)
def perturbed_c_1_2() -> BilevelProblem:
    """Perturbed gradient descent by a convex QP, appendix C.1.2: a coreset of four points.

    The paper does not print its numbers; these are ours.
    """
    return smooth_papers.coreset()


@example("nonconvex", (20, 20), None)
def perturbed_c_1_3(n: int = 20, condition: float = 3.0, seed: int = 0) -> BilevelProblem:
    """Perturbed gradient descent by a convex QP, appendix C.1.3: a cosine below, on random data."""
    return smooth_papers.waves(n, condition, seed, is_nonconvex=True)


@example("QP", (10, 10), 7.5612874)
def random_coupled_qp(n: int = 10, seed: int = 2) -> BilevelProblem:
    """A random bilevel QP of this library: the right-hand side of its rows moves with x."""
    return random_families.coupled_qp(n, seed)
