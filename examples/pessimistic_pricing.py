"""
Pricing for customers who may choose against you
================================================

A seller sets one price. Three groups of customers compare the product with a rival's and buy what
leaves them more. At some prices a group is *indifferent*: both products are equally good for it.
What does it do then?

``solve()`` answers as most of the literature does: in favour of the seller. This is the
*optimistic* convention, and it makes the problem well behaved. A careful seller also wants to know
the worst case, the *pessimistic* value. The two form a bracket around what can really happen. Run
it with ``python examples/pessimistic_pricing.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt

import blomodel as bm

parser = argparse.ArgumentParser(description="Pricing for customers who may choose against you.")
parser.add_argument("--save", type=Path, default=Path("pessimistic_pricing.png"), metavar="FILE")
options, _ = parser.parse_known_args()  # a notebook hands over arguments of its own

# %%
# The customers
# -------------
# Each group has a size, a worth of our product, and a gain that the rival's product leaves it. A
# group is indifferent when ``worth - price`` equals that gain, so our product sells to it up to
# the price ``worth - gain``, its *limit*.
GROUPS = {"students": (40, 12.0, 7.0), "families": (30, 20.0, 11.0), "firms": (15, 34.0, 14.0)}

price = cp.Variable(name="price")
followers, purchases = [], {}
for name, (size, worth, rival_gain) in GROUPS.items():
    bought = purchases[name] = cp.Variable(2, name=name)  # our product, the rival's
    gain = cp.Maximize((worth - price) * bought[0] + rival_gain * bought[1])
    limits = [bought >= 0, cp.sum(bought) <= size]
    followers.append(bm.Lower(gain, limits, variables=[bought], name=name))
sold = sum(bought[0] for bought in purchases.values())

# %%
# The optimistic answer
# ---------------------
problem = bm.BilevelProblem(cp.Maximize(price * sold), [0 <= price, price <= 40], lower=followers)
problem.solve()
best_price, best_value = float(price.value), problem.value
print(f"{problem.status}: price {best_price:g}, revenue {best_value:g}")
print(problem.certificate)

# %%
# The price is the students' limit, and the certificate notes that the customers' answer is perhaps
# not unique. That is no accident. As long as a group strictly prefers our product, the price can
# be raised; the best price is where somebody is about to leave.
#
# The worst case at that price
# ----------------------------
# ``pessimistic()`` keeps the price and looks for the answer, among all that are best for the
# customers, that is worst for the seller.
worst = problem.pessimistic()
print(worst)

# %%
# All students may go to the rival. The bracket is wide, and the lower end is *proven*: the revenue
# is linear in the purchases, so the worst choice is the solution of a linear program.
#
# Other prices
# ------------
# ``pessimistic(x=...)`` looks at any price. One tenth below the limit the customers' answer is
# unique, and the bracket closes.
looks = (3.0, 4.9, 5.0, 7.0, 8.9, 9.0, 14.0, 19.9, 20.0)
brackets = {}
for at in looks:
    look = problem.pessimistic(x=at)
    brackets[at] = look.bracket
    low, high = look.pessimistic, look.optimistic
    unique = "one answer" if look.lower_is_unique else "several answers"
    print(f"price {at:4.1f}: revenue between {low:6.1f} and {high:6.1f}, {unique}")

# %%
# A price that is safe
# --------------------
# ``pessimistic(search=...)`` tries many prices and keeps the one with the best worst case. It is a
# search and not a proof, and it cannot be one: just below the students' limit the worst case gets
# as close to the optimistic value as we like, but at the limit it drops. The best worst case is
# not attained by any price.
safe = problem.pessimistic(search=100)
safe_price = float(safe.x[price])
print(f"safe price {safe_price:.4f}: revenue at least {safe.pessimistic:.2f}")

# %%
# A promise that customers may break
# ----------------------------------
# Suppose that the seller has promised to sell at least 60 units. The optimistic answer keeps the
# promise at the price 5. But customers do not care about it, and ``pessimistic()`` reports by how
# much they may break it.
promised = bm.BilevelProblem(
    cp.Maximize(price * sold), [0 <= price, price <= 40, sold >= 60], lower=followers
)
promised.solve()
broken = promised.pessimistic()
print(broken)


# %%
# The picture
# -----------
# The revenue by pencil: at a price, the groups with a higher limit buy, and those whose limit is
# the price do as they like. The brackets that the library found are drawn on top.
def by_pencil(at: float, are_kind: bool) -> float:
    """Revenue when indifferent customers choose in favour of the seller, or against."""
    total = 0.0
    for size, worth, rival_gain in GROUPS.values():
        limit = worth - rival_gain
        total += size * at if at < limit or (are_kind and at == limit) else 0.0
    return total


figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
start = 0.0
for limit in (5.0, 9.0, 20.0):
    inside = (start + limit) / 2
    slope = by_pencil(inside, True) / inside
    label = "revenue" if limit == 5.0 else None
    axes.plot([start, limit], [slope * start, slope * limit], color="#000000", linewidth=2, label=label)
    start = limit
tops = [brackets[at][0] for at in (5.0, 9.0, 20.0)]
bottoms = [brackets[at][1] for at in (5.0, 9.0, 20.0)]
axes.vlines(
    (5.0, 9.0, 20.0), bottoms, tops, color="#999999", linestyle=":", linewidth=2, label="bracket"
)
axes.plot(
    (5.0, 9.0, 20.0), tops, "o", color="#0072B2", markersize=9, label="indifferent customers are kind"
)
axes.plot(
    (5.0, 9.0, 20.0), bottoms, "v", color="#D55E00", markersize=9, label="indifferent customers are not"
)
label = f"safe price found: {safe_price:.3f}, at least {safe.pessimistic:.1f}"
axes.plot(
    safe_price, safe.pessimistic, "s", color="#009E73", markersize=15, fillstyle="none", label=label
)
axes.annotate(
    f"optimistic solution\nprice {best_price:g}, revenue {best_value:g}",
    (best_price, best_value), xytext=(22, -4), textcoords="offset points",
)  # fmt: skip
axes.set(xlabel="price", ylabel="revenue", xlim=(0, 30), ylim=(-15, 470), title="Each limit is a cliff")
axes.grid(alpha=0.3)
axes.legend(frameon=False, loc="upper right")
figure.savefig(options.save, dpi=150)
print(f"picture saved to {options.save}")

# %%
# Is it right?
# ------------
# All 85 customers at the students' limit of 5 pay 425; without the 40 students it is 225. The
# families' limit of 9 would give 45 customers and 405, the firms' limit of 20 gives 300.
assert problem.status == "optimal" and abs(best_price - 5) < 1e-6 and abs(best_value - 425) < 1e-4
assert worst.is_proven and worst.lower_is_unique is False and abs(worst.pessimistic - 225) < 1e-3
for at, (kind, unkind) in brackets.items():
    assert abs(kind - by_pencil(at, True)) < 1e-3, f"price {at}: optimistic {kind}"
    assert abs(unkind - by_pencil(at, False)) < 1e-3, f"price {at}: pessimistic {unkind}"
assert 4.9 < safe_price < 5 and 0.98 * 425 < safe.pessimistic < 425
assert abs(next(iter(broken.violated.values())) - 15) < 1e-4, "45 of the 60 promised units are sure"
print("checked with a pencil: 425 with kind customers, 225 with others, and every other price")
