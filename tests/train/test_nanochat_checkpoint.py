"""nanochat's checkpoint files are read for what they are: the same model, to the bit, or a sentence that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.train.nanochat_checkpoint import Stated, read_checkpoint

NOTHING = Stated()


def save(folder: Path, weights, config, step=7, **meta) -> Path:
    """The files as nanochat's checkpoint manager writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(weights, folder / f"model_{step:06d}.pt")
    values = {"step": step, "val_bpb": float("inf"), "model_config": config, "user_config": {"depth": 2}} | meta
    (folder / f"meta_{step:06d}.json").write_text(json.dumps(values, indent=2))
    return folder


@pytest.fixture
def nanochat(tiny):
    """`nanochat(folder, step=…, **meta)` writes a checkpoint of a small random model and returns (folder, weights)."""
    model = NanoChat(tiny.model(alpha=0.0))
    model.init_weights(1)
    config = {
        name: getattr(model.config, name)
        for name in ("sequence_len", "vocab_size", "n_layer", "n_head", "n_kv_head", "n_embd", "window_pattern")
    }

    def write(folder, step=7, changes=None, **meta):
        return save(folder, model.state_dict(), config | (changes or {}), step, **meta), model.state_dict()

    return write


def test_logits_are_those_that_nanochat_computed(tmp_path, reference):
    for place in sorted(path.parent for path in reference("model").glob("*/weights.safetensors")):
        facts = json.loads((place / "config.json").read_text())
        weights, io = load_file(place / "weights.safetensors"), load_file(place / "io.safetensors")
        folder = save(tmp_path / place.name, weights, facts["config"])
        found = read_checkpoint(folder, None, NOTHING)
        model = NanoChat(found.model)
        model.load_state_dict(found.weights)
        with torch.no_grad():
            logits = model(io["tokens"].long())
        assert found.model.alpha == 0
        at = io.get("positions", slice(None))
        torch.testing.assert_close(logits[:, at], io["logits"], atol=1e-4, rtol=0)


def test_weights_come_out_bit_for_bit_in_their_own_dtype(tmp_path, nanochat):
    folder, weights = nanochat(tmp_path)
    state = {f"_orig_mod.{name}": tensor for name, tensor in weights.items()}
    state["_orig_mod.transformer.wte.weight"] = weights["transformer.wte.weight"].bfloat16()
    torch.save(state, folder / "model_000007.pt")
    found = read_checkpoint(folder, None, NOTHING).weights
    assert found.keys() == weights.keys() and found["transformer.wte.weight"].dtype == torch.bfloat16
    assert all(found[name].equal(state[f"_orig_mod.{name}"]) for name in weights)


def test_the_last_step_is_taken_unless_one_is_named(tmp_path, nanochat):
    nanochat(tmp_path, step=7)
    nanochat(tmp_path, step=12)
    assert read_checkpoint(tmp_path, None, NOTHING).step == 12 and read_checkpoint(tmp_path, 7, NOTHING).step == 7
    with pytest.raises(UserError, match="has no step 8; there are 7, 12"):
        read_checkpoint(tmp_path, 8, NOTHING)


def test_a_folder_above_the_checkpoints_names_those_below(tmp_path, nanochat):
    nanochat(tmp_path / "base_checkpoints" / "d2")
    with pytest.raises(UserError, match=r"holds no model_<step>\.pt; checkpoints lie below it, in base_checkpoints/d2"):
        read_checkpoint(tmp_path, None, NOTHING)


