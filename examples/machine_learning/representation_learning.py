r"""
A layer that is shared, and a layer that is fitted
==================================================

Representation learning: the upper level shapes one layer, the lower level fits the next.

A network with two linear layers. The lower level fits the second layer :math:`W_2` to training
data, the upper level chooses the first, :math:`W_1`, the *representation*, for the error on
validation data:

.. math:: \min_{W_1} \; \tfrac12 \|Y' - X' W_1 W_2\|^2 \quad\text{where}\quad
          W_2 \in \operatorname{argmin}_{W_2} \; \tfrac12 \|Y - X W_1 W_2\|^2.

It is the problem of appendix H.1 of the paper on global optimality of penalty methods, at a small size;
``python -m examples.reproduce`` runs the paper's. The product of the layers makes it nonconvex.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import blomodel as bm

rng = np.random.default_rng(0)
X, X_val = rng.standard_normal((4, 8)), rng.standard_normal((3, 8))
law = rng.standard_normal((8, 1))
Y, Y_val = (part @ law + 0.01 * rng.standard_normal((len(part), 1)) for part in (X, X_val))

W1, W2 = cp.Variable((8, 6), name="W1"), cp.Variable((6, 1), name="W2")
fit = bm.Lower(cp.Minimize(cp.sum_squares(Y - X @ W1 @ W2) / 2), variables=[W2], name="the second layer")
problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(Y_val - X_val @ W1 @ W2) / 2), [], fit)
W1.value, W2.value = rng.standard_normal(W1.shape), rng.standard_normal(W2.shape)
before = X_val @ W1.value @ W2.value
problem.solve()
print(f"{problem.status}: error {problem.value:.1e}")

# %%
# There are fewer samples than features, so many second layers fit the training data exactly; among
# these the upper level may have the one that it likes best. That is the *optimistic* convention,
# and the certificate says that the lower answer is not unique.
print(problem.certificate)

# %%
# The picture
# -----------
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.plot(Y_val, before, "s", color="#BBBBBB", markersize=11, label="start")
axes.plot(Y_val, X_val @ W1.value @ W2.value, "o", color="#0072B2", markersize=11, label="answer")
axes.axline((0, 0), slope=1, color="#000000", linewidth=1)
axes.set(title="Validation data", xlabel="truth", ylabel="the network says")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# Only the product :math:`M = W_1 W_2` counts. Least squares finds the ``M`` that fits the training
# data exactly with the least validation error; ours must not be worse, and must fit the training
# data as well as any second layer can.
free = np.linalg.svd(X)[2][4:].T
M = np.linalg.pinv(X) @ Y
M = M + free @ np.linalg.lstsq(X_val @ free, Y_val - X_val @ M, rcond=None)[0]
best = 0.5 * np.sum((Y_val - X_val @ M) ** 2)
features = X @ W1.value
refit = features @ np.linalg.lstsq(features, Y, rcond=None)[0]
assert problem.certificate.accepted and problem.value <= best + 1e-6
assert np.allclose(features @ W2.value, refit, atol=1e-2)
print(f"checked: least squares over products of layers reaches {best:.1e}")
