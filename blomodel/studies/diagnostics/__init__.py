"""What the papers measure at a point or along a run: stationarity, landscapes, flatness, constants.

Each function takes the problem and a point (values of the upper and of the lower variables, as
``bm.certify`` takes them) and returns a number, or a small record that prints as one or two sentences.
The file of a function is that of the paper which defines it.
"""

from blomodel.studies.diagnostics.flatness import (
    answer_derivative,
    coupled_penalty,
    flatness,
    left_out_slope,
    penalty_smoothness,
)
from blomodel.studies.diagnostics.galet import galet_measures, lyapunov, value_function_kkt
from blomodel.studies.diagnostics.lower_constants import local_constants
from blomodel.studies.diagnostics.meha import moreau_measures
from blomodel.studies.diagnostics.pbgd import (
    cleaning_lower_value,
    composite_polyak,
    polyak_constants,
    representation_polyak,
    representation_value,
    solution_test,
)
from blomodel.studies.diagnostics.perturbed_gd import hypergradient, kkt_residual, perturbation

__all__ = [
    "answer_derivative",
    "cleaning_lower_value",
    "composite_polyak",
    "coupled_penalty",
    "flatness",
    "galet_measures",
    "hypergradient",
    "kkt_residual",
    "left_out_slope",
    "local_constants",
    "lyapunov",
    "moreau_measures",
    "penalty_smoothness",
    "perturbation",
    "polyak_constants",
    "representation_polyak",
    "representation_value",
    "solution_test",
    "value_function_kkt",
]
