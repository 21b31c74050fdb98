"""Figures 1, 3, 4, 9 and 10 of the ALT-PBGD paper: small problems by hand and by the methods."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
from scipy.optimize import minimize_scalar

import blomodel as bm
from blomodel.problems.penalty_paper import example_3, example_4

from .drawing import BLACK, BLUE, COLOURS, ORANGE, RED, curve, legend, panels
from .paths import solved
from .table import Table


def figure_1(data: Path | None = None, *, quick: bool = False) -> Table:
    """f = y, g = (x - y)^2: phi has kinks where constraints of y begin to press."""
    table = Table(
        "Figure 1 of the ALT-PBGD paper: kinks of phi",
        ("Y(x)", "x", "slope left", "slope right", "paper"),
    )
    table.picture, (axis,) = panels(1, width=4.6)
    line, step = np.linspace(-1, 1, 41), 1e-4
    for place, (label, rows, kinks, paper) in enumerate(
        (
            ("all of R", lambda x, y: [], (0.0,), "differentiable"),
            ("[-1/2, 1/2]", lambda x, y: [y >= -0.5, y <= 0.5], (-0.5, 0.5), "kinks at ±1/2"),
            ("y ≤ x/2", lambda x, y: [y <= x / 2], (0.0,), "kink at 0"),
        )
    ):
        x, y = cp.Variable(name="x"), cp.Variable(name="y")
        lower = bm.Lower(cp.Minimize((x - y) ** 2), rows(x, y), variables=[y])
        problem = bm.BilevelProblem(cp.Minimize(y), [-2 <= x, x <= 2], lower)
        width = 4.0 - 1.2 * place  # they lie on each other in the middle
        values = [problem.value_at(at) for at in line]
        curve(axis, place, line, values, f"$Y(x)$: {label}", linewidth=width)
        for kink in kinks:
            here, left, right = (problem.value_at(kink + shift) for shift in (0.0, -step, step))
            slopes = (here - left) / step, (right - here) / step
            table.add(label, f"{kink:g}", *(f"{slope:.3f}" for slope in slopes), paper)
            table.figures[label, kink] = slopes
    axis.set(title=r"$\varphi(x)$ for $f = y$, $g = (x - y)^2$", xlabel="$x$")
    legend(axis)
    return table


def upper_3(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper objective of Example 3."""
    return np.exp(1 - y) / (2 + np.cos(4 * x)) + 0.5 * np.log((4 * x - 2) ** 2 + 1) + x**2


