"""The stage pretrain: what it reads, writes and refuses."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from xsa.data.rows import Rows
from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.train.checkpoint import load_model


def test_writes_checkpoint_log_and_validation_of_the_stated_form(pretraining, run):
    job = pretraining("a")
    folder = run(job)
    files = {path.name for path in folder.iterdir()} - {"record.json", ".record.json"}
    assert files == {
        "model.safetensors",
        "config.json",
        "optimizer.safetensors",
        "log.parquet",
        "validation.parquet",
        "timing.parquet",
    }
    log = pq.read_table(folder / "log.parquet")
    assert log.column_names == ["step", "tokens", "loss", "lr_multiplier", "momentum", "weight_decay", "grad_norm"]
    assert log["step"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert log["tokens"].to_pylist() == [step * 4 * 32 for step in range(1, 7)]
    assert log["lr_multiplier"].to_pylist()[:2] == [0.5, 1.0]
    validation = pq.read_table(folder / "validation.parquet").to_pydict()
    assert validation["step"] == [3, 6] and validation["tokens"] == [384, 768]
    assert validation["bpb"][1] < validation["bpb"][0]
    config = json.loads((folder / "config.json").read_text())
    assert config["model"] == job.settings.model.model_dump(mode="json") and config["stage"] == "pretrain"
    assert (config["step"], config["tokens"]) == (6, 768)
    assert config["vocab_sha256"] == sha256_file(job.inputs["tokenizer"] / "tokenizer.json")
    assert not job.state.exists()


def test_stream_hash_is_the_chain_over_all_rows_in_order(pretraining, run, notes):
    folder = run(pretraining("a"))
    rows = np.concatenate(
        [Rows([path / "rows.arrow"]).slice(0, n) for path, n in zip(pretraining.inputs["rows"], (13, 11), strict=True)]
    )
    expected = bytes(32)
    for step in range(6):
        expected = hashlib.sha256(expected + rows[4 * step : 4 * step + 4].astype("<u4").tobytes()).digest()
    assert notes(folder)["data_stream_sha256"] == expected.hex()
    assert json.loads((folder / "config.json").read_text())["data_stream_sha256"] == expected.hex()


def test_micro_batches_change_neither_stream_nor_losses(pretraining, run, notes):
    folders = [run(pretraining(f"micro{size}", micro_batch=size)) for size in (1, 2, 3, 4)]
    logs = [pq.read_table(folder / "log.parquet") for folder in folders]
    assert len({notes(folder)["data_stream_sha256"] for folder in folders}) == 1
    whole = logs[-1]["loss"].to_pylist()
    for log in logs[:-1]:
        # nanochat's first weights turn rounding into whole steps of AdamW; test_step holds it tightly from others.
        assert log["loss"].to_pylist() == pytest.approx(whole, abs=1e-3)
        assert log["loss"].to_pylist()[:3] == pytest.approx(whole[:3], abs=1e-5)


def test_arms_read_the_same_stream(pretraining, run, notes):
    standard = pretraining("alpha0").settings.model.model_copy(update={"alpha": 0.0})
    folders = [run(pretraining("alpha1")), run(pretraining("alpha0", model=standard))]
    assert len({notes(folder)["data_stream_sha256"] for folder in folders}) == 1
    assert len({sha256_file(folder / "model.safetensors") for folder in folders}) == 2


def test_saved_model_has_the_weights_and_the_alpha_it_was_trained_with(pretraining, run):
    folder = run(pretraining("a"))
    model = load_model(folder, "cpu", "float32")
    assert model.config.alpha == 1.0 and not model.training
    saved = load_file(folder / "model.safetensors")
    assert all(tensor.equal(saved[name]) for name, tensor in model.state_dict().items())


def test_too_few_rows_stop_it_before_training_and_say_what_would_do(pretraining, run):
    job = pretraining("a", steps=13)
    with pytest.raises(
        UserError, match=r"52 rows .*hold 24.*About 5 shards would do: .*tokens_per_shard.* set it to 352"
    ):
        run(job)
    assert not job.progress.steps


def test_a_validation_shard_with_fewer_rows_is_said_aloud(pretraining, run, notes):
    job = pretraining("a", steps=1, validation_rows=50)
    folder = run(job)
    assert notes(folder)["validation_rows"] == 8
    assert any("8 of the 50 validation rows" in sentence for sentence in job.progress.said)


def test_rows_of_another_length_are_refused(pretraining, results, run):
    job = pretraining("a")
    job.inputs["validation"] = results.rows(8, seed=9, sequence_len=16)
    with pytest.raises(UserError, match=r"rows of T = 16 tokens, the model takes 32"):
        run(job)


def test_another_vocabulary_is_refused(pretraining, run):
    small = pretraining("a").settings.model.model_copy(update={"vocab_size": 264})
    with pytest.raises(UserError, match=r"vocab_size is 264, .*tokenizer.json has 265 entries"):
        run(pretraining("a", model=small))


def test_seed_alone_decides_the_weights(pretraining, run):
    digests = {
        seed: sha256_file(run(pretraining(f"s{seed}", seed=seed, steps=1)) / "model.safetensors") for seed in (1, 2)
    }
    again = sha256_file(run(pretraining("again", seed=1, steps=1)) / "model.safetensors")
    assert again == digests[1] != digests[2]
