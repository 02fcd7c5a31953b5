"""Self-alignment and where heads look, against nanochat's numbers and against a plain float64 calculation."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.model.conftest import ROOT
from xsa.model.alignment import MEASURES, Alignment, cosine, earlier_cosine, measure, position_ranges
from xsa.model.nanochat import NanoChat
from xsa.model.softmax import QUERY_BLOCK
from xsa.study.architecture import ModelConfig

HEADS, GROUPS = 4, 2


@pytest.fixture
def config():
    """`config(alpha=1.0, …)` is a model of three layers with grouped heads."""

    def make(**changes) -> ModelConfig:
        shape = {"vocab_size": 97, "sequence_len": 32, "n_layer": 3, "n_head": HEADS, "n_kv_head": GROUPS, "n_embd": 32}
        xsa = {"window_pattern": "SL", "alpha": 0.0, "xsa_layers": (0, 1, 2)}
        return ModelConfig(**{**shape, **xsa, **changes})

    return make


@pytest.fixture
def random_model():
    """`random_model(config)` has every parameter drawn, so that nothing is hidden behind a zero."""

    def make(config: ModelConfig, **kwargs) -> NanoChat:
        model = NanoChat(config, **kwargs)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        return model

    return make


def table(values, positions: tuple[int, int] | None = None) -> dict:
    """(layer, measure) -> list over heads, of all positions unless a range is given."""
    found: dict = {}
    for one in values:
        if (one.first, one.last) == (positions or (1, max(value.last for value in values))):
            found.setdefault((one.layer, one.measure), []).append(one.value)
    return found


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("xsa/*/stats.json")))
def test_cosines_and_diagonals_are_those_of_nanochat(reference, name):
    """Every variant of alpha and layer set; rows of the reference are shorter than the model's sequence_len."""
    folder, path = reference("model") / name, reference("xsa") / name / "stats.json"
    stats, weights = json.loads(path.read_text()), load_file(folder / "weights.safetensors")
    tokens = load_file(folder / "io.safetensors")["tokens"]
    assert len(stats["variants"]) > 2
    for variant, expected in stats["variants"].items():
        model = NanoChat(ModelConfig(**stats["config"], alpha=expected["alpha"], xsa_layers=tuple(expected["layers"])))
        model.load_state_dict(weights)
        found = table(measure(model, tokens))
        for layer in expected["per_layer"]:
            index = layer["layer"]
            for measured, stated in (("cos_y_v", "cos_before"), ("cos_z_v", "cos_after"), ("diagonal", "diag")):
                assert found[index, measured] == pytest.approx(layer[f"{stated}_t1"], abs=1e-5), (variant, index)


def test_even_attention_looks_as_the_nulls_say_at_every_position(config, random_model):
    model = random_model(config())
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_q.weight.zero_()
    values = measure(model, torch.randint(97, (2, 32)))
    for positions in position_ranges(32):
        found = table(values, positions)
        for layer in range(3):
            for name in ("diagonal", "first", "entropy"):
                assert found[layer, name] == pytest.approx(found[layer, f"{name}_null"], rel=1e-5), (name, positions)


