"""Facts about a model, found before anything is chosen."""
