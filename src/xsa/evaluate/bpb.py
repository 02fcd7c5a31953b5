"""Stage `bpb`: bits per byte on the first validation rows, row by row.

Bits per byte compares models of different vocabularies, for text has as many bytes whatever its tokens are. Lengths are
those of the tokens' raw bytes; special tokens have none, and their losses do not count.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xsa.model.nanochat import NanoChat
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.train.checkpoint import load_for_evaluation
from xsa.train.distributed import Ranks, ranks
from xsa.train.stream import RowStream
from xsa.train.validate import row_losses

LOGITS = {"cpu": 2**26, "cuda": 2**28}  # logits of one forward pass, in float32 beside as much again for the loss
READ_ROWS = 64  # rows between two looks at the progress


def bpb(job: Job) -> dict:
    """Measure the checkpoint on the first `rows` validation rows; writes bpb.json and rows.parquet.

    The rows are shared out over the processes there are; their number, like the micro-batch, changes rounding alone.
    UserError where there are fewer rows than asked for, or no target among them carries a byte.
    """
    with ranks(job.device) as group:
        model, tokenizer, config = load_for_evaluation(job)
        path = job.file("validation", "rows.arrow")
        rows = RowStream([path], config.model.sequence_len, config.model.vocab_size)
        wanted = job.settings.rows
        if len(rows) < wanted:
            raise UserError(
                f"bpb.rows = {wanted}, but {path} holds {len(rows)} rows; set bpb.rows to {len(rows)} or less"
            )
        per_row = config.model.sequence_len * config.model.vocab_size
        micro_batch = job.run.micro_batch or max(1, LOGITS[group.device.type] // per_row)
        nats_R, bytes_R, counts_V = _measure(job, model, rows, tokenizer.token_bytes, micro_batch, group)
        if group.first:
            _write(job, path, nats_R, bytes_R, counts_V)
    return {"device": job.device, "processes": group.world, "micro_batch": micro_batch}


def _measure(
    job: Job, model: NanoChat, rows: RowStream, token_bytes_V: np.ndarray, micro_batch: int, group: Ranks
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nats and bytes of each row, and how often each token is a target that counts."""
    wanted = job.settings.rows
    counts_V = np.zeros(len(token_bytes_V), dtype=np.int64)
    nats, n_bytes = [], []
    for start in range(0, wanted, READ_ROWS):
        ids = rows.take(start, min(start + READ_ROWS, wanted))
        losses = row_losses(model, ids[:, :-1], ids[:, 1:], token_bytes_V, micro_batch, group)
        nats.append(losses.nats_R)
        n_bytes.append(losses.bytes_R)
        counts_V += target_counts(ids[:, 1:], token_bytes_V)
        so_far = bits_per_byte(np.concatenate(nats), np.concatenate(n_bytes))
        job.progress.step(start + len(ids), wanted, unit="row", bpb=so_far)
    return np.concatenate(nats), np.concatenate(n_bytes), counts_V


def _write(job: Job, path: Path, nats_R: np.ndarray, bytes_R: np.ndarray, counts_V: np.ndarray) -> None:
    """Write the result. UserError where nothing was measured."""
    wanted = job.settings.rows
    if not bytes_R.sum():
        raise UserError(
            f"no token in the first {wanted} rows of {path} stands for text, so nothing can be measured; check the data"
        )
    if not np.isfinite(nats_R).all():
        row = int(np.argmin(np.isfinite(nats_R)))
        raise UserError(
            f"the model's loss on row {row} of {path} is not finite; the checkpoint holds no usable weights. Look at its "
            "training log"
        )
    result = {
        "bpb": bits_per_byte(nats_R, bytes_R),
        "nats": math.fsum(nats_R),
        "bytes": int(bytes_R.sum()),
        "rows": wanted,
        "tokens": int(counts_V.sum()),
        "unigram_bpb": unigram_nats(counts_V) / (math.log(2) * int(bytes_R.sum())),
        "source": f"validation rows 0..{wanted - 1}",
    }
    write_json(job.out / "bpb.json", result)
    table = pa.table({"row": np.arange(wanted, dtype=np.int64), "nats": nats_R, "bytes": bytes_R})
    pq.write_table(table, job.out / "rows.parquet")


def bits_per_byte(nats: np.ndarray, n_bytes: np.ndarray) -> float:
    """Σ nats / (ln 2 · Σ bytes); infinite where there are no bytes."""
    total = int(np.sum(n_bytes))
    return math.fsum(np.ravel(nats)) / (math.log(2) * total) if total else math.inf


def target_counts(targets: np.ndarray, token_bytes_V: np.ndarray) -> np.ndarray:
    """How often each token is a target that counts: neither -1 nor without bytes."""
    counted = targets[targets >= 0]
    return np.bincount(counted[token_bytes_V[counted] > 0], minlength=len(token_bytes_V))


def unigram_nats(counts_V: np.ndarray) -> float:
    """Nats that the counted tokens cost a coder that knows how often each occurs, and nothing else."""
    counts = counts_V[counts_V > 0].astype(np.float64)
    return float(-(counts * np.log(counts / counts.sum())).sum())
