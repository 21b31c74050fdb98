"""The MEHA iteration on (20) against the same iteration with PyTorch's automatic differentiation."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

_spec = importlib.util.spec_from_file_location("loops", Path(__file__).with_name("test_loop_speed.py"))
loops = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(loops)

pytestmark = pytest.mark.benchmark


def with_torch(n, v, x, y, theta):
    """n iterations; the tensors are changed in place."""

    def shrink(value, amount):
        return torch.sign(value) * torch.clamp(torch.abs(value) - amount, min=0.0)

    def smooth(point):
        return 0.5 * torch.sum((point - v) ** 2)

    def slope(value, point):
        return torch.autograd.grad(value, point)[0]

    for k in range(n):
        w = 1 / (loops.C * (k + 1.0) ** loops.P)
        t = theta.clone().requires_grad_(True)
        value = smooth(t) + torch.sum((t - y) ** 2) / (2 * loops.GAMMA)
        theta = shrink(theta - loops.ETA * slope(value, t), loops.ETA * x)
        s = x.clone().requires_grad_(True)
        value = torch.sum(s * (torch.abs(y) - torch.abs(theta)))
        x = torch.clamp(x - loops.ALPHA * slope(value, s), 0.0, 1.0)
        t = y.clone().requires_grad_(True)
        value = w * torch.sum(t) + smooth(t) - torch.sum((t - theta) ** 2) / (2 * loops.GAMMA)
        y = shrink(y - loops.BETA * slope(value, t), loops.BETA * x)
    return x, y, theta


@pytest.mark.parametrize("n", [10, 100])
def test_twenty_times_faster_than_torch(n, monkeypatch, capsys):
    ours, state, _, points = loops.prepare(monkeypatch, "meha", "lasso", n)
    start = [torch.tensor(point) for point in points]
    v = torch.tensor(np.repeat([1.0, -1.0], n // 2) / n)
    ours(50)
    for a, b in zip(state, with_torch(50, v, *start), strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-10)
    own, other = loops.fastest(partial(ours, 1000), partial(with_torch, 100, v, *start), repeats=5)
    own, other = own / 1000, other / 100
    with capsys.disabled():
        print(f"\nmeha (20), n = {n}: {own * 1e6:.2f} us, PyTorch {other * 1e6:.0f} us", end="")
        print(f", {other / own:.0f} times ours")
    assert other >= 20 * own
