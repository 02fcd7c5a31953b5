"""How attention's output lies to the token's own value, and how much a token attends to itself.

Measured from what `NanoChat.hidden` shows in each layer, in bounded memory: scores exist for a block of queries at a
time, never as a T×T matrix. Sums are float64, so that neither the number of rows nor their grouping shows.

Axes: B rows, T tokens, S keys of a block of queries, N measured positions, H query heads, G key/value heads, K channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

QUERY_BLOCK = 256
TINY = 1e-30  # keeps the cosine of a zero vector at 0
MEASURES = (
    "cos_y_v",
    "cos_z_v",
    "cos_y_v_centred",
    "diagonal",
    "diagonal_null",
    "removed_share",
    "value_norm",
    "output_norm",
)


def diagonal_weights(q_BTHK: Tensor, k_BTGK: Tensor, window: int, block: int = QUERY_BLOCK) -> Tensor:
    """Attention weight of every token on itself, a_ii = exp(q_i·k_i/√K − log Σ_j exp(q_i·k_j/√K)); (B, T, H), float32.

    The sum runs over the tokens j with 0 <= i − j <= window. q and k are those that the softmax sees.
    """
    B, T, H, K = q_BTHK.shape
    G = k_BTGK.size(2)
    q_BGRTK = q_BTHK.float().view(B, T, G, H // G, K).permute(0, 2, 3, 1, 4) / math.sqrt(K)
    k_BG1TK = k_BTGK.float().permute(0, 2, 1, 3).unsqueeze(2)
    weights = torch.empty(B, G, H // G, T, device=q_BTHK.device)
    at = torch.arange(T, device=q_BTHK.device)
    for start in range(0, T, block):
        stop, first = min(start + block, T), max(0, start - window)
        scores = q_BGRTK[..., start:stop, :] @ k_BG1TK[..., first:stop, :].transpose(-1, -2)
        distance = at[start:stop, None] - at[None, first:stop]
        scores.masked_fill_((distance < 0) | (distance > window), -math.inf)
        own = scores.diagonal(offset=start - first, dim1=-2, dim2=-1)
        weights[..., start:stop] = torch.exp(own - torch.logsumexp(scores, dim=-1))
    return weights.flatten(1, 2).transpose(1, 2)


def uniform_diagonal(tokens: int, window: int) -> float:
    """What a_ii is on average over positions 1 … tokens−1 when attention is even over the window: mean 1/min(t+1, W+1)."""
    seen = torch.arange(1, tokens, dtype=torch.float64) + 1
    return float((1 / seen.clamp(max=window + 1)).mean())


class Means:
    """First pass: the mean of y and of v over all measured tokens, for every layer and head."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._counts: dict[int, int] = {}

    def observe(self, layer: int, q: Tensor, k: Tensor, v_BTGK: Tensor, y_BTHK: Tensor, z: Tensor) -> None:
        """An observer for `NanoChat.hidden`."""
        y_NHK, v_NHK = _measured(y_BTHK), _measured(_per_query_head(v_BTGK, y_BTHK.size(2)))
        sums = y_NHK.sum(0, dtype=torch.float64), v_NHK.sum(0, dtype=torch.float64)
        if layer in self._sums:
            sums = tuple(old + new for old, new in zip(self._sums[layer], sums, strict=True))
        self._sums[layer] = sums
        self._counts[layer] = self._counts.get(layer, 0) + len(y_NHK)

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        """Means of y and v, (H, K), float32."""
        y_HK, v_HK = self._sums[layer]
        return (y_HK / self._counts[layer]).float(), (v_HK / self._counts[layer]).float()


class Alignment:
    """Second pass: sums over measured tokens of every measure, for every layer and head."""

    def __init__(self, windows: list[int], means: Means):
        self.windows, self.means = windows, means
        self._sums: dict[tuple[int, str], Tensor] = {}
        self._counts: dict[int, int] = {}

    def observe(
        self, layer: int, q_BTHK: Tensor, k_BTGK: Tensor, v_BTGK: Tensor, y_BTHK: Tensor, z_BTHK: Tensor
    ) -> None:
        """An observer for `NanoChat.hidden`. `removed_share` is ‖y − z‖²/‖y‖², the norms are those of v and y."""
        heads = y_BTHK.size(2)
        y_NHK, z_NHK = _measured(y_BTHK), _measured(z_BTHK)
        v_NHK = _measured(_per_query_head(v_BTGK, heads))
        y_mean_HK, v_mean_HK = self.means.of(layer)
        energy = y_NHK.square().sum(-1)
        found = {
            "cos_y_v": cosine(y_NHK, v_NHK),
            "cos_z_v": cosine(z_NHK, v_NHK),
            "cos_y_v_centred": cosine(y_NHK - y_mean_HK, v_NHK - v_mean_HK),
            "diagonal": _measured(diagonal_weights(q_BTHK, k_BTGK, self.windows[layer])),
            "removed_share": (y_NHK - z_NHK).square().sum(-1) / energy.clamp_min(TINY),
            "value_norm": v_NHK.norm(dim=-1),
            "output_norm": energy.sqrt(),
        }
        for measure, values_NH in found.items():
            total = values_NH.sum(0, dtype=torch.float64).cpu()
            self._sums[layer, measure] = self._sums.get((layer, measure), 0) + total
        self._counts[layer] = self._counts.get(layer, 0) + len(y_NHK)

    def values(self, tokens: int) -> list[tuple[int, int, str, float]]:
        """(layer, head, measure, mean over measured tokens) for every measure; `tokens` is the length of a row, T."""
        rows = []
        for layer, count in sorted(self._counts.items()):
            means = {measure: self._sums[layer, measure] / count for measure in MEASURES if measure != "diagonal_null"}
            null = torch.full_like(means["diagonal"], uniform_diagonal(tokens, self.windows[layer]))
            means["diagonal_null"] = null
            rows += [
                (layer, head, measure, float(means[measure][head])) for head in range(len(null)) for measure in MEASURES
            ]
        return rows


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine along the last axis; 0 where a vector is zero."""
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)).clamp_min(TINY)


def _measured(x_BT: Tensor) -> Tensor:
    """All positions but 0, where a token sees only itself and y = v; rows and positions as one axis; float32."""
    return x_BT[:, 1:].flatten(0, 1).float()


def _per_query_head(v_BTGK: Tensor, heads: int) -> Tensor:
    return v_BTGK.repeat_interleave(heads // v_BTGK.size(2), dim=2)
