"""First values: every parameter drawn, from nanochat's distributions, by the seed alone."""

from __future__ import annotations

import json

import pytest
import torch

from tests.model.conftest import ROOT, small_config
from xsa.model.nanochat import NanoChat
from xsa.study.architecture import ModelConfig

needs_reference = pytest.mark.skipif(
    not (ROOT / "scaling" / "init_stats.json").exists(),
    reason=f"no reference numbers at {ROOT / 'scaling'}; set XSA_REFERENCE to a folder that has them",
)


def filled_with_nan(config, **kwargs):
    model = NanoChat(config, **kwargs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_every_parameter_is_drawn(dtype):
    model = filled_with_nan(small_config(), dtype=dtype)
    model.init_weights(0)
    unset = [name for name, parameter in model.named_parameters() if not parameter.isfinite().all()]
    assert not unset


@needs_reference
def test_distributions_are_nanochats():
    published = json.loads((ROOT / "scaling" / "init_stats.json").read_text())
    model = filled_with_nan(ModelConfig(**published["config"], alpha=0.0, xsa_layers=()))
    model.init_weights(0)
    parameters = dict(model.named_parameters())
    assert parameters.keys() == published["params"].keys()
    for name, expected in published["params"].items():
        value = parameters[name].detach()
        assert list(value.shape) == expected["shape"], name
        if expected["values"] is not None:
            assert torch.allclose(value, torch.tensor(expected["values"]), rtol=1e-7, atol=0), name
            continue
        n, std = value.numel(), expected["std"]
        assert abs(value.mean() - expected["mean"]) <= 6 * std * (2 / n) ** 0.5, name
        assert value.std().item() == pytest.approx(std, rel=6 / n**0.5), name
        # The ends of a uniform distribution are sharp, those of a normal one differ from draw to draw.
        spread = 0.02 if "wte" not in name and "lm_head" not in name else 0.3
        loose = {"rel": spread if n > 1000 else 0.35, "abs": 0.002 if "gate" in name else 0.0}
        assert value.max().item() == pytest.approx(expected["max"], **loose), name
        assert value.min().item() == pytest.approx(expected["min"], **loose), name


@needs_reference
def test_lambdas_of_every_depth_are_nanochats():
    scaling = json.loads((ROOT / "scaling" / "scaling.json").read_text())
    for entry in [entry for group in scaling.values() if isinstance(group, list) for entry in group]:
        if "resid_lambdas_init" in entry:
            depth = entry.get("depth", len(entry["resid_lambdas_init"]))
            model = filled_with_nan(small_config(n_layer=depth, n_embd=24, n_head=2, n_kv_head=1), dtype=torch.float64)
            model.init_weights(0)
            assert model.resid_lambdas.tolist() == pytest.approx(entry["resid_lambdas_init"], rel=1e-7)
            assert model.x0_lambdas.tolist() == pytest.approx(entry["x0_lambdas_init"], rel=1e-7)


def test_the_seed_decides_and_nothing_else_does():
    one, two, other = (NanoChat(small_config()) for _ in range(3))
    one.init_weights(3)
    torch.manual_seed(99)
    torch.rand(5)
    before = torch.get_rng_state()
    two.init_weights(3)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    other.init_weights(4)
    for (name, a), b, c in zip(one.named_parameters(), two.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name
        if a.dim() == 2 and "c_proj" not in name:
            assert not torch.equal(a, c), name


def test_arms_start_from_the_same_weights():
    standard, exclusive = NanoChat(small_config(alpha=0.0)), NanoChat(small_config(alpha=1.0, xsa_value="plain"))
    standard.init_weights(0)
    exclusive.init_weights(0)
    assert all(torch.equal(a, b) for a, b in zip(standard.parameters(), exclusive.parameters(), strict=True))


def test_a_model_brought_from_the_meta_device_is_the_same():
    with torch.device("meta"):
        model = NanoChat(small_config())
    model.to_empty(device="cpu")
    model.init_weights(0)
    plain = NanoChat(small_config())
    plain.init_weights(0)
    tokens = torch.arange(50)[None]
    with torch.no_grad():
        assert torch.equal(model(tokens), plain(tokens))


def test_a_model_of_one_layer_starts_with_the_first_layers_lambdas():
    model = NanoChat(small_config(n_layer=1))
    model.init_weights(0)
    assert model.resid_lambdas.tolist() == pytest.approx([1.15])
    assert model.x0_lambdas.tolist() == pytest.approx([0.2])


def test_the_first_loss_is_that_of_a_uniform_guess():
    model = NanoChat(small_config())
    model.init_weights(0)
    tokens = torch.randint(0, 97, (4, 100))
    assert model(tokens[:, :-1], tokens[:, 1:]).item() == pytest.approx(torch.tensor(97.0).log().item(), abs=1e-3)
