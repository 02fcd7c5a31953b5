import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import load_file

from xsa.evaluate.bpb import bits_per_byte, target_counts, unigram_nats
from xsa.store.errors import UserError
from xsa.study.settings import RunSettings
from xsa.study.stages import BpbStage
from xsa.train.validate import row_losses


@pytest.fixture(scope="module")
def batches(reference):
    """Inputs, targets and the reference's losses of the three batches, the tokens' bytes, and the stored results."""
    stored = load_file(reference("core") / "bpb.safetensors")
    triples = [(stored[f"x{n}"], stored[f"y{n}"], stored[f"loss{n}"]) for n in range(3)]
    return triples, stored["token_bytes"], json.loads((reference("core") / "bpb.json").read_text())


def test_bits_per_byte_of_the_reference_losses_are_the_reference_ones(batches):
    triples, token_bytes, wanted = batches
    nats, n_bytes = [], []
    for (_, targets, losses), one, total in zip(triples, wanted["each"], wanted["total_bytes"], strict=True):
        lengths = np.where(targets >= 0, token_bytes[targets], 0)
        nats.append((losses.astype(np.float64) * (lengths > 0)).sum(1))
        n_bytes.append(lengths.sum(1))
        assert n_bytes[-1].sum() == total
        assert bits_per_byte(nats[-1], n_bytes[-1]) == pytest.approx(one, abs=1e-6)
    assert bits_per_byte(np.concatenate(nats), np.concatenate(n_bytes)) == pytest.approx(wanted["all_three"], abs=1e-6)


@pytest.mark.parametrize("micro_batch", [1, 2, 16])
def test_bits_per_byte_of_the_model_are_the_reference_ones_in_any_batch(batches, core_model, micro_batch):
    triples, token_bytes, wanted = batches
    model = core_model()
    inputs, targets = (np.concatenate([triple[part] for triple in triples]) for part in (0, 1))
    losses = row_losses(model, inputs, targets, token_bytes, micro_batch)
    assert bits_per_byte(losses.nats_R, losses.bytes_R) == pytest.approx(wanted["all_three"], abs=1e-6)


def test_without_bytes_bits_per_byte_are_infinite(batches):
    assert batches[2]["all_ignored"] == "inf"
    assert bits_per_byte(np.zeros(3), np.zeros(3, np.int64)) == math.inf


def test_a_unigram_coder_pays_the_entropy_of_the_targets():
    token_bytes = np.array([1, 2, 0, 3])
    targets = np.array([[0, 0, 1, 2], [3, -1, 0, 2]])
    counts = target_counts(targets, token_bytes)
    assert counts.tolist() == [3, 1, 0, 1]
    assert unigram_nats(counts) / math.log(2) == pytest.approx(3 * math.log2(5 / 3) + 2 * math.log2(5))


@pytest.fixture
def measured(made, core_config, core_tokenizer):
    """Checkpoint, rows and tokenizer as results, and the rows themselves."""
    config = core_config()
    rng = np.random.default_rng(5)
    rows_RT = rng.integers(0, core_tokenizer.bos, size=(9, config.sequence_len + 1))
    rows_RT[:, 0] = core_tokenizer.bos
    rows_RT[2, 7] = core_tokenizer.bos
    inputs = {"checkpoint": made.checkpoint(config), "validation": made.rows(rows_RT), "tokenizer": made.tokenizer()}
    return inputs, rows_RT


def test_the_stage_measures_the_first_rows_one_by_one(run_stage, measured, core_model, core_tokenizer):
    inputs, rows_RT = measured
    folder = run_stage("bpb", BpbStage(rows=7, dtype="float32"), **inputs)
    result = json.loads((folder / "bpb.json").read_text())
    rows = pq.read_table(folder / "rows.parquet").to_pydict()

    targets = rows_RT[:7, 1:]
    lengths = core_tokenizer.token_bytes[targets]
    with torch.no_grad():
        logits = core_model()(torch.from_numpy(rows_RT[:7, :-1])).double()
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.from_numpy(targets).flatten(), reduction="none"
    )
    nats = (losses.view(targets.shape).numpy() * (lengths > 0)).sum(1)
    assert rows["row"] == list(range(7))
    assert rows["bytes"] == lengths.sum(1).tolist()
    np.testing.assert_allclose(rows["nats"], nats, rtol=1e-6)
    assert result["bpb"] == pytest.approx(nats.sum() / (math.log(2) * lengths.sum()), rel=1e-6)
    assert result["nats"] == math.fsum(rows["nats"])
    assert (result["rows"], result["bytes"], result["tokens"]) == (7, lengths.sum(), (lengths > 0).sum())
    assert result["source"] == "validation rows 0..6"
    assert 1 < result["unigram_bpb"] < result["bpb"]


def test_the_stage_runs_the_alpha_of_the_checkpoint(run_stage, measured, made, core_config, core_model, core_tokenizer):
    inputs, rows_RT = measured
    for alpha in (0.25, 1.0):
        folder = run_stage(
            "bpb", BpbStage(rows=3, dtype="float32"), **inputs | {"checkpoint": made.checkpoint(core_config(alpha))}
        )
        own, standard = (
            row_losses(core_model(strength), rows_RT[:3, :-1], rows_RT[:3, 1:], core_tokenizer.token_bytes).bpb
            for strength in (alpha, 0.0)
        )
        assert json.loads((folder / "bpb.json").read_text())["bpb"] == pytest.approx(own, abs=1e-6)
        assert abs(own - standard) > 1e-4, "a hundred times what is compared"


def test_the_stage_gives_the_same_for_any_micro_batch(run_stage, measured):
    inputs, _ = measured
    settings = BpbStage(rows=9, dtype="float32")
    values = []
    for micro_batch in (1, 4):
        folder = run_stage("bpb", settings, run=RunSettings(micro_batch=micro_batch), **inputs)
        values.append(json.loads((folder / "bpb.json").read_text())["bpb"])
    assert values[0] == pytest.approx(values[1], abs=1e-7)


def test_too_few_validation_rows_are_refused_with_the_number_that_would_do(run_stage, measured):
    with pytest.raises(UserError, match=r"bpb.rows = 10, but .* holds 9 rows; set bpb.rows to 9 or less"):
        run_stage("bpb", BpbStage(rows=10, dtype="float32"), **measured[0])


def test_rows_without_text_are_refused(run_stage, measured, made, core_tokenizer, core_config):
    nothing = np.full((2, core_config().sequence_len + 1), core_tokenizer.bos)
    with pytest.raises(UserError, match="stands for text"):
        run_stage("bpb", BpbStage(rows=2, dtype="float32"), **measured[0] | {"validation": made.rows(nothing)})


def test_a_tokenizer_that_the_checkpoint_was_not_trained_with_is_refused(run_stage, measured, made):
    def other(folder):
        stored = json.loads((measured[0]["tokenizer"] / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps(stored))

    with pytest.raises(UserError, match="another vocabulary"):
        run_stage(
            "bpb", BpbStage(rows=2, dtype="float32"), **measured[0] | {"tokenizer": made.result("tokenizer", other)}
        )
