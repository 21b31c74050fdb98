"""What every run of a method has: limits, candidates, starts, slices, processes, the registry."""
