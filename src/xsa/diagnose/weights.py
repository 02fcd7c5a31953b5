"""Weights under which a diagnostic sees something: first weights whose zeros are filled."""

from __future__ import annotations

import torch

from xsa.model.nanochat import NanoChat

SCALE = 0.02


@torch.no_grad()
def fill_zeros(model: NanoChat, seed: int) -> None:
    """Draw every parameter that is all zero from N(0, 0.02²), by a private generator.

    A fresh model's output projections are zero: whatever attention computes would change neither logits nor most
    gradients, and multiplying zeros costs a GPU less power than a trained model does.
    """
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if not parameter.any():
            parameter.copy_(torch.empty(parameter.shape).normal_(0, SCALE, generator=generator))
