"""The training step compiles whole, and compilation changes neither alpha zero nor, beyond rounding, anything else."""

from __future__ import annotations

import pytest
import torch

from tests.model.conftest import lively, small_config
from xsa.study.machine import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="torch.compile needs a C++ compiler and none is installed")


def step(config, tokens, compiled, **kwargs):
    model = lively(config, **kwargs)
    forward = torch.compile(model, fullgraph=True, dynamic=False) if compiled else model
    loss = forward(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    return {"loss": loss.detach(), **{name: parameter.grad for name, parameter in model.named_parameters()}}


@pytest.fixture
def tokens():
    torch._dynamo.reset()
    return torch.randint(0, 97, (2, 161), generator=torch.Generator().manual_seed(0))


def test_compiled_alpha_zero_is_bitwise_the_compiled_baseline(tokens):
    baseline = step(small_config(n_layer=1, alpha=0.0, xsa_layers=()), tokens, compiled=True)
    torch._dynamo.reset()
    zero = step(small_config(n_layer=1, alpha=0.0), tokens, compiled=True)
    for name, value in baseline.items():
        assert torch.equal(value, zero[name]), name


def test_the_compiled_explicit_path_at_alpha_zero_agrees_within_float_error(tokens):
    baseline = step(small_config(n_layer=1, alpha=0.0), tokens, compiled=True)
    torch._dynamo.reset()
    explicit = step(small_config(n_layer=1, alpha=0.0), tokens, compiled=True, explicit=True)
    assert torch.allclose(baseline["loss"], explicit["loss"], rtol=1e-6)
    for name, value in baseline.items():
        if name != "backout_lambda":  # rounding alone, with one layer
            assert (value - explicit[name]).abs().max() <= 5e-5 * value.abs().max(), name


def test_a_compiled_exclusive_step_is_the_eager_one_up_to_rounding(tokens):
    config = small_config(n_layer=1)
    eager, compiled = (step(config, tokens, compiled) for compiled in (False, True))
    assert torch.allclose(eager["loss"], compiled["loss"], rtol=1e-6)
    for name, value in eager.items():
        if name != "backout_lambda":  # rounding alone, with one layer
            assert (value - compiled[name]).abs().max() <= 5e-5 * value.abs().max(), name
