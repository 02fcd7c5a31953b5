"""A matrix multiplication whose weight is kept finer than what it multiplies."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    """y = x Wᵀ without bias. W is a float32 master (float64 in a float64 model), cast to x's dtype at use."""

    def __init__(self, n_in: int, n_out: int, dtype: torch.dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in, dtype=torch.promote_types(dtype, torch.float32)))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))
