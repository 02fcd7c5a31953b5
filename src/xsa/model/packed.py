"""Prompts that branch, laid end to end: a stem that is read once, and branches that each go on from its end.

Nothing is padded but attention's own input, so matrix products run over real tokens alone; and the last layer works only
for the tokens whose output is asked for: the others are seen there, but need no query, no output and no MLP.

Axes: N packed tokens, A tokens asked for, R trees, Q queries and S seen tokens of a tree (padded), T tokens of a stem, H
query heads, G key/value heads, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

from xsa.model.attention import attend, window_mask

BLOCK = 256  # queries that look through a window together
NONE = -1  # padding, and what comes before the first token


@dataclass(frozen=True)
class Tree:
    """Token ids of a stem and its branches (each may be empty), and the places whose output is asked for.

    `asked` counts in the tree's own order: the stem, then one branch after the other.
    """

    stem: Sequence[int]
    branches: Sequence[Sequence[int]]
    asked: Sequence[int]

    @property
    def tokens(self) -> int:
        return len(self.stem) + sum(map(len, self.branches))


class Packed:
    """Trees as one row of tokens: where each token stands, what comes before it, and what it sees.

    `NanoChat.hidden(packed.tokens_1N, packed=packed)` gives (1, A, D), the outputs that the trees ask for, tree by tree.
    `longest` is one more than the highest position.
    """

    def __init__(self, trees: Sequence[Tree], device: torch.device | str = "cpu"):
        starts = [0, *accumulate(tree.tokens for tree in trees)]
        whole = [np.arange(start, end) for start, end in pairwise(starts)]
        stems = [places[: len(tree.stem)] for places, tree in zip(whole, trees, strict=True)]
        rests = [places[len(tree.stem) :] for places, tree in zip(whole, trees, strict=True)]
        asked = [places[np.asarray(tree.asked, dtype=np.int64)] for places, tree in zip(whole, trees, strict=True)]
        own = np.split(np.arange(sum(map(len, asked))), np.cumsum([len(places) for places in asked])[:-1])
        laid_out = [_laid_out(tree, start) for tree, start in zip(trees, starts, strict=False)]
        position_N, before_N, branch_N = (np.concatenate(part) for part in zip(*laid_out, strict=True))
        self.longest = int(position_N.max()) + 1
        tokens = [token for tree in trees for part in (tree.stem, *tree.branches) for token in part]
        stems_RT, rests_RQ, asked_RQ, own_RQ = map(_stacked, (stems, rests, asked, own))
        # One transfer for all of it: many small ones would each keep the device waiting.
        arrays = [tokens, position_N, before_N, branch_N, np.concatenate(asked), stems_RT, rests_RQ, asked_RQ, own_RQ]
        arrays += [_stacked(whole), _back(stems_RT, rests_RQ), _back(own_RQ)]
        tokens_N, self.positions_N, self.before_N, self._branch_N, self.asked_A, *rows = to_device(arrays, device)
        self.tokens_1N = tokens_N[None]
        self._stems_RT, self._rests_RQ, self._asked_RQ, self._own_RQ, self._seen_RS, self._back_N, self._back_A = rows
        self._masks: dict[tuple, Tensor] = {}

    @property
    def seen(self) -> int:
        """Keys that attention holds for all trees, padding included."""
        return self._seen_RS.numel()

    def attend(self, q_1NHK: Tensor, k_1NGK: Tensor, v_1NGK: Tensor, window: int, asked: bool) -> Tensor:
        """Attention's output at every token, (1, N, H, K), or at those asked for, (1, A, H, K), whose queries q then holds."""
        q, k, v = q_1NHK[0], k_1NGK[0], v_1NGK[0]
        if asked:
            return self._look(q, k, v, window, asked=True)[self._back_A][None]
        parts = []
        if self._stems_RT.size(1):
            stems = self._stems_RT.clamp_min(0)
            parts.append(attend_stems(q[stems], k[stems], v[stems], window).flatten(0, 1))
        if self._rests_RQ.size(1):
            parts.append(self._look(q, k, v, window, asked=False))
        return torch.cat(parts)[self._back_N][None]

    def _look(self, q_AHK: Tensor, k_NGK: Tensor, v_NGK: Tensor, window: int, asked: bool) -> Tensor:
        """What the tokens of the branches, or those asked for, see of their trees, (R · Q, H, K)."""
        # Queries stand where their tokens do, but those asked for come by themselves.
        places_RQ, tokens_RQ = (self._own_RQ, self._asked_RQ) if asked else (self._rests_RQ, self._rests_RQ)
        key = asked, min(window, self.longest)
        if key not in self._masks:
            self._masks[key] = self._mask(tokens_RQ, window, q_AHK.dtype)
        seen_RS = self._seen_RS.clamp_min(0)
        return attend(q_AHK[places_RQ.clamp_min(0)], k_NGK[seen_RS], v_NGK[seen_RS], self._masks[key]).flatten(0, 1)

    def _mask(self, tokens_RQ: Tensor, window: int, dtype: torch.dtype) -> Tensor:
        """0 where a query looks, −∞ elsewhere, (R, 1, Q, S): at the stem and its own branch, back to the window's edge."""
        queries, seen = tokens_RQ.clamp_min(0), self._seen_RS.clamp_min(0)
        distance_RQS = self.positions_N[queries][:, :, None] - self.positions_N[seen][:, None, :]
        branch_R1S = self._branch_N[seen][:, None, :]
        looks_RQS = (branch_R1S == 0) | (branch_R1S == self._branch_N[queries][:, :, None])
        looks_RQS &= (distance_RQS >= 0) & (distance_RQS <= window) & (self._seen_RS >= 0)[:, None, :]
        looks_RQS |= (tokens_RQ < 0)[:, :, None]  # what padding sees means nothing, but must be something
        # Not a boolean mask: that would be turned into this one again in every layer.
        return torch.zeros_like(looks_RQS, dtype=dtype).masked_fill_(~looks_RQS, -torch.inf)[:, None]


