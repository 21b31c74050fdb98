"""Solvers for the single-level problems inside a method, one file each."""
