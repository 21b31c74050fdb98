"""One random model solved by the library and judged by brute force."""

from __future__ import annotations

import time

import numpy as np
from fuzz_closed_forms import Special
from fuzz_judge import TIE, best_answers, exact_value, is_confirmed, lower_gaps, search, values
from fuzz_models import draw_model
from fuzz_pieces import Model, Numbers
from fuzz_states import state

import blomodel as bm

PROFIT = 3.0  # slope of f in y with which it may profit from what counts as a tie
BOUND_SLACK = 1e-5  # relative; what a bound may lie above a point of brute force
WORSE = 1e-3  # relative; from where an answer counts as worse than brute force
OVER = 1.2, 1.0  # a time limit times this plus these seconds, in CPU time, counts as a hang
REFUSED = ("no answer", "eigenvectors", "nearest matrix", "game", "multipliers")  # with good reason
POINTS = ("optimal", "locally_optimal", "stationary", "feasible", "not_attained")


def verdict(model: int | Model | Special, **settings) -> dict:
    """What the library says about a model, or one by number, and every fault that the judge finds."""
    model = draw_model(model) if isinstance(model, int) else model
    record: dict = {"seed": model.seed, "kind": model.kind, "faults": []}
    began = time.process_time()
    try:
        problem, read = state(model)
        value = float(problem.solve(**settings))
    except bm.BlomodelError as error:
        record.update(status="refused", message=f"{type(error).__name__}: {error}"[:300])
        record["cpu"] = time.process_time() - began
        if model.kind not in REFUSED:
            record["faults"].append(f"refused: {record['message']}")
        return record
    except Exception as error:  # a bare traceback is a fault, whatever it is
        record.update(status="exception", message=f"{type(error).__name__}: {error}"[:300])
        record.update(faults=["exception"], cpu=time.process_time() - began)
        return record
    record.update(status=str(problem.status), cpu=time.process_time() - began)
    limit = settings.get("time_limit", np.inf)
    if record["cpu"] > OVER[0] * limit + OVER[1]:
        record["faults"].append(f"hang: {record['cpu']:.1f} s")
    began = time.process_time()
    certificate = problem.certificate
    if isinstance(model, Special):
        judge_special(model, record, value, read, certificate)
        record["judged in"] = time.process_time() - began
        return record
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


def profit(model: Model, x, y) -> float:
    """What f may gain by answers that brute force takes for equal: the root where g is curved."""
    largest = max(abs(v) for _, v, _, _ in lower_gaps(model, x, y))
    return PROFIT * float(np.sqrt(TIE * (1 + largest)))


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
        exact = exact_value(model, best_x, best_y) + profit(model, best_x, best_y)
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


def judge_special(model: Special, record: dict, value: float, read, certificate) -> None:
    """Against answers in closed form, at a grid of x that is refined around its best points."""
    faults, status = record["faults"], record["status"]
    bound = certificate.bound if certificate is not None and certificate.bound is not None else np.nan
    record.update(value=value, bound=bound)
    starts = []
    if status in POINTS:
        x, y = read()
        record["x"], record["y"] = x.tolist(), y.tolist()
        size, f = 1 + max(np.abs(x).max(), np.abs(y).max()), model.upper(x, y)
        if abs(f - value) > 1e-6 * (1 + abs(f)):
            faults.append(f"the point has f = {f}")
        gap, apart = model.check(x, y)
        apart = max(apart, np.max(model.low - x), np.max(x - model.high))
        if gap > 10 * certificate.tolerance:
            faults.append(f"not lower-optimal: gap {gap:.2e}")
        if apart > 10 * certificate.tolerance * size:
            faults.append(f"not feasible by {apart:.2e}")
        starts = [np.clip(x, model.low, model.high)]
    best, best_x, best_y = scan(model, starts)
    record["best"] = best
    if not np.isfinite(best):
        return
    slack = BOUND_SLACK * (1 + abs(best))
    where = f"best {best} at x = {best_x.tolist()}, y = {best_y.tolist()}"
    if status == "unbounded" and model.has_ray():
        return
    if status not in POINTS:
        if status in ("infeasible", "lower_infeasible", "unbounded", "lower_unbounded"):
            faults.append(f"false {status}: {where}")
        record["worse by"] = np.inf
        return
    if bound > best + slack:
        faults.append(f"false bound {bound}: {where}")
    if value - best > WORSE * (1 + abs(best)):
        record["worse by"] = value - best
    if best - value > WORSE * (1 + abs(best)):
        record["better by"] = best - value
    if (
        status == "optimal"
        and value - best > 1.2 * certificate.optimality_gap * (1 + abs(value)) + slack
    ):
        faults.append(f"false optimal {value}: {where}")
    if status == "locally_optimal":
        draw, width = np.random.default_rng(0), 1e-3 * (model.high - model.low)
        for _ in range(40):
            near = np.clip(x + width * draw.uniform(-1, 1, len(x)), model.low, model.high)
            f, reply = model.reply(near)
            if f < value - slack and np.abs(reply - y).max() <= 0.05:
                faults.append(f"false local {value}: {f} at x = {near.tolist()}, y = {reply.tolist()}")
                break


def scan(model: Special, starts, rounds: int = 16):
    """The least f over a grid of x, refined."""
    count = 101 if len(model.low) == 1 else 17
    axes = [np.linspace(a, b, count) for a, b in zip(model.low, model.high, strict=True)]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    found = [(*model.reply(x), x) for x in (*grid, *starts)]
    found = sorted(found, key=lambda each: each[0])[:2] + found[len(grid) :]
    width = (model.high - model.low) / (count - 1)
    moves = np.stack(
        [m.ravel() for m in np.meshgrid(*[np.linspace(-1, 1, 5)] * len(width), indexing="ij")], axis=1
    )
    for _ in range(rounds):
        for k, (f, y, x) in enumerate(found):
            trials = [np.clip(x + width * move, model.low, model.high) for move in moves]
            options = [(*model.reply(trial), trial) for trial in trials]
            found[k] = min([(f, y, x), *options], key=lambda each: each[0])
        width = width * 0.5
    f, y, x = min(found, key=lambda each: each[0])
    return f, x, y
