"""What the model does that needs no published numbers: causality, strengths of 0, dtypes, losses."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import xsa.model.attention
from tests.model.conftest import lively, small_config
from xsa.model.nanochat import NanoChat


def tokens_of(config, B=2, T=200, seed=0):
    return torch.randint(0, config.vocab_size, (B, T), generator=torch.Generator().manual_seed(seed))


def loss_and_gradients(model, tokens):
    model.zero_grad()
    loss = model(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same(one, other):
    (loss, grads), (other_loss, other_grads) = one, other
    assert torch.equal(loss, other_loss)
    for name, grad in grads.items():
        assert torch.equal(grad, other_grads[name]), name


def test_later_tokens_do_not_reach_earlier_logits():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    changed = tokens.clone()
    changed[:, 120:] = (changed[:, 120:] + 1) % model.config.vocab_size
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :120], after[:, :120])
    assert not torch.equal(before[:, 120:], after[:, 120:])


def test_alpha_zero_is_bitwise_the_baseline():
    baseline = lively(small_config(alpha=0.0, xsa_layers=()))
    zero = lively(small_config(alpha=0.0))
    tokens = tokens_of(baseline.config)
    assert_same(loss_and_gradients(baseline, tokens), loss_and_gradients(zero, tokens))


def test_alpha_zero_skips_the_projection(monkeypatch):
    def fail(*_):
        raise AssertionError("the projection ran")

    monkeypatch.setattr(xsa.model.attention, "remove_own_value", fail)
    tokens = tokens_of(small_config())
    lively(small_config(alpha=0.0))(tokens)
    with pytest.raises(AssertionError, match="ran"):
        lively(small_config(alpha=0.0), explicit=True)(tokens)


def test_the_explicit_path_at_alpha_zero_gives_the_baselines_logits_and_gradients():
    config = small_config(alpha=0.0)
    baseline, explicit = lively(config), lively(config, explicit=True)
    tokens = tokens_of(config)
    with torch.no_grad():
        assert torch.equal(baseline(tokens), explicit(tokens))
    loss, grads = loss_and_gradients(baseline, tokens)
    other_loss, other_grads = loss_and_gradients(explicit, tokens)
    assert torch.equal(loss, other_loss)
    for name, grad in grads.items():
        assert (grad - other_grads[name]).abs().max() <= 1e-6 * grad.abs().max(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_alpha_zero_is_bitwise_the_baseline_in_both_dtypes(dtype):
    one, other = (lively(small_config(alpha=0.0, xsa_layers=layers), dtype=dtype) for layers in ((), (0, 2)))
    tokens = tokens_of(one.config)
    assert_same(loss_and_gradients(one, tokens), loss_and_gradients(other, tokens))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-8)])
def test_at_alpha_one_outputs_after_the_first_position_are_orthogonal_to_their_value(dtype, bound):
    """|⟨z,v⟩| ≤ bound · |y| |v| in every layer and head: the rounding of z, once, in its own dtype."""
    model, seen = lively(small_config(), dtype=dtype), []

    def observe(layer, q, k, v, y, z):
        y, v, z = (x[:, 1:].double() for x in (y, v.repeat_interleave(y.size(2) // v.size(2), dim=2), z))
        seen.append(((z * v).sum(-1).abs() / (y.norm(dim=-1) * v.norm(dim=-1))).max().item())
        assert (z.norm(dim=-1) > 0.01 * y.norm(dim=-1)).any(), "something is left that could be aligned"

    with torch.no_grad():
        model.hidden(tokens_of(model.config), observe=observe)
    assert len(seen) == 3 and max(seen) <= bound


def test_at_alpha_one_nothing_is_left_of_the_first_position_which_sees_itself_alone():
    model = lively(small_config(), dtype=torch.float64)
    left = []
    with torch.no_grad():
        model.hidden(
            tokens_of(model.config),
            observe=lambda layer, q, k, v, y, z: left.append((z[:, 0].abs().max() / y[:, 0].abs().max()).item()),
        )
    assert max(left) <= 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 6e4])
@pytest.mark.parametrize("value", ["attended", "plain"])
def test_values_of_zero_and_of_any_size_give_finite_losses_and_gradients(dtype, size, value):
    model = lively(small_config(xsa_value=value), dtype=dtype)
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_v.weight.mul_(size)
        for embedding in model.value_embeds.values():
            embedding.weight.mul_(size)
    loss, grads = loss_and_gradients(model, tokens_of(model.config))
    assert loss.isfinite()
    assert [name for name, grad in grads.items() if not grad.isfinite().all()] == []


def test_only_the_named_layers_are_exclusive():
    model = lively(small_config(xsa_layers=(1,)))
    changed = []
    with torch.no_grad():
        model.hidden(
            tokens_of(model.config), observe=lambda layer, q, k, v, y, z: changed.append(not torch.equal(y, z))
        )
    assert changed == [False, True, False]


def test_the_plain_value_is_the_one_before_the_value_embedding():
    attended, plain = (lively(small_config(xsa_value=value)) for value in ("attended", "plain"))
    tokens, cosines = tokens_of(attended.config), {}

    def watch(name):
        def observe(layer, q, k, v, y, z):
            own = v.repeat_interleave(z.size(2) // v.size(2), dim=2)
            cosines[name, layer] = torch.nn.functional.cosine_similarity(z, own, dim=-1)[:, 1:].abs().max()

        return observe

    with torch.no_grad():
        attended.hidden(tokens, observe=watch("attended"))
        plain.hidden(tokens, observe=watch("plain"))
    assert all(cosines["attended", layer] < 1e-4 for layer in range(3))
    assert cosines["plain", 1] < 1e-4, "a layer without value embedding has one value only"
    assert cosines["plain", 0] > 0.01 and cosines["plain", 2] > 0.01


def test_logits_of_some_positions_are_those_positions_logits():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    with torch.no_grad():
        hidden = model.hidden(tokens)
        assert torch.allclose(model.logits(hidden[:, [3, 150]]), model(tokens)[:, [3, 150]], rtol=0, atol=1e-5)


def test_logits_stay_within_the_softcap_and_the_vocabulary():
    model = lively(small_config(vocab_size=65))
    with torch.no_grad():
        model.lm_head.weight.mul_(1000)
        logits = model(tokens_of(model.config))
    assert model.lm_head.weight.size(0) == 128
    assert logits.size(-1) == 65 and logits.abs().max() <= 15


def test_targets_of_minus_one_carry_no_loss():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    targets = tokens.roll(-1, 1)
    targets[:, ::3] = -1
    with torch.no_grad():
        each = model(tokens, targets, reduction="none")
        assert torch.allclose(model(tokens, targets), each[targets != -1].mean())
        assert torch.allclose(model(tokens, targets, reduction="sum"), each.sum())
        assert (each[targets == -1] == 0).all() and (each[targets != -1] > 0).all()


def test_a_batch_without_any_target_has_a_loss_of_zero():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    loss = model(tokens, torch.full_like(tokens, -1))
    loss.backward()
    assert loss == 0
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_rows_do_not_see_each_other():
    model = lively(small_config())
    tokens = tokens_of(model.config, B=3)
    with torch.no_grad():
        assert torch.allclose(model(tokens)[1], model(tokens[1:2])[0], rtol=0, atol=1e-5)


def test_in_bfloat16_embeddings_are_bfloat16_and_all_else_is_a_float32_master():
    model = NanoChat(small_config(), dtype=torch.bfloat16)
    kept = {name for name, parameter in model.named_parameters() if parameter.dtype == torch.bfloat16}
    assert kept == {"transformer.wte.weight", "value_embeds.0.weight", "value_embeds.2.weight"}
    assert {p.dtype for name, p in model.named_parameters() if name not in kept} == {torch.float32}


def test_bfloat16_computes_in_bfloat16_and_ends_in_float32():
    config = small_config()
    fine, coarse = lively(config), lively(config, dtype=torch.bfloat16)
    tokens, kinds = tokens_of(config), set()
    with torch.no_grad():
        hidden = coarse.hidden(tokens, observe=lambda _, *tensors: kinds.update(tensor.dtype for tensor in tensors))
        logits = coarse.logits(hidden)
        expected = fine(tokens)
    assert kinds == {torch.bfloat16} and hidden.dtype == torch.bfloat16 and logits.dtype == torch.float32
    assert (logits - expected).abs().mean() < 0.05 * expected.abs().mean()
    loss, grads = loss_and_gradients(coarse, tokens)
    assert loss.dtype == torch.float32
    assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softcap_and_loss_are_those_of_float32_whatever_the_compute_dtype(dtype):
    model = lively(small_config(), dtype=dtype)
    tokens = tokens_of(model.config)
    with torch.no_grad():
        raw = model.lm_head(20 * model.hidden(tokens))[..., : model.config.vocab_size]
        assert raw.dtype == dtype
        logits = model.logits(20 * model.hidden(tokens))
        assert torch.equal(logits, 15 * torch.tanh(raw.float() / 15))
        each = model(tokens, tokens, reduction="none")
        expected = F.cross_entropy(model(tokens).double().flatten(0, 1), tokens.flatten(), reduction="none")
    assert torch.allclose(each.flatten().double(), expected, rtol=0, atol=1e-5)


def test_observation_changes_nothing():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    with torch.no_grad():
        assert torch.equal(model.hidden(tokens, observe=lambda *_: None), model.hidden(tokens))


def test_rows_longer_than_the_sequence_length_still_see_no_more_than_the_window():
    config = small_config(sequence_len=128, window_pattern="L", n_layer=1)
    model = lively(config)
    tokens = tokens_of(config, B=1, T=200)
    changed = tokens.clone()
    changed[:, :40] = (changed[:, :40] + 1) % config.vocab_size
    with torch.no_grad():
        difference = (model(tokens) - model(changed)).abs().amax(-1)[0]
    assert (difference[40:169] > 0).all(), "position 168 sees 40, which is smeared with 39"
    assert (difference[169:] == 0).all()


def test_a_copy_of_the_model_computes_the_same():
    model = lively(small_config())
    tokens = tokens_of(model.config)
    with torch.no_grad():
        model(tokens)
        assert torch.equal(copy.deepcopy(model)(tokens), model(tokens))
