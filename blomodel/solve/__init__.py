"""The one way through: check, compile, run, certify, and what to say of the outcome."""
