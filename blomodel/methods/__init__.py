"""Algorithms over compiled functions, one file each."""
