"""Keys and values of tokens already read, for rows that stand at positions of their own.

Axes: B rows, T new tokens, S cached positions, G key/value heads, K channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xsa.study.architecture import ModelConfig

BLOCK = 64  # buffers grow in multiples of this many positions


class KVCache:
    """What a model needs to go on from tokens it has read.

    `lengths_B` is the number of tokens that each row holds. Besides keys and values it holds the token ids: a token is
    smeared with its predecessor's embedding, and with the ids at hand that embedding can be had again at any length, so that
    `truncate` is exact.

    Buffers grow as rows get longer, up to `max_len` tokens a row.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        max_len: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ):
        self.config = config
        self.max_len = max_len
        self.device = torch.device(device)
        self._set_lengths([0] * batch)
        heads = (config.n_kv_head, config.head_dim)
        self._k = [torch.zeros(batch, 0, *heads, device=device, dtype=dtype) for _ in range(config.n_layer)]
        self._v = [torch.zeros(batch, 0, *heads, device=device, dtype=dtype) for _ in range(config.n_layer)]
        self._tokens_BS = torch.zeros(batch, 0, dtype=torch.long, device=device)

    @property
    def batch(self) -> int:
        return len(self.lengths)

    def last_token(self) -> Tensor:
        """The last token of each row, shape (B, 1); token 0 for a row that holds none."""
        if self.longest == 0:
            return self.lengths_B.new_zeros(self.batch, 1)
        return self._tokens_BS.gather(1, (self.lengths_B - 1).clamp_min(0)[:, None])

    def positions(self, n: int) -> Tensor:
        """Positions of the next n tokens of each row, shape (B, n)."""
        return self.lengths_B[:, None] + torch.arange(n, device=self.lengths_B.device)

    def reserve(self, n: int, lengths: list[int] | None) -> None:
        """Make room for n more positions a row, of which row b will use lengths[b] (all n if None).

        Raises ValueError where a row would hold more than `max_len` tokens.
        """
        longest = max(
            (have + new for have, new in zip(self.lengths, lengths or [n] * self.batch, strict=True)), default=0
        )
        if longest > self.max_len:
            raise ValueError(
                f"a row would hold {longest} tokens, but this cache was made for max_len = {self.max_len}; "
                "make it longer or cut the prompt"
            )
        self._make_room(self.longest + n)

    def _make_room(self, need: int) -> None:
        have = self._tokens_BS.size(1)
        if need > have:
            grown = -(-max(need, min(2 * have, self.max_len)) // BLOCK) * BLOCK
            self._k = [_grow(k, grown) for k in self._k]
            self._v = [_grow(v, grown) for v in self._v]
            self._tokens_BS = _grow(self._tokens_BS, grown)

    def write(self, layer: int, positions_BT: Tensor, k_BTGK: Tensor, v_BTGK: Tensor) -> None:
        """Store keys and values of one layer at the given positions (those of padding are overwritten later)."""
        rows = torch.arange(self.batch, device=positions_BT.device)[:, None]
        self._k[layer][rows, positions_BT] = k_BTGK.detach()
        self._v[layer][rows, positions_BT] = v_BTGK.detach()

    def read(self, layer: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of positions start … stop − 1, each (B, S, G, K); beyond a row's length they mean nothing."""
        return self._k[layer][:, start:stop], self._v[layer][:, start:stop]

    def advance(self, tokens_BT: Tensor, positions_BT: Tensor, lengths: list[int] | None) -> None:
        """Count the tokens whose keys and values were written in every layer."""
        rows = torch.arange(self.batch, device=positions_BT.device)[:, None]
        self._tokens_BS[rows, positions_BT] = tokens_BT
        new = lengths or [tokens_BT.size(1)] * self.batch
        self._set_lengths([a + b for a, b in zip(self.lengths, new, strict=True)])

    def _set_lengths(self, lengths: Sequence[int]) -> None:
        # Kept on the host too, so that shapes and limits never wait for the device.
        self.lengths = [int(n) for n in lengths]
        self.lengths_B = torch.tensor(self.lengths, dtype=torch.long, device=self.device)
        self.shortest, self.longest = min(self.lengths, default=0), max(self.lengths, default=0)

    def expand(self, n: int) -> KVCache:
        """A new cache with every row n times in succession: one context read once, continued in n ways."""
        return self.select([row for row in range(self.batch) for _ in range(n)])

    def select(self, rows: Sequence[int]) -> KVCache:
        """A new cache with these rows, in this order; a row may be named more than once."""
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        other = KVCache.__new__(KVCache)
        other.config, other.max_len, other.device = self.config, self.max_len, self.device
        other._k = [k[:, : self.longest][index] for k in self._k]
        other._v = [v[:, : self.longest][index] for v in self._v]
        other._tokens_BS = self._tokens_BS[:, : self.longest][index]
        other._set_lengths([self.lengths[row] for row in rows])
        return other

    def put(self, rows: Sequence[int], other: KVCache, other_rows: Sequence[int]) -> None:
        """Put rows of another cache in the place of rows of this one: what stood there is forgotten."""
        self._make_room(other.longest)
        into, out_of = (torch.tensor(list(index), dtype=torch.long, device=self.device) for index in (rows, other_rows))
        pairs = [*zip(self._k, other._k, strict=True), *zip(self._v, other._v, strict=True)]
        for mine, theirs in [*pairs, (self._tokens_BS, other._tokens_BS)]:
            mine[into, : other.longest] = theirs[out_of, : other.longest]
        lengths = list(self.lengths)
        for row, other_row in zip(rows, other_rows, strict=True):
            lengths[row] = other.lengths[other_row]
        self._set_lengths(lengths)

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forget, in place, all but the first lengths[b] tokens of row b.

        Raises ValueError where a row does not hold so many.
        """
        shorter = [int(n) for n in lengths]
        if len(shorter) != self.batch or not all(0 <= a <= b for a, b in zip(shorter, self.lengths, strict=True)):
            raise ValueError(f"cannot cut rows of {self.lengths} tokens to {shorter}")
        self._set_lengths(shorter)


def _grow(buffer: Tensor, positions: int) -> Tensor:
    # Zeros, not empty memory: positions past a row's end are read under a mask, and NaN · 0 would still be NaN.
    grown = buffer.new_zeros(buffer.size(0), positions, *buffer.shape[2:])
    grown[:, : buffer.size(1)] = buffer
    return grown
