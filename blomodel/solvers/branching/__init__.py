"""Global optima and bounds of nonlinear programs, by branch and bound."""
