"""What the compiled first-order methods share: set-up, steps, constants, stages, the ending."""