@pytest.mark.parametrize("positions", [None, (1, 1), (4, 7), (16, 31)])
def test_every_measure_agrees_with_its_definition_in_float64(config, random_model, positions):
    model = random_model(config(alpha=0.5), dtype=torch.float64)
    tokens = torch.randint(97, (3, 32), generator=torch.Generator().manual_seed(1))
    seen: dict = {}

    def observe(layer, q, k, v, y, z):
        per_head = [x[0].repeat_interleave(HEADS // x.size(2), dim=1) for x in (q, k, v, y, z)]
        seen.setdefault(layer, []).append(per_head)

    with torch.no_grad():
        for row in tokens:
            model.hidden(row[None], observe=observe)
    found = table(measure(model, tokens), positions)
    first, last = positions or (1, 31)
    for layer, rows in seen.items():
        parts = [plainly(*row, window=model.config.windows()[layer]) for row in rows]
        for name in parts[0]:
            expected = torch.stack([part[name] for part in parts])[:, first : last + 1].mean((0, 1))
            assert found[layer, name] == pytest.approx(expected.tolist(), abs=2e-6), name


def plainly(q, k, v, y, z, window) -> dict:
    """Every measure of one row at every position, (T, H), from whole matrices."""
    T, _, K = q.shape
    distance = torch.arange(T)[:, None] - torch.arange(T)
    outside = (distance < 0) | (distance > window)
    a = (torch.einsum("ihk,jhk->hij", q, k) / K**0.5).masked_fill(outside, -torch.inf).softmax(-1)
    unit = v / v.norm(dim=-1, keepdim=True)
    earlier = torch.einsum("ihk,jhk->hij", unit, unit).masked_fill(outside | (distance == 0), 0).sum(-1)
    yc, vc = (x - x[1:].mean(0) for x in (y, v))
    return {
        "cos_y_v": torch.cosine_similarity(y, v, dim=-1),
        "cos_z_v": torch.cosine_similarity(z, v, dim=-1),
        "cos_y_v_centred": torch.cosine_similarity(yc, vc, dim=-1),
        "cos_v_v": (earlier / torch.arange(T).clamp(1, window)).T,
        "removed_share": (y - z).norm(dim=-1) ** 2 / y.norm(dim=-1) ** 2,
        "value_norm": v.norm(dim=-1),
        "output_norm": y.norm(dim=-1),
        "diagonal": a.diagonal(dim1=-2, dim2=-1).T,
        "first": a[:, :, 0].T,
        "entropy": -torch.special.xlogy(a, a).sum(-1).T,
    }


@pytest.mark.parametrize("window", [1, 5, 40])
def test_the_earlier_values_compared_are_those_in_sight(window):
    v = torch.randn(2, 17, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = earlier_cosine(v, window)
    assert not found[:, 0].any()
    for at in range(1, 17):
        others = torch.cosine_similarity(v[:, at : at + 1], v[:, max(0, at - window) : at], dim=-1)
        torch.testing.assert_close(found[:, at], others.mean(1))


def test_no_tensor_is_as_large_as_a_heads_matrices(config, random_model):
    """At T = 2048 nothing that a reading makes exceeds a block of queries by all tokens, or one T×T mask without heads."""
    T, shape = 2048, {"window_pattern": "S", "sequence_len": 2048}
    model, largest = random_model(config(**shape)), 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            largest = max([largest, *(x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor))])
            return out

    with Watch():
        measure(model, torch.randint(97, (1, T)))
    assert largest <= max(HEADS * QUERY_BLOCK * T, T * T) < HEADS * T * T


def test_ranges_of_positions_are_powers_of_two_and_hold_every_position_once():
    assert position_ranges(12) == [(1, 11), (1, 1), (2, 3), (4, 7), (8, 11)]
    inside = [at for first, last in position_ranges(2048)[1:] for at in range(first, last + 1)]
    assert inside == list(range(1, 2048))


def test_the_whole_is_the_mean_of_its_ranges(config, random_model):
    values = measure(random_model(config(alpha=1.0)), torch.randint(97, (2, 32)))
    whole = {one[:3]: one.value for one in values if (one.first, one.last) == (1, 31)}
    summed = dict.fromkeys(whole, 0.0)
    for one in values:
        if (one.first, one.last) != (1, 31):
            summed[one[:3]] += one.value * (one.last - one.first + 1) / 31
    assert summed == pytest.approx(whole, abs=1e-9)


def test_at_alpha_one_nothing_of_the_own_value_is_left_and_the_share_removed_is_the_squared_cosine(
    config, random_model
):
    found = table(measure(random_model(config(alpha=1.0)), torch.randint(97, (1, 32))))
    for layer in range(3):
        assert found[layer, "cos_z_v"] == pytest.approx([0.0] * 4, abs=1e-6)
        assert all(share > 0 for share in found[layer, "removed_share"])


def test_the_order_of_rows_and_their_number_at_once_do_not_matter(config, random_model):
    model, tokens = random_model(config(alpha=1.0)), torch.randint(97, (4, 32))
    there, back = measure(model, tokens), measure(model, tokens.flip(0))
    at_once = Alignment(model.config.windows(), 32)
    with torch.no_grad():
        model.hidden(tokens, observe=at_once.observe)
    for other in (back, at_once.values()):
        assert [one[:3] + one[4:] for one in there] == [one[:3] + one[4:] for one in other]
        assert [one.value for one in there] == pytest.approx([one.value for one in other], abs=1e-6)


def test_all_layers_heads_and_measures_are_there(config, random_model):
    values = measure(random_model(config()), torch.randint(97, (1, 32)))
    assert len(values) == 3 * 4 * len(MEASURES) * len(position_ranges(32))


def test_the_cosine_with_a_zero_vector_is_zero():
    assert cosine(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0])).item() == 0.0
