"""Inner solvers: arrays in, a point out, nothing of cvxpy's expressions."""