def attend_stems(q_RTHK: Tensor, k_RTGK: Tensor, v_RTGK: Tensor, window: int) -> Tensor:
    """Causal attention over `window` earlier tokens and the token itself, (R, T, H, K).

    Kernels that know no windows compute all pairs under a mask; here a block of queries meets only what it may see.
    """
    T = q_RTHK.size(1)
    first = min(T, window + 1)  # these see all before them
    parts = [attend(q_RTHK[:, :first], k_RTGK[:, :first], v_RTGK[:, :first], None)]
    for start in range(first, T, BLOCK):
        end = min(start + BLOCK, T)
        at = torch.arange(start - window, end, device=q_RTHK.device)
        mask = window_mask(at[window:], at, window)
        seen = slice(start - window, end)
        parts.append(attend(q_RTHK[:, start:end], k_RTGK[:, seen], v_RTGK[:, seen], mask))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def to_device(arrays: Sequence[np.ndarray | Sequence[int]], device: torch.device | str) -> list[Tensor]:
    """Whole numbers of any shapes on `device`, as int64, by one copy that the host does not wait for."""
    arrays = [np.asarray(array, dtype=np.int64) for array in arrays]
    flat = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    if torch.device(device).type == "cuda":
        flat = flat.pin_memory()
    pieces = flat.to(device, non_blocking=True).split([array.size for array in arrays])
    return [piece.view(array.shape) for piece, array in zip(pieces, arrays, strict=True)]


def _laid_out(tree: Tree, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each token of a tree that begins at `start`: its position, the token before it, its branch (0: the stem)."""
    stem, lengths = len(tree.stem), [len(tree.stem), *map(len, tree.branches)]
    positions = [np.arange(stem), *(np.arange(stem, stem + length) for length in lengths[1:])]
    begins = accumulate(lengths[:-1], initial=start)
    before = [begin + np.arange(-1, length - 1) for begin, length in zip(begins, lengths, strict=True)]
    for number, places in enumerate(before):
        places[:1] = start + stem - 1 if number and stem else NONE
    return np.concatenate(positions), np.concatenate(before), np.repeat(np.arange(len(lengths)), lengths)


def _stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of unequal length one below the other, filled up on the right."""
    stacked = np.full((len(rows), max(map(len, rows))), NONE, dtype=np.int64)
    for place, row in enumerate(rows):
        stacked[place, : len(row)] = row
    return stacked


def _back(*groups: np.ndarray) -> np.ndarray:
    """For each number that stands in the groups, 0 … n − 1, its place when all groups are flattened in succession."""
    flat = np.concatenate([group.ravel() for group in groups])
    places = np.flatnonzero(flat >= 0)
    back = np.empty(len(places), dtype=np.int64)
    back[flat[places]] = places
    return back
