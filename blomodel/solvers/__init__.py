"""Inner solvers, one file each, and the order they are asked in: numbers in, an answer out."""
