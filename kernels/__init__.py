"""Compiled code only: arrays in, arrays out; imports neither blomodel nor cvxpy."""
