"""The stage `pretrain`: one model from its first weights over the rows that its horizon needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from xsa.data.rows import Rows
from xsa.data.tokenizer import Tokenizer
from xsa.model.alignment import Value, measure
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.optim.schedule import lr_multiplier, momentum, weight_decay
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.study.result import without_added_defaults
from xsa.study.stages import PretrainStage
from xsa.train.checkpoint import CheckpointConfig, as_dtype
from xsa.train.compiling import loss_sum
from xsa.train.deterministic import deterministic
from xsa.train.distributed import ranks
from xsa.train.loop import Run, use_threads
from xsa.train.step import Rates, Trainer, micro_batch
from xsa.train.stream import PretrainBatches, RowStream
from xsa.train.validate import row_losses


def pretrain(job: Job) -> dict[str, Any]:
    """Train the model of `job.settings` and write checkpoint, log, validation and timing into `job.out`.

    Reads `rows` (in training order), `validation` and `tokenizer`. UserError before the first step where they do not
    fit the settings, and at any step whose loss or gradient is not finite.
    """
    settings: PretrainStage = job.settings
    use_threads(job)
    tokenizer = _tokenizer(job)
    rows = RowStream(job.files("rows", "rows.arrow"), settings.model.sequence_len, settings.model.vocab_size)
    check_enough(rows, settings)
    validation = RowStream(
        [job.file("validation", "rows.arrow")], settings.model.sequence_len, settings.model.vocab_size
    )
    with ranks(job.device) as group, deterministic(job.run.deterministic):
        model = NanoChat(settings.model, dtype=as_dtype(settings.dtype)).to(group.device)
        model.init_weights(settings.seed)
        loss, how = loss_sum(model, settings.compile, group.device, job.progress.say)
        first, end = group.part(settings.batch_rows)
        size = micro_batch(job.run, settings.model, end - first, group.device)
        batches = PretrainBatches(rows, settings.batch_rows)
        optimizer = MuonAdamW(model, settings.optim, group.sharding)
        trainer = Trainer(model, optimizer, batches, rates(settings), loss, size, group)

        look = validation.take(0, min(settings.validation_rows, len(validation)))
        if len(look) < settings.validation_rows:
            job.progress.say(
                f"the validation shard has only {len(look)} of the {settings.validation_rows} validation rows asked for"
            )

        def bpb() -> float:
            return row_losses(model, look[:, :-1], look[:, 1:], tokenizer.token_bytes, trainer.micro_batch, group).bpb

        def align() -> list[Value]:
            return measure(model, torch.from_numpy(validation.take(0, settings.attention_rows)[:, :-1]))

        run = Run(
            job, trainer, settings.steps, settings.validation_every, bpb, align=align, align_at=settings.attention_steps
        )
        run.train()
        run.finish(lambda run: _config(run, settings, tokenizer))
        return {**run.notes(), **how, "validation_rows": len(look)}


def rates(settings: PretrainStage) -> Callable[[int], Rates]:
    """The schedule of a pretraining run as a function of the step (0-based)."""
    steps, schedule = settings.steps, settings.schedule
    return lambda step: Rates(
        lr_multiplier(step, steps, schedule),
        momentum(step, steps, schedule),
        weight_decay(step, steps, settings.optim.weight_decay),
    )


def check_enough(rows: RowStream, settings: PretrainStage) -> None:
    """UserError where training would run out of rows, with the number of shards and the setting that would do."""
    needed, found, T = settings.steps * settings.batch_rows, len(rows), settings.model.sequence_len
    if found >= needed:
        return
    per_shard = [len(Rows([path])) for path in rows.paths]
    least = min(per_shard) * T
    advice = (
        f"About {math.ceil(needed * len(per_shard) / max(found, 1))} shards would do: data.tokens_per_shard says "
        f"{settings.tokens_per_shard:,}, the shards here hold from {least:,} tokens on; set it to {max(least, 1):,}, and make "
        "sure that the dataset has that many training shards"
    )
    raise UserError(
        f"training needs {needed:,} rows of {T} tokens ({settings.steps:,} steps of {settings.batch_rows}), but the "
        f"{len(per_shard)} training shards hold {found:,}. {advice}"
    )


def _tokenizer(job: Job) -> Tokenizer:
    path = job.file("tokenizer", "tokenizer.json")
    tokenizer = Tokenizer.load(path)
    if tokenizer.vocab_size != job.settings.model.vocab_size:
        raise UserError(
            f"the model's vocab_size is {job.settings.model.vocab_size}, {path} has {tokenizer.vocab_size} entries; set "
            f"tokenizer.vocab_size to {tokenizer.vocab_size}"
        )
    return tokenizer


def _config(run: Run, settings: PretrainStage, tokenizer: Tokenizer) -> CheckpointConfig:
    return CheckpointConfig(
        model=settings.model,
        stage="pretrain",
        step=run.position.step,
        tokens=run.tokens,
        vocab_sha256=tokenizer.sha256,
        training=without_added_defaults(settings),
        data_stream_sha256=run.position.stream,
    )
