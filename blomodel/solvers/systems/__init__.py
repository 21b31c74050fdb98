"""Linear systems of equations whose structure makes them cheap."""
