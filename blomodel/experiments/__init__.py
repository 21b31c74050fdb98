"""Experiments over many problems or many data: methods measured, parameters swept."""
