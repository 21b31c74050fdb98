"""Places in the arrays of numbers that loops are given, by name, where several loops share them.

A loop takes its settings, its state and its scratch rows as arrays, which cost nothing to pass. What
stands where is said once: here, or at the top of the loop's own file.
"""

from __future__ import annotations

# Pace: what a step that adapts remembers from one iteration to the next; see linalg.advance.
(
    STEP,  # the last one
    GROWTH,  # the last step over the one before
    IS_STARTED,  # 1: there was a step before
    N_PACE,
) = range(4)

# Curvature: what the power steps remember; see linalg.lower_curvature.
(
    ESTIMATE,  # the last one
    HIGHEST,  # the largest so far
    N_CURVATURE,
) = range(3)

# State of loops that adapt the step in x and measure the lower curvature; some have more behind.
PACE = 0  # N_PACE numbers
CURVATURE = PACE + N_PACE  # N_CURVATURE numbers
MORE_STATE = CURVATURE + N_CURVATURE

# Settings of loops with a penalty weight; some have more behind.
(
    STEP_X,  # 0: adaptive
    STEP_Y,  # of the inner loops
    PENALTY,  # weight of g against f
    INNER_STEPS,  # at most, for each inner loop
    INNER_TOLERANCE,  # 0: all the inner steps are done
    MORE_SETTINGS,
) = range(6)

# Rows of scratch space of loops that differentiate the lower answer; they have more behind.
(
    OLD_X,  # x and its slope before the step
    OLD_SLOPE,
    SLOPE,  # in x
    PRODUCT,  # in x: a second derivative times a vector
    PROBE,  # in y: vector of the power steps
    SLOPE_Y,
    MORE_ROWS,
) = range(7)

# Figures of the loops with a dynamic barrier, over the iterations of one call.
(
    MEAN_MEASURE,  # mean of what the barrier makes fall
    MEAN_DIRECTION,  # mean of the squared direction
    LAST_WEIGHT,  # the last lambda
    N_FIGURES,
) = range(4)
