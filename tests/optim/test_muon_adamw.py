"""The whole optimizer: nanochat's numbers and groups, state that goes on, and what it reports."""

from __future__ import annotations

import json
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.optim.conftest import rates, small_model, train_step
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.study.architecture import ModelConfig
from xsa.study.stages import OptimStage

VERSIONS = list(get_args(OptimStage.model_fields["version"].annotation))
TOLERANCE = {"param": 5e-6, "exp_avg": 5e-6, "exp_avg_sq": 5e-6, "muon": 1e-4}  # of a tensor's largest entry


@pytest.fixture
def published(reference):
    """(meta, model, optimizer) at the start of nanochat's published steps."""

    def start(version: str):
        folder = reference("optim")
        meta = json.loads((folder / version / "meta.json").read_text())
        model = NanoChat(ModelConfig(**meta["config"], alpha=0.0, xsa_layers=()))
        model.load_state_dict(load_file(folder / "may2026" / "initial_params.safetensors"))
        return meta, model, MuonAdamW(model, rates(version=version, **meta["setup_optimizer_arguments"]))

    return start


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_are_nanochats(published, reference, version):
    meta, model, optimizer = published(version)
    gradients, compared = load_file(reference("optim") / "gradients.safetensors"), 0
    for step, told in enumerate(meta["steps"]):
        if f"step{step}.lm_head.weight" not in gradients:
            break  # the committed part has the first steps only
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[f"step{step}.{name}"].clone()
        optimizer.set(told["lrm"], told["muon_momentum"], told["muon_weight_decay"])
        optimizer.step()
        after = reference("optim") / version / f"after_step{step}.safetensors"
        if not after.exists():
            continue
        mine = {f"param.{name}": parameter.detach() for name, parameter in model.named_parameters()}
        mine |= optimizer.state_dict_flat()
        for name, expected in load_file(after).items():
            error = (mine[name] - expected).abs().max() / expected.abs().max()
            assert error <= TOLERANCE[name.split(".")[0]], (step, name)
            compared += 1
    assert compared > 0


def test_the_two_versions_cannot_be_confused(published, reference):
    gradients, after = load_file(reference("optim") / "gradients.safetensors"), []
    for version in VERSIONS:
        _, model, optimizer = published(version)
        for step in range(3):
            for name, parameter in model.named_parameters():
                parameter.grad = gradients[f"step{step}.{name}"].clone()
            optimizer.step()
        names = [name for group in optimizer.muon_groups for name in group.names]
        after.append({name: optimizer.parameters[name].detach() for name in names})
    differences = [(after[1][name] - a).abs().max() / a.abs().max() for name, a in after[0].items()]
    assert max(differences) > 1e-2 > 100 * TOLERANCE["param"]


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_and_rates_are_nanochats(published, version):
    meta, _, optimizer = published(version)
    groups = [*optimizer.adamw_groups, *optimizer.muon_groups]
    assert [group.names for group in groups] == [group["params"] for group in meta["groups"]]
    for group, expected in zip(groups, meta["groups"], strict=True):
        if expected["kind"] == "adamw":
            own = group.rates
            assert own.lr == pytest.approx(expected["initial_lr"], rel=1e-12)
            assert (list(own.betas), own.eps, own.weight_decay) == (
                expected["betas"],
                expected["eps"],
                expected["weight_decay"],
            )
        else:
            assert group.lr == pytest.approx(expected["initial_lr"], rel=1e-12)
            assert group.shape_factor == pytest.approx(expected["lr_shape_factor"], rel=1e-12)
            assert group.variance.size(expected["second_momentum_reduces_dim"]) == 1


@pytest.mark.parametrize("matrix", ["muon", "adamw"])
def test_each_parameter_is_in_exactly_one_group(matrix):
    model = small_model()
    optimizer = MuonAdamW(model, rates(matrix=matrix))
    names = [name for group in (*optimizer.adamw_groups, *optimizer.muon_groups) for name in group.names]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())


