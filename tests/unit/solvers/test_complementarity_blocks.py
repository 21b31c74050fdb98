"""Problems taken apart by their matrices are worth as much as the whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from blomodel.solvers.complementarity import ComplementarityQP, blocks_of, solve_globally

N_DECIDED, N_PAIRS = 3, 4


def small(rng: np.random.Generator) -> ComplementarityQP:
    """Three decided entries and four variables of pairs, whose rows hold them all."""
    n = N_DECIDED + N_PAIRS
    root = rng.normal(size=(N_DECIDED, N_DECIDED))
    P = np.zeros((n, n))
    P[:N_DECIDED, :N_DECIDED] = root @ root.T + np.eye(N_DECIDED)
    return ComplementarityQP(
        P=P,
        q=rng.normal(size=n) + np.r_[np.zeros(N_DECIDED), np.ones(N_PAIRS)],
        A_eq=rng.normal(size=(1, n)),
        b_eq=rng.normal(size=1),
        A_in=rng.normal(size=(N_PAIRS, n)),
        b_in=1 + rng.random(N_PAIRS),
        rows=np.arange(N_PAIRS),
        columns=N_DECIDED + rng.permutation(N_PAIRS),
    )


def joined(problems: list[ComplementarityQP], rng: np.random.Generator) -> ComplementarityQP:
    """All in one: decided entries first, by problem, and then the others and the rows in any order."""
    n = N_DECIDED + N_PAIRS
    starts = n * np.arange(len(problems))
    decided = np.concatenate([start + np.arange(N_DECIDED) for start in starts])
    others = np.setdiff1d(np.arange(n * len(problems)), decided)
    order = np.concatenate([decided, rng.permutation(others)])
    place, rows = np.argsort(order), rng.permutation(N_PAIRS * len(problems))
    columns = np.concatenate([start + p.columns for start, p in zip(starts, problems, strict=True)])

    def diagonal(name: str) -> sp.csc_array:
        return sp.csc_array(sp.block_diag([getattr(p, name) for p in problems]))[:, order]

    return ComplementarityQP(
        P=sp.csc_array(diagonal("P")[order]),
        q=np.concatenate([p.q for p in problems])[order],
        A_eq=diagonal("A_eq"),
        b_eq=np.concatenate([p.b_eq for p in problems]),
        A_in=sp.csc_array(diagonal("A_in")[rows]),
        b_in=np.concatenate([p.b_in for p in problems])[rows],
        rows=np.argsort(rows),
        columns=place[columns],
    )


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_worth_what_the_problems_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems = [small(rng) for _ in range(3)]
    whole = joined(problems, rng)
    blocks = blocks_of(whole, np.repeat(np.arange(3), N_DECIDED))
    assert blocks is not None
    assert sorted(np.concatenate([block.entries for block in blocks])) == list(range(len(whole.q)))
    alone = [solve_globally(problem) for problem in problems]
    apart = [solve_globally(block.qp) for block in blocks]
    assert [r.status for r in apart] == [r.status for r in alone]
    assert [r.value for r in apart] == pytest.approx([r.value for r in alone], rel=1e-7)
    if all(r.z is not None for r in apart):
        z = np.zeros(len(whole.q))
        for block, result in zip(blocks, apart, strict=True):
            z[block.entries] = result.z
        assert whole.violation(z) < 1e-6
        assert whole.objective(z) == pytest.approx(sum(r.value for r in alone), rel=1e-7)


def test_unknowns_of_two_owners_that_meet_are_not_taken_apart() -> None:
    rng = np.random.default_rng(0)
    whole = joined([small(rng), small(rng)], rng)
    assert blocks_of(whole, np.repeat([0, 1], N_DECIDED)) is not None
    assert blocks_of(whole, np.array([0, 1, 1, 1, 1, 1])) is None


def test_unknowns_that_meet_nobody_belong_to_the_first() -> None:
    qp = ComplementarityQP(
        P=np.diag([1.0, 1.0, 2.0]), q=np.array([-1.0, -2.0, -4.0]), A_eq=np.zeros((0, 3)),
        b_eq=np.zeros(0), A_in=np.eye(3)[:1], b_in=np.array([0.5]), rows=np.zeros(0, int),
        columns=np.zeros(0, int),
    )  # fmt: skip
    blocks = blocks_of(qp, np.array([0, 1]))
    assert blocks is not None
    assert [block.entries.tolist() for block in blocks] == [[0, 2], [1]]
