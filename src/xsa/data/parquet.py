"""Shards as they come from outside: parquet files with one string column `text`, checked where they enter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from xsa.store.errors import UserError
from xsa.store.job import checked_file

# Documents in memory at a time; the row groups of published shards have as many.
PIECE = 1024


def open_shard(path: Path) -> pq.ParquetFile:
    """Open a shard; UserError when it is missing, not whole, or has no string column `text`."""
    try:
        shard = pq.ParquetFile(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path} is no whole parquet file ({_first_line(error)}); it may be cut off. Copy or download it again"
        ) from None
    schema = shard.schema_arrow
    if "text" not in schema.names:
        raise UserError(
            f"{path} has no column `text`; its columns are {', '.join(schema.names) or 'none'}. "
            "Rename the column that holds the documents to `text`"
        )
    kind = schema.field("text").type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise UserError(f"{path} has a column `text` of type {kind}; it must hold strings. Write it as strings")
    return shard


def documents(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(row group, documents) in order, at most 1024 documents at a time; a large row group comes in several pieces.

    Raises UserError as `open_shard`, and for a null or unreadable document, with file, row group and row.
    """
    with open_shard(path) as shard:
        for group in range(shard.num_row_groups):
            row = 0
            try:
                for batch in shard.iter_batches(batch_size=PIECE, row_groups=[group], columns=["text"]):
                    column = batch.column(0)
                    if column.null_count:
                        null = row + column.is_null().index(True).as_py()
                        raise UserError(
                            f"{path}, row group {group}, row {null} of it (counted from 0): `text` is null. "
                            "Take such rows out, or put an empty string there"
                        )
                    column.validate(full=True)
                    yield group, column.to_pylist()
                    row += len(column)
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise UserError(
                    f"{path}, row group {group}, after its row {row}: cannot be read ({_first_line(error)}). "
                    "The file is damaged; copy or download it again"
                ) from None


def check_shard(path: Path) -> dict[str, int]:
    """Read a shard through and count: documents, row_groups, characters. Raises UserError as `documents`, and when empty."""
    counts = {"documents": 0, "row_groups": 0, "characters": 0}
    for group, texts in documents(path):
        counts["documents"] += len(texts)
        counts["row_groups"] = group + 1
        counts["characters"] += sum(map(len, texts))
    if not counts["documents"]:
        raise UserError(f"{path} has no documents; bring a shard with at least one row")
    return counts


def shard_file(folder: Path) -> Path:
    """The one parquet file of a result of the stage `shard`, its hash checked against the record."""
    found = sorted(path.name for path in folder.glob("*.parquet"))
    if len(found) != 1:
        raise UserError(f"{folder} must hold one parquet file, it has {len(found)}; delete it to make it again")
    return checked_file(folder, found[0])


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
