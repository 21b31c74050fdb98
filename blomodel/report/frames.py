"""Histories and comparisons as pandas tables, where pandas is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blomodel.errors import MissingPackageError

if TYPE_CHECKING:
    from pandas import DataFrame

    from blomodel.comparison import Comparison
    from blomodel.solution import Solution


def history_frame(solution: Solution) -> DataFrame:
    """A row for each step; vectors take a column for each entry."""
    columns: dict[str, np.ndarray] = {}
    for name, figures in solution.history.items():
        table = np.asarray(figures)
        if table.ndim == 1:
            columns[name] = solution.sign * table if name == "value" else table
            continue
        for k in range(table.shape[1]):
            columns[f"{name}[{k}]"] = table[:, k]
    return _pandas("history_frame()").DataFrame(columns)


def comparison_frame(comparison: Comparison) -> DataFrame:
    """A row for each method, with numbers where the printed table has texts."""
    rows = []
    for row in comparison.rows:
        solution, certificate = row.solution, row.certificate
        rows.append(
            {
                "method": row.method,
                "status": "error" if solution is None else str(solution.status),
                "value": row.value,
                "bound": None if certificate is None else certificate.bound,
                "lower_gap": None if certificate is None else max(certificate.lower_gap, 0.0),
                "stationarity": None if certificate is None else certificate.stationarity,
                "iterations": None if solution is None else solution.iterations,
                "evaluations": None if solution is None else solution.evaluations,
                "time": row.time,
                "remark": row.remark,
            }
        )
    return _pandas("to_frame()").DataFrame(rows)


def _pandas(asked_by: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingPackageError(f"{asked_by} needs pandas; run pip install pandas.") from error
    return pandas
