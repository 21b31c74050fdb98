"""Standard problems, stated once: the papers' examples and random families."""
