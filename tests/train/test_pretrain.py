"""The stage pretrain: what it reads, writes and refuses."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from xsa.data.rows import Rows
from xsa.model.alignment import MEASURES, measure, over_heads
from xsa.store.errors import UserError
from xsa.store.files import sha256_file
from xsa.study.settings import RunSettings
from xsa.train.checkpoint import load_model
from xsa.train.deterministic import deterministic
from xsa.train.step import Trainer


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


def test_bfloat16_trains_to_nearly_the_same_losses_with_float32_masters(pretraining, run):
    fine, coarse = (run(pretraining(dtype, dtype=dtype)) for dtype in ("float32", "bfloat16"))
    losses = [pq.read_table(folder / "log.parquet")["loss"].to_pylist() for folder in (fine, coarse)]
    assert losses[1] != losses[0] and losses[1] == pytest.approx(losses[0], rel=0.02)
    dtypes = {name: tensor.dtype for name, tensor in load_file(coarse / "model.safetensors").items()}
    embeddings = {name for name in dtypes if "wte" in name or name.startswith("value_embeds.")}
    assert {name for name, dtype in dtypes.items() if dtype == torch.bfloat16} == embeddings
    assert set(dtypes.values()) == {torch.bfloat16, torch.float32}
    assert {tensor.dtype for tensor in load_file(fine / "model.safetensors").values()} == {torch.float32}


def test_deterministic_mode_gives_the_same_bits_twice_and_is_recorded(pretraining, run, notes, monkeypatch):
    asked, take = [], Trainer.step

    def step(self, number):
        asked.append(torch.are_deterministic_algorithms_enabled())
        return take(self, number)

    monkeypatch.setattr(Trainer, "step", step)
    folders = []
    for name in ("once", "twice"):
        job = pretraining(name)
        job.run = RunSettings(deterministic=True)
        folders.append(run(job))
    assert asked == [True] * 12 and notes(folders[0])["deterministic"] is True
    for file in ("model.safetensors", "optimizer.safetensors", "log.parquet", "validation.parquet"):
        assert sha256_file(folders[0] / file) == sha256_file(folders[1] / file)
    assert notes(run(pretraining("as ever")))["deterministic"] is False
    assert asked[12:] == [False] * 6


def test_an_operation_without_a_deterministic_kernel_is_a_sentence():
    before = torch.are_deterministic_algorithms_enabled()
    with pytest.raises(UserError, match=r"^put_ does not .*; set run\.deterministic: false"), deterministic(True):
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
    assert torch.are_deterministic_algorithms_enabled() == before


def test_diagnostics_along_training_are_taken_where_asked_and_change_no_bit(pretraining, run):
    plain = run(pretraining("plain"))
    job = pretraining("watched", attention_steps=(0, 2, 6), attention_rows=2)
    watched = run(job)
    for name in ("model.safetensors", "optimizer.safetensors", "log.parquet", "validation.parquet"):
        assert sha256_file(watched / name) == sha256_file(plain / name), name
    assert not (plain / "alignment.parquet").exists()
    found = pq.read_table(watched / "alignment.parquet").to_pandas()
    layers = job.settings.model.n_layer
    assert list(found["step"].unique()) == [0, 2, 6] and list(found["tokens"].unique()) == [0, 256, 768]
    assert len(found) == 3 * layers * len(MEASURES)
    assert (found["lowest"] <= found["mean"]).all() and (found["mean"] <= found["highest"]).all()
    model, rows = load_model(watched, "cpu", "float32"), Rows([pretraining.inputs["validation"] / "rows.arrow"])
    last = over_heads(measure(model, torch.from_numpy(rows.slice(0, 2)[:, :-1].astype("int64"))))
    assert found[found["step"] == 6]["mean"].tolist() == pytest.approx([row["mean"] for row in last], abs=1e-6)
