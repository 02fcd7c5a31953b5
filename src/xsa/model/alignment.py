"""How attention's output lies to the token's own value, and where a head looks, by layer, head and position.

Measured from what a model's `hidden` shows in each layer, row by row, in one reading and bounded memory. Sums are float64,
so that neither the number of rows nor their grouping shows.

Axes: B rows, T tokens, N measured positions of a row, P ranges of positions, M measures, H query heads, G key/value heads,
K channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from xsa.model.softmax import FACTS, softmax_facts, uniform_facts

TINY = 1e-30  # keeps the cosine of a zero vector at 0
MEASURED = (
    "cos_y_v",
    "cos_z_v",
    "cos_y_v_centred",
    "cos_v_v",
    "removed_share",
    "value_norm",
    "output_norm",
    *FACTS,
)
NULLS = tuple(f"{name}_null" for name in FACTS)
MEASURES = (*MEASURED, *NULLS)


class Value(NamedTuple):
    """The mean of a measure over the measured rows and over the positions `first` … `last` of each."""

    layer: int
    head: int
    measure: str
    value: float
    first: int
    last: int


def position_ranges(tokens: int) -> list[tuple[int, int]]:
    """All measured positions, 1 … T−1, then 1, 2–3, 4–7, … by powers of two, the last one cut where the row ends."""
    ranges, first = [(1, tokens - 1)], 1
    while first < tokens:
        ranges.append((first, min(2 * first, tokens) - 1))
        first *= 2
    return ranges


class Alignment:
    """Sums of every measure over the rows seen so far, for every layer, head and range of positions of rows of `tokens`.

    Position 0 is left out: a token there sees only itself, and y is v.
    """

    def __init__(self, windows: list[int], tokens: int):
        self.windows, self.tokens = windows, tokens
        self.ranges = position_ranges(tokens)
        self._inside_PN = torch.tensor(
            [[first <= at <= last for at in range(1, tokens)] for first, last in self.ranges], dtype=torch.float64
        )
        self._sums_PMH: dict[int, Tensor] = {}
        self._rows: dict[int, int] = {}

    def observe(
        self, layer: int, q_BTHK: Tensor, k_BTGK: Tensor, v_BTGK: Tensor, y_BTHK: Tensor, z_BTHK: Tensor
    ) -> None:
        """An observer for `hidden`.

        cos_y_v, cos_z_v: cosine of the own value with attention's output before and after the projection;
        cos_y_v_centred:  of vectors less their mean over the row; cos_v_v: mean cosine of the own value with those of the
        earlier tokens in sight; removed_share: ‖y − z‖²/‖y‖²; the norms are those of v and y; the rest: `softmax_facts`.
        """
        heads, window = y_BTHK.size(2), self.windows[layer]
        y_BNHK, z_BNHK = y_BTHK[:, 1:].float(), z_BTHK[:, 1:].float()
        v_BNHK = _per_query_head(v_BTGK[:, 1:].float(), heads)
        energy_BNH = y_BNHK.square().sum(-1)
        found = {
            "cos_y_v": cosine(y_BNHK, v_BNHK),
            "cos_z_v": cosine(z_BNHK, v_BNHK),
            "cos_y_v_centred": cosine(y_BNHK - y_BNHK.mean(1, keepdim=True), v_BNHK - v_BNHK.mean(1, keepdim=True)),
            "cos_v_v": _per_query_head(earlier_cosine(v_BTGK, window)[:, 1:, :, None], heads)[..., 0],
            "removed_share": (y_BNHK - z_BNHK).square().sum(-1) / energy_BNH.clamp_min(TINY),
            "value_norm": v_BNHK.norm(dim=-1),
            "output_norm": energy_BNH.sqrt(),
        }
        found |= {name: fact[:, 1:] for name, fact in softmax_facts(q_BTHK, k_BTGK, window).items()}
        values_NMH = torch.stack([found[name].double().sum(0) for name in MEASURED], dim=1)
        sums_PMH = torch.einsum("pn,nmh->pmh", self._inside_PN.to(values_NMH.device), values_NMH).cpu()
        self._sums_PMH[layer] = self._sums_PMH.get(layer, 0) + sums_PMH
        self._rows[layer] = self._rows.get(layer, 0) + len(y_BTHK)

    def values(self) -> list[Value]:
        """Every measure, and what the softmax's would be if attention were even (`_null`), for all positions and each range."""
        rows = []
        for layer, sums_PMH in sorted(self._sums_PMH.items()):
            means_PMH = sums_PMH / (self._inside_PN.sum(1) * self._rows[layer]).view(-1, 1, 1)
            even = uniform_facts(self.tokens, self.windows[layer])
            for index, (first, last) in enumerate(self.ranges):
                nulls = {f"{name}_null": float(even[name][first : last + 1].mean()) for name in FACTS}
                for head in range(means_PMH.size(2)):
                    found = dict(zip(MEASURED, means_PMH[index, :, head].tolist(), strict=True)) | nulls
                    rows += [Value(layer, head, measure, found[measure], first, last) for measure in MEASURES]
        return rows


@torch.no_grad()
def measure(
    model: nn.Module, tokens_RT: Tensor, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Value]:
    """`Alignment.values` of a model over rows of tokens, which are read once, one at a time."""
    device = next(model.parameters()).device
    alignment = Alignment(model.config.windows(), tokens_RT.size(1))
    for row, tokens_T in enumerate(tokens_RT, start=1):
        model.hidden(tokens_T[None].to(device), observe=alignment.observe)
        progress(row, len(tokens_RT))
    return alignment.values()


def over_heads(values: list[Value]) -> list[dict[str, Any]]:
    """Per layer and measure over all positions: mean, least and greatest over the heads."""
    last = max(value.last for value in values)
    heads: dict[tuple[int, str], list[float]] = {}
    for value in values:
        if (value.first, value.last) == (1, last):
            heads.setdefault((value.layer, value.measure), []).append(value.value)
    return [
        {
            "layer": layer,
            "measure": measure,
            "mean": sum(found) / len(found),
            "lowest": min(found),
            "highest": max(found),
        }
        for (layer, measure), found in heads.items()
    ]


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine along the last axis; 0 where a vector is zero."""
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)).clamp_min(TINY)


def earlier_cosine(v_BTGK: Tensor, window: int) -> Tensor:
    """Mean cosine of each token's vector with those of the min(i, window) tokens before it, (B, T, G); 0 for the first token.

    By running sums of unit vectors, for the mean of their products with one vector is its product with their mean.
    """
    unit_BTGK = v_BTGK.double() / v_BTGK.double().norm(dim=-1, keepdim=True).clamp_min(TINY)
    before_BTGK = unit_BTGK.cumsum(1) - unit_BTGK
    if window < v_BTGK.size(1):
        before_BTGK[:, window:] -= before_BTGK[:, : v_BTGK.size(1) - window].clone()
    seen_T = torch.arange(v_BTGK.size(1), device=v_BTGK.device).clamp(min=1, max=max(window, 1))
    return (unit_BTGK * before_BTGK).sum(-1) / seen_T[:, None]


def _per_query_head(x_BNGK: Tensor, heads: int) -> Tensor:
    return x_BNGK.repeat_interleave(heads // x_BNGK.size(2), dim=2)
