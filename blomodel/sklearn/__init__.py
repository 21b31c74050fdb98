"""Estimators for scikit-learn that choose their hyper-parameters; they need ``blomodel[sklearn]``."""

from __future__ import annotations

import importlib.util as _util

from blomodel.errors import MissingPackageError as _MissingPackageError

if _util.find_spec("sklearn") is None:
    raise _MissingPackageError("blomodel.sklearn needs scikit-learn: install blomodel[sklearn].")

from blomodel.sklearn.estimator import BilevelCV as BilevelCV  # noqa: E402

__all__ = ["BilevelCV"]
