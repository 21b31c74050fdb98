"""What every room may use: registries, deadlines, limits of size, memory, kept values."""
