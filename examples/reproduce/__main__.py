"""``python -m examples.reproduce NAME``: a table or figure of a paper, ours beside theirs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from .several import make_all, write
from .table import Table


@dataclass(frozen=True)
class Entry:
    """Where a table or figure is made, what it is, and which data file it can take."""

    place: str  # module and function
    text: str
    data: str = ""  # how the name of its file ends

    def make(self, data: Path | None, *, quick: bool) -> Table:
        """Compute it."""
        module, function = self.place.split(":")
        maker: Callable[..., Table] = getattr(import_module(f".{module}", __package__), function)
        return maker(data, quick=quick)


PBGD, GALET, PERTURBED = "the paper on global optimality", "the GALET paper", "the paper on perturbed GD"
MEHA, ALT = "the MEHA paper", "the ALT-PBGD paper"
TABLES: dict[str, Entry] = {
    "pbgd-h": Entry("appendix_h:table_h", f"Figure 3 and appendix H of {PBGD}"),
    "pbgd-fig1": Entry("landscapes:figure_1", f"Figure 1 of {PBGD}: Example 1"),
    "pbgd-fig2": Entry("landscapes:figure_2", f"Figure 2 of {PBGD}: a network of two weights"),
    "pbgd-fig4": Entry("ablation:figure_4", f"Figure 4 of {PBGD}: steps, F2SA, BOME"),
    "pbgd-fig5": Entry("landscapes:figure_5", f"Figure 5 of {PBGD}: Example 4"),
    "pbgd-fig6": Entry("landscapes:figure_6", f"Figure 6 of {PBGD}: Examples 2 and 3"),
    "galet-fig1": Entry("galet_example:figure_1", f"Figure 1 of {GALET}: Example 1"),
    "galet-fig3": Entry("galet_example:figure_3", f"Figure 3 of {GALET}: the shortcut (15)"),
    "galet-fig4": Entry("galet_example:figure_4", f"Figure 4 of {GALET}: its settings"),
    "galet-fig6": Entry("landscapes:galet_figure_6", f"Figure 6 of {GALET}: g(1, y)"),
    "galet-3": Entry("cleaning:table_3", f"Tables 2 and 3 of {GALET}; --data: MNIST as .npz", "npz"),
    "galet-draws": Entry("cleaning_draws:table_draws", f"Table 2 of {GALET} over draws; --data: MNIST",
                         "npz"),
    "galet-fig5": Entry("cleaning_galet:figure_5", f"Figures 5 and 7 of {GALET}; --data: MNIST", "npz"),
    "perturbed-fig2": Entry("cleaning_curves:figure_2", f"Figure 2 of {PERTURBED}; --data: "
    "MNIST", "npz"),
    "perturbed-fig3": Entry("cleaning_curves:figure_3", f"Figure 3 of {PERTURBED}; --data: "
    "MNIST", "npz"),
    "perturbed-fig4": Entry("perturbed:figure_4", f"Figure 4 of {PERTURBED}: C.1.1, C.1.3"),
    "perturbed-fig5": Entry("perturbed:figure_5", f"Figure 5 of {PERTURBED}: coresets"),
    "perturbed-fig6": Entry("cleaning_curves:figure_6", f"Figure 6 of {PERTURBED}; --data: "
    "MNIST", "npz"),
    "meha-fig1": Entry("meha_curves:figure_1", f"Figure 1 of {MEHA}: (18)"),
    "meha-fig2": Entry("meha_curves:figure_2", f"Figure 2 of {MEHA}: (19)"),
    "meha-fig4": Entry("meha_curves:figure_4", f"Figure 4 of {MEHA}: (77)"),
    "meha-fig5": Entry("meha_curves:figure_5", f"Figure 5 of {MEHA}: (19), n = 1"),
    "meha-fig6": Entry("meha_curves:figure_6", f"Figure 6 of {MEHA}: (20)"),
    "meha-settings": Entry("meha_curves:settings_table", f"what A.11 of {MEHA} gives"),
    "meha-2": Entry("meha:table_2", f"Table 2 of {MEHA}: nonconvex lower level"),
    "meha-3": Entry("meha:table_3", f"Table 3 of {MEHA}: lasso"),
    "meha-4": Entry("meha:table_4", f"Table 4 of {MEHA}: nonconvex lower level, large sizes"),
    "meha-5": Entry("cleaning_curves:table_5", f"Table 5, Figure 3 of {MEHA}; --data: MNIST", "npz"),
    "meha-few-shot": Entry("few_shot:table_5", f"Table 5 of {MEHA}, few-shot part: digits"),
    "meha-6": Entry("group_lasso:table_6", f"Table 6 of {MEHA}: group lasso"),
    "meha-7": Entry("cell_search:table_7", f"Tables 7 and 9 of {MEHA}: a cell on digits"),
    "meha-8": Entry("meha:table_8", f"Table 8 of {MEHA}: strongly convex lower level"),
    "alt-fig1": Entry("penalty_figures:figure_1", f"Figure 1 of {ALT}: kinks of phi"),
    "alt-fig3": Entry("penalty_figures:figure_3", f"Figure 3 of {ALT}: slopes of Example 3"),
    "alt-fig4": Entry("penalty_figures:figure_4", f"Figure 4 of {ALT}: the unit ball"),
    "alt-fig5": Entry("fine_tuning:figure_5", f"Figure 5 of {ALT}: Example 1 and the PEFT toy"),
    "alt-fig6": Entry("fine_tuning:figure_6", f"Figure 6 of {ALT}: Example 2"),
    "alt-fig7": Entry("fine_tuning:figure_7", f"Figures 7 and 8 of {ALT}: bounds and flatness "
    "of the toy"),
    "alt-fig9": Entry("penalty_figures:figure_9", f"Figure 9 of {ALT}: Example 3"),
    "alt-fig10": Entry("penalty_figures:figure_10", f"Figure 10 of {ALT}: Example 4"),
    "alt-fig11": Entry("fine_tuning:figure_11", f"Figure 11 of {ALT}: gamma, on the toy"),
    "alt-4": Entry("two_groups:table_4", f"Table 4 of {ALT}: two groups of people"),
    "alt-fig18": Entry("svm_curves:figure_18", f"Figure 18 of {ALT}; --data: the Pima file", "csv"),
    "svm": Entry("svm:table_7", f"Table 7 of {ALT}; --data: the Pima file (CSV)", "csv"),
}  # fmt: skip


# About how long the long ones take, in seconds, so that they begin first.
LONG = {
    "meha-6": 1200, "meha-4": 200, "svm": 200, "galet-3": 200, "meha-5": 100, "galet-draws": 100,
    "meha-3": 80, "meha-7": 70, "meha-2": 60, "pbgd-h": 50, "meha-settings": 42, "alt-fig18": 42,
    "perturbed-fig3": 40, "perturbed-fig6": 40, "meha-fig2": 34, "meha-few-shot": 30, "meha-8": 30,
}  # fmt: skip


def file_for(entry: Entry, data: Path | None) -> Path | None:
    """The data file itself, or the one in a folder whose name ends as this entry needs it."""
    if data is None or not entry.data:
        return None
    if data.is_dir():
        return next(iter(sorted(data.glob(f"*.{entry.data}"))), None)
    return data if data.suffix == f".{entry.data}" else None


def main() -> int:
    """Make what the command line names."""
    names = "\n".join(f"  {name:15s} {entry.text}" for name, entry in TABLES.items())
    names += f"\n  {'all':15s} all of them"
    parser = argparse.ArgumentParser(
        prog="python -m examples.reproduce",
        description=f"Tables and figures of five papers, made again.\n\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="+", choices=(*TABLES, "all"), metavar="NAME")
    parser.add_argument(
        "--data", type=Path, default=None, metavar="FILE", help="file with real data, or a folder"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument(
        "--save", type=Path, default=Path(), metavar="FOLDER", help="where pictures go (here)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the tables and times")
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="processes for several names (2)"
    )
    options = parser.parse_args()
    options.save.mkdir(parents=True, exist_ok=True)
    if len(options.name) > 1 or "all" in options.name:
        return make_several(options)
    name = options.name[0]
    began, used = time.perf_counter(), time.process_time()
    table = TABLES[name].make(file_for(TABLES[name], options.data), quick=options.quick)
    print(table)
    picture = options.save / f"{name}.png"
    if table.save(picture):
        print(f"\nPicture: {picture}")
    seconds, used = time.perf_counter() - began, time.process_time() - used
    load = f", load {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"\nMade in {seconds:.0f} s ({used:.0f} s of processor time) on {os.cpu_count()} cores{load}.\n"
    )
    if options.json is not None:
        part = {"title": table.title, "headings": table.headings, "rows": table.rows}
        part |= {"remarks": table.remarks, "error": "", "seconds": round(seconds, 1)}
        write(options.json, {name: {**part, "cpu_seconds": round(used, 1)}}, seconds)
    return 0


def make_several(options: argparse.Namespace) -> int:
    """A process for each. MNIST takes too long for several: it is for one part at a time."""
    chosen = [name for name in TABLES if name in options.name or "all" in options.name]
    given = ["--save", str(options.save.resolve()), *(["--quick"] if options.quick else [])]
    extra: dict[str, list[str]] = {}
    for name in chosen:
        file = None if TABLES[name].data == "npz" else file_for(TABLES[name], options.data)
        extra[name] = [*given, *(["--data", str(file.resolve())] if file is not None else [])]
    return make_all(chosen, LONG, jobs=options.jobs, options=extra, results=options.json)


if __name__ == "__main__":
    sys.exit(main())