def test_with_adamw_the_blocks_matrices_leave_muon():
    model = small_model()
    optimizer = MuonAdamW(model, rates(matrix="adamw", matrix_lr=0.003))
    *others, matrices = optimizer.adamw_groups
    assert optimizer.muon_groups == []
    assert {name.split(".")[0] for name in matrices.names} == {"transformer"} and len(matrices.names) == 20
    assert matrices.rates.lr == 0.003, "no width factor"
    assert [group.names for group in others] == [group.names for group in MuonAdamW(model, rates()).adamw_groups]
    optimizer.set(1.0, 0.9, 0.1)
    before = model.transformer["h"][0].mlp.c_fc.weight.detach().clone()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.allclose(model.transformer["h"][0].mlp.c_fc.weight, before * (1 - 0.003 * 0.1))


@pytest.mark.parametrize("matrix", ["muon", "adamw"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_lowers_the_loss(matrix, dtype):
    model = small_model(dtype)
    optimizer = MuonAdamW(model, rates(matrix=matrix))
    optimizer.set(0.2, 0.9, 0.0)
    losses = [train_step(model, optimizer, seed=0) for _ in range(15)]
    assert losses[-1] < 0.7 * losses[0]


def test_every_parameter_moves():
    model = small_model()
    optimizer = MuonAdamW(model, rates())
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for seed in range(3):
        train_step(model, optimizer, seed)
    assert [name for name, parameter in model.named_parameters() if torch.equal(parameter, before[name])] == []


@pytest.mark.parametrize("matrix", ["muon", "adamw"])
def test_from_stored_state_it_goes_on_bit_for_bit(tmp_path, matrix):
    model = small_model()
    optimizer = MuonAdamW(model, rates(matrix=matrix))
    for seed in range(2):
        train_step(model, optimizer, seed)
    save_file(optimizer.state_dict_flat(), tmp_path / "optimizer.safetensors")
    other = small_model(seed=5)
    other.load_state_dict(model.state_dict())
    resumed = MuonAdamW(other, rates(matrix=matrix))
    resumed.load_state_dict_flat(load_file(tmp_path / "optimizer.safetensors"))
    for seed in range(2, 4):
        assert train_step(model, optimizer, seed) == train_step(other, resumed, seed)
    for (name, a), b in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_state_of_another_model_is_refused():
    optimizer, other = (MuonAdamW(small_model(), rates(matrix=matrix)) for matrix in ("muon", "adamw"))
    with pytest.raises(ValueError, match="does not fit"):
        optimizer.load_state_dict_flat(other.state_dict_flat())
    state = optimizer.state_dict_flat()
    state["exp_avg.lm_head.weight"] = torch.zeros(3)
    with pytest.raises(ValueError, match=r"lm_head\.weight has shape"):
        optimizer.load_state_dict_flat(state)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_gradient_that_is_not_finite_is_named(bad):
    model = small_model()
    optimizer = MuonAdamW(model, rates())
    train_step(model, optimizer, 0)
    assert optimizer.first_nonfinite() is None
    model.transformer["h"][1].attn.c_v.weight.grad[3, 4] = bad
    model.lm_head.weight.grad[0, 0] = bad
    assert optimizer.first_nonfinite() == "transformer.h.1.attn.c_v.weight"


def test_a_huge_but_finite_gradient_is_not_called_infinite():
    model = small_model()
    optimizer = MuonAdamW(model, rates())
    train_step(model, optimizer, 0)
    model.lm_head.weight.grad.fill_(1e30)
    assert optimizer.first_nonfinite() is None


def test_a_parameter_that_is_not_finite_is_named():
    model = small_model()
    optimizer = MuonAdamW(model, rates())
    train_step(model, optimizer, 0)
    with torch.no_grad():
        model.value_embeds["0"].weight[2, 1] = torch.nan
    assert optimizer.first_nonfinite() is None
    assert optimizer.first_nonfinite(of="parameter") == "value_embeds.0.weight"


def test_gradient_norms_are_in_the_order_of_the_parameters():
    model = small_model()
    optimizer = MuonAdamW(model, rates())
    train_step(model, optimizer, 0)
    expected = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
    assert torch.allclose(optimizer.gradient_norms(), expected)
    assert list(optimizer.parameters) == [name for name, _ in model.named_parameters()]
