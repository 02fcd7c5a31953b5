"""Bits per byte of a model on fixed rows: how well it predicts text, whatever the tokenizer."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from xsa.model.nanochat import NanoChat
from xsa.train.distributed import Ranks


class RowLosses(NamedTuple):
    """Sums over each row's counted targets: nats float64 (R,), bytes int64 (R,), tokens int64 (R,)."""

    nats_R: np.ndarray
    bytes_R: np.ndarray
    tokens_R: np.ndarray

    @property
    def bpb(self) -> float:
        """Bits per byte over all rows. ValueError where no target carries a byte."""
        return bits_per_byte(math.fsum(self.nats_R), int(self.bytes_R.sum()))


def bits_per_byte(nats: float, n_bytes: int) -> float:
    """nats / (ln 2 · bytes)."""
    if n_bytes == 0:
        raise ValueError("no target carries a byte, so there are no bits per byte")
    return nats / (math.log(2) * n_bytes)


@torch.no_grad()
def row_losses(
    model: NanoChat,
    inputs_RT: np.ndarray,
    targets_RT: np.ndarray,
    token_bytes_V: np.ndarray,
    micro_batch: int = 16,
    ranks: Ranks = Ranks(),  # noqa: B008 - immutable
) -> RowLosses:
    """Losses of rows, added up in float64, row by row, so that neither micro-batch nor ranks change the sums' order.

    A target counts when it is not -1 and its token stands for at least one byte; special tokens stand for none
    (`token_bytes_V`: bytes of each token). Ranks share the rows and each gets the whole result.
    """
    # An ignored target is -1, which as an index would be the last token; it is given no bytes.
    bytes_RT = np.where(targets_RT >= 0, token_bytes_V[targets_RT], 0)
    nats_R = torch.zeros(len(inputs_RT), dtype=torch.float64, device=ranks.device)
    first, end = (number * len(inputs_RT) // ranks.world for number in (ranks.rank, ranks.rank + 1))
    for start in range(first, end, micro_batch):
        rows = slice(start, min(start + micro_batch, end))
        tokens_BT = torch.from_numpy(inputs_RT[rows]).to(ranks.device)
        targets_BT = torch.from_numpy(targets_RT[rows]).to(ranks.device)
        counted_BT = torch.from_numpy(bytes_RT[rows] > 0).to(ranks.device)
        losses_BT = model(tokens_BT, targets_BT, reduction="none").double()
        nats_R[rows] = (losses_BT * counted_BT).sum(1)
    nats_R = ranks.sum_tensor(nats_R).cpu().numpy()
    return RowLosses(nats_R, bytes_RT.sum(1, dtype=np.int64), (bytes_RT > 0).sum(1))