def test_alpha_is_what_is_stated_then_what_the_meta_says_then_the_base_models(tmp_path, nanochat, tiny):
    folder, _ = nanochat(tmp_path / "plain")
    told, _ = nanochat(tmp_path / "told", xsa={"alpha": 0.5, "layers": [1], "value": "plain"})
    inherited = tiny.model(alpha=0.25, xsa_layers=(0,))

    def projection(*arguments):
        model = read_checkpoint(*arguments).model
        return model.alpha, model.xsa_layers, model.xsa_value

    assert projection(folder, None, NOTHING) == (0.0, (0, 1), "attended")
    assert projection(folder, None, Stated(alpha=1.0)) == (1.0, (0, 1), "attended")
    assert projection(folder, None, NOTHING, inherited) == (0.25, (0,), "attended")
    assert projection(told, None, NOTHING, inherited) == (0.5, (1,), "plain")
    assert projection(told, None, Stated(alpha=1.0, layers=(0,), value="attended")) == (1.0, (0,), "attended")


def test_a_field_that_nanochat_does_not_know_must_be_explained(tmp_path, nanochat):
    folder, _ = nanochat(tmp_path, changes={"xsa_alpha": 1.0})
    with pytest.raises(UserError, match=r"does not know: xsa_alpha = 1\.0.*--alpha.*--ignore xsa_alpha"):
        read_checkpoint(folder, None, Stated(alpha=1.0))
    assert read_checkpoint(folder, None, Stated(alpha=1.0, ignored=("xsa_alpha",))).model.alpha == 1.0


def test_an_option_that_tells_of_exclusive_attention_is_not_taken_for_none(tmp_path, nanochat):
    folder, _ = nanochat(tmp_path, user_config={"use_xsa": True})
    with pytest.raises(UserError, match=r"user_config has use_xsa = True.*state with --alpha"):
        read_checkpoint(folder, None, NOTHING)
    assert read_checkpoint(folder, None, Stated(alpha=0.0)).model.alpha == 0.0


def test_a_model_of_an_older_nanochat_is_refused_by_field_and_by_tensor(tmp_path, nanochat):
    folder, weights = nanochat(tmp_path)
    torch.save({name: one for name, one in weights.items() if name != "smear_lambda"}, folder / "model_000007.pt")
    with pytest.raises(UserError, match=r"lacks the tensor smear_lambda; .* than its meta_000007\.json says"):
        read_checkpoint(folder, None, NOTHING)
    meta = json.loads((folder / "meta_000007.json").read_text())
    del meta["model_config"]["window_pattern"]
    (folder / "meta_000007.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match=r"model_config lacks window_pattern; only models of .* May 2026 and later"):
        read_checkpoint(folder, None, NOTHING)


@pytest.mark.parametrize(
    "changes", [{"n_head": 5}, {"n_layer": "two"}, {"n_embd": None}, {"window_pattern": "XL"}], ids=str
)
def test_a_meta_file_with_a_wrong_value_is_a_sentence(tmp_path, nanochat, changes):
    folder, _ = nanochat(tmp_path, changes=changes)
    with pytest.raises(UserError, match="bring the meta file back"):
        read_checkpoint(folder, None, NOTHING)


class Runs:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        import os

        return os.system, (f"touch {self.target}",)


def test_weights_that_call_something_are_refused_and_do_not_run(tmp_path, nanochat):
    folder, weights = nanochat(tmp_path)
    torch.save(weights | {"x": Runs(tmp_path / "ran")}, folder / "model_000007.pt")
    with pytest.raises(UserError, match=r"holds more than tensors \(posix\.system\)") as refusal:
        read_checkpoint(folder, None, NOTHING)
    assert "weights_only" not in str(refusal.value), "no advice to load it all the same"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_weights_cut_short_are_a_sentence(tmp_path, nanochat, kept):
    folder, _ = nanochat(tmp_path)
    content = (folder / "model_000007.pt").read_bytes()
    (folder / "model_000007.pt").write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match=r"model_000007\.pt is damaged or cut short"):
        read_checkpoint(folder, None, NOTHING)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"model_config": 3}'])
def test_a_meta_file_that_is_none_is_a_sentence(tmp_path, nanochat, text):
    folder, _ = nanochat(tmp_path)
    (folder / "meta_000007.json").write_text(text)
    with pytest.raises(UserError, match=r"meta_000007\.json (is not readable JSON|has no model_config)"):
        read_checkpoint(folder, None, NOTHING)
