"""Single-level problems that stand for a bilevel one."""
