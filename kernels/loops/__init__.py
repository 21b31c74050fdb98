"""One compiled loop for each first-order method."""
