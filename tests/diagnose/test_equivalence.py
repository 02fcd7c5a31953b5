"""The stage `equivalence`: alpha 0 is standard attention, and a path that is not would be seen."""

import json

import numpy as np
import pandas as pd
import pytest

from xsa.diagnose.equivalence import compare_once
from xsa.store.errors import UserError
from xsa.study.stages import EquivalenceStage, OptimStage, ScheduleStage
from xsa.train.stream import Batch


def settings(model, **changes) -> EquivalenceStage:
    optim = {"matrix": "muon", "version": "may2026", "matrix_lr": 0.02, "embedding_lr": 0.3}
    return EquivalenceStage(
        **{
            "model": model,
            "seed": 0,
            "steps": 5,
            "batch_rows": 2,
            "optim": OptimStage(**optim, unembedding_lr=0.008, scalar_lr=0.5, weight_decay=0.1),
            "schedule": ScheduleStage(warmup_steps=2, warmdown_ratio=0.5, final_lr_frac=0.1),
            "device": "cpu",
            "dtype": "float32",
            "compile": False,
        }
        | changes
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_projection_at_alpha_zero_is_bitwise_the_baseline_through_training(run_stage, config, rows, dtype):
    folder = run_stage("equivalence", settings(config(), dtype=dtype), rows=[rows(20)])
    found = json.loads((folder / "equivalence.json").read_text())
    steps = pd.read_parquet(folder / "steps.parquet")
    assert found["bitwise"] is True
    assert [found[name] for name in ("forward_max_abs", "loss_abs", "gradient_max_rel", "loss_max_abs")] == [0] * 4
    assert (found["loss_final_abs"], found["parameters_max_rel"]) == (0, 0)
    assert (found["steps"], found["dtype"], found["device"]) == (5, dtype, "cpu")
    assert list(steps["step"]) == [1, 2, 3, 4, 5]
    assert list(steps["baseline"]) == list(steps["explicit"])
    assert steps["baseline"].iloc[0] == pytest.approx(np.log(97), abs=0.1)


def test_few_rows_are_read_again(run_stage, config, rows):
    folder = run_stage("equivalence", settings(config()), rows=[rows(3)])
    assert len(pd.read_parquet(folder / "steps.parquet")) == 5


def test_rows_that_make_no_batch_are_refused(run_stage, config, rows):
    with pytest.raises(
        UserError, match=r"holds 1 rows, a step of equivalence takes 2; set equivalence\.batch_rows to 1"
    ):
        run_stage("equivalence", settings(config()), rows=[rows(1)])


def test_a_path_that_removes_something_is_seen(config, random_model):
    ids = np.random.default_rng(0).integers(0, 97, size=(2, 33))
    batch = Batch(ids[:, :-1], ids[:, 1:], b"")
    found = compare_once(random_model(config()), random_model(config(alpha=0.001)), batch)
    assert found["bitwise"] is False
    assert found["forward_max_abs"] > 0
    assert found["gradient_max_rel"] > 1e-5
