"""Causal self-attention over a window, and the exclusive projection of its output.

Axes: B rows, T tokens, S positions that may be seen, D width, H query heads, G key/value heads, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xsa.model.cache import KVCache
from xsa.model.exclusive import remove_own_value
from xsa.model.linear import Linear
from xsa.model.norm import rms_norm
from xsa.model.rotary import rotate
from xsa.study.architecture import ModelConfig

if TYPE_CHECKING:
    from xsa.model.packed import Packed

Observe = Callable[[int, Tensor, Tensor, Tensor, Tensor, Tensor], None]

QK_SCALE = 1.2  # q and k after their normalisation; sharpens a softmax over unit-norm vectors
GATE_CHANNELS = 12  # channels of the input that a value embedding's gate reads


def window_mask(query_positions: Tensor, key_positions: Tensor, window: int) -> Tensor:
    """True where key j is seen from query i: 0 <= i − j <= window. Shape (…, T, S) from (…, T) and (S,)."""
    distance = query_positions[..., :, None] - key_positions
    return (distance >= 0) & (distance <= window)


def attend(q_BTHK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q·k / √K) · v, shape (B, T, H, K).

    mask is boolean, (T, S) or (B, 1, T, S); None means causal, with S = T.
    """
    q, k, v = (x.transpose(1, 2) for x in (q_BTHK, k_BSGK, v_BSGK))
    shared = q.size(1) // k.size(1)
    if shared > 1:  # copied: the kernel that takes a mask on a GPU knows no shared heads
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
    return y.transpose(1, 2)


class Attention(nn.Module):
    """One layer's attention. `alpha` and `explicit` say whether the exclusive projection runs."""

    def __init__(self, config: ModelConfig, layer: int, explicit: bool, dtype: torch.dtype):
        super().__init__()
        d, kv = config.n_embd, config.n_kv_head * config.head_dim
        self.layer = layer
        self.n_head, self.n_kv_head, self.head_dim = config.n_head, config.n_kv_head, config.head_dim
        self.window = config.windows()[layer]
        self.alpha = config.alpha_of(layer)
        self.exclusive = self.alpha != 0.0 or explicit
        self.removes_plain = config.xsa_value == "plain"
        self.c_q = Linear(d, d, dtype)
        self.c_k = Linear(d, kv, dtype)
        self.c_v = Linear(d, kv, dtype)
        self.c_proj = Linear(d, d, dtype)
        self.ve_gate = Linear(GATE_CHANNELS, config.n_kv_head, dtype) if config.has_value_embedding(layer) else None

    def forward(
        self,
        h_BTD: Tensor,
        value_embedding_BTC: Tensor | None,
        rotary: tuple[Tensor, Tensor],
        mask: Tensor | None,
        cache: KVCache | None = None,
        positions_BT: Tensor | None = None,
        seen: range | None = None,
        observe: Observe | None = None,
        packed: Packed | None = None,
        asked: Tensor | None = None,
    ) -> Tensor:
        """Attention's contribution to the stream, at every token or at those `asked` for.

        mask: as for `attend`. With a cache, new keys and values go to `positions_BT` of it, and `seen` are its positions
        that the mask speaks of; None when the cache was empty, so that the new tokens are all there is. Where tokens are
        `packed`, that says what they see.
        """
        B, T, _ = h_BTD.shape
        own_BTD = h_BTD if asked is None else h_BTD[:, asked]
        q_BTHK = self.c_q(own_BTD).view(B, own_BTD.size(1), self.n_head, self.head_dim)
        k_BTGK = self.c_k(h_BTD).view(B, T, self.n_kv_head, self.head_dim)
        plain_BTGK = v_BTGK = self.c_v(h_BTD).view(B, T, self.n_kv_head, self.head_dim)
        if value_embedding_BTC is not None:
            gate_BTG = 3 * torch.sigmoid(self.ve_gate(h_BTD[..., :GATE_CHANNELS]))
            v_BTGK = plain_BTGK + gate_BTG.unsqueeze(-1) * value_embedding_BTC.view_as(plain_BTGK)
        own_rotary = rotary if asked is None else [table[:, asked] for table in rotary]
        q_BTHK = rms_norm(rotate(q_BTHK, *own_rotary)) * QK_SCALE
        k_BTGK = rms_norm(rotate(k_BTGK, *rotary)) * QK_SCALE

        k_BSGK, v_BSGK = k_BTGK, v_BTGK
        if cache is not None:
            cache.write(self.layer, positions_BT, k_BTGK, v_BTGK)
            if seen is not None:
                k_BSGK, v_BSGK = cache.read(self.layer, seen.start, seen.stop)
        if packed is None:
            y_BTHK = attend(q_BTHK, k_BSGK, v_BSGK, mask)
        else:
            y_BTHK = packed.attend(q_BTHK, k_BTGK, v_BTGK, self.window, asked is not None)
        z_BTHK = y_BTHK
        if self.exclusive:
            own_BTGK = plain_BTGK if self.removes_plain else v_BTGK
            z_BTHK = remove_own_value(y_BTHK, own_BTGK if asked is None else own_BTGK[:, asked], self.alpha)
        if observe is not None:
            observe(self.layer, q_BTHK, k_BTGK, v_BTGK, y_BTHK, z_BTHK)
        return self.c_proj(z_BTHK.flatten(2))
