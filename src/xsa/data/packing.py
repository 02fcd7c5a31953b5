"""Best-fit packing of documents into rows that begin with `<|bos|>`, nanochat's rule, as pure functions of the documents.

Before each placement the buffer is filled to at least `buffer_size` documents, by whole tokenizer batches (at most
`tokenizer_batch` documents, never across row groups). The longest document that fits the rest of the row is placed, the
earliest of equals; when none fits, the shortest is cropped to fill the row and its rest is thrown away. About a
third of the tokens of web text is cropped at T = 2048.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

Payload = TypeVar("Payload")

# A key is length << SHIFT | (SHIFT ones - arrival): sorted by length and, among equals, latest arrival first.
_SHIFT = 48
_LAST = (1 << _SHIFT) - 1


class Buffer(Generic[Payload]):
    """Payloads with lengths, in order of arrival; gives the longest up to a length or the shortest, first among equals.

    A sorted list of integers: adding and taking cost a binary search and a short move of memory.
    """

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._payloads: dict[int, Payload] = {}
        self._arrived = 0

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Payload]:
        """The payloads in order of arrival."""
        return iter(self._payloads.values())

    def add(self, length: int, payload: Payload) -> None:
        insort(self._keys, length << _SHIFT | _LAST - self._arrived)
        self._payloads[self._arrived] = payload
        self._arrived += 1

    def longest(self, room: int) -> Payload | None:
        """Take the longest payload of length `room` or less; None when all are longer."""
        return self._take(bisect_left(self._keys, (room + 1) << _SHIFT) - 1)

    def shortest(self) -> Payload:
        """Take the shortest payload."""
        payload = self.longest(self._keys[0] >> _SHIFT)
        assert payload is not None
        return payload

    def _take(self, place: int) -> Payload | None:
        if place < 0:
            return None
        return self._payloads.pop(_LAST - (self._keys.pop(place) & _LAST))


def tokenizer_batches(groups: Iterable[Iterable[Any]], size: int) -> Iterator[list[Any]]:
    """The documents of each row group in lists of `size`, the last of a group shorter."""
    for group in groups:
        documents = iter(group)
        while batch := list(islice(documents, size)):
            yield batch


class Packing:
    """Rows of `capacity` tokens (T+1) packed from documents; iterate once.

    groups: row groups of documents, each an array of ids without `<|bos|>`, which is put in front of every one.
    When the documents end, what is in the buffer is packed as well, and the last row, when it is not full, is dropped.
    Counts, final after the last row: documents, tokens_in (`<|bos|>` included), rows, cropped, left (of the dropped
    row); tokens_in = rows · capacity + cropped + left.
    """

    def __init__(
        self,
        groups: Iterable[Iterable[np.ndarray]],
        *,
        capacity: int,
        buffer_size: int,
        tokenizer_batch: int,
        bos: int,
        dtype: Any = np.int32,
    ):
        self.capacity, self._buffer_size, self._bos, self._dtype = capacity, buffer_size, bos, dtype
        self._batches = tokenizer_batches(groups, tokenizer_batch)
        self._buffer: Buffer[np.ndarray] = Buffer()
        self.documents = self.tokens_in = self.rows = self.cropped = self.left = 0

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            row = np.empty(self.capacity, dtype=self._dtype)
            filled = 0
            while filled < self.capacity:
                self._refill()
                if not self._buffer:
                    self.left = filled
                    return
                document = self._next(self.capacity - filled)
                row[filled] = self._bos
                row[filled + 1 : filled + 1 + len(document)] = document
                filled += 1 + len(document)
            self.rows += 1
            yield row

    def _refill(self) -> None:
        while len(self._buffer) < self._buffer_size and (batch := next(self._batches, None)) is not None:
            for document in batch:
                self._buffer.add(len(document) + 1, document)
                self.tokens_in += len(document) + 1
            self.documents += len(batch)

    def _next(self, room: int) -> np.ndarray:
        document = self._buffer.longest(room)
        if document is None:
            whole = self._buffer.shortest()
            document = whole[: room - 1]
            self.cropped += len(whole) - len(document)
        return document
