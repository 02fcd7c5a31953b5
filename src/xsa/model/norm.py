"""RMS normalisation without a learnt scale, the only normalisation of the model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor) -> Tensor:
    """x / √(mean(x²) + ε) over the last axis, same shape and dtype.

    ε is the machine epsilon of float32 (float64's for float64 input), for bfloat16 input too: bfloat16's own epsilon,
    0.008, would visibly shrink small activations. The mean is taken in float32 or better.
    """
    eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
    return F.rms_norm(x, (x.size(-1),), eps=eps)
