"""The answer checked from the stated problem, by other means than the method used."""
