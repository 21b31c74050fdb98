r"""
Finding wrong labels
====================

A third of the labels are wrong; a weight for each sample, judged on clean data, tells which.

*Data hyper-cleaning*: the lower level fits a classifier to the weighted training samples, the upper
level decides the weights and looks at errors on a small clean set. A sample whose label is wrong
does harm there, so it loses its weight:

.. math:: \min_{0 \le x \le 1} \; \frac1{N'} \sum_{\text{clean}} \ell_j(w) \quad\text{where}\quad
          w = \operatorname{argmin}_w \; \frac1N \sum_i x_i\, \ell_i(w) + \tfrac{1}{50} \|w\|^2, \qquad
          \ell_i(w) = \log\bigl(1 + e^{-l_i z_i^\top w}\bigr).
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import blomodel as bm

digits = load_digits()
chosen = np.isin(digits.target, (3, 8))  # threes and eights, four by four averaged pixels
images = digits.images[chosen].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 8 - 1
z, labels = (
    np.hstack([images, np.ones((len(images), 1))]),
    np.where(digits.target[chosen] == 3, 1.0, -1.0),
)

N = 60
rng = np.random.default_rng(0)
is_wrong = rng.permutation(N) < N // 3
noisy = np.where(is_wrong, -labels[:N], labels[:N])

# %%
# The model
# ---------
x, w = cp.Variable(N, name="x"), cp.Variable(17, name="w")
losses = cp.logistic(-cp.multiply(noisy, z[:N] @ w))
fit = bm.Lower(cp.Minimize(x @ losses / N + cp.sum_squares(w) / 50), variables=[w], name="the fit")
clean = cp.sum(cp.logistic(-cp.multiply(labels[N : 2 * N], z[N : 2 * N] @ w))) / N
problem = bm.BilevelProblem(cp.Minimize(clean), [0 <= x, x <= 1], fit)
x.value = np.full(N, 0.5)
problem.solve("alt-pbgd")
print(problem.status, "loss on the clean data", round(problem.value, 5))

found = x.value < 0.5
print(f"{found.sum()} samples lose their weight")
print(f"{is_wrong[found].sum()} of the {is_wrong.sum()} wrong labels are among them")

# %%
# ``alt-pbgd`` (penalised gradient steps in turns) is one of the methods that the literature uses
# for this problem. ``solve()`` without a method ends at the same value and takes longer.
#
# The picture
# -----------
# The weights of the samples. The model never saw which labels are wrong.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
bins = np.linspace(0, 1, 13)
axes.hist(
    [x.value[~is_wrong], x.value[is_wrong]],
    bins,
    color=["#0072B2", "#D55E00"],
    label=["right label", "wrong label"],
)
axes.set(title="Weights tell the labels apart", xlabel="weight $x_i$", ylabel="samples")
axes.legend(frameon=False)
plt.show()

# %%
# Is it right?
# ------------
# We know which labels were made wrong. And scikit-learn fits the same classifier to the weighted
# samples.
plain = LogisticRegression(C=25 / N, fit_intercept=False, tol=1e-8).fit(
    z[:N], noisy, sample_weight=x.value + 1e-12
)
everything = LogisticRegression(C=25 / N, fit_intercept=False).fit(z[:N], noisy)
cleaned, dirty = (
    np.mean((z[2 * N :] @ fitted) * labels[2 * N :] > 0) for fitted in (w.value, everything.coef_[0])
)
print(f"accuracy on new images: {cleaned:.3f}, and {dirty:.3f} with all labels")
assert problem.certificate.accepted and np.allclose(plain.coef_[0], w.value, atol=1e-2)
assert is_wrong[found].mean() > 0.8 and found[is_wrong].mean() > 0.8 and cleaned > dirty
print("checked: scikit-learn fits the same classifier, and most wrong labels are found")
