"""Packing of conversations into rows for fine-tuning: whole conversations, best fit, the rest of a row padded.

nanochat's rule: a buffer of `buffer_size` conversations, filled one at a time; the longest that fits the rest of the row is
placed, the earliest of equals; when none fits, the rest of the row is `<|bos|>` and is not learned. There, a conversation
longer than a row stays in the buffer for ever, and when it is full of such ones nothing is learned any more (its issues
590 and 811); here it is truncated or dropped, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from xsa.data.packing import Buffer
from xsa.store.errors import UserError

# ids, mask, whether they were cut
Fitted = tuple[list[int], list[int], bool]


class ConversationPacking:
    """Batches of rows from endlessly repeated conversations; batch s is a function of the conversations and the settings alone.

    conversations: one epoch. render: conversation -> (ids, mask), uncut. sequence_len: T; a row has T+1 tokens.
    overlong: for conversations of more than T tokens. `truncate` cuts them to T, as nanochat's rendering does at its T;
        `drop` leaves them out; `keep` is nanochat's packer as it is, for comparison only.

    counts: placed, truncated, dropped, padded (tokens), learned (target tokens).
    consumed: conversations placed or dropped; an epoch has passed when it reaches len(conversations).
    epoch: the pass, from 1, that the next conversation to be read belongs to.
    """

    def __init__(
        self,
        conversations: Sequence[Any],
        render: Callable[[Any], tuple[list[int], list[int]]],
        *,
        sequence_len: int,
        buffer_size: int,
        bos: int,
        overlong: Literal["truncate", "drop", "keep"] = "truncate",
    ):
        if not len(conversations):
            raise UserError("the fine-tuning mixture has no conversations; give finetune.mixture at least one set")
        self._conversations, self._render = conversations, render
        self._sequence_len, self._buffer_size = sequence_len, buffer_size
        self._bos, self._overlong = bos, overlong
        self._buffer: Buffer[Fitted] = Buffer()
        self._cursor, self.epoch, self.consumed = 0, 1, 0
        self.counts = {"placed": 0, "truncated": 0, "dropped": 0, "padded": 0, "learned": 0}

    def next_batch(self, batch_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """inputs int32 [batch_rows, T] and targets int64 [batch_rows, T], −1 where nothing is to be learned.

        Raises UserError when `drop` leaves no conversation at all.
        """
        tokens = np.full((batch_rows, self._sequence_len + 1), self._bos, dtype=np.int32)
        mask = np.zeros(tokens.shape, dtype=bool)
        for row in range(batch_rows):
            self._fill(tokens[row], mask[row])
        targets = np.where(mask[:, 1:], tokens[:, 1:].astype(np.int64), -1)
        self.counts["learned"] += int(np.count_nonzero(targets >= 0))
        return tokens[:, :-1], targets

    def _fill(self, row: np.ndarray, mask: np.ndarray) -> None:
        filled = 0
        while filled < len(row):
            self._refill()
            found = self._buffer.longest(len(row) - filled)
            if found is None:
                self.counts["padded"] += len(row) - filled
                return
            ids, learned, _ = found
            row[filled : filled + len(ids)] = ids
            mask[filled : filled + len(ids)] = learned
            filled += len(ids)
            self.counts["placed"] += 1
            self.consumed += 1

    def _refill(self) -> None:
        dropped = 0
        while len(self._buffer) < self._buffer_size:
            rendered = self._fitted(self._conversations[self._cursor])
            if rendered is None:
                self.counts["dropped"] += 1
                self.consumed += 1
                dropped += 1
            else:
                self._buffer.add(len(rendered[0]), rendered)
                self.counts["truncated"] += rendered[2]
                dropped = 0
            if dropped > len(self._conversations):
                raise UserError(
                    f"each of the {len(self._conversations):,} conversations has more than {self._sequence_len} tokens, and "
                    "finetune.overlong is `drop`. Use `truncate`, or a model of longer sequences"
                )
            self._cursor += 1
            if self._cursor == len(self._conversations):
                self._cursor, self.epoch = 0, self.epoch + 1

    def _fitted(self, conversation: Any) -> Fitted | None:
        """ids, mask, whether cut; None for a conversation that is left out."""
        ids, mask = self._render(conversation)
        if len(ids) <= self._sequence_len or self._overlong == "keep":
            return ids, mask, False
        if self._overlong == "drop":
            return None
        return ids[: self._sequence_len], mask[: self._sequence_len], True
