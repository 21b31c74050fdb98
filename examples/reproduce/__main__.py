"""``python -m examples.reproduce TABLE``: one table of a paper, ours beside theirs, as Markdown."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from .appendix_h import table_h
from .cleaning import table_3 as galet_table_3
from .group_lasso import table_6
from .meha import table_2, table_3, table_4, table_8
from .svm import table_7
from .table import Table

TABLES: dict[str, tuple[Callable[..., Table], str]] = {
    "svm": (table_7, "Table 7 of the ALT-PBGD paper; --data: the Pima file (CSV)"),
    "meha-2": (table_2, "Table 2 of the MEHA paper: nonconvex lower level"),
    "meha-3": (table_3, "Table 3 of the MEHA paper: lasso"),
    "meha-4": (table_4, "Table 4 of the MEHA paper: nonconvex lower level, large sizes"),
    "meha-6": (table_6, "Table 6 of the MEHA paper: group lasso"),
    "meha-8": (table_8, "Table 8 of the MEHA paper: strongly convex lower level"),
    "galet-3": (galet_table_3, "Table 3 of the GALET paper; --data: MNIST as .npz"),
    "pbgd-h": (table_h, "Appendix H of the paper on global optimality"),
}


def main() -> None:
    """Make the table that the command line names."""
    names = "\n".join(f"  {name:8s} {text}" for name, (_, text) in TABLES.items())
    parser = argparse.ArgumentParser(
        prog="python -m examples.reproduce",
        description=f"Tables of the papers, made again.\n\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", choices=TABLES, metavar="TABLE")
    parser.add_argument("--data", type=Path, default=None, metavar="FILE", help="file with real data")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    options = parser.parse_args()
    began = time.perf_counter()
    print(TABLES[options.table][0](options.data, quick=options.quick))
    seconds = time.perf_counter() - began
    load = f", load {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"\nMade in {seconds:.0f} s on {os.cpu_count()} cores{load}.")


if __name__ == "__main__":
    main()
