"""Searches that methods share: descent, KKT pieces, global bounds."""
