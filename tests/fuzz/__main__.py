"""Random problems against an independent judge: ``python tests/fuzz --models 5000 --file fuzz.jsonl``.

    python tests/fuzz --models 5000                 # a fifth of them drawn by hypothesis, which shrinks
    python tests/fuzz --models 5000 --first 700000  # other ones; ``--first fresh``: by the clock
    python tests/fuzz --again                       # only those that had a fault, after it was mended
    python tests/fuzz --table                       # only print what the file holds

The file keeps a line for each model, so that a run can be made in pieces: models that it holds are not
solved again. ``--seconds`` ends a piece early.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import threading
import time
from pathlib import Path

from fuzz_record import Records, table

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # NumPy is imported later
    os.environ.setdefault(name, "1")

HANG = 120.0  # seconds beyond the time limit after which a model counts as one that never ends
HUNG = 3  # what the process then ends with
CHUNK = 20  # models of a class that hypothesis draws from one seed
FIRST = 100_000  # from there on the numbered models have all classes


class Enough(Exception):
    """The time of this piece is over."""


class Fuzzer:
    """Judges models one by one, and writes down what came out."""

    def __init__(self, records: Records, given: argparse.Namespace) -> None:
        self.records = records
        self.settings = {"effort": given.effort, "time_limit": given.time_limit}
        self.end = time.monotonic() + given.seconds
        self.now = given.file.with_suffix(".now")

    def judge(self, seed: int | str, make) -> dict:
        """The verdict of a model."""
        from fuzz_verdicts import verdict

        if time.monotonic() > self.end:
            raise Enough
        self.now.write_text(str(seed))  # who finds it after a crash knows which model it was
        faulthandler.dump_traceback_later(HANG + self.settings["time_limit"])
        watch = threading.Timer(HANG + 1 + self.settings["time_limit"], self._hung, (seed,))
        watch.daemon = True
        watch.start()
        try:
            record = verdict(make(), **self.settings)
        finally:
            watch.cancel()
            faulthandler.cancel_dump_traceback_later()
        print(seed, end=" ", flush=True)
        if record["faults"]:
            print(f"\n{record['kind']} {record['status']}: {record['faults']}", flush=True)
        return record

    def _hung(self, seed: int | str) -> None:
        self.records.add(seed, {"kind": "unknown", "status": "hang", "faults": ["hang"]})
        os._exit(HUNG)

    def by_number(self, seeds) -> None:
        """The models of these numbers that the file does not hold."""
        from fuzz_models import draw_model

        for seed in seeds:
            if str(seed) not in self.records.known:
                self.records.add(seed, self.judge(seed, lambda seed=seed: draw_model(seed)))

    def by_hypothesis(self, chunk: int) -> None:
        """The models that hypothesis draws from a seed; one with a fault is made small and shown."""
        import hypothesis
        from fuzz_draws import Draws
        from fuzz_models import KINDS
        from hypothesis import strategies as st

        kind = [*KINDS][chunk % len(KINDS)]
        state = {"count": 0, "is shrinking": False}

        @hypothesis.seed(chunk)
        @hypothesis.settings(
            max_examples=CHUNK,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(st.data())
        def judged(data) -> None:
            model = KINDS[kind](Draws(data.draw), kind, 0)
            name = f"h{chunk}:{state['count']}"
            state["count"] += 1
            if not state["is shrinking"] and name in self.records.known:
                return
            record = self.judge(name, lambda: model)
            if not state["is shrinking"]:
                self.records.add(name, record)
            state["is shrinking"] |= bool(record["faults"])
            assert not record["faults"], record

        try:
            judged()
        except AssertionError as error:
            print(f"\nthe smallest model with a fault: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=5000)
    parser.add_argument("--first", default=str(FIRST), help="a number, or 'fresh'")
    parser.add_argument("--file", type=Path, default=Path("fuzz.jsonl"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--share", type=float, default=0.2, help="of models drawn by hypothesis")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    first = int(time.time()) if given.first == "fresh" else int(given.first)
    records = Records(given.file)
    fuzzer = Fuzzer(records, given)
    try:
        if given.again:
            repeat(fuzzer)
        elif not given.table:
            chunks = round(given.share * given.models / CHUNK)
            numbered = given.models - CHUNK * chunks
            # In turns, so that a run in pieces has both.
            for k in range(max(chunks, 1)):
                part = range(
                    first + numbered * k // max(chunks, 1), first + numbered * (k + 1) // max(chunks, 1)
                )
                fuzzer.by_number(part)
                if chunks:
                    fuzzer.by_hypothesis(first - FIRST + k)
    except Enough:
        pass
    print("\n" + table(list(records.known.values())))


def repeat(fuzzer: Fuzzer) -> None:
    """Solve again what had a fault."""
    from fuzz_models import draw_model

    records = fuzzer.records
    faulty = records.faulty
    for seed in faulty:
        if not seed.startswith("h"):
            records.add(int(seed), fuzzer.judge(int(seed), lambda seed=seed: draw_model(int(seed))))
    for chunk in sorted({int(seed[1:].split(":")[0]) for seed in faulty if seed.startswith("h")}):
        kept = {seed: records.known.pop(seed) for seed in faulty if seed.startswith(f"h{chunk}:")}
        fuzzer.by_hypothesis(chunk)
        for seed, record in kept.items():
            if seed in records.known:
                records.known[seed].setdefault("before", record["faults"])


if __name__ == "__main__":
    main()
