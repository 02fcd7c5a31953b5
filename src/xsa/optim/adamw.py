"""AdamW for groups of parameters that share their rates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from xsa.optim.sharding import Sharding, Wait


@dataclass
class AdamWRates:
    """Settings of one group. `weight_decay` is per unit of learning rate; it decays before the step (decoupled)."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float = 0.0
    eps: float = 1e-10
    scheduled_decay: bool = False  # decay by the schedule's value instead of `weight_decay`


class AdamW:
    """Loshchilov & Hutter, arXiv 1711.05101. Moments are held in each parameter's own dtype, as nanochat's are.

    Each parameter is cut, flat, into one slice a rank: a rank holds the moments of its own slices and moves those. An update is
    `start_sum`, `finish_sum`, `start_step`, `finish_step`; what starts runs on while other groups start theirs.
    """

    def __init__(self, names: list[str], parameters: list[Tensor], rates: AdamWRates, sharding: Sharding = Sharding()):  # noqa: B008 - immutable
        self.names, self.parameters, self.rates, self.sharding = names, parameters, rates, sharding
        self.exp_avg = [torch.zeros_like(own) for own in self._own()]
        self.exp_avg_sq = [torch.zeros_like(own) for own in self._own()]
        self.steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]
        self.gradients: list[Tensor] = []

    def start_sum(self) -> None:
        """Begin to add up the parameters' `.grad` over ranks."""
        self._sums = [self.sharding.sum_slices(p.grad.reshape(-1)) for p in self.parameters]

    def finish_sum(self) -> None:
        """Set `gradients`: the sums, of this rank's own slices."""
        self.gradients = [wait() for wait in self._sums]
        self._sums.clear()

    @torch.no_grad()
    def start_step(self, lr_multiplier: float, scheduled_decay: float) -> None:
        """Update this rank's slices and begin to send them to the others."""
        rates, own = self.rates, self._own()
        held = zip(own, self.gradients, self.exp_avg, self.exp_avg_sq, self.steps, strict=True)
        held = [slices for slices in held if slices[0].numel()]
        if held:
            parameters, gradients, exp_avg, exp_avg_sq, steps = map(list, zip(*held, strict=True))
            adamw(
                parameters,
                gradients,
                exp_avg,
                exp_avg_sq,
                [],
                steps,
                fused=True,
                amsgrad=False,
                maximize=False,
                beta1=rates.betas[0],
                beta2=rates.betas[1],
                lr=rates.lr * lr_multiplier,
                weight_decay=scheduled_decay if rates.scheduled_decay else rates.weight_decay,
                eps=rates.eps,
            )
        self._joins: list[tuple[Tensor, Wait]] = [
            (slice_, self.sharding.join(slice_, p.numel())) for slice_, p in zip(own, self.parameters, strict=True)
        ]

    @torch.no_grad()
    def finish_step(self) -> None:
        """Set the parameters to what their owners made of them."""
        for p, (own, wait) in zip(self.parameters, self._joins, strict=True):
            joined = wait()
            if joined is not own:  # with one rank the slice is the parameter's own memory
                p.view(-1).copy_(joined)
        self._joins.clear()

    def _own(self) -> list[Tensor]:
        """This rank's slices of the parameters, as views."""
        return [p.detach().view(-1)[self.sharding.own(p.numel())] for p in self.parameters]
