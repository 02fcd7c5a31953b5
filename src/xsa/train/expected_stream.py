"""The hash of the training rows that a cell would read, before it has read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from xsa.store.adopt import ADOPTED
from xsa.store.job import checked_file
from xsa.store.record import RECORD, read_record
from xsa.study.plan import Plan
from xsa.study.result import Result
from xsa.train.checkpoint import CONFIG
from xsa.train.pretrain import check_enough
from xsa.train.stream import STREAM_START, PretrainBatches, RowStream, chain


def expected_stream(
    plan: Plan, result: Result, results: Path, say: Callable[[str], None] = lambda sentence: None
) -> str | None:
    """`data_stream_sha256` of the pretrain result `result`: that of a finished cell that reads the same, else from its rows.

    None where neither is there. UserError where the rows are too few for the horizon.
    """
    for (stage, _), other in plan.results.items():
        folder = other.folder(results)
        if stage == "pretrain" and _reads_the_same(result, other) and (folder / RECORD).exists():
            record = read_record(folder)
            if ADOPTED not in record and (folder / CONFIG).exists():
                return json.loads(checked_file(folder, CONFIG).read_text(encoding="utf-8"))["data_stream_sha256"]
    folders = [one.folder(results) for one in result.inputs["rows"]]
    if not all((folder / RECORD).exists() for folder in folders):
        return None
    settings = result.settings
    paths = [checked_file(folder, "rows.arrow") for folder in folders]
    rows = RowStream(paths, settings.model.sequence_len, settings.model.vocab_size)
    check_enough(rows, settings)
    say(f"reading {settings.steps * settings.batch_rows:,} rows to compare what the cell would read")
    batches, stream = PretrainBatches(rows, settings.batch_rows), STREAM_START
    for step in range(settings.steps):
        stream = chain(stream, batches.read(step).content)
    return stream


def _reads_the_same(result: Result, other: Result) -> bool:
    ours, theirs = (
        (one.recipe["inputs"]["rows"], one.settings.steps, one.settings.batch_rows) for one in (result, other)
    )
    return ours == theirs
