"""The stage `attention`: its files, and what it refuses."""

import json

import pandas as pd
import pytest
import torch

from xsa.store.errors import UserError
from xsa.study.stages import AttentionStage


def test_the_stage_writes_every_head_and_the_means_over_them(run_stage, config, random_model, checkpoint, rows):
    model = random_model(config(alpha=1.0))
    folder = run_stage(
        "attention", AttentionStage(rows=3, dtype="float32"), checkpoint=checkpoint(model), validation=rows(5)
    )
    frame = pd.read_parquet(folder / "attention.parquet")
    summary = json.loads((folder / "attention.json").read_text())
    assert list(frame.columns) == ["layer", "head", "measure", "value", "first", "last"]
    assert frame["layer"].dtype == frame["head"].dtype == "int64"
    assert (summary["rows"], summary["tokens"]) == (3, 3 * 31)
    whole = frame[(frame["first"] == 1) & (frame["last"] == 31)]
    assert set(whole["measure"]) == set(summary["means"]) == set(frame["measure"])
    for measure, mean in summary["means"].items():
        assert mean == pytest.approx(whole.loc[whole["measure"] == measure, "value"].mean())


def test_more_rows_than_there_are_is_refused_in_a_sentence(run_stage, config, random_model, checkpoint, rows):
    inputs = {"checkpoint": checkpoint(random_model(config())), "validation": rows(2)}
    with pytest.raises(UserError, match=r"attention\.rows = 3, but .* holds 2 rows; set attention.rows to 2"):
        run_stage("attention", AttentionStage(rows=3, dtype="float32"), **inputs)


def test_weights_that_are_not_finite_are_refused(run_stage, config, random_model, checkpoint, rows):
    model = random_model(config())
    with torch.no_grad():
        model.transformer.h[1].attn.c_v.weight[0, 0] = float("nan")
    with pytest.raises(UserError, match="layer 1, head 0 is not finite"):
        run_stage(
            "attention", AttentionStage(rows=1, dtype="float32"), checkpoint=checkpoint(model), validation=rows(1)
        )
