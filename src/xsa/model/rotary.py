"""Rotary positions: channel i of a head's first half turns with channel i of its second half.

Su et al., arXiv 2104.09864, with base 100,000 and the sense of rotation of nanochat (by −θ).
"""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 100_000.0


def rotary_table(length: int, head_dim: int, device: torch.device | str | None = None) -> tuple[Tensor, Tensor]:
    """cos and sin of t · BASE^(−2i/head_dim), each float32 of shape (length, head_dim / 2).

    Float32 whatever the model's dtype: the angles are part of the model's definition, and a finer table would be another
    model (2e-5 in the logits).
    """
    channel = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device)
    frequency = 1.0 / BASE ** (channel / head_dim)
    angle = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequency)
    return angle.cos(), angle.sin()


def rotate(x_BTHK: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The halves (a, b) of each head become (a·cos + b·sin, b·cos − a·sin).

    cos and sin have shape (T, 1, K/2), or (B, T, 1, K/2) where rows stand at positions of their own, in x's dtype.
    """
    a, b = x_BTHK.chunk(2, dim=-1)
    return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)
