"""Equivalent statements of a problem, each with the way back for points, multipliers and bounds."""
