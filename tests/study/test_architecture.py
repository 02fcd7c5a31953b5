"""What a configuration says of its model, against nanochat's numbers."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from xsa.study.architecture import ModelConfig, flops_per_token, parameter_counts


def config_of(entry: dict, **changes) -> ModelConfig:
    shape = {name: entry[name] for name in ModelConfig.model_fields if name in entry}
    shape.setdefault("n_layer", entry.get("depth"))
    return ModelConfig(**{**shape, "alpha": 0.0, "xsa_layers": (), **changes})


@pytest.fixture
def published(reference):
    """(config, facts) of every model in the reference numbers."""
    scaling = json.loads((reference("scaling") / "scaling.json").read_text())
    entries = [entry for group in ("default_depths", "paper_shapes", "other") for entry in scaling[group]]
    found = [(config_of(entry), entry) for entry in entries]
    for path in sorted(reference("model").glob("*/config.json")):
        facts = json.loads(path.read_text())
        facts["window_sizes"] = [window[0] for window in facts["window_sizes"]]
        facts["param_counts"] = facts["num_scaling_params"]
        found.append((config_of(facts["config"]), facts))
    return found


def test_parameter_counts_are_nanochats(published):
    for config, facts in published:
        assert parameter_counts(config) == facts["param_counts"]


def test_windows_are_nanochats(published):
    for config, facts in published:
        assert config.windows() == facts["window_sizes"]


def test_flops_are_nanochats(published):
    for config, facts in published:
        assert flops_per_token(config) == facts["flops_per_token"]


def test_vocabulary_padding_and_head_size_are_nanochats(published):
    for config, facts in published:
        assert (config.padded_vocab, config.head_dim) == (facts["padded_vocab"], facts["head_dim"])


def test_value_embeddings_sit_where_nanochats_do(published):
    for config, facts in published:
        if "has_ve" in facts:
            assert [config.has_value_embedding(layer) for layer in range(config.n_layer)] == facts["has_ve"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_head": 5}, "does not divide n_embd"),
        ({"n_head": 32}, "is odd"),
        ({"n_kv_head": 3}, "does not divide n_head"),
        ({"n_embd": 16, "n_head": 2, "n_kv_head": 2}, "below 24"),
        ({"xsa_layers": (1, 4)}, r"\[4\], outside 0 … 3"),
        ({"window_pattern": "SX"}, "pattern"),
        ({"alpha": 1.5}, "less than or equal to 1"),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(changes, message):
    shape = {"vocab_size": 97, "sequence_len": 64, "n_layer": 4, "n_head": 4, "n_kv_head": 2, "n_embd": 32}
    with pytest.raises(ValidationError, match=message):
        config_of({**shape, "window_pattern": "SL"}, **changes)


def test_alpha_holds_for_the_named_layers_alone():
    shape = {"vocab_size": 97, "sequence_len": 64, "n_layer": 3, "n_head": 4, "n_kv_head": 2, "n_embd": 32}
    config = config_of({**shape, "window_pattern": "L"}, alpha=0.5, xsa_layers=(0, 2))
    assert [config.alpha_of(layer) for layer in range(3)] == [0.5, 0.0, 0.5]
