"""The directions that a set leaves free: the derivative of its projection, and barriers along them."""

from __future__ import annotations

from .jit import compiled
from .linalg import copy, dot, largest
from .projection import project

REACH = 1e-6  # relative; how far the difference quotient of a projection looks
VANISHED = 1e-300  # a direction below this is none: the reach along it would overflow


@compiled
def pull_through(places, point, direction, ahead, behind):
    """Replace a direction by the derivative of the projection at a point times it.

    That derivative is a symmetric matrix, so that a central difference along the direction is the
    product backwards too; it is exact where the set's boundary is flat.
    """
    size = largest(direction)
    if not size > VANISHED:
        for i in range(len(direction)):
            direction[i] = 0.0 * direction[i]  # what is not a number stays so
        return
    reach = REACH * (1.0 + largest(point)) / size
    for i in range(len(point)):
        ahead[i] = point[i] + reach * direction[i]
        behind[i] = point[i] - reach * direction[i]
    project(places, ahead)
    project(places, behind)
    for i in range(len(point)):
        direction[i] = (ahead[i] - behind[i]) / (2.0 * reach)


@compiled
def tangent(places, is_free, point, h_x, along, ahead, behind):
    """Set along to the part of h_x that moves x, when the projection of ``point`` is where x stands."""
    copy(h_x, along)
    if not is_free:
        pull_through(places, point, along, ahead, behind)


@compiled
def barrier_weight(f_x, f_y, h_x, h_y, along, target):
    """Smallest weight >= 0 for which the step -(grad f + weight grad h) lowers h at the rate target.

    ``along`` is the part of h_x that moves x. The rate is target * |grad h|^2 where that is positive,
    else -target * |grad h|. Returns the weight and |grad h|^2.
    """
    square = dot(h_y, h_y) + dot(h_x, along)
    if not square > 1e-300:
        return 0.0, square
    rate = target * square if target > 0.0 else -target * square**0.5
    return max(0.0, rate - dot(h_y, f_y) - dot(f_x, along)) / square, square
