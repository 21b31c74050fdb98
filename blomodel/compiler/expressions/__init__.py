"""What can be known and rewritten of a cvxpy expression before it becomes a tape."""
