"""Twenty training steps against nanochat's own: model, loss, accumulation, schedules and optimizer end to end."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from xsa.data.packing import Packing
from xsa.data.parquet import documents
from xsa.data.tokenizer import Tokenizer
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.study.architecture import ModelConfig
from xsa.study.stages import OptimStage, PretrainStage, ScheduleStage
from xsa.train.pretrain import rates
from xsa.train.step import Trainer
from xsa.train.stream import Batch
from xsa.train.validate import row_losses


class Recorded:
    """Batches of a file, micro-batches of a step put together."""

    def __init__(self, rows: torch.Tensor, accumulation: int):
        self.rows_SRT = rows.numpy().astype(np.int64).reshape(-1, accumulation * rows.shape[1], rows.shape[2])
        self.batch_rows, self.sequence_len = self.rows_SRT.shape[1], self.rows_SRT.shape[2] - 1

    def read(self, step: int) -> Batch:
        rows_RT = self.rows_SRT[step]
        return Batch(rows_RT[:, :-1], rows_RT[:, 1:], rows_RT.tobytes())


@pytest.fixture(scope="module")
def told(reference):
    """What the script was told (its defaults and the command line), what it made of it, and the losses it gave."""
    folder = reference("trajectory")
    stored = json.loads((folder / "config.json").read_text())
    defaults = json.loads((reference("scaling") / "scaling.json").read_text())["base_train_defaults"]
    given = dict(part.lstrip("-").split("=") for part in stored["command_line"].split())
    arguments = defaults | {
        name.replace("-", "_"): type(defaults[name.replace("-", "_")])(value) for name, value in given.items()
    }
    losses = json.loads((folder / "losses.json").read_text())
    return SimpleNamespace(folder=folder, arguments=arguments, losses=losses, **stored)


def strengths(losses: dict) -> dict[float, dict]:
    """Losses by alpha, of the float32 runs on one thread."""
    found = {re.fullmatch(r"float32_alpha([\d.]+)", name): values for name, values in losses.items()}
    return {float(match[1]): values for match, values in found.items() if match}


def build(told, alpha: float, start: str, micro: int | None = None) -> tuple[Trainer, int]:
    folder, shape, derived, arguments = told.folder, told.model_config, told.derived, told.arguments
    lrs = ("matrix_lr", "embedding_lr", "unembedding_lr", "scalar_lr")
    config = ModelConfig(**shape, alpha=alpha, xsa_layers=range(shape["n_layer"]))
    settings = PretrainStage(
        model=config,
        seed=0,
        steps=derived["num_iterations"],
        batch_rows=derived["total_batch_size"] // shape["sequence_len"],
        optim=OptimStage(
            matrix="muon",
            version="may2026",
            weight_decay=derived["weight_decay_scaled"],
            **{name: arguments[name] * derived["batch_lr_scale"] for name in lrs},
        ),
        schedule=ScheduleStage(**{name: arguments[name] for name in ScheduleStage.model_fields}),
        dtype="float32",
        compile=False,
        validation_every=10,
        validation_rows=1,
        tokens_per_shard=1,
    )
    model = NanoChat(config)
    model.load_state_dict(load_file(folder / f"{start}.initial.safetensors"))
    batches = Recorded(load_file(folder / "batches.safetensors")["rows"], derived["grad_accum_steps"])
    assert batches.batch_rows == settings.batch_rows

    def loss_sum(tokens_BT, targets_BT):
        return model(tokens_BT, targets_BT, reduction="sum")

    micro = micro or arguments["device_batch_size"]
    return Trainer(model, MuonAdamW(model, settings.optim), batches, rates(settings), loss_sum, micro), settings.steps


@pytest.fixture(scope="module")
def trained(told, reference):
    """By alpha: nanochat's losses, and our run from the random weights: updates, bits per byte at its steps, last weights."""
    tokenizer = Tokenizer.load(reference("tokenizer") / "tokenizer.json")
    # nanochat counted bytes by its older rule then, which is wrong for tokens that are no UTF-8.
    bytes_V = load_file(reference("tokenizer") / "token_bytes.safetensors")["token_bytes_dc54a1a"].numpy()
    count = told.arguments["eval_tokens"] // told.model_config["sequence_len"]
    shards = sorted((reference("tokenizer") / "corpus").glob("*.parquet"))[-1:]
    rows_RT = np.array(list(itertools.islice(packed(told, shards, tokenizer), count)), dtype=np.int64)
    torch.set_num_threads(1)  # as `one_thread` does, which comes after
    runs = {}
    for alpha, losses in strengths(told.losses["random_init"]).items():
        trainer, steps = build(told, alpha, "random_init")
        run = SimpleNamespace(updates=[], bpb={}, weights=trainer.model.state_dict())
        for step in range(steps + 1):
            if step in losses["val_bpb_at_steps"]:
                run.bpb[step] = row_losses(trainer.model, rows_RT[:, :-1], rows_RT[:, 1:], bytes_V).bpb
            if step < steps:
                run.updates.append(trainer.step(step))
        runs[alpha] = (losses, run)
    assert runs
    return runs


