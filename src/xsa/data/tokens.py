"""Stage `tokens`: one shard's documents as token ids, Arrow IPC, `tokens: list<uint16 or uint32>`, without `<|bos|>`.

One record batch a row group of the shard; a row group of more than 1024 documents in several batches that carry the
number of their row group, so that memory stays bounded and packing still sees the shard's row groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xsa.data.parquet import documents, open_shard, shard_file
from xsa.data.tokenizer import Tokenizer
from xsa.store.errors import UserError
from xsa.store.job import Job


def tokens(job: Job) -> dict[str, Any]:
    """Stage `tokens`: encode every document of the shard; write tokens.arrow. Notes: documents, tokens, bytes."""
    tokenizer = Tokenizer.load(job.file("tokenizer", "tokenizer.json"))
    shard = shard_file(job.input("shard"))
    with open_shard(shard) as opened:
        total = opened.metadata.num_rows
    counts = {"documents": 0, "tokens": 0, "bytes": 0}
    kind = pa.list_(pa.from_numpy_dtype(tokenizer.dtype))
    schema = pa.schema([pa.field("tokens", kind, nullable=False)])
    with pa.OSFile(str(job.out / "tokens.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for group, texts in documents(shard):
            column = _column(tokenizer.encode_batch(texts, job.run.threads), tokenizer.dtype)
            batch = pa.record_batch([column.cast(kind)], schema=schema)
            writer.write_batch(batch, custom_metadata={"row_group": str(group)})
            counts["documents"] += len(texts)
            counts["tokens"] += len(column.values)
            counts["bytes"] += sum(len(text.encode()) for text in texts)
            job.progress.step(counts["documents"], total, unit="document", tokens=counts["tokens"])
    return counts


def _column(ids: list[list[int]], dtype: np.dtype) -> pa.ListArray:
    offsets = np.zeros(len(ids) + 1, dtype=np.int32)
    np.cumsum([len(document) for document in ids], out=offsets[1:])
    values = np.fromiter(chain.from_iterable(ids), dtype=dtype, count=offsets[-1])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def row_groups(path: Path) -> Iterator[Iterator[np.ndarray]]:
    """The documents of a tokens.arrow by row group, in order; each is an array of ids that views the mapped file.

    A row group must be read to its end before the next is asked for. Raises UserError for a file that is not whole.
    """
    batches = _batches(path)
    waiting = next(batches, None)
    while waiting is not None:
        group = waiting[0]

        def rest(group: int = group) -> Iterator[np.ndarray]:
            nonlocal waiting
            while waiting is not None and waiting[0] == group:
                yield from _documents(waiting[1])
                waiting = next(batches, None)

        yield rest()


def count_documents(path: Path) -> int:
    """How many documents a tokens.arrow has."""
    return sum(batch.num_rows for _, batch in _batches(path))


def _batches(path: Path) -> Iterator[tuple[int, pa.RecordBatch]]:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        for number in range(reader.num_record_batches):
            batch = reader.get_batch_with_custom_metadata(number)
            yield int(batch.custom_metadata["row_group"]), batch.batch
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path} is no whole Arrow file ({error}); delete its folder to make it again") from None


def _documents(batch: pa.RecordBatch) -> Iterator[np.ndarray]:
    column = batch.column(0)
    offsets = column.offsets.to_pylist()
    values = column.values.to_numpy()
    for start, stop in pairwise(offsets):
        yield values[start:stop]
