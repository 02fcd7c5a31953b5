"""The exclusive projection: attention's output without the part along the token's own value.

Zhai, "Exclusive Self Attention", arXiv 2603.09078, generalised by a strength α in [0, 1] as in the study of it under Muon.
Axes: B rows, T tokens, H query heads, G key/value heads, K channels of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Below |v| = 1e-10 the projection fades out. Small enough that no value of a live model comes near it, large enough that
# ⟨v,v⟩^(-3/2), which the gradient passes through, stays inside float32.
EPS = 1e-20


def remove_own_value(y_BTHK: Tensor, v_BTGK: Tensor, alpha: float) -> Tensor:
    """z = y − α · ⟨y,v⟩ / max(⟨v,v⟩, ε) · v for every head, in y's dtype.

    y is the attention's output, v the value of the same token; query head h uses value head h // (H/G). Dot products are
    taken in float32 (float64 for float64 input) and the result is rounded once. v = 0 gives z = y. The gradient flows
    through y and v and is finite everywhere.
    """
    groups = v_BTGK.size(2)
    wide = torch.promote_types(y_BTHK.dtype, torch.float32)
    y = y_BTHK.unflatten(2, (groups, y_BTHK.size(2) // groups)).to(wide)
    v = v_BTGK.unsqueeze(3).to(wide)
    share = (y * v).sum(-1, keepdim=True) / (v * v).sum(-1, keepdim=True).clamp_min(EPS)
    z = y - (alpha * share) * v
    return z.flatten(2, 3).to(y_BTHK.dtype)
