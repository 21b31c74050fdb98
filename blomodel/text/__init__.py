"""How things are written: numbers, arrays, formulas and tables as strings."""
