"""How good a lower answer is: v(x) once more, what a slope left is worth, what tolerances hide."""
