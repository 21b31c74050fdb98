"""A certificate as a person reads it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from blomodel.status import Status
from blomodel.text.html import BAD, GOOD, table, verdict
from blomodel.text.layout import number

if TYPE_CHECKING:
    from blomodel.certification.certificate import Certificate

STATIONARY = 1e-4  # relative slope below which a direction counts as level
VISIBLE = 1e-2  # share of f that the tolerated gap must hide to be mentioned
BOUND_ALL = "bound every variable from both sides: without a range for each, f has no bound"
ZERO = 1e-3  # times the tolerance: what is no larger is shown as 0


def format_certificate(certificate: Certificate) -> str:
    """One line for each check, then the claim and why."""
    c = certificate
    limit = f"{c.tolerance:g}"
    unique = {True: "yes", False: "perhaps not", None: "not known"}[c.lower_is_unique]
    lines = [
        f"certificate: {c.claim.value} ({c.claim.meaning})",
        f"  upper objective        {number(c.objective, 10, ZERO * c.tolerance)}",
        f"  upper violation        {c.upper_violation:.2e}   {_verdict(c.upper_violation, c)} {limit}",
        f"  lower violation        {c.lower_violation:.2e}   {_verdict(c.lower_violation, c)} {limit}",
        f"  lower gap              {max(c.lower_gap, 0.0):.2e}   {_verdict(c.lower_gap, c)} {limit}"
        f"   (lower value {number(c.lower_value, 8, ZERO * c.tolerance)} by {c.checked_by})",
        f"  lower answer unique    {unique}",
    ]
    if shows_tolerated(c) and c.tolerated_objective is not None:
        least, largest = c.tolerated_objective
        lines.append(f"  f of tolerated answers {least:.6g} to {largest:.6g}   ({c.tolerated_by})")
    for name, gap in c.follower_gaps.items():
        lines.append(f"  gap of {name:<15} {max(gap, 0.0):.2e}   {_verdict(gap, c)} {limit}")
    if c.stationarity is not None:
        sign = "<=" if c.stationarity <= STATIONARY else ">"
        lines.append(f"  stationarity           {c.stationarity:.2e}   {sign} {STATIONARY:g}")
    if c.accepted:
        if c.bound is None:
            lines.append(f"  bound                  none   ({c.bound_origin})")
        else:
            lines.append(f"  bound                  {c.bound:.10g}   ({c.bound_trust})")
            lines.append(f"  bound from             {c.bound_source}")
    if c.bound is not None and c.gap is not None:
        verdict = "<=" if c.gap <= c.optimality_gap else ">"
        lines.append(f"  gap to the bound       {max(c.gap, 0.0):.2e}   {verdict} {c.optimality_gap:g}")
    title = "  because                " if c.accepted else "  refused because        "
    for position, reason in enumerate(c.reasons):
        lines.append((title if position == 0 else " " * len(title)) + reason)
    if c.claim is not Status.OPTIMAL and c.accepted:
        lines.append(f"  what next              {what_next(c)}")
    return "\n".join(lines)


def what_next(certificate: Certificate) -> str:
    """What would show more than the certificate does."""
    c = certificate
    is_open = c.claim in {Status.LOCALLY_OPTIMAL, Status.STATIONARY, Status.FEASIBLE}
    return BOUND_ALL if is_open and c.bound is None else c.claim.next_step


def shows_tolerated(certificate: Certificate) -> bool:
    """Whether the tolerated lower gap hides enough of f to be mentioned."""
    c = certificate
    return c.tolerated_objective is not None and c.hidden > VISIBLE * (1 + abs(c.objective))


def _verdict(figure: float, certificate: Certificate) -> str:
    return "<=" if figure <= certificate.tolerance else ">"


def certificate_html(certificate: Certificate) -> str:
    """The checks, each with its limit, and the claim."""
    c = certificate
    rows = [
        ("upper objective", number(c.objective, 10, ZERO * c.tolerance), ""),
        ("upper violation", f"{c.upper_violation:.2e}", _judge(c.upper_violation, c.tolerance)),
        ("lower violation", f"{c.lower_violation:.2e}", _judge(c.lower_violation, c.tolerance)),
        ("lower gap", f"{max(c.lower_gap, 0.0):.2e}", _judge(c.lower_gap, c.tolerance)),
        ("lower value", number(c.lower_value, 8, ZERO * c.tolerance), f"by {escape(c.checked_by)}"),
        ("lower answer unique", *_uniqueness(c.lower_is_unique)),
    ]
    if shows_tolerated(c) and c.tolerated_objective is not None:
        least, largest = c.tolerated_objective
        span = f"{number(least, 6)} to {number(largest, 6)}"
        rows.append(("f of tolerated answers", span, escape(c.tolerated_by)))
    if c.stationarity is not None:
        rows.append(("stationarity", f"{c.stationarity:.2e}", _judge(c.stationarity, STATIONARY)))
    if c.accepted:
        rows.append(
            ("bound", "none" if c.bound is None else number(c.bound, 10), escape(c.bound_origin))
        )
    if c.bound is not None and c.gap is not None:
        judged = _judge(c.gap, c.optimality_gap)
        rows.append(("gap to the bound", f"{max(c.gap, 0.0):.2e}", judged))
    title = "because" if c.accepted else "refused because"
    said = [(title if k == 0 else "", escape(why)) for k, why in enumerate(c.reasons)]
    if c.claim is not Status.OPTIMAL and c.accepted:
        said.append(("what next", escape(what_next(c))))
    because = table(said)
    return verdict(c.claim, is_accepted=c.accepted) + table(rows) + because


def _judge(figure: float, tolerance: float) -> str:
    if figure <= tolerance:
        return f'<span style="color:{GOOD}">&#10003; within {tolerance:g}</span>'
    return f'<span style="color:{BAD}">&#10007; above {tolerance:g}</span>'


def _uniqueness(is_unique: bool | None) -> tuple[str, str]:
    words = {True: "yes", False: "perhaps not", None: "not known"}
    advice = "the upper level was given its choice" if is_unique is False else ""
    return words[is_unique], advice
