"""Facts about a model, each with the expression or number that shows it."""
