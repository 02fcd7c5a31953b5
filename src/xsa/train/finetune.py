"""The stage `finetune`: a pretrained model learns to answer, from conversations.

Model (its alpha and layer set included), learning rates, dtype and optimizer state are the checkpoint's, read from its
complete configuration. As in nanochat the optimizer goes on with pretraining's moments and step count, while its rates
start anew: at a fraction of the recipe's, without the factor for pretraining's batch, falling to 0 over the second half.
Only an assistant's own tokens are learned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from xsa.data.tokenizer import Tokenizer
from xsa.optim.muon_adamw import MuonAdamW
from xsa.optim.schedule import finetune_lr_multiplier, finetune_momentum
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.study.scaling import RATE_NAMES, rate_scale
from xsa.study.stages import FinetuneStage, OptimStage, PretrainStage
from xsa.train.checkpoint import (
    CONFIG,
    MODEL,
    OPTIMIZER,
    CheckpointConfig,
    check_vocabulary,
    load_model,
    load_optimizer,
    read_config,
)
from xsa.train.compiling import loss_sum
from xsa.train.conversations import PackedBatches, held_out, pack_ahead
from xsa.train.deterministic import deterministic
from xsa.train.distributed import ranks
from xsa.train.loop import Look, Run, use_threads
from xsa.train.step import Rates, Trainer, micro_batch
from xsa.train.validate import row_losses


def finetune(job: Job) -> dict[str, Any]:
    """Fine-tune `checkpoint` on the mixture of `job.settings`; write the files of a pretraining into `job.out`.

    Reads `checkpoint`, `chatsets` and `tokenizer`. UserError where the checkpoint is incomplete or of another vocabulary,
    a chat set is missing or malformed, or the mixture gives nothing to learn.
    """
    settings: FinetuneStage = job.settings
    use_threads(job)
    files = {name: job.file("checkpoint", name) for name in (MODEL, CONFIG, OPTIMIZER)}
    base = read_config(files[CONFIG])
    training = _pretraining(base, files[CONFIG])
    tokenizer_path = job.file("tokenizer", "tokenizer.json")
    tokenizer = Tokenizer.load(tokenizer_path)
    check_vocabulary(base, files[CONFIG], tokenizer, tokenizer_path)
    T = base.model.sequence_len
    with ranks(job.device) as group, deterministic(job.run.deterministic):
        say = job.progress.say
        if group.first:
            pack_ahead(job.state / "packed", settings, job.folder("chatsets"), tokenizer, T, job.progress)
        group.wait()
        batches = PackedBatches(job.state / "packed", settings.batch_rows, T)

        model = load_model(files, group.device, training.dtype).train()
        optim = starting_optim(training)
        optimizer = MuonAdamW(model, optim, group.sharding)
        load_optimizer(files[OPTIMIZER], optimizer)
        loss, how = loss_sum(model, settings.compile, group.device, say)
        first, end = group.part(settings.batch_rows)
        size = micro_batch(job.run, base.model, end - first, group.device)
        schedule = rates(batches.steps, settings.lr_fraction)
        trainer = Trainer(model, optimizer, batches, schedule, loss, size, group)

        run = Run(job, trainer, batches.steps, settings.validation_every, _look(job, trainer, tokenizer, say))
        run.train()
        run.finish(
            lambda run: _config(run, base, settings, {"optim": optim.model_dump(mode="json"), "dtype": training.dtype})
        )
        packed = {name: batches.packed[name] for name in ("conversations", "sizes", "notes", "counts")}
        return {**run.notes(), **how, "mixture": packed, "held_out": run.look is not None}


def starting_optim(training: PretrainStage) -> OptimStage:
    """Pretraining's optimizer with the recipe's rates, which pretraining had multiplied by √(its batch / 2^19 tokens).

    nanochat's fine-tuning inherits the rates as they were typed, and batches of pretraining's size, but not that factor.
    """
    factor = rate_scale(training.batch_rows * training.model.sequence_len)
    typed = {name: getattr(training.optim, name) / factor for name in RATE_NAMES}
    return training.optim.model_copy(update=typed)


def rates(steps: int, lr_fraction: float) -> Callable[[int], Rates]:
    """nanochat's fine-tuning schedule as a function of the step (0-based).

    Progress is the share of the run before the update, so that the last one still moves the weights. Muon's weight decay,
    which pretraining lets fall to 0, stays there.
    """
    return lambda step: Rates(lr_fraction * finetune_lr_multiplier(step / steps), finetune_momentum(step), 0.0)


def _look(job: Job, trainer: Trainer, tokenizer: Tokenizer, say: Callable[[str], None]) -> Look | None:
    """Bits per byte of the assistants' words in held-out conversations; None where the sets have none."""
    model, T = trainer.model, trainer.batches.sequence_len
    try:
        inputs_RT, targets_RT = held_out(job.settings, job.folder("chatsets"), tokenizer, T)
    except UserError as error:
        say(f"fine-tuning is not watched on held-out conversations: {error}")
        return None

    def bpb() -> float:
        return row_losses(model, inputs_RT, targets_RT, tokenizer.token_bytes, trainer.micro_batch, trainer.ranks).bpb

    return bpb


def _pretraining(base: CheckpointConfig, path: Path) -> PretrainStage:
    """The settings that the checkpoint was trained with."""
    if base.stage != "pretrain":
        raise UserError(f"{path} is of a {base.stage} result; fine-tuning starts from a pretrained one")
    try:
        return PretrainStage.model_validate(base.training)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise UserError(f"{path}: training.{where}: {fault['msg']}; bring the file back as it was written") from None


def _config(run: Run, base: CheckpointConfig, settings: FinetuneStage, inherited: dict[str, Any]) -> CheckpointConfig:
    return CheckpointConfig(
        model=base.model,
        stage="finetune",
        step=run.position.step,
        tokens=run.tokens,
        vocab_sha256=base.vocab_sha256,
        training=settings.model_dump(mode="json") | inherited,
        data_stream_sha256=run.position.stream,
    )
