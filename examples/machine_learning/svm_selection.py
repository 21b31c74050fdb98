r"""
How much may each sample miss its margin?
=========================================

A support vector machine whose allowances, one for each sample, are chosen by validation data.

The upper level picks a bound :math:`c_i` on how far each training sample :math:`(z_i, l_i)` may
miss its margin, the lower level finds the widest margin within these bounds. The bounds stand in
the constraints of the lower level, so the levels are *coupled*:

.. math:: \min_c \; \frac1{N'} \sum_{\text{validation}} e^{1 - l (z^\top w + b)} + \tfrac12 \|c\|^2
          \quad\text{where}\quad (w, b) \in \operatorname{argmin}_{w, b} \bigl\{\tfrac12 \|w\|^2 :
          1 - l_i (z_i^\top w + b) \le c_i \bigr\}.

It is problem (70) of Jiang, Xiao, Chen and Chen, "Efficient Penalty-Based Bilevel Methods"; the
paper's table is made by ``python -m examples.reproduce svm --data FILE``.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import blomodel as bm

z, progress = load_diabetes(return_X_y=True)
z, labels = 20 * z[:200], np.where(progress[:200] > np.median(progress), 1.0, -1.0)
train, validation = np.arange(0, 200, 2), np.arange(1, 200, 2)

c = cp.Variable(100, name="c")
w, b = cp.Variable(10, name="w"), cp.Variable(name="b")
margins = cp.multiply(labels, z @ w + b)

widest = bm.Lower(cp.Minimize(cp.sum_squares(w) / 2), [1 - margins[train] <= c], variables=[w, b])
error = cp.sum(cp.exp(1 - margins[validation])) / 100
problem = bm.BilevelProblem(cp.Minimize(error + cp.sum_squares(c) / 2), [], widest)
problem.solve()
print(problem.certificate)

# %%
# Not every :math:`c` will do: the classes overlap, so the lower level has no answer at all when every
# :math:`c_i` is small. The library finds its way around that.
#
# The picture
# -----------
# The bounds against the margins. A sample that keeps its margin needs no allowance; the others get
# exactly the one that they use.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for label, colour in ((1.0, "#0072B2"), (-1.0, "#E69F00")):
    of_class = labels[train] == label
    axes.plot(
        margins.value[train][of_class], c.value[of_class], "o", color=colour, label=f"class {label:+g}"
    )
axes.set(title="Who may miss the margin", xlabel="margin", ylabel="bound $c_i$")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# Forget that the margin must be the widest one and keep only its constraints. What is left is one convex
# problem, a support vector machine with squared losses, and its value cannot be above ours. The bilevel
# problem reaches it, so no better point exists. And cvxpy finds the same machine at the bounds found.
bound = cp.Problem(cp.Minimize(error + cp.sum_squares(cp.pos(1 - margins[train])) / 2))
bilevel_w, bilevel_value = w.value.copy(), problem.value
bound.solve(solver=cp.CLARABEL)
alone = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2), [1 - margins[train] <= c.value + 1e-9])
alone.solve(solver=cp.CLARABEL)
assert problem.status == "optimal" and abs(bilevel_value - bound.value) < 1e-5 * bound.value
assert np.allclose(w.value, bilevel_w, atol=1e-3)
print(f"checked: value {bilevel_value:.6f}, bound by a convex problem {bound.value:.6f}")
