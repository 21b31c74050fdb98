"""What a problem asks of a method, and the verdict on a method for a given problem."""
