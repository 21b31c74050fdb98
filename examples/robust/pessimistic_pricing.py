r"""
Customers who may choose against you
====================================

At some prices customers are indifferent. What if they then choose against the seller?

A seller sets one price :math:`p`. Three groups compare the product with a rival's and buy what
leaves them more: :math:`w_k - p` from us, :math:`r_k` from the rival.

.. math:: \max_{0 \le p \le 40} \; p \sum_k y_{k1}
          \quad\text{where}\quad y_k \in \operatorname{argmax}_{y \ge 0}
          \; \{(w_k - p)\,y_{k1} + r_k\,y_{k2} : y_{k1} + y_{k2} \le n_k\}.

``solve()`` lets indifferent customers choose in favour of the seller, as most of the literature
does: the *optimistic* answer. The worst case is the *pessimistic* one. What really happens lies
between.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

sizes, worth, rival = [40, 30, 15], [12.0, 20.0, 34.0], [7.0, 11.0, 14.0]  # students, families, firms

price = cp.Variable(name="price")
groups, sold = [], 0
for k, name in enumerate(("students", "families", "firms")):
    y = cp.Variable(2, name=name)  # our product, the rival's
    gain = cp.Maximize((worth[k] - price) * y[0] + rival[k] * y[1])
    groups.append(bm.Lower(gain, [y >= 0, cp.sum(y) <= sizes[k]], variables=[y], name=name))
    sold += y[0]
problem = bm.BilevelProblem(cp.Maximize(price * sold), [0 <= price, price <= 40], lower=groups)
problem.solve()
print(f"{problem.status}: price {float(price.value):g}, revenue {problem.value:g}")

# %%
# The worst case at that price
# ----------------------------
# The price is the students' limit: at 5 both products leave them 7. That is no accident. As long as
# a group strictly prefers our product, the price can be raised; the best price is where somebody is
# about to leave. ``pessimistic()`` looks, among all answers that are best for the customers, for
# the worst one.
worst = problem.pessimistic()
print(worst)

# %%
# A price that is safe
# --------------------
# All students may go. A little below the limit nobody is indifferent, and both cases agree. That is
# why the best worst case is not attained by any price; ``search=`` comes near.
for at in (4.9, 5.0, 8.9, 9.0):
    look = problem.pessimistic(x=at)
    print(f"price {at}: revenue between {look.pessimistic:.1f} and {look.optimistic:.1f}")
safe = problem.pessimistic(search=60)
print(f"safe price {float(safe.x[price]):.3f}: revenue at least {safe.pessimistic:.2f}")

# %%
# The picture
# -----------
# Each limit is a cliff. On its edge the customers decide which side counts: the star is the revenue at
# the price 5 when indifferent students buy, the triangle when they do not.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
problem.plot(ax=axes, gammas=[], span=(0, 25))
axes.plot(5, worst.pessimistic, "v", color="#0072B2", markersize=10, label="worst case at 5")
axes.set_title("Revenue", loc="left")
axes.set(xlabel="price", ylabel="", ylim=(-15, 470))
axes.get_legend().remove()
plt.show()


# %%
# Is it right?
# ------------
# By pencil: a group buys up to the price :math:`w_k - r_k`, and at that price does as it likes. All 85
# customers at 5 pay 425; without the 40 students it is 225.
def by_pencil(at: float, are_kind: bool) -> float:
    """Revenue when indifferent customers choose for the seller, or against."""
    limits = np.array(worth) - rival
    return at * float(np.array(sizes) @ ((at <= limits) if are_kind else (at < limits)))


assert (
    problem.status == "optimal"
    and abs(problem.value - 425) < 1e-4
    and abs(float(price.value) - 5) < 1e-6
)
assert worst.is_proven and abs(worst.pessimistic - 225) < 1e-3
for at in (3.0, 5.0, 9.0, 14.0, 20.0):
    look = problem.pessimistic(x=at)
    assert abs(look.optimistic - by_pencil(at, True)) < 1e-3, at
    assert abs(look.pessimistic - by_pencil(at, False)) < 1e-3, at
assert 4.8 < float(safe.x[price]) < 5 and 0.96 * 425 < safe.pessimistic < 425
print("checked with a pencil: 425 with kind customers, 225 with others, and five prices more")
