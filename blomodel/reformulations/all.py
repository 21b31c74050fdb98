"""Imports every reformulation, which registers it."""

import blomodel.reformulations.kkt_form
import blomodel.reformulations.moreau
import blomodel.reformulations.stationarity
import blomodel.reformulations.strong_duality
import blomodel.reformulations.value_function_forms  # noqa: F401
