"""What a method can take and what it needs, and the verdict on a given problem."""
