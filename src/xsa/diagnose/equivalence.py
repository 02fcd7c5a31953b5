"""The stage `equivalence`: standard attention against the exclusive projection's own path at alpha = 0.

At alpha = 0 a model skips the projection. Here a second model of the same weights takes the path nevertheless, which
must change nothing: not the logits, not the gradients, and not a training run.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from xsa.diagnose.weights import fill_zeros
from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.optim.schedule import lr_multiplier, momentum, weight_decay
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.stages import EquivalenceStage
from xsa.train.checkpoint import as_dtype
from xsa.train.compiling import loss_sum
from xsa.train.deterministic import deterministic
from xsa.train.distributed import Ranks
from xsa.train.loop import use_threads
from xsa.train.step import Rates, Trainer, micro_batch
from xsa.train.stream import Batch, PretrainBatches, RowStream

# Below this part of the greatest gradient a tensor's own size is rounding noise, and no measure for its differences.
_FLOOR = 1e-6


def equivalence(job: Job) -> dict[str, Any]:
    """Compare both paths on the first batch and over `steps` training steps; write equivalence.json and steps.parquet.

    Logits, loss and gradients are compared at first weights whose zeros are filled (`fill_zeros`); training starts from
    the first weights themselves, over the rows given, again from the first where they are few. UserError where they do
    not make one batch.
    """
    settings: EquivalenceStage = job.settings
    assert settings.model.alpha == 0, "the path is compared at alpha = 0"
    use_threads(job)
    paths = job.files("rows", "rows.arrow")
    rows = RowStream(paths, settings.model.sequence_len, settings.model.vocab_size)
    if len(rows) < settings.batch_rows:
        raise UserError(
            f"{paths[0]} holds {len(rows)} rows, a step of equivalence takes {settings.batch_rows}; "
            f"set equivalence.batch_rows to {len(rows)} or less"
        )
    batches = _AgainAndAgain(rows, settings.batch_rows)
    device = torch.device(settings.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "equivalence.device is cuda, but there is no GPU here; run this stage where there is one, or set it to cpu"
        )
    # A difference must be the path's, not one that the GPU's order of addition makes.
    with deterministic(device.type == "cuda", warn_only=True):
        found = compare_once(*(_model(settings, explicit, device) for explicit in (False, True)), batches.read(0))
        losses, models, how = _train(job, settings, batches, device)
    trained = [abs(a - b) for a, b in zip(*losses, strict=True)]
    pairs = list(zip(*(model.parameters() for model in models), strict=True))
    bitwise = found.pop("bitwise") and not any(trained) and all(torch.equal(a, b) for a, b in pairs)
    result = {
        **found,
        "steps": settings.steps,
        "loss_max_abs": max(trained),
        "loss_final_abs": trained[-1],
        "parameters_max_rel": max(_relative(a.detach(), b.detach()) for a, b in pairs),
        "dtype": settings.dtype,
        "device": _name(device),
        "bitwise": bitwise,
    }
    steps = {"step": range(1, settings.steps + 1), "baseline": losses[0], "explicit": losses[1]}
    pd.DataFrame(steps).to_parquet(job.out / "steps.parquet", index=False)
    write_json(job.out / "equivalence.json", result)
    return how


class _AgainAndAgain(PretrainBatches):
    """The whole batches of the rows, from the first again after the last."""

    def read(self, step: int) -> Batch:
        return super().read(step % (len(self.rows) // self.batch_rows))


def compare_once(standard: NanoChat, explicit: NanoChat, batch: Batch) -> dict[str, Any]:
    """Greatest differences of logits, of the mean loss and of gradients over one batch, row by row.

    gradient_max_rel: per parameter, relative to its gradient's largest entry (at least a millionth of the largest of
    all); the greatest over parameters. `bitwise` is true when nothing differs at all.
    """
    device = standard.resid_lambdas.device
    count = max(int((batch.targets_RT >= 0).sum()), 1)
    forward, total = 0.0, [0.0, 0.0]
    for tokens_T, targets_T in zip(batch.inputs_RT, batch.targets_RT, strict=True):
        tokens_BT, targets_BT = (torch.from_numpy(array).to(device)[None] for array in (tokens_T, targets_T))
        with torch.no_grad():
            forward = max(forward, float((standard(tokens_BT) - explicit(tokens_BT)).abs().max()))
        for side, model in enumerate((standard, explicit)):
            loss = model(tokens_BT, targets_BT, reduction="sum") / count
            loss.backward()
            total[side] += loss.item()
    gradients = [(a.grad, b.grad) for a, b in zip(standard.parameters(), explicit.parameters(), strict=True)]
    floor = _FLOOR * max(float(a.abs().max()) for a, _ in gradients)
    same = forward == 0 and total[0] == total[1] and all(torch.equal(a, b) for a, b in gradients)
    return {
        "forward_max_abs": forward,
        "loss_abs": abs(total[0] - total[1]),
        "gradient_max_rel": max(_relative(a, b, floor) for a, b in gradients),
        "bitwise": same,
    }


def _model(settings: EquivalenceStage, explicit: bool, device: torch.device, filled: bool = True) -> NanoChat:
    model = NanoChat(settings.model, dtype=as_dtype(settings.dtype), explicit=explicit).to(device)
    model.init_weights(settings.seed)
    if filled:
        fill_zeros(model, settings.seed)
    return model


def _train(
    job: Job, settings: EquivalenceStage, batches: PretrainBatches, device: torch.device
) -> tuple[list[list[float]], list[NanoChat], dict[str, Any]]:
    """Losses of both models, step by step, the trained models, and how they ran."""
    losses, models, how = [], [], {}
    for number, explicit in enumerate((False, True)):
        model = _model(settings, explicit, device, filled=False)
        loss, how = loss_sum(model, settings.compile, device, job.progress.say)
        size = micro_batch(job.run, settings.model, settings.batch_rows, device)
        optimizer = MuonAdamW(model, settings.optim)
        trainer = Trainer(
            model, optimizer, batches, lambda step: _rates(step, settings), loss, size, Ranks(device=device)
        )
        losses.append([])
        for step in range(settings.steps):
            losses[-1].append(trainer.step(step).loss)
            done = number * settings.steps + step + 1
            job.progress.step(done, 2 * settings.steps, loss=losses[-1][-1])
        models.append(model)
    return losses, models, how


def _rates(step: int, settings: EquivalenceStage) -> Rates:
    steps, schedule = settings.steps, settings.schedule
    return Rates(
        lr_multiplier(step, steps, schedule),
        momentum(step, steps, schedule),
        weight_decay(step, steps, settings.optim.weight_decay),
    )


def _relative(a: Tensor, b: Tensor, floor: float = 0.0) -> float:
    """Largest difference relative to the largest entry of `a`, or to `floor` if that is larger; 0 where nothing differs."""
    difference = float((a.float() - b.float()).abs().max())
    return difference / max(float(a.float().abs().max()), floor, 1e-30) if difference else 0.0


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