def test_losses_of_twenty_steps_from_random_weights_are_nanochats(trained):
    for losses, run in trained.values():
        found = [update.loss for update in run.updates]
        assert found == pytest.approx(losses["mean_loss_per_step"], abs=2e-5)
        # The mean over the batch is not the loss of its last micro-batch, which nanochat logs.
        assert found != pytest.approx(losses["logged_loss_last_micro_step"], abs=1e-3)


def test_gradients_norms_on_the_way_are_nanochats(told, trained):
    _, run = trained[0.0]
    stored = json.loads((told.folder / "per_step.json").read_text())["grad_norms"]
    norms = [np.linalg.norm(list(norms.values())) for norms in stored]
    assert [update.grad_norm for update in run.updates] == pytest.approx(norms, rel=1e-4)


def test_weights_after_twenty_steps_are_nanochats(told, trained):
    for alpha, (_, run) in trained.items():
        for name, expected in load_file(told.folder / f"random_init.final_alpha{alpha:g}.safetensors").items():
            assert (run.weights[name] - expected).abs().max() <= 3e-3 * expected.abs().max(), name


def test_rates_momentum_and_decay_of_every_group_at_every_step_are_nanochats(told):
    per_step = json.loads((told.folder / "per_step.json").read_text())
    trainer, steps = build(told, 0, "random_init")
    adamw, muon = trainer.optimizer.adamw_groups, trainer.optimizer.muon_groups
    bases = [group.rates.lr for group in adamw] + [group.lr for group in muon]
    for step in range(steps):
        rates, stored = trainer.rates(step), per_step["groups"][step]
        assert [base * rates.lr_multiplier for base in bases] == pytest.approx(
            [group["lr"] for group in stored], rel=1e-12
        )
        for group in (group for group in stored if group["kind"] == "muon"):
            assert rates.momentum == pytest.approx(group["momentum"], abs=1e-12)
            assert rates.weight_decay == pytest.approx(group["weight_decay"], abs=1e-12)
        decays = [group["weight_decay"] for group in stored if group["kind"] == "adamw"]
        assert [group.rates.weight_decay for group in adamw] == decays


@pytest.mark.parametrize("micro", [1, 4])
def test_other_micro_batches_are_nanochats_too(told, micro):
    for alpha, losses in strengths(told.losses["random_init"]).items():
        trainer, _ = build(told, alpha, "random_init", micro)
        found = [trainer.step(step).loss for step in range(4)]
        assert found == pytest.approx(losses["mean_loss_per_step"][:4], abs=2e-5)


def test_first_steps_from_nanochats_own_weights_are_nanochats(told):
    if not (told.folder / "nanochat_init.initial.safetensors").exists():
        pytest.skip("nanochat's own first weights are in the larger reference set only (XSA_REFERENCE)")
    for alpha, losses in strengths(told.losses["nanochat_init"]).items():
        trainer, _ = build(told, alpha, "nanochat_init")
        # After four steps rounding decides: both output projections start at 0.
        found = [trainer.step(step).loss for step in range(4)]
        assert found == pytest.approx(losses["mean_loss_per_step"][:4], abs=1e-5)


def packed(told, shards: list[Path], tokenizer: Tokenizer):
    """Rows of these shards, read over and over, as the stages `tokens` and `rows` make them."""
    groups: dict[tuple[Path, int], list[np.ndarray]] = {}
    for shard in shards:
        for group, texts in documents(shard):
            ids = [np.array(ids, dtype=np.int32) for ids in tokenizer.encode_batch(texts)]
            groups.setdefault((shard, group), []).extend(ids)
    return Packing(
        itertools.cycle(groups.values()),
        capacity=told.model_config["sequence_len"] + 1,
        buffer_size=told.loader_defaults["buffer_size"],
        tokenizer_batch=told.loader_defaults["tokenizer_batch_size"],
        bos=tokenizer.bos,
    )


def test_the_rows_trained_on_are_those_of_the_corpus(told, reference):
    tokenizer = Tokenizer.load(reference("tokenizer") / "tokenizer.json")
    shards = sorted((reference("tokenizer") / "corpus").glob("*.parquet"))[:-1]
    expected = load_file(told.folder / "batches.safetensors")["rows"].flatten(0, 1).numpy()
    np.testing.assert_array_equal(list(itertools.islice(packed(told, shards, tokenizer), len(expected))), expected)


def test_validation_bits_per_byte_on_the_way_are_nanochats(trained):
    for losses, run in trained.values():
        assert list(run.bpb.values()) == pytest.approx(losses["val_bpb"], abs=1e-5)
