"""The bilevel problem as a problem of one level, to read, evaluate or solve elsewhere."""
