"""cvxpy's numbers of variables and constraints, which every process counts for itself."""

from __future__ import annotations


def next_leaf_id() -> int:
    """The number that cvxpy gives next."""
    from cvxpy.lin_ops import lin_utils

    return int(lin_utils.ID_COUNTER.count)


def reserve_leaf_ids(first_free: int) -> None:
    """Give no number below this one: a leaf that came from elsewhere must not meet its double."""
    from cvxpy.lin_ops import lin_utils

    lin_utils.ID_COUNTER.count = max(lin_utils.ID_COUNTER.count, first_free)
