"""From cvxpy expressions to numbers that compiled code can run."""
