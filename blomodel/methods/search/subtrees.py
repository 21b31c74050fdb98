"""The open nodes of a tree, divided among several processes.

How they are divided does not depend on how many processes there are, nor on which is faster, so that a
tree on two processes looks at the same nodes as one on twenty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blomodel.basics.deadline import Deadline
from blomodel.methods.run.parallel import call_each, portable
from blomodel.methods.run.run import Run, StopRun
from blomodel.solvers.choice import asking
from blomodel.solvers.threads import one_blas_thread

PARTS = 8  # among which the open nodes are divided in each round
SHARE = 250  # nodes of a part: fewer would not pay for stating the problem anew
FEWEST_OPEN = 4 * PARTS  # open nodes that can be divided


def branch_elsewhere(run: Run, left: Mapping[str, Any], make_tree: Any) -> dict[str, Any]:
    """Look at ``SHARE`` nodes of each part; the open nodes, incumbent and bounds afterwards.

    Parameters
    ----------
    left : dict
        See ``Tree.open_nodes``.
    make_tree : callable
        Makes the tree of a run in another process: it must be possible to send it.
    """
    sent = portable(run)
    tasks = [
        (sent, _part(left, number), make_tree, run.remaining)
        for number in range(PARTS)
        if len(left["bounds"][number::PARTS])
    ]
    found = call_each(_branch, tasks, run.n_jobs)
    best = min([left, *found], key=lambda part: part["value"])
    together = {
        name: np.concatenate([part[name] for part in found]) for name in ("bounds", "orders", "sides")
    }
    return together | {
        "nodes": left["nodes"] + sum(part["nodes"] for part in found),
        "unresolved": min(part["unresolved"] for part in found),
        "pruned": min(part["pruned"] for part in found),
        "z": best["z"],
        "value": best["value"],
        "is_unbounded": any(part["is_unbounded"] for part in found),
    }


def _part(left: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Every so-manieth open node, in the order of their bounds."""
    nodes = {name: left[name][number::PARTS] for name in ("bounds", "orders", "sides")}
    return {**left, **nodes, "nodes": 0}


def _branch(task: tuple[Run, dict[str, Any], Any, float]) -> dict[str, Any]:
    run, left, make_tree, remaining = task
    run.deadline = Deadline.after(None if np.isinf(remaining) else remaining)
    with one_blas_thread(), asking(run.solver, run.inner_solvers):
        tree = make_tree(run)
        tree.found = None  # whoever put the parts together tells of points
        tree.take_up(left)
        tree.node_limit, tree.deadline = SHARE, run.deadline
        try:
            tree.go_on()
        except StopRun:
            pass
        return {**tree.open_nodes, "is_unbounded": tree.is_unbounded}
