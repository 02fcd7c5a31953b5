"""One training step over a global batch of R rows, however they are cut.

The R rows are split over ranks, each rank's part into micro-batches. Each micro-batch's summed loss is divided by the
number of targets in the whole batch, so that gradients and loss are those of the batch's mean, whatever the cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from xsa.model.nanochat import NanoChat
from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.errors import UserError
from xsa.study.architecture import ModelConfig
from xsa.study.settings import RunSettings
from xsa.train.compiling import LossSum
from xsa.train.distributed import Ranks
from xsa.train.stream import Batch, Batches

_CPU_ROWS = 16


class Rates(NamedTuple):
    """What the schedule sets before an update."""

    lr_multiplier: float
    momentum: float
    weight_decay: float


class Update(NamedTuple):
    """What one step did: raw mean loss over the global batch before the update, norm of its gradient, rates, batch.

    `last_micro_loss` is the mean loss of this rank's last micro-batch alone, which depends on how the batch was cut.
    """

    loss: float
    grad_norm: float
    rates: Rates
    batch: Batch
    last_micro_loss: float


class NotFiniteError(UserError):
    """A loss or gradient that is not a finite number. `step` counts the updates done before."""

    def __init__(self, step: int, loss: float, culprit: str):
        self.step, self.culprit = step, culprit
        super().__init__(
            f"step {step + 1} is not finite: its loss is {loss}, and the first tensor that is not finite is {culprit}"
        )


class Trainer:
    """Model, optimizer and data of a run, taking one step at a time."""

    def __init__(
        self,
        model: NanoChat,
        optimizer: MuonAdamW,
        batches: Batches,
        rates: Callable[[int], Rates],
        loss_sum: LossSum,
        micro_batch: int,
        ranks: Ranks = Ranks(),  # noqa: B008 - immutable
    ):
        self.model, self.optimizer, self.batches, self.rates = model, optimizer, batches, rates
        self.loss_sum, self.micro_batch, self.ranks = loss_sum, micro_batch, ranks
        self.part = ranks.part(batches.batch_rows)
        self.halved: list[dict[str, int]] = []

    def step(self, step: int) -> Update:
        """Do update number `step` (0-based). NotFiniteError, before anything is updated, where it would ruin the weights."""
        batch = self.batches.read(step)
        loss, last_micro_loss = self._loss_and_gradients(batch, step)
        self.optimizer.sum_gradients()
        norm = torch.linalg.vector_norm(self.optimizer.gradient_norms(), dtype=torch.float64).item()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise NotFiniteError(step, loss, self._culprit())
        rates = self.rates(step)
        self.optimizer.set(*rates)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return Update(loss, norm, rates, batch, last_micro_loss)

    def _culprit(self) -> str:
        """The first tensor that is not finite: a parameter, else a gradient."""
        for kind in ("parameter", "gradient"):
            name = self.optimizer.first_nonfinite(kind)
            if name is not None:
                return name if kind == "parameter" else f"the gradient of {name}"
        return "the loss itself"

    def _loss_and_gradients(self, batch: Batch, step: int) -> tuple[float, float]:
        """The batch's mean loss and that of this rank's last micro-batch, with each rank's gradients accumulated.

        Where the memory of any rank does not hold a micro-batch, all halve it and start the step again; `halved` keeps that
        for the record. UserError where not even one row fits.
        """
        while True:
            losses = self._backward(batch)
            loss, full = self.ranks.sum([losses[0] if losses else 0.0, float(losses is None)])
            if not full:
                return loss, losses[1]
            self._halve(step)

    def _halve(self, step: int) -> None:
        before, rows = self.micro_batch, self.part[1] - self.part[0]
        if before == 1:
            raise UserError(
                f"one row does not fit into the memory of {self.ranks.device}; train on a GPU with more memory, or choose a "
                "smaller model or shorter rows"
            )
        # A divisor, so that all micro-batches keep one shape.
        self.micro_batch = max(size for size in range(1, before // 2 + 1) if rows % size == 0)
        self.halved.append({"step": step + 1, "from": before, "to": self.micro_batch})
        self.optimizer.zero_grad()
        if self.ranks.device.type == "cuda":
            torch.cuda.empty_cache()

    def _backward(self, batch: Batch) -> tuple[float, float] | None:
        """Accumulate this rank's gradients; its share of the mean loss, summed in float64, and its last micro-batch's mean.

        None where the device's memory ran out.
        """
        count = int((batch.targets_RT >= 0).sum())
        device = self.ranks.device
        total = torch.zeros((), dtype=torch.float64, device=device)
        first, end = self.part
        for start in range(first, end, self.micro_batch):
            rows = slice(start, min(start + self.micro_batch, end))
            tokens_BT = torch.from_numpy(batch.inputs_RT[rows]).to(device)
            targets_BT = torch.from_numpy(batch.targets_RT[rows]).to(device)
            try:
                loss = self.loss_sum(tokens_BT, targets_BT) / max(count, 1)
                loss.backward()
            except torch.OutOfMemoryError:
                return None
            total += loss.detach().double()
        own = int((batch.targets_RT[rows] >= 0).sum())
        return total.item(), loss.item() * max(count, 1) / max(own, 1)


def micro_batch(run: RunSettings, config: ModelConfig, rows: int, device: torch.device) -> int:
    """Rows that a device takes at once, out of its `rows` of a step: `run.micro_batch`, else what memory allows.

    On a CPU 16. On a GPU as many as fill half its memory by this estimate of bytes a row: 12 a logit (float32 logits,
    their softcap and gradient) and 40 a layer, token and channel. Then the largest divisor of `rows` not above that, so
    that all micro-batches have one shape and nothing is compiled twice.
    """
    if run.micro_batch is not None:
        return min(run.micro_batch, rows)
    most = _CPU_ROWS
    if device.type == "cuda":
        row_bytes = config.sequence_len * (12 * config.padded_vocab + 40 * config.n_layer * config.n_embd)
        most = max(1, torch.cuda.get_device_properties(device).total_memory // 2 // row_bytes)
    return max(size for size in range(1, min(most, rows) + 1) if rows % size == 0)
