"""Imports every method, which registers it."""

import blomodel.methods.auto
import blomodel.methods.blocc
import blomodel.methods.reduced_penalty  # noqa: F401
