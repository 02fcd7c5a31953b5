"""Stage `rows`: one shard's documents packed into rows of T+1 tokens; and `Rows`, which reads rows of many shards.

`rows.arrow` is an Arrow IPC file, `row: fixed_size_list<uint16 or uint32>[T+1]`, in batches of one size, so that any row
is found in the mapped file without reading another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xsa.data.packing import Packing
from xsa.data.tokenizer import Tokenizer
from xsa.data.tokens import count_documents, row_groups
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job

BATCH_BYTES = 1 << 22
# Files mapped at a time; a long training reads hundreds, one after the other.
_OPEN = 16


def rows(job: Job) -> dict[str, Any]:
    """Stage `rows`: pack one shard to its end, without starting over; write rows.arrow and rows.json (the counts).

    Raises UserError when the shard gives no whole row.
    """
    settings = job.settings
    tokenizer = Tokenizer.load(job.file("tokenizer", "tokenizer.json"))
    source = job.file("tokens", "tokens.arrow")
    packing = Packing(
        row_groups(source),
        capacity=settings.sequence_len + 1,
        buffer_size=settings.buffer_size,
        tokenizer_batch=settings.tokenizer_batch,
        bos=tokenizer.bos,
        dtype=tokenizer.dtype,
    )
    total = count_documents(source)
    for _ in write_rows(job.out / "rows.arrow", packing, packing.capacity, tokenizer.dtype):
        job.progress.step(packing.documents, total, unit="document", rows=packing.rows)
    if not packing.rows:
        raise UserError(
            f"{source} has {packing.tokens_in:,} tokens in {packing.documents:,} documents, and one row takes "
            f"{packing.capacity:,}. Lower model.sequence_len below {packing.tokens_in:,}, or bring larger shards"
        )
    counts = {
        "rows": packing.rows,
        "documents": packing.documents,
        "tokens_in": packing.tokens_in,
        "tokens_kept": packing.rows * packing.capacity,
        "cropped": packing.cropped,
        "left": packing.left,
    }
    write_json(job.out / "rows.json", counts)
    return counts


def write_rows(path: Path, packed: Iterator[np.ndarray] | Packing, capacity: int, dtype: np.dtype) -> Iterator[int]:
    """Write rows of `capacity` tokens to an Arrow file; yields the number of rows after each batch."""
    size = max(1, BATCH_BYTES // (capacity * dtype.itemsize))
    kind = pa.list_(pa.field("token", pa.from_numpy_dtype(dtype), nullable=False), capacity)
    schema = pa.schema([pa.field("row", kind, nullable=False)], metadata={"rows_per_batch": str(size)})
    packed, written = iter(packed), 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        while batch := list(islice(packed, size)):
            values = pa.array(np.concatenate(batch))
            writer.write_batch(pa.record_batch([pa.FixedSizeListArray.from_arrays(values, type=kind)], schema=schema))
            written += len(batch)
            yield written


class Rows(Sequence):
    """The rows of several rows.arrow files as one sequence, in the order of `paths`; memory does not grow with them.

    sequence_len: T; each row has T+1 tokens. Raises UserError for a file that is not whole or of another T or type.
    """

    def __init__(self, paths: Sequence[Path]):
        self.paths = [Path(path) for path in paths]
        self._open = lru_cache(maxsize=_OPEN)(_Shard)
        self._starts = [0]
        first = None
        for path in self.paths:
            shard = self._open(path)
            first = first or shard
            if (shard.capacity, shard.dtype) != (first.capacity, first.dtype):
                raise UserError(
                    f"{path} has rows of {shard.capacity} {shard.dtype}, {first.path} of {first.capacity} {first.dtype}; "
                    "rows of one training must come from the same settings"
                )
            self._starts.append(self._starts[-1] + shard.rows)
        if first is None:
            raise UserError("no rows.arrow was given; at least one is needed")
        self.sequence_len, self.dtype = first.capacity - 1, first.dtype

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> np.ndarray:
        """Row `index`, [T+1]; views the mapped file and cannot be written."""
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return next(self._pieces(index, index + 1))[0]

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Rows start … stop−1 as a new array [stop−start, T+1], across files."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"rows {start} to {stop} of {len(self)}")
        out, done = np.empty((stop - start, self.sequence_len + 1), dtype=self.dtype), 0
        for piece in self._pieces(start, stop):
            out[done : done + len(piece)] = piece
            done += len(piece)
        return out

    def _pieces(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """Views [n, T+1] that together are rows start … stop−1."""
        shard_number = int(np.searchsorted(self._starts, start, side="right")) - 1
        while start < stop:
            shard, begin = self._open(self.paths[shard_number]), self._starts[shard_number]
            end = min(stop, self._starts[shard_number + 1])
            while start < end:
                batch, offset = divmod(start - begin, shard.rows_per_batch)
                piece = shard.batch(batch)[offset : offset + end - start]
                yield piece
                start += len(piece)
            shard_number += 1


class _Shard:
    """One mapped rows.arrow."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            schema = self._reader.schema
            self.rows_per_batch = int(schema.metadata[b"rows_per_batch"])
            self.capacity = schema.field("row").type.list_size
            self.dtype = np.dtype(schema.field("row").type.value_type.to_pandas_dtype())
            last = self._reader.num_record_batches - 1
            self.rows = last * self.rows_per_batch + self._reader.get_batch(last).num_rows if last >= 0 else 0
        except FileNotFoundError:
            raise UserError(f"{path} does not exist; run the stage rows") from None
        except (OSError, pa.ArrowException, KeyError, TypeError) as error:
            raise UserError(f"{path} is no whole rows.arrow ({error}); delete its folder to make it again") from None

    def batch(self, number: int) -> np.ndarray:
        """[n, T+1], a view."""
        values = self._reader.get_batch(number).column(0).values
        return values.to_numpy(zero_copy_only=True).reshape(-1, self.capacity)
