"""A checkpoint says everything and is refused when anything is missing, unknown or damaged."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from pydantic import BaseModel
from safetensors.torch import load_file, save_file

from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.errors import UserError
from xsa.study.architecture import ModelConfig
from xsa.study.settings import RunSettings
from xsa.study.stages import BpbStage
from xsa.train.checkpoint import CheckpointConfig, load_for_evaluation, load_model, read_config, write_checkpoint


@pytest.fixture
def checkpoint(tiny, results):
    """A checkpoint result of an untrained model, and its tokenizer's."""
    tokenizer = results.tokenizer()
    model = NanoChat(tiny.model())
    model.init_weights(0)
    config = CheckpointConfig(
        model=model.config,
        stage="pretrain",
        step=1,
        tokens=2,
        vocab_sha256=Tokenizer.load(tokenizer / "tokenizer.json").sha256,
        training={},
        data_stream_sha256="0",
    )
    optimizer = MuonAdamW(model, tiny.optim())
    return results.add("pretrain", lambda folder: write_checkpoint(folder, model, optimizer, config)), tokenizer


def alter(folder, change):
    values = json.loads((folder / "config.json").read_text())
    change(values)
    (folder / "config.json").write_text(json.dumps(values))


def test_what_is_written_is_what_is_read(checkpoint, tiny):
    folder, _ = checkpoint
    model = load_model(folder, "cpu", "float32")
    assert model.config == tiny.model()
    assert all(
        tensor.equal(model.state_dict()[name]) for name, tensor in load_file(folder / "model.safetensors").items()
    )
    by_name = {name: folder / name for name in ("model.safetensors", "config.json")}
    assert load_model(by_name, "cpu", torch.bfloat16).transformer.wte.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("field", sorted(ModelConfig.model_fields))
def test_a_model_field_that_is_missing_is_never_assumed(checkpoint, field):
    folder, _ = checkpoint
    alter(folder, lambda values: values["model"].pop(field))
    with pytest.raises(UserError, match=rf"config\.json: the field model\.{field} is missing"):
        load_model(folder, "cpu", "float32")


def test_an_unknown_field_is_refused_and_the_nearest_named(checkpoint):
    folder, _ = checkpoint
    alter(folder, lambda values: values["model"].update(alhpa=1.0))
    with pytest.raises(UserError, match=r"the field model\.alhpa is unknown \(the nearest known one is alpha\)"):
        read_config(folder / "config.json")


def test_a_value_out_of_range_is_refused(checkpoint):
    folder, _ = checkpoint
    alter(folder, lambda values: values["model"].update(alpha=1.5))
    with pytest.raises(UserError, match=r"model\.alpha: .*less than or equal to 1"):
        read_config(folder / "config.json")


def test_a_configuration_that_is_no_json_is_a_sentence(checkpoint):
    folder, _ = checkpoint
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="not readable JSON"):
        read_config(folder / "config.json")
    with pytest.raises(UserError, match="is missing, so this is no checkpoint"):
        read_config(folder / "nowhere" / "config.json")


@pytest.mark.parametrize("kept", [0, 5, 0.5])
def test_weights_cut_short_are_a_sentence(checkpoint, kept):
    folder, _ = checkpoint
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: int(kept if kept > 1 else kept * len(content))])
    with pytest.raises(UserError, match=r"model\.safetensors is damaged or cut short"):
        load_model(folder, "cpu", "float32")


def test_weights_of_another_model_are_refused_by_tensor_name(checkpoint):
    folder, _ = checkpoint
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t for name, t in tensors.items() if name != "x0_lambdas"}, folder / "model.safetensors")
    with pytest.raises(UserError, match="lacks the tensor x0_lambdas"):
        load_model(folder, "cpu", "float32")
    save_file(tensors | {"extra": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="has a tensor extra"):
        load_model(folder, "cpu", "float32")
    save_file(tensors | {"x0_lambdas": torch.zeros(7)}, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"x0_lambdas has shape \(7,\), .* needs \(2,\)"):
        load_model(folder, "cpu", "float32")


def evaluation(results, folder, **inputs):
    settings: BaseModel = BpbStage(rows=1, dtype="float32")
    job = results.job("bpb", "a", settings, checkpoint=folder, **inputs)
    assert isinstance(job.run, RunSettings)
    return job


def test_an_evaluation_gets_model_tokenizer_and_configuration(checkpoint, results):
    folder, tokenizer = checkpoint
    model, found, config = load_for_evaluation(evaluation(results, folder, tokenizer=tokenizer))
    assert model.config == config.model and found.sha256 == config.vocab_sha256
    assert load_for_evaluation(evaluation(results, folder)).tokenizer is None


def test_another_tokenizer_is_refused_with_both_hashes(checkpoint, results):
    folder, _ = checkpoint
    other = Tokenizer([bytes([byte]) for byte in reversed(range(256))])
    wrong = results.add("tokenizer", lambda path: other.save(path / "tokenizer.json"))
    expected = read_config(folder / "config.json").vocab_sha256
    with pytest.raises(UserError, match=rf"another vocabulary \(vocab_sha256 {expected}\).*{other.sha256}"):
        load_for_evaluation(evaluation(results, folder, tokenizer=wrong))


def test_a_flipped_byte_of_the_weights_is_refused_with_file_and_both_hashes(checkpoint, results):
    folder, tokenizer = checkpoint
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(
        UserError, match=r"model\.safetensors has changed .*SHA-256 [0-9a-f]{64}, the file has [0-9a-f]{64}"
    ):
        load_for_evaluation(evaluation(results, folder, tokenizer=tokenizer))


def test_files_are_as_readable_as_their_folder(checkpoint):
    folder, _ = checkpoint
    assert (folder / "model.safetensors").stat().st_mode & 0o777 == folder.stat().st_mode & 0o666
    shutil.rmtree(folder)
