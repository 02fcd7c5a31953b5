"""Self-alignment and diagonal weight against nanochat's numbers and against a plain float64 calculation."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import load_file

from xsa.diagnose.alignment import MEASURES, cosine, diagonal_weights, uniform_diagonal
from xsa.diagnose.attention import measure
from xsa.model.nanochat import NanoChat
from xsa.study.architecture import ModelConfig

MODELS = ("tiny_a", "gqa_b", "deep_c")


def table(values) -> dict:
    """(layer, measure) -> list over heads."""
    found: dict = {}
    for layer, _, name, value in values:
        found.setdefault((layer, name), []).append(value)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_cosines_and_diagonals_are_those_of_nanochat(reference, name):
    """Every variant of alpha and layer set; rows of the reference are shorter than the model's sequence_len."""
    folder, path = reference("model") / name, reference("xsa") / name / "stats.json"
    if not folder.is_dir() or not path.exists():
        pytest.skip(f"{name} is not among the committed reference numbers")
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


@pytest.mark.parametrize("window", [5, 100])
@pytest.mark.parametrize("block", [7, 64])
def test_diagonal_weights_are_those_of_the_whole_softmax(window, block):
    torch.manual_seed(0)
    B, T, H, G, K = 2, 40, 4, 2, 8
    q, k = torch.randn(B, T, H, K) * 3, torch.randn(B, T, G, K)
    keys = k.repeat_interleave(H // G, dim=2).double()
    scores = torch.einsum("bihk,bjhk->bhij", q.double(), keys) / math.sqrt(K)
    distance = torch.arange(T)[:, None] - torch.arange(T)
    scores = scores.masked_fill((distance < 0) | (distance > window), -math.inf)
    expected = scores.softmax(-1).diagonal(dim1=-2, dim2=-1).transpose(1, 2)
    torch.testing.assert_close(diagonal_weights(q, k, window, block).double(), expected, atol=1e-6, rtol=1e-5)


def test_the_null_of_the_diagonal_is_the_hand_calculation():
    # positions 1, 2, 3 see 2, 3 and (window 2) 3 tokens
    assert uniform_diagonal(4, window=2) == pytest.approx((1 / 2 + 1 / 3 + 1 / 3) / 3)
    assert uniform_diagonal(4, window=9) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


def test_even_attention_has_the_weight_of_the_null(config, random_model):
    model = random_model(config())
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_q.weight.zero_()
    found = table(measure(model, torch.randint(97, (2, 32))))
    for layer in range(3):
        assert found[layer, "diagonal"] == pytest.approx(found[layer, "diagonal_null"], rel=1e-5)


def test_every_measure_agrees_with_its_definition_in_float64(config, random_model):
    model = random_model(config(alpha=0.5), dtype=torch.float64)
    tokens = torch.randint(97, (3, 32), generator=torch.Generator().manual_seed(1))
    seen: dict = {}

    def observe(layer, q, k, v, y, z):
        heads = [x[:, 1:].repeat_interleave(4 // x.size(2), dim=2).flatten(0, 1) for x in (v, y, z)]
        seen.setdefault(layer, []).append(heads)

    with torch.no_grad():
        for row in tokens:
            model.hidden(row[None], observe=observe)
    found = table(measure(model, tokens))
    for layer, parts in seen.items():
        v, y, z = (torch.cat(part) for part in zip(*parts, strict=True))
        expected = {
            "cos_y_v": torch.cosine_similarity(y, v, dim=-1),
            "cos_z_v": torch.cosine_similarity(z, v, dim=-1),
            "cos_y_v_centred": torch.cosine_similarity(y - y.mean(0), v - v.mean(0), dim=-1),
            "removed_share": (y - z).norm(dim=-1) ** 2 / y.norm(dim=-1) ** 2,
            "value_norm": v.norm(dim=-1),
            "output_norm": y.norm(dim=-1),
        }
        for name, values in expected.items():
            assert found[layer, name] == pytest.approx(values.mean(0).tolist(), abs=2e-6), name


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
    assert [entry[:3] for entry in there] == [entry[:3] for entry in back]
    assert [entry[3] for entry in there] == pytest.approx([entry[3] for entry in back], abs=1e-9)


def test_all_layers_heads_and_measures_are_there(config, random_model):
    values = measure(random_model(config()), torch.randint(97, (1, 32)))
    assert len(values) == 3 * 4 * len(MEASURES)


def test_the_cosine_with_a_zero_vector_is_zero():
    assert cosine(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 2.0])).item() == 0.0
