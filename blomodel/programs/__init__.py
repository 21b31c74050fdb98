"""The lower level at fixed x as a convex program, compiled once and solved for many x."""
