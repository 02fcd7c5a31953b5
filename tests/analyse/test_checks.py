"""Overhead, equivalence, data streams, environment, and what is missing."""

import json

import pandas as pd
import pytest

from xsa.analyse.checks import data_streams, environment, equivalence_rows, missing, not_taken, overhead_rows
from xsa.analyse.layers import attention_means, layer_rows, position_rows, training_rows
from xsa.store.errors import UserError
from xsa.store.files import sha256_file


def rewrite_record(folder, file):
    """Let the record speak of the file as it now is."""
    record = json.loads((folder / "record.json").read_text())
    record["files"][file] = {"sha256": sha256_file(folder / file), "bytes": (folder / file).stat().st_size}
    (folder / "record.json").write_text(json.dumps(record))


def test_a_timing_that_cells_share_is_listed_once(study):
    rows = overhead_rows(study.results, study.grid)
    assert len(rows) == 2 * 2 * 3
    assert [(row["mode"], row["phase"]) for row in rows[:3]] == [
        ("compiled", phase) for phase in ("step", "forward", "backward")
    ]
    assert {row["arm"] for row in rows} == {"XSA α = 1"}


def test_an_equivalence_check_that_cells_share_is_listed_once(study):
    rows = equivalence_rows(study.results, study.grid)
    assert [row["shape"] for row in rows] == ["d12", "d24"]
    assert all(row["bitwise"] for row in rows)


def test_equal_streams_are_told_from_unequal_ones(small):
    found = small(seeds=2)
    assert [stream["equal"] for stream in data_streams(found.results, found.grid)] == [True]
    other = small(seeds=2, shapes=2)
    folder = other.study.inputs["pretrain"][0]
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"data_stream_sha256": "1" * 64}))
    record = json.loads((folder / "record.json").read_text())
    record["files"]["config.json"]["sha256"] = sha256_file(folder / "config.json")
    (folder / "record.json").write_text(json.dumps(record))
    assert [stream["equal"] for stream in data_streams(other.results, other.grid)] == [False, True]


def test_the_environment_sums_seconds_by_stage_and_names_each_device_once(study):
    found = environment(study.results)
    assert found["devices"] == ["Fabricated GPU"]
    assert found["wall_seconds"]["pretrain"] == 12 * 1800
    assert found["packages"]["torch"] == ["2.13.0"]


def test_what_one_cell_lacks_is_missing_and_what_all_lack_was_not_taken(small):
    found = small(drop=("core/d12-alpha1-seed0", "chatcore", "finetune"))
    assert missing(found.grid) == [{"cell": "d12-alpha1-seed0", "shape": "d12", "stage": "core"}]
    assert not_taken(found.grid) == ["finetune", "chatcore"]


def test_a_whole_study_misses_nothing(study):
    assert missing(study.grid) == []
    assert not_taken(study.grid) == []


def test_layers_are_means_over_heads_with_their_range(study):
    rows = layer_rows(study.results, study.grid)
    assert len(rows) == (12 + 24) * 2 * 3 * 13
    assert all(row["lowest"] - 1e-12 <= row["mean"] <= row["highest"] + 1e-12 for row in rows)


def test_positions_are_means_over_layers_and_heads_with_the_range_of_layers(study):
    rows = position_rows(study.results, study.grid)
    assert len(rows) == 2 * 2 * 3 * 13 * 11
    assert {(row["first"], row["last"]) for row in rows} == {(2**power, 2 ** (power + 1) - 1) for power in range(11)}
    folder = next(path for path in study.study.inputs["attention"] if path.name.startswith("d24-alpha1-seed2"))
    frame = pd.read_parquet(folder / "attention.parquet")
    layers = frame[(frame["measure"] == "cos_y_v") & (frame["first"] == 4)].groupby("layer")["value"].mean()
    found = next(
        row
        for row in rows
        if (row["shape"], row["arm"], row["seed"], row["measure"], row["first"])
        == ("d24", "XSA α = 1", 2, "cos_y_v", 4)
    )
    expected = (layers.mean(), layers.min(), layers.max())
    assert (found["mean"], found["lowest"], found["highest"]) == pytest.approx(expected)


