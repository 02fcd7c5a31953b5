"""Changes against the baseline: what they are, which intervals they get, and what is not to be had."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from tests.analyse.conftest import opened
from tests.analyse.fabricate import EFFECT
from xsa.analyse.compare import metric_rows, task_rows
from xsa.analyse.statistics import INSIDE, OUTSIDE, ROUNDING, UNKNOWN
from xsa.store.files import sha256_file


def by_metric(found, shape):
    return {row["metric"]: row for row in metric_rows(found.results, found.grid) if row["shape"] == shape}


def rewrite(folder, file, change):
    """Change a parquet file of a result and its record."""
    frame = change(pd.read_parquet(folder / file))
    frame.to_parquet(folder / file)
    record = json.loads((folder / "record.json").read_text())
    record["files"][file]["sha256"] = sha256_file(folder / file)
    (folder / "record.json").write_text(json.dumps(record))


def test_every_metric_of_every_shape_is_compared(study):
    rows = metric_rows(study.results, study.grid)
    assert len(rows) == 2 * 8
    assert {row["n_seeds"] for row in rows} == {3}


def test_the_change_is_the_mean_of_paired_differences(study):
    folders = {folder.name.split("@")[0]: folder for folder in study.study.inputs["bpb"]}
    bpb = {name: json.loads((folder / "bpb.json").read_text())["bpb"] for name, folder in folders.items()}
    differences = [bpb[f"d12-alpha1-seed{seed}"] - bpb[f"d12-alpha0-seed{seed}"] for seed in range(3)]
    row = by_metric(study, "d12")["bpb"]
    assert row["delta"] == pytest.approx(np.mean(differences))
    half = 4.302653 * np.std(differences, ddof=1) / math.sqrt(3)  # t(2; 0.975)
    assert (row["seed_lo"], row["seed_hi"]) == pytest.approx((np.mean(differences) - half, np.mean(differences) + half))
    assert row["relative_percent"] == pytest.approx(100 * row["delta"] / row["baseline_mean"])


def test_the_made_up_effect_on_bpb_is_found_and_that_on_core_is_not_invented(study):
    expected = EFFECT["loss"] * 0.92 * 2048 / math.log(2) / 9800  # tokens and mean bytes of a row
    for shape in study.grid.shapes:
        rows = by_metric(study, shape)
        assert rows["bpb"]["delta"] == pytest.approx(expected, abs=0.0008)
        assert rows["bpb"]["item_lo"] < rows["bpb"]["delta"] < rows["bpb"]["item_hi"] < 0
        assert rows["core"]["verdict"] == rows["chatcore"]["verdict"] == INSIDE
    assert by_metric(study, "d12")["bpb"]["verdict"] == OUTSIDE


def test_the_interval_over_items_is_around_the_change_in_the_centred_mean(study):
    for row in by_metric(study, "d24").values():
        if row["metric"] in ("core", "chatcore"):
            assert row["item_lo"] < row["delta"] < row["item_hi"]
    assert by_metric(study, "d24")["core"]["n_items"] == 660


def test_task_changes_add_up_to_the_change_in_core(study):
    rows = [row for row in task_rows(study.results, study.grid) if row["suite"] == "core" and row["shape"] == "d12"]
    centred = np.mean([row["delta"] / (1 - row["chance"]) for row in rows])
    assert centred == pytest.approx(by_metric(study, "d12")["core"]["delta"])


def test_the_source_of_a_number_says_what_it_was_measured_on(study):
    rows = by_metric(study, "d12")
    assert rows["bpb"]["source"].endswith("validation rows 0..255")
    assert rows["core"]["source"].endswith("all items, chance by table bundle")


def test_one_seed_has_no_interval_over_seeds_and_says_that_it_cannot_tell(small):
    found = small()
    rows = by_metric(found, "d12")
    assert all(row["seed_lo"] is None and row["seed_sd"] is None for row in rows.values())
    assert rows["bpb"]["item_lo"] is not None
    assert rows["bpb"]["verdict"] == rows["train_loss"]["verdict"] == UNKNOWN
    assert rows["core"]["verdict"] == INSIDE


def test_other_validation_rows_leave_no_interval_and_say_why(small):
    found = small()
    rewrite(found.study.inputs["bpb"][0], "rows.parquet", lambda rows: rows.iloc[1:])
    row = by_metric(found, "d12")["bpb"]
    assert row["item_lo"] is None
    assert row["item_note"] == "the two arms were not measured on the same validation rows"


def test_items_are_paired_by_task_and_number_whatever_their_order(tmp_path):
    ordered = opened(tmp_path / "a", shapes=1, seeds=1)
    shuffled = opened(tmp_path / "b", shapes=1, seeds=1)
    rewrite(shuffled.study.inputs["core"][1], "items.parquet", lambda items: items.sample(frac=1, random_state=0))
    for one, other in zip(*(metric_rows(found.results, found.grid) for found in (ordered, shuffled)), strict=True):
        assert one == other


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda items: items.iloc[:-1], "did not answer the same items"),
        (lambda items: items.assign(gold=items["gold"] + 1), "have different right answers"),
    ],
)
def test_other_items_leave_no_interval_and_say_why(small, change, why):
    found = small()
    rewrite(found.study.inputs["core"][1], "items.parquet", change)
    row = by_metric(found, "d12")["core"]
    assert (row["item_lo"], row["n_items"]) == (None, None)
    assert why in row["item_note"]
    assert row["verdict"] == UNKNOWN


def test_a_seed_that_lacks_a_measurement_is_left_out_of_it_alone(small):
    found = small(seeds=3, drop=("core/d12-alpha1-seed1",))
    rows = by_metric(found, "d12")
    assert (rows["core"]["seeds"], rows["bpb"]["seeds"]) == ([0, 2], [0, 1, 2])


def test_a_measurement_that_no_cell_has_is_in_no_row(small):
    found = small(drop=("core", "chatcore", "attention"))
    assert set(by_metric(found, "d12")) == {"bpb", "last_bpb", "train_loss"}
    assert task_rows(found.results, found.grid) == []


def test_a_centred_score_near_zero_has_no_percentage():
    from xsa.analyse.compare import _relative
    from xsa.analyse.metrics import METRICS

    core = next(metric for metric in METRICS if metric.id == "core")
    bpb = next(metric for metric in METRICS if metric.id == "bpb")
    assert _relative(core, 0.004, 0.0093) is None and _relative(core, 0.004, -0.2) is None
    assert _relative(core, -0.0094, 0.1602) == pytest.approx(-5.87, abs=0.01)
    assert _relative(bpb, -0.0027, 0.8484) == pytest.approx(-0.32, abs=0.01)


def test_a_change_at_float_rounding_is_called_that_and_equal_accuracies_of_other_items_are_not(small):
    found = small(seeds=2)
    folders = {folder.name.split("@")[0]: folder for folder in found.study.inputs["bpb"]}
    for seed in (0, 1):
        source, target = (folders[f"d12-alpha{alpha}-seed{seed}"] for alpha in (0, 1))
        for file in ("bpb.json", "rows.parquet"):
            (target / file).write_bytes((source / file).read_bytes())
        values = json.loads((target / "bpb.json").read_text())
        (target / "bpb.json").write_text(json.dumps(values | {"bpb": values["bpb"] + 1.6e-8 * (1 + seed)}))
        record = json.loads((target / "record.json").read_text())
        for file in record["files"]:
            record["files"][file]["sha256"] = sha256_file(target / file)
        (target / "record.json").write_text(json.dumps(record))
    rows = by_metric(found, "d12")
    assert rows["bpb"]["verdict"] == ROUNDING and rows["bpb"]["delta"] == pytest.approx(2.4e-8)
    assert rows["bpb"]["seed_deltas"] == pytest.approx([1.6e-8, 3.2e-8], rel=1e-6)
    assert rows["train_loss"]["verdict"] != ROUNDING and rows["core"]["verdict"] != ROUNDING


def test_the_noise_of_a_change_is_told_by_the_paired_differences(study):
    row = by_metric(study, "d12")["bpb"]
    assert row["difference_sd"] == pytest.approx(np.std(row["seed_deltas"], ddof=1))


def test_seeds_and_items_noise_stand_apart_and_together(study):
    for shape in study.grid.shapes:
        rows = by_metric(study, shape)
        for name in ("bpb", "core", "chatcore"):
            row = rows[name]
            assert row["seed_se"] == pytest.approx(row["difference_sd"] / math.sqrt(3))
            assert row["total_se"] >= row["seed_se"] * (1 - 1e-9)
            assert row["total_se"] ** 2 <= row["seed_se"] ** 2 + row["item_se"] ** 2
            assert row["total_lo"] < row["delta"] < row["total_hi"]
        assert rows["train_loss"]["item_se"] is rows["train_loss"]["total_lo"] is None
        # the bootstrap of blocks and the formula of its variance see one noise: a 95 % interval is about 3.92 errors wide
        assert (rows["bpb"]["item_hi"] - rows["bpb"]["item_lo"]) / rows["bpb"]["item_se"] == pytest.approx(4, abs=0.4)


def test_rows_say_what_their_seeds_can_show(study):
    row = by_metric(study, "d12")["bpb"]
    assert 2 <= row["seeds_needed"] <= 5
    assert 0 < row["smallest_seen"] < 30 * row["difference_sd"]
    assert row["bootstrap_lo"] is None  # three seeds are too few to resample


def test_a_task_is_tested_by_its_discordant_answers_and_corrected_for_its_suite(study):
    rows = [row for row in task_rows(study.results, study.grid) if row["suite"] == "core" and row["shape"] == "d12"]
    for row in rows:
        assert row["arm_only"] - row["baseline_only"] == round(row["delta"] * row["items"] * 3)
        assert row["mcnemar_p"] <= row["holm_p"] <= min(1, len(rows) * row["mcnemar_p"]) + 1e-12
        assert row["holm_p"] < 0.05 or row["verdict"] == INSIDE
    assert min(row["holm_p"] for row in rows) == pytest.approx(
        min(1, len(rows) * min(row["mcnemar_p"] for row in rows))
    )


def test_one_seed_that_differs_beyond_chance_on_a_task_cannot_tell(small):
    found = small()
    rewrite(found.study.inputs["core"][1], "items.parquet", lambda items: items.assign(correct=True))
    rows = [row for row in task_rows(found.results, found.grid) if row["suite"] == "core"]
    assert {row["verdict"] for row in rows} == {UNKNOWN}
    assert all(row["holm_p"] < 1e-4 and row["baseline_only"] == 0 for row in rows)
