"""A certificate as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blomodel.certificate import Certificate


def format_certificate(certificate: Certificate) -> str:
    """One line for each check, then the claim and why."""
    c = certificate
    limit = f"{c.tolerance:g}"
    unique = {True: "yes", False: "perhaps not", None: "not known"}[c.lower_is_unique]
    lines = [
        f"certificate: {c.claim.value} ({c.claim.meaning})",
        f"  upper objective        {c.objective:.10g}",
        f"  upper violation        {c.upper_violation:.2e}   {_verdict(c.upper_violation, c)} {limit}",
        f"  lower violation        {c.lower_violation:.2e}   {_verdict(c.lower_violation, c)} {limit}",
        f"  lower gap              {max(c.lower_gap, 0.0):.2e}   {_verdict(c.lower_gap, c)} {limit}"
        f"   (lower value {c.lower_value:.8g} by {c.checked_by})",
        f"  lower answer unique    {unique}",
    ]
    for name, gap in c.follower_gaps.items():
        lines.append(f"  gap of {name:<15} {max(gap, 0.0):.2e}   {_verdict(gap, c)} {limit}")
    if c.stationarity is not None:
        lines.append(f"  stationarity           {c.stationarity:.2e}")
    if c.bound is not None:
        lines.append(f"  bound                  {c.bound:.10g}   (from {c.bound_source})")
    title = "  because                " if c.accepted else "  refused because        "
    for position, reason in enumerate(c.reasons):
        lines.append((title if position == 0 else " " * len(title)) + reason)
    return "\n".join(lines)


def _verdict(figure: float, certificate: Certificate) -> str:
    return "<=" if figure <= certificate.tolerance else ">"
