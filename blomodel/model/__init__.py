"""Both levels compiled: the one object that methods see."""
