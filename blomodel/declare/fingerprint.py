"""Whose run is it? A number for a problem and its data, the same in every process."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np


def fingerprint(problem: Any, p: np.ndarray) -> str:
    """A digest of formulas, shapes, attributes, constants and the values of parameters.

    Names that cvxpy has made up depend on what was made before, so that leaves count by their place.
    """
    digest = hashlib.sha256()
    leaves = [*problem.variables, *problem.parameters]
    places = {leaf.name(): f"leaf_{number}" for number, leaf in enumerate(leaves)}
    names = sorted(map(re.escape, places), key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)") if names else None
    levels: list[Any] = [problem, *problem.followers]
    for level in levels:
        for part in (level.objective, *level.constraints):
            text = str(part)
            if pattern is not None:
                text = pattern.sub(lambda match: places[match.group()], text)
            digest.update(f"{type(part).__name__} {text}\n".encode())
            for constant in part.constants():
                _add(digest, constant.value)
    for leaf in leaves:
        said = {name: value for name, value in leaf.attributes.items() if isinstance(value, bool)}
        digest.update(f"{leaf.shape} {sorted(said.items())}\n".encode())
    _add(digest, p)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    if hasattr(value, "tocsr"):
        matrix = value.tocsr()
        parts = [matrix.indptr, matrix.indices, matrix.data]
    else:
        parts = [value]
    for part in parts:
        array = np.ascontiguousarray(part)
        digest.update(f"{array.shape} {array.dtype}".encode())
        digest.update(array.tobytes())