def lower_3(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The lower objective of Example 3."""
    return 2 * (y - x) ** 2 + x / 2 * np.sin(x + y) ** 2


def answer_3(x: float, gamma: float = np.inf) -> float:
    """Minimiser over [0, 3] of g, or of f / gamma + g."""
    weight = 0.0 if np.isinf(gamma) else 1 / gamma
    found = minimize_scalar(
        lambda y: lower_3(x, y) + weight * upper_3(x, y),
        bounds=(0, 3),
        method="bounded",
        options={"xatol": 1e-11},
    )
    return float(found.x)


def slope_x(function: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Central difference in x."""
    step = 1e-6
    return (function(x + step, y) - function(x - step, y)) / (2 * step)  # type: ignore[operator]


def figure_3(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 3: the slope in x of the joint penalty spreads with gamma, that of F_gamma does not."""
    line = np.linspace(0.05, 2.9, 30 if quick else 100)
    table = Table(
        "Figure 3 of the ALT-PBGD paper: Example 3",
        (
            "gamma",
            "steepest change of grad F_gamma over x",
            "largest spread over y of grad_x of the joint penalty",
        ),
    )
    table.picture, (axis,) = panels(1, width=5.4, height=3.4)
    for place, gamma in enumerate((5.0, 10.0, 20.0)):
        answers = np.array([answer_3(x) for x in line])
        penalised = np.array([answer_3(x, gamma) for x in line])
        reduced = slope_x(upper_3, line, penalised) + gamma * (
            slope_x(lower_3, line, penalised) - slope_x(lower_3, line, answers)
        )
        near = np.linspace(-0.3, 0.3, 9)
        joint = np.array(
            [
                slope_x(upper_3, line, np.clip(answers + shift, 0, 3))
                + gamma
                * (
                    slope_x(lower_3, line, np.clip(answers + shift, 0, 3))
                    - slope_x(lower_3, line, answers)
                )
                for shift in near
            ]
        )
        curve(axis, place, line, reduced, rf"$\nabla F_\gamma$, $\gamma = {gamma:g}$")
        for values in joint[::2]:
            axis.plot(line[::4], values[::4], "o", color=COLOURS[place], markersize=1.8, alpha=0.6)
        steepest = np.abs(np.diff(reduced) / np.diff(line)).max()
        spread = (joint.max(axis=0) - joint.min(axis=0)).max()
        table.add(f"{gamma:g}", f"{steepest:.2f}", f"{spread:.2f}")
        table.figures[gamma] = steepest, spread
    axis.set(
        title=r"dots: $\nabla_x \tilde F_\gamma(x, y)$ for $y$ within 0.3 of $y^*(x)$",
        xlabel="$x$",
        ylim=(-30, 40),
    )
    legend(axis, loc="upper left")
    return table


def figure_4(data: Path | None = None, *, quick: bool = False) -> Table:
    """The answer on the unit ball, and its directional derivative (15) against differences."""
    x, y = cp.Variable(name="x"), cp.Variable(2, name="y")
    g = x * y[0] + (1 + x) * cp.square(y[1]) - y[1]
    lower = bm.Lower(cp.Minimize(g), [cp.sum_squares(y) <= 1], variables=[y])
    problem = bm.BilevelProblem(cp.Minimize(cp.sum_squares(y)), [1 <= x, x <= 3], lower)
    table = Table(
        "Figure 4 of the ALT-PBGD paper: the implicit gradient on the unit ball",
        (
            "x",
            "y*(x)",
            "‖y*‖",
            "(y*(x + r) - y*(x)) / r",
            "by the KKT conditions",
            "difference",
            "(15) as printed",
        ),
    )
    table.picture, (whole, axis) = panels(2, width=3.9, height=3.6)
    angle = np.linspace(0, 2 * np.pi, 200)
    for panel in (whole, axis):
        panel.plot(np.cos(angle), np.sin(angle), color=BLACK, linewidth=0.8)
    line = np.linspace(1, 3, 5 if quick else 13)
    answers = np.array([ball_answer(at) for at in line])
    library = np.array([problem.answer(at).y for at in line[:3]])
    for panel in (whole, axis):
        panel.plot(*answers.T, "*", color=ORANGE, markersize=8, label="$y^*(x)$, $x$ from 1 to 3")
    for at, here in zip(
        line[:: max(1, len(line) // 4)], answers[:: max(1, len(line) // 4)], strict=True
    ):
        step = 1e-6
        numeric = (ball_answer(at + step) - here) / step
        exact = ball_derivative(at, here)
        axis.annotate("", here + 0.5 * exact, here, arrowprops={"arrowstyle": "->", "color": BLUE})
        axis.annotate(
            "",
            here + 0.3 * free_derivative(at, here),
            here,
            arrowprops={"arrowstyle": "->", "color": RED},
        )
        cells = (f"({v[0]:.4f}, {v[1]:.4f})" for v in (here, numeric, exact, printed_15(at, here)))
        first, second, third, fourth = cells
        table.add(
            f"{at:g}",
            first,
            f"{np.linalg.norm(here):.6f}",
            second,
            third,
            f"{np.abs(numeric - exact).max():.1e}",
            fourth,
        )
        table.figures[float(at)] = float(np.abs(numeric - exact).max())
    table.figures["library"] = float(np.abs(library - answers[:3]).max())
    table.remarks.append(
        f"The library's answers differ from those by hand by at most {table.figures['library']:.1e}."
    )
    axis.plot([], [], color=BLUE, label="$D_d y^*(x)$, $d = 1$")
    axis.plot([], [], color=RED, label=r"$-\nabla_{yy}^{-1}\nabla_{yx} g$, not projected")
    whole.set(title=r"unit ball, $g = x y_1 + (1 + x) y_2^2 - y_2$", aspect="equal")
    axis.set(title="the same, closer", aspect="equal", xlim=(-1.1, -0.85), ylim=(0.0, 0.25))
    legend(axis, loc="lower right")
    return table


def ball_answer(x: float) -> np.ndarray:
    """The minimiser on the unit circle's left half: g falls in y_1, so that the ball always presses."""
    found = minimize_scalar(
        lambda t: x * np.cos(t) + (1 + x) * np.sin(t) ** 2 - np.sin(t),
        bounds=(np.pi / 2, 3 * np.pi / 2),
        method="bounded",
        options={"xatol": 1e-13},
    )
    for _ in range(3):  # Newton's method: bounded search knows half of the digits only
        t = found.x
        slope = -x * np.sin(t) + 2 * (1 + x) * np.sin(t) * np.cos(t) - np.cos(t)
        curvature = -x * np.cos(t) + 2 * (1 + x) * np.cos(2 * t) + np.sin(t)
        found.x = t - slope / curvature
    return np.array([np.cos(found.x), np.sin(found.x)])


def ball_derivative(x: float, y: np.ndarray) -> np.ndarray:
    """(15) with the curvature of the ball: (g_yy + 2 m I) d + 2 n y = -g_yx and y'd = 0, m the
    multiplier.
    """
    slope = np.array([x, 2 * (1 + x) * y[1] - 1])
    multiplier = -slope @ y / 2
    matrix = np.zeros((3, 3))
    matrix[:2, :2] = np.diag([0.0, 2 * (1 + x)]) + 2 * multiplier * np.eye(2)
    matrix[:2, 2] = matrix[2, :2] = 2 * y
    return np.linalg.solve(matrix, [-1.0, -2 * y[1], 0.0])[:2]


def printed_15(x: float, y: np.ndarray) -> np.ndarray:
    """(15) as printed: projected onto the critical cone, here a line, in the norm of g_yy alone."""
    tangent = np.array([-y[1], y[0]])
    hessian = np.diag([0.0, 2 * (1 + x)])
    return -tangent * (tangent @ np.array([1.0, 2 * y[1]])) / (tangent @ hessian @ tangent)


def free_derivative(x: float, y: np.ndarray) -> np.ndarray:
    """What the unconstrained formula (13) gives, with the pseudo-inverse."""
    return -np.linalg.pinv(np.diag([0.0, 2 * (1 + x)])) @ np.array([1.0, 2 * y[1]])


def figure_9(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 3 from (0, 0) with gamma = 10: a step of 0.1 is right for ALT-PBGD, not for JNT-PBGD."""
    n_steps = 20 if quick else 60
    table = Table(
        "Figure 9 of the ALT-PBGD paper: Example 3, gamma = 10",
        ("method", "step", *(f"x after {k}" for k in (1, 5, 10, n_steps)), "paper"),
    )
    table.picture, axes = panels(2, width=4.2)
    paper = {("alt-pbgd", 0.1): "within 5 steps", ("jnt-pbgd", 0.1): "does not converge"}
    for column, step in enumerate((0.01, 0.1)):
        for place, method in enumerate(("alt-pbgd", "jnt-pbgd")):
            history = solved(
                example_3(),
                method,
                {"x": 0.0, "y": 0.0},
                penalty=10.0,
                step_x=step,
                inner_steps=10,
                step_y=0.1,
                max_steps=n_steps,
                history_every=1,
                tolerance=1e-12,
            ).history
            x = np.append(0.0, history["x"][:, 0])
            curve(axes[column], place, np.arange(len(x)), x, method.upper(), marker=".", markersize=4)
            table.add(
                method,
                step,
                *(f"{x[min(k, len(x) - 1)]:.4f}" for k in (1, 5, 10, n_steps)),
                paper.get((method, step), "converges"),
            )
            table.figures[method, step] = x
        axes[column].set(
            title=rf"step $\eta = {step:g}$", xlabel="iteration $t$", ylabel="$x_t$", ylim=(-0.1, 3.1)
        )
        legend(axes[column])
    return table


def figure_10(data: Path | None = None, *, quick: bool = False) -> Table:
    """Example 4 by BLOCC: steps need not shrink as gamma grows."""
    n_steps = 30 if quick else 400
    table = Table(
        "Figure 10 of the ALT-PBGD paper: Example 4 by BLOCC",
        ("start", "gamma", "step", "iterations until within 1e-3 of the end", "x at the end", "best x"),
    )
    table.picture, axes = panels(2, width=4.2)
    for axis, start in zip(axes, (0.0, 3.0), strict=True):
        for place, (gamma, step) in enumerate(
            ((10.0, 0.01), (10.0, 0.05), (100.0, 0.001), (100.0, 0.05))
        ):
            history = solved(
                example_4(),
                "blocc",
                {"x": start, "y": start},
                penalty=gamma,
                step_x=step,
                max_steps=n_steps,
                history_every=1,
            ).history
            x = np.append(start, history["x"][:, 0])
            curve(axis, place, np.arange(len(x)), x, rf"$\gamma = {gamma:g}$, $\eta = {step:g}$")
            settled = int(np.argmax(np.abs(x - x[-1]) < 1e-3))
            table.add(f"{start:g}", f"{gamma:g}", f"{step:g}", settled, f"{x[-1]:.4f}", "0.3007")
            table.figures[start, gamma, step] = settled, float(x[-1])
        axis.set(
            title=f"from $x_0 = {start:g}$", xlabel="iteration $t$", ylabel="$x_t$", xscale="symlog"
        )
        legend(axis)
    return table
