"""What a training step reads. Data order is a function of the step alone: step s reads rows [s·R, (s+1)·R).

The files are memory-mapped and every process reads the whole batch of a step (about a megabyte), so each knows the
count of targets and the hash of the stream without asking the others.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from xsa.data.rows import Rows
from xsa.store.errors import UserError

STREAM_START = "00" * 32


class Batch(NamedTuple):
    """The R rows of one step: inputs int64 (R, T), targets int64 (R, T) with -1 where there is no loss, and their bytes."""

    inputs_RT: np.ndarray
    targets_RT: np.ndarray
    content: bytes


class Batches(Protocol):
    """A source of batches, one for each step."""

    batch_rows: int
    sequence_len: int

    def read(self, step: int) -> Batch:
        """The batch of `step`, counted from 0."""
        ...


def chain(stream: str, content: bytes) -> str:
    """The stream's hash after one more batch: h ← SHA-256(h ‖ bytes of the batch), hexadecimal, from 32 zero bytes on.

    A chain can be resumed from its last value, which a plain hash over all bytes cannot.
    """
    return hashlib.sha256(bytes.fromhex(stream) + content).hexdigest()


class RowStream:
    """Rows of several files, one after the other, checked against the model that is to read them."""

    def __init__(self, paths: list[Path], sequence_len: int, vocab_size: int):
        """UserError where the rows have another length than T + 1 = `sequence_len` + 1."""
        self.paths, self.sequence_len, self.vocab_size = paths, sequence_len, vocab_size
        self._rows = Rows(paths)
        if self._rows.sequence_len != sequence_len:
            raise UserError(
                f"{paths[0]} has rows of T = {self._rows.sequence_len} tokens, the model takes {sequence_len}; make rows for "
                f"model.sequence_len = {sequence_len}"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop) as int64 (stop - start, T + 1). UserError where an id is outside the vocabulary."""
        rows_RT = self._rows.slice(start, stop).astype(np.int64)
        if rows_RT.size and rows_RT.max() >= self.vocab_size:
            raise UserError(
                f"rows {start} to {stop - 1} of {self.paths[0]} and the files after it hold the token id {rows_RT.max()}, but the "
                f"model's vocabulary ends at {self.vocab_size - 1}; make the rows with the tokenizer that the model is for"
            )
        return rows_RT


class PretrainBatches:
    """Every token after the first of a row is a target."""

    def __init__(self, rows: RowStream, batch_rows: int):
        self.rows, self.batch_rows, self.sequence_len = rows, batch_rows, rows.sequence_len

    def read(self, step: int) -> Batch:
        """Rows [step·R, (step+1)·R), hashed as little-endian 32-bit ids."""
        rows_RT = self.rows.take(step * self.batch_rows, (step + 1) * self.batch_rows)
        return Batch(rows_RT[:, :-1], rows_RT[:, 1:], rows_RT.astype("<u4").tobytes())
