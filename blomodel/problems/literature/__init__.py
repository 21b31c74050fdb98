"""The literature's problems, stated in cvxpy, by the kind of their lower level."""
