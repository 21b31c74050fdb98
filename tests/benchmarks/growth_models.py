"""Four families of problems of growing size, each as a user states it and as one writes it by hand.

Every family has the model and a *plain alternative*: a function that finds the value with SciPy, OSQP or
a mixed-integer program, in the twenty to forty lines that a person would write for this one problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.optimize as so
import scipy.sparse as sp

import blomodel as bm


class Ridge:
    """A weight for each feature of a ridge regression, chosen by the error on other data."""

    name, unit, sizes = "ridge", "features", (50, 100, 200, 400, 1000)

    def __init__(self, features: int) -> None:
        draw, samples = np.random.default_rng(0), 5 * features
        true = np.where(np.arange(features) % 10 == 0, draw.standard_normal(features), 0.0)
        self.A, self.B = draw.standard_normal((2, samples, features))
        self.a, self.b = (data @ true + 2 * draw.standard_normal(samples) for data in (self.A, self.B))

    def problem(self) -> bm.BilevelProblem:
        """The model."""
        n = self.A.shape[1]
        x, w = cp.Variable(n, name="x"), cp.Variable(n, name="w")
        fit = cp.sum_squares(self.A @ w - self.a) / (2 * len(self.a)) + cp.exp(x) @ cp.square(w) / 2
        error = cp.sum_squares(self.B @ w - self.b) / len(self.b)
        return bm.BilevelProblem(
            cp.Minimize(error), [-9 <= x, x <= 2], bm.Lower(cp.Minimize(fit), variables=[w])
        )

    def by_hand(self) -> float:
        """L-BFGS-B on the validation error, with the implicit gradient by one Cholesky factor."""
        samples, n = self.A.shape
        gram, right = self.A.T @ self.A / samples, self.A.T @ self.a / samples

        def value(x: np.ndarray) -> tuple[float, np.ndarray]:
            factor = scipy.linalg.cho_factor(gram + np.diag(np.exp(x)))
            w = scipy.linalg.cho_solve(factor, right)
            miss = self.B @ w - self.b
            adjoint = scipy.linalg.cho_solve(factor, 2 * self.B.T @ miss / samples)
            return float(miss @ miss) / samples, -adjoint * np.exp(x) * w

        return float(
            so.minimize(value, np.zeros(n), jac=True, method="L-BFGS-B", bounds=[(-9, 2)] * n).fun
        )


class Pricing:
    """Prices of five products; every customer buys the quantities that suit it best."""

    name, unit, sizes = "pricing", "customers", (30, 100, 300, 1000)

    def __init__(self, customers: int) -> None:
        draw, k = np.random.default_rng(1), 5
        self.worth, self.weight = draw.uniform(1, 10, (customers, k)), draw.uniform(1, 5, customers)
        mixed = 0.3 * draw.standard_normal((customers, k, k))
        self.Q = mixed @ mixed.transpose(0, 2, 1) + np.array(
            [np.diag(d) for d in draw.uniform(0.5, 2, (customers, k))]
        )

    def problem(self) -> bm.BilevelProblem:
        """The model."""
        price, followers, revenue = cp.Variable(self.worth.shape[1], name="price"), [], 0
        for k, worth in enumerate(self.worth):
            z = cp.Variable(len(worth), name=f"buy{k}", nonneg=True)
            gain = (worth - price) @ z - cp.quad_form(z, cp.psd_wrap(self.Q[k])) / 2
            followers.append(bm.Lower(cp.Maximize(gain), variables=[z], name=f"customer {k}"))
            revenue += self.weight[k] * (price @ z)
        return bm.BilevelProblem(cp.Maximize(revenue), [price >= 0, price <= 10], followers)

    def by_hand(self) -> float:
        """L-BFGS-B on the revenue; each customer by non-negative least squares."""
        roots = [np.linalg.cholesky(Q).T for Q in self.Q]

        def loss(price: np.ndarray) -> tuple[float, np.ndarray]:
            total, slope = 0.0, np.zeros_like(price)
            for worth, weight, Q, root in zip(self.worth, self.weight, self.Q, roots, strict=True):
                z = so.nnls(root, np.linalg.solve(root.T, worth - price))[0]
                on = z > 1e-12
                total -= weight * price @ z
                slope -= weight * z
                if on.any():
                    slope[on] += weight * np.linalg.solve(Q[np.ix_(on, on)], price[on])
            return total, slope

        starts = [np.full(self.worth.shape[1], level) for level in (2.0, 5.0)]
        found = [
            so.minimize(loss, s, jac=True, method="L-BFGS-B", bounds=[(0, 10)] * len(s)) for s in starts
        ]
        return -min(float(each.fun) for each in found)


class Controller:
    """Weights of a model-predictive controller, chosen by what ten trajectories cost."""

    name, unit, sizes = "controller", "steps of the horizon", (10, 20, 40, 80)

    def __init__(self, horizon: int) -> None:
        step = 0.2
        self.A = np.array([[1, step, 0, 0], [-0.5 * step, 1 - 0.05 * step, 0.5 * step, 0],
                           [0, 0, 1, step], [0.5 * step, 0, -0.5 * step, 1 - 0.05 * step]])  # fmt: skip
        self.B, self.horizon = np.array([[0], [step], [0], [0]]), horizon
        self.starts = np.random.default_rng(0).uniform(-1, 1, (10, 4))

    def problem(self) -> bm.BilevelProblem:
        """The model."""
        q, r, followers, cost = cp.Variable(4, name="q"), cp.Variable(name="r"), [], 0
        for i, start in enumerate(self.starts):
            X, U = (
                cp.Variable((4, self.horizon + 1), name=f"X{i}"),
                cp.Variable((1, self.horizon), name=f"U{i}"),
            )
            own = sum(cp.exp(q[j]) * cp.sum_squares(X[j]) for j in range(4)) + cp.exp(
                r
            ) * cp.sum_squares(U)
            rows = [X[:, 0] == start, X[:, 1:] == self.A @ X[:, :-1] + self.B @ U, U <= 1, U >= -1]
            followers.append(bm.Lower(cp.Minimize(own), rows, variables=[X, U], name=f"trajectory {i}"))
            cost += (
                cp.sum_squares(X[2])
                + 0.1 * cp.sum_squares(X[3])
                + 0.5 * cp.sum_squares(U[:, 1:] - U[:, :-1])
            )
        return bm.BilevelProblem(cp.Minimize(cost), [q >= -4, q <= 4, r >= -4, r <= 4], followers)

    def by_hand(self) -> float:
        """L-BFGS-B on the cost; each trajectory by OSQP, the gradient by one sparse adjoint solve."""
        import osqp

        h = self.horizon
        n_x, n = 4 * (h + 1), 4 * (h + 1) + h
        ahead = sp.kron(sp.eye_array(h, h + 1, k=1), np.eye(4))
        moves = sp.hstack([sp.kron(sp.eye_array(h, h + 1), -self.A) + ahead,
                           sp.kron(sp.eye_array(h), -self.B)])  # fmt: skip
        first = sp.hstack([sp.eye_array(4, n_x), sp.csr_array((4, h))])
        limits = sp.hstack([sp.csr_array((h, n_x)), sp.eye_array(h)])
        rows = sp.csc_array(sp.vstack([first, moves, limits]))
        which = np.concatenate([np.tile(np.arange(4), h + 1), np.full(h, 4)])
        change = sp.diags_array([-np.ones(h - 1), np.ones(h - 1)], offsets=[0, 1], shape=(h - 1, h))
        above = sp.block_diag(
            [sp.diags_array(2 * np.tile([0, 0, 1, 0.1], h + 1)), change.T @ change], format="csr"
        )
        solver = osqp.OSQP()
        low, high = (
            np.concatenate([np.zeros(n_x), -np.ones(h)]),
            np.concatenate([np.zeros(n_x), np.ones(h)]),
        )
        accurate = {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 20000, "polishing": True}
        solver.setup(
            P=sp.csc_array(sp.eye_array(n)),
            q=np.zeros(n),
            A=rows,
            l=low,
            u=high,
            verbose=False,
            **accurate,
        )

        def value(weights: np.ndarray) -> tuple[float, np.ndarray]:
            diagonal, total, slope = 2 * np.exp(weights)[which], 0.0, np.zeros(5)
            solver.update(Px=diagonal, Px_idx=np.arange(n))
            for start in self.starts:
                low[:4] = high[:4] = start
                solver.update(l=low, u=high)
                found = solver.solve()
                total += float(found.x @ above @ found.x) / 2
                active = np.concatenate([np.ones(n_x, bool), np.abs(found.y[n_x:]) > 1e-6])
                kept = rows.tocsr()[active]
                kkt = sp.block_array([[sp.diags_array(diagonal), kept.T], [kept, None]], format="csc")
                adjoint = sp.linalg.spsolve(
                    kkt, np.concatenate([above @ found.x, np.zeros(kept.shape[0])])
                )[:n]
                slope -= np.bincount(which, diagonal * found.x * adjoint, minlength=5)
            return total, slope

        return float(
            so.minimize(value, np.zeros(5), jac=True, method="L-BFGS-B", bounds=[(-4, 4)] * 5).fun
        )


@dataclass
class Market:
    """A firm marks up its offers in a power market with a network, in several hours."""

    buses: int
    hours: int

    name, unit = "market", "buses x hours"
    sizes = ((30, 1), (30, 6), (30, 24), (100, 24))

    def __post_init__(self) -> None:
        draw, n = np.random.default_rng(3), self.buses
        self.lines = [(k, (k + 1) % n) for k in range(n)] + [
            (k, (k + n // 3) % n) for k in range(0, n, 5)
        ]
        self.at = np.arange(0, n, 3)
        self.room = np.round(draw.uniform(20, 60, len(self.at)))
        self.cost = np.round(draw.uniform(10, 60, len(self.at)), 1)
        self.mine = np.sort(np.argsort(-self.room)[:3])
        self.incidence = np.zeros((n, len(self.lines)))
        for k, (a, b) in enumerate(self.lines):
            self.incidence[a, k], self.incidence[b, k] = 1, -1
        base = draw.uniform(2, 12, n)
        base *= 0.7 * self.room.sum() / base.sum()
        shape = 1 + 0.15 * np.sin(np.arange(self.hours) / 24 * 2 * np.pi)
        self.load, self.limit, self.markup = np.outer(shape, base), 60.0, 30.0

    def problem(self) -> bm.BilevelProblem:
        """The model."""
        place = np.eye(self.buses)[:, self.at]
        own = np.eye(len(self.at))[:, self.mine]
        x, followers, profit = cp.Variable((self.hours, len(self.mine)), name="markup"), [], 0
        for h in range(self.hours):
            p, angle = cp.Variable(len(self.at), name=f"p{h}"), cp.Variable(self.buses, name=f"angle{h}")
            flow = 10 * (self.incidence.T @ angle)
            balance = self.load[h] + self.incidence @ flow - place @ p == 0
            rows = [
                balance,
                p >= 0,
                p <= self.room,
                angle[0] == 0,
                flow <= self.limit,
                flow >= -self.limit,
            ]
            market = bm.Lower(
                cp.Minimize((self.cost + own @ x[h]) @ p), rows, variables=[p, angle], name=f"hour {h}"
            )
            price = market.multiplier(balance)
            profit += (place[:, self.mine].T @ price - self.cost[self.mine]) @ p[self.mine]
            followers.append(market)
        return bm.BilevelProblem(cp.Maximize(profit), [x >= 0, x <= self.markup], followers)

    def by_hand(self) -> float:
        """The textbook way: KKT conditions with a big M, revenue by strong duality, one MILP an hour."""
        return sum(self._hour(load) for load in self.load)

    def _hour(self, load: np.ndarray) -> float:
        n, m, k, big = self.buses, len(self.at), len(self.lines), 500.0
        place, own = np.eye(n)[:, self.at], np.eye(m)[:, self.mine]
        flows = 10 * self.incidence.T
        x, p, angle = cp.Variable(len(self.mine)), cp.Variable(m), cp.Variable(n)
        price, anchor = cp.Variable(n), cp.Variable()
        low, high = cp.Variable(m, nonneg=True), cp.Variable(m, nonneg=True)
        up, down = cp.Variable(k, nonneg=True), cp.Variable(k, nonneg=True)
        first = np.eye(n)[0]
        rows = [
            x >= 0, x <= self.markup, angle[0] == 0, p >= 0, p <= self.room,
            flows @ angle <= self.limit, flows @ angle >= -self.limit,
            load + self.incidence @ (flows @ angle) - place @ p == 0,
            self.cost + own @ x - place.T @ price - low + high == 0,
            flows.T @ (self.incidence.T @ price) + flows.T @ (up - down) + first * anchor == 0,
        ]  # fmt: skip
        for slack, pressure, range_ in ((p, low, self.room), (self.room - p, high, self.room),
                                        (self.limit - flows @ angle, up, 2 * self.limit),
                                        (self.limit + flows @ angle, down, 2 * self.limit)):  # fmt: skip
            on = cp.Variable(slack.size, boolean=True)
            rows += [pressure <= big * on, slack <= cp.multiply(range_, 1 - on)]
        dual = load @ price - self.room @ high - self.limit * cp.sum(up + down)
        profit = dual - self.cost @ p + self.room[self.mine] @ high[self.mine]
        problem = cp.Problem(cp.Maximize(profit), rows)
        return float(problem.solve(solver=cp.HIGHS, time_limit=60.0))


FAMILIES = {family.name: family for family in (Market, Ridge, Pricing, Controller)}


def make(name: str, size: int | tuple[int, int]) -> Market | Ridge | Pricing | Controller:
    """An instance of a family."""
    family = FAMILIES[name]
    return family(*size) if isinstance(size, tuple) else family(size)  # type: ignore[call-arg,arg-type]
