"""AdamW against the formulae, written out in float64."""

from __future__ import annotations

import pytest
import torch

from tests.optim.conftest import move
from xsa.optim.adamw import AdamW, AdamWRates


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 2e-6)])
def test_steps_are_those_of_the_formulae(dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(5, 7, generator=generator, dtype=torch.float64).to(dtype)
    parameter = torch.nn.Parameter(p.clone())
    group = AdamW(["p"], [parameter], AdamWRates(lr=0.1, betas=(0.8, 0.995), weight_decay=0.05))
    expected, m, s = p.double(), 0.0, 0.0
    for t, multiplier in enumerate([0.5, 1.0, 0.3], start=1):
        gradient = torch.randn(5, 7, generator=generator, dtype=torch.float64).to(dtype)
        parameter.grad = gradient.clone()
        move(group, multiplier, 9.0)
        lr, g = 0.1 * multiplier, gradient.double()
        expected = expected * (1 - lr * 0.05)
        m = m + (1 - 0.8) * (g - m)
        s = s + (1 - 0.995) * (g * g - s)
        expected = expected - lr / (1 - 0.8**t) * m / ((s / (1 - 0.995**t)).sqrt() + 1e-10)
        assert (parameter.double() - expected).abs().max() <= tolerance * expected.abs().max()


def test_rows_without_gradient_only_decay():
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    group = AdamW(["p"], [parameter], AdamWRates(lr=0.1, betas=(0.8, 0.95), weight_decay=0.5))
    parameter.grad = torch.tensor([[0.0] * 3, [1.0] * 3])
    move(group, 1.0, 0.0)
    assert torch.allclose(parameter, torch.tensor([[0.95] * 3, [0.85] * 3]))


def test_a_group_may_follow_the_schedules_decay():
    parameter = torch.nn.Parameter(torch.ones(3))
    group = AdamW(["p"], [parameter], AdamWRates(lr=0.1, betas=(0.9, 0.95), scheduled_decay=True))
    parameter.grad = torch.zeros(3)
    move(group, 1.0, 2.0)
    assert torch.allclose(parameter, torch.full((3,), 0.8))
