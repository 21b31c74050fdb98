"""Searches that methods share: descent, KKT pieces, spatial branch and bound."""
