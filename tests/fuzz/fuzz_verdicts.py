"""One random model solved by the library and judged by brute force."""

from __future__ import annotations

import time

import numpy as np
from fuzz_judge import best_answers, exact_value, is_confirmed, lower_gaps, search, values
from fuzz_models import Model, Numbers, draw_model, state

import blomodel as bm

BOUND_SLACK = 1e-5  # relative; what a bound may lie above a point of brute force
WORSE = 1e-3  # relative; from where an answer counts as worse than brute force
SLOW = 60.0  # seconds of CPU time that count as a hang
POINTS = ("optimal", "locally_optimal", "stationary", "feasible", "not_attained")


def verdict(seed: int, **settings) -> dict:
    """What the library says about model ``seed``, and every fault of it that brute force shows."""
    model = draw_model(seed)
    record: dict = {"seed": seed, "kind": model.kind, "faults": []}
    began = time.process_time()
    try:
        problem, read = state(model)
        value = float(problem.solve(**settings))
    except bm.BlomodelError as error:
        record.update(status="refused", message=f"{type(error).__name__}: {error}"[:300])
        record["cpu"] = time.process_time() - began
        return record
    except Exception as error:  # a bare traceback is a fault, whatever it is
        record.update(status="exception", message=f"{type(error).__name__}: {error}"[:300])
        record.update(faults=["exception"], cpu=time.process_time() - began)
        return record
    record.update(status=str(problem.status), cpu=time.process_time() - began)
    if record["cpu"] > SLOW:
        record["faults"].append("slow")
    began = time.process_time()
    certificate = problem.certificate
    unit = model.units.get("f", 1.0)
    record["value"] = model.sense * value / unit
    bound = certificate.bound if certificate is not None and certificate.bound is not None else np.nan
    record["bound"] = model.sense * bound / unit
    if record["status"] in POINTS:
        judge_point(model, record, *read(), certificate)
    else:
        judge_no_point(model, record)
    record["judged in"] = time.process_time() - began
    return record


def judge_point(model: Model, record: dict, x, y, certificate) -> None:
    unit = model.units.get("f", 1.0)
    faults, tolerance, value = record["faults"], certificate.tolerance, record["value"]
    record["x"], record["y"] = x.tolist(), y.tolist()
    x_column, y_column = x[:, None], y[:, None]
    # The point itself
    f = model.sense * float(np.ravel(model.f(x_column, y_column, Numbers))[0])
    if abs(f - value) > 1e-6 * (1 / unit + abs(f)):
        faults.append(f"the point has f = {f}")
    size = 1 + max(np.abs(x).max(), np.abs(y).max())
    violations = [values(model.rows, x_column, y_column).max(initial=0.0)]
    violations += [np.max(model.low - x), np.max(x - model.high)]
    violations.append(np.abs(x - x.round())[model.whole].max(initial=0.0))
    gaps = lower_gaps(model, x, y)
    start = 0
    for each, (gap, v, spread, other) in zip(model.followers, gaps, strict=True):
        own = y[start : start + len(each.low)]
        start += len(own)
        violations.append(values(each.rows, x_column, own[:, None]).max(initial=0.0))
        violations.append(np.abs(values(each.equations, x_column, own[:, None])).max(initial=0.0))
        violations += [np.max(each.low - own), np.max(own - each.high)]
        violations.append(np.abs(own - own.round())[each.whole].max(initial=0.0))
        # In the units of the library: the gap is relative to 1 + |v|, or to the range of g if less.
        size_of_g = 1 / model.units.get("g", 1.0) + abs(v)
        scale = np.clip(spread, 1e-3 * size_of_g, size_of_g)
        # Where hardly anything is at stake, ties are ties up to a tenth of the tolerance.
        if np.isfinite(v) and gap > tolerance * max(10 * scale, 0.1 * size_of_g):
            faults.append(f"not lower-optimal: gap {gap:.2e} to v = {v}, answer {other.tolist()}")
    if max(violations) > 10 * tolerance * size:
        faults.append(f"not feasible by {max(violations):.2e}")
    # Against all points
    best, best_x, best_y = search(model, starts=[x])
    record["best"] = best
    if not np.isfinite(best):
        return
    slack = BOUND_SLACK * (1 / unit + abs(best))
    gain = value - best
    is_false_bound = record["bound"] > best + slack
    is_false_optimum = record["status"] == "optimal" and gain > (
        1.2 * certificate.optimality_gap * (1 / unit + abs(value)) + slack
    )
    if gain > WORSE * (1 / unit + abs(best)) and is_confirmed(model, best_x, best_y):
        record["worse by"] = gain
    if gain < -WORSE * (1 / unit + abs(best)):
        record["better by"] = -gain
    if (is_false_bound or is_false_optimum) and is_confirmed(model, best_x, best_y):
        # An alarm counts only if it stands with lower answers that are exact.
        exact = exact_value(model, best_x, best_y)
        is_false_bound &= record["bound"] > exact + slack
        is_false_optimum &= (
            value - exact > 1.2 * certificate.optimality_gap * (1 / unit + abs(value)) + slack
        )
        point = f"best {best} at x = {best_x.tolist()}, y = {best_y.tolist()}"
        if is_false_bound:
            faults.append(f"false bound {record['bound']}: {point}")
        if is_false_optimum:
            faults.append(f"false optimal {value}: {point}")
    if record["status"] == "locally_optimal":
        judge_neighbourhood(model, record, x, y, value, unit)


def judge_neighbourhood(model: Model, record: dict, x, y, value, unit) -> None:
    """Whether a point right beside one that is called locally optimal is clearly better."""
    draw, reach = np.random.default_rng(0), 1e-3
    real = ~model.whole
    width = np.where(np.isfinite(model.high), model.high - model.low, 1.0) * reach
    moves = draw.uniform(-1, 1, (len(x), 40)) * width[:, None]
    near = np.clip(x[:, None] + moves * real[:, None], model.low[:, None], model.high[:, None])
    f, reply = best_answers(model, near)
    close = np.abs(reply - y[:, None]).max(axis=0) <= 0.05
    f = np.where(close, f, np.inf)
    k = int(f.argmin())
    slack = 1e-5 * (1 / unit + abs(value))
    if f[k] < value - slack and is_confirmed(model, near[:, k], reply[:, k]):
        record["faults"].append(
            f"false local {value}: {f[k]} at x = {near[:, k].tolist()}, y = {reply[:, k].tolist()}"
        )


def judge_no_point(model: Model, record: dict) -> None:
    """Whether the reason for no answer is true."""
    status, faults = record["status"], record["faults"]
    best, x, y = search(model)
    record["best"] = best
    if np.isfinite(best) and status in ("infeasible", "lower_infeasible") and is_confirmed(model, x, y):
        faults.append(f"false {status}: f = {best} at x = {x.tolist()}, y = {y.tolist()}")
    is_open = not np.all(np.isfinite(model.high)) or any(
        not np.all(np.isfinite(each.high)) for each in model.followers
    )
    if status in ("unbounded", "lower_unbounded") and not is_open:
        faults.append(f"false {status}: everything is bounded")
    if status == "failed" and np.isfinite(best):
        record["worse by"] = np.inf
