"""From a cvxpy expression to a tape, and from a tape to a tape; nothing is solved here."""