def test_diagnostics_of_an_earlier_form_are_read_without_positions(small):
    found = small()
    for folder in found.study.inputs["attention"]:
        frame = pd.read_parquet(folder / "attention.parquet")
        whole = frame[(frame["first"] == 1) & (frame["last"] == 2047)]
        whole[["layer", "head", "measure", "value"]].to_parquet(folder / "attention.parquet", index=False)
        rewrite_record(folder, "attention.parquet")
    assert len(layer_rows(found.results, found.grid)) == 12 * 2 * 13
    assert position_rows(found.results, found.grid) == []


def test_diagnostics_along_training_are_read_where_training_took_them(small):
    found = small()
    assert training_rows(found.results, found.grid) == []
    folder = found.study.inputs["pretrain"][0]
    lines = [(step, 10 * step, layer, "cos_y_v", 0.1 * layer + step, 0.0, 1.0) for step in (0, 5) for layer in (0, 1)]
    names = ["step", "tokens", "layer", "measure", "mean", "lowest", "highest"]
    pd.DataFrame(lines, columns=names).to_parquet(folder / "alignment.parquet")
    rewrite_record(folder, "alignment.parquet")
    rows = training_rows(found.results, found.grid)
    assert [(row["step"], row["tokens"], row["mean"]) for row in rows] == [(0, 0, 0.05), (5, 50, 5.05)]
    assert (rows[1]["lowest"], rows[1]["highest"]) == (5.0, 5.1)


def test_a_timing_of_an_earlier_form_is_read_without_null_and_bytes(small):
    found = small()
    folder = found.study.inputs["overhead"][0]
    timing = json.loads((folder / "overhead.json").read_text())
    old = {name: timing[name] for name in ("ratio", "device", "tokens_per_second")}
    for phases in old["ratio"].values():
        for phase in phases.values():
            del phase["baseline_seconds"]
    (folder / "overhead.json").write_text(json.dumps(old))
    rewrite_record(folder, "overhead.json")
    rows = overhead_rows(found.results, found.grid)
    assert len(rows) == 6
    assert {row[name] for row in rows for name in ("null_ratio", "added_seconds", "least_seconds", "bytes")} == {None}


def test_seconds_added_stand_beside_the_least_that_the_bytes_take(study):
    row = overhead_rows(study.results, study.grid)[0]
    assert row["least_seconds"] == pytest.approx(row["bytes"] / row["bytes_per_second"])
    assert 0 < row["added_seconds"] < 0.02
    assert row["null_lo"] < row["null_ratio"] < row["null_hi"]
    assert row["arm_peak_bytes"] - row["baseline_peak_bytes"] == 10**7


def test_means_over_layers_are_those_that_the_stage_wrote(study):
    rows = attention_means(layer_rows(study.results, study.grid))
    found = next(row for row in rows if (row["shape"], row["arm"], row["measure"]) == ("d24", "baseline", "cos_y_v"))
    written = [
        json.loads((folder / "attention.json").read_text())["means"]["cos_y_v"]
        for folder in study.study.inputs["attention"]
        if folder.name.startswith("d24-alpha0")
    ]
    assert found["mean"] == pytest.approx(sum(written) / 3)
    assert (found["lowest_seed"], found["highest_seed"]) == pytest.approx((min(written), max(written)))


def test_a_changed_file_is_refused(small):
    found = small()
    path = found.study.inputs["overhead"][0] / "overhead.json"
    path.write_text(path.read_text().replace("Fabricated", "Other"))
    with pytest.raises(UserError, match="has changed since it was made"):
        overhead_rows(found.results, found.grid)


def test_a_result_that_was_not_handed_over_is_named(small):
    found = small()
    found.results._folders.clear()
    with pytest.raises(UserError, match=r"overhead/d12-alpha1@.* was not handed to the analysis"):
        overhead_rows(found.results, found.grid)
