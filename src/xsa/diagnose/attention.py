"""The stage `attention`: self-alignment of every layer and head of a checkpoint, and where its heads look, by position."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import torch

from xsa.model.alignment import MEASURES, Value, measure
from xsa.store.errors import UserError
from xsa.store.files import write_json
from xsa.store.job import Job
from xsa.study.stages import AttentionStage
from xsa.train.checkpoint import load_for_evaluation
from xsa.train.loop import use_threads
from xsa.train.stream import RowStream


def attention(job: Job) -> dict[str, Any]:
    """Read the first `rows` validation rows with the checkpoint; write attention.parquet and attention.json.

    A line of the table is the mean of a measure over positions `first` … `last`; those over all positions from 1 on come
    with those over ranges of them. The JSON holds the means of the former over layers and heads.

    UserError where there are fewer rows than that, or the model's output is not finite.
    """
    settings: AttentionStage = job.settings
    use_threads(job)
    model, _, config = load_for_evaluation(job)
    path = job.file("validation", "rows.arrow")
    rows = RowStream([path], config.model.sequence_len, config.model.vocab_size)
    if len(rows) < settings.rows:
        raise UserError(
            f"attention.rows = {settings.rows}, but {path} holds {len(rows)} rows; set attention.rows to {len(rows)} or less"
        )
    tokens_RT = torch.from_numpy(rows.take(0, settings.rows)[:, :-1])
    values = measure(model, tokens_RT, lambda done, total: job.progress.step(done, total, unit="row"))
    frame = pd.DataFrame(values, columns=Value._fields)
    broken = frame[~frame["value"].map(math.isfinite)]
    if len(broken):
        first = broken.iloc[0]
        raise UserError(
            f"{first['measure']} of layer {first['layer']}, head {first['head']} is not finite; the checkpoint "
            f"{job.input('checkpoint')} holds no usable weights. Look at its log"
        )
    frame.to_parquet(job.out / "attention.parquet", index=False)
    whole = frame[(frame["first"] == 1) & (frame["last"] == tokens_RT.size(1) - 1)]
    means = {name: float(whole.loc[whole["measure"] == name, "value"].mean()) for name in MEASURES}
    write_json(
        job.out / "attention.json",
        {"rows": settings.rows, "tokens": settings.rows * (tokens_RT.size(1) - 1), "means": means},
    )
    return {"rows": settings.rows}
