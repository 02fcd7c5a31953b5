"""AdamW for groups of parameters that share their rates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim.adamw import adamw


@dataclass
class AdamWRates:
    """Settings of one group. `weight_decay` is per unit of learning rate; it decays before the step (decoupled)."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float = 0.0
    eps: float = 1e-10
    scheduled_decay: bool = False  # decay by the schedule's value instead of `weight_decay`


class AdamW:
    """Loshchilov & Hutter, arXiv 1711.05101. Moments are held in each parameter's own dtype, as nanochat's are."""

    def __init__(self, names: list[str], parameters: list[Tensor], rates: AdamWRates):
        self.names, self.parameters, self.rates = names, parameters, rates
        self.exp_avg = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self.exp_avg_sq = [torch.zeros_like(p, memory_format=torch.preserve_format) for p in parameters]
        self.steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]

    @torch.no_grad()
    def step(self, lr_multiplier: float, scheduled_decay: float) -> None:
        """One update of the whole group."""
        rates = self.rates
        adamw(
            self.parameters,
            [p.grad for p in self.parameters],
            self.exp_avg,
            self.exp_avg_sq,
            [],
            self.steps,
            fused=True,
            amsgrad=False,
            maximize=False,
            beta1=rates.betas[0],
            beta2=rates.betas[1],
            lr=rates.lr * lr_multiplier,
            weight_decay=scheduled_decay if rates.scheduled_decay else rates.weight_decay,
            eps=rates.eps,
        )
