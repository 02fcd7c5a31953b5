"""The stage `analyse` as a whole, on fabricated results."""

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from tests.analyse.fabricate import HOSTILE, fabricate
from xsa.analyse.analyse import analyse

FIGURES = [
    "differences",
    "loss",
    "loss_difference",
    "validation_bpb",
    "validation_difference",
    "alignment",
    "diagonal",
    "alignment_positions",
    "looks",
    "looks_positions",
    "core_tasks",
    "chatcore_tasks",
    "overhead",
    "conventions",
]
TABLES = ["cells", "metrics", "tasks", "alignment", "overhead", "equivalence", "curves", "savings", "conventions"]


def run(root, **kwargs):
    job = fabricate(root / "results", **kwargs).job(root / "out")
    analyse(job)
    return job.out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"))


def test_every_table_and_figure_is_written_with_its_data(whole):
    for name in TABLES:
        assert (whole / "tables" / f"{name}.csv").stat().st_size
        assert (whole / "tables" / f"{name}.tex").stat().st_size
    listed = json.loads((whole / "figures" / "figures.json").read_text())
    assert [figure["name"] for figure in listed] == FIGURES
    for figure in listed:
        assert all(figure[key] for key in ("title", "caption", "alt"))
        assert "nan" not in figure["caption"]
        for ending in ("svg", "pdf", "png", "csv"):
            assert (whole / "figures" / f"{figure['name']}.{ending}").stat().st_size


def test_the_summary_holds_what_the_page_says(whole):
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["shapes"] == ["d12", "d24"]
    assert [(arm["shape"], arm["label"], arm["seeds"]) for arm in summary["arms"]] == [
        (shape, label, [0, 1]) for shape in ("d12", "d24") for label in ("baseline", "XSA α = 1")
    ]
    assert len(summary["cells"]) == 8
    assert {"settings", "results", "factors", "data", "bpb", "core"} <= set(summary["cells"][0])
    assert len(summary["metrics"]) == 16
    assert [stream["equal"] for stream in summary["streams"]] == [True, True]
    assert summary["missing"] == summary["not_taken"] == summary["uncompared"] == []
    assert summary["environment"]["hosts"] == ["fabricated"]


def test_tables_read_back_as_the_summary_has_them(whole):
    summary = json.loads((whole / "summary.json").read_text())
    with open(whole / "tables" / "metrics.csv", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [float(row["delta"]) for row in rows] == [row["delta"] for row in summary["metrics"]]
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in summary["metrics"]]


def test_an_arm_has_one_colour_in_every_figure(whole):
    summary = json.loads((whole / "summary.json").read_text())
    colours = {arm["label"]: arm["colour"].lower() for arm in summary["arms"]}
    for name in ("loss", "validation_bpb", "alignment", "diagonal"):
        svg = (whole / "figures" / f"{name}.svg").read_text()
        assert all(colour in svg for colour in colours.values())
    only_arm = (whole / "figures" / "differences.svg").read_text()
    assert colours["XSA α = 1"] in only_arm
    assert colours["baseline"] not in only_arm


def test_nothing_is_drawn_in_black_or_white_which_one_ground_would_swallow(whole):
    for path in (whole / "figures").glob("*.svg"):
        svg = path.read_text().lower()
        assert "#ffffff" not in svg
        assert "#000000" not in svg


def test_the_same_results_give_the_same_bytes(tmp_path):
    kwargs = {"shapes": 1, "seeds": 2, "drop": ("pretrain", "chatcore", "overhead")}
    one, other = run(tmp_path / "one", **kwargs), run(tmp_path / "other", **kwargs)
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert [file for file in files if (one / file).read_bytes() != (other / file).read_bytes()] == []


@pytest.mark.parametrize(
    ("drop", "figures"),
    [
        (("pretrain", "core", "chatcore", "attention", "overhead", "equivalence"), {"differences"}),
        (("pretrain", "bpb", "core", "chatcore", "attention", "equivalence", "finetune"), {"overhead"}),
        (("pretrain/d12-alpha1-seed0", "bpb", "core", "chatcore", "attention", "overhead"), {"loss", "validation_bpb"}),
        (("pretrain", "bpb", "core", "chatcore", "attention", "overhead", "equivalence", "finetune"), set()),
    ],
)
def test_a_partial_study_gives_what_can_be_given(tmp_path, drop, figures):
    out = run(tmp_path, shapes=1, seeds=1, drop=drop)
    assert {figure["name"] for figure in json.loads((out / "figures" / "figures.json").read_text())} == figures
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["not_taken"]) == {stage for stage in drop if "/" not in stage}
    assert all(gap["cell"] == "d12-alpha1-seed0" for gap in summary["missing"])
    assert {path.stem for path in (out / "tables").glob("*.csv")} == set(TABLES)


def test_hostile_names_harm_no_table_and_no_figure(tmp_path):
    out = run(tmp_path, shapes=1, seeds=1, hostile=True, drop=("chatcore", "attention", "pretrain"))
    for path in (out / "figures").glob("*.svg"):
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        assert not [element for element in root.iter() if element.tag.endswith("}script")]
    for path in (out / "tables").glob("*.tex"):
        assert "\\input{" not in path.read_text(encoding="utf-8")
    with open(out / "tables" / "tasks.csv", encoding="utf-8") as handle:
        tasks = [row["task"] for row in csv.DictReader(handle)]
    assert "'" + HOSTILE in tasks


def test_the_stage_runs_as_the_pipeline_runs_it(run_stage, tmp_path):
    study = fabricate(tmp_path / "made", shapes=1, seeds=1, drop=("pretrain", "core", "chatcore", "attention"))
    folder = run_stage("analyse", study.settings, **study.inputs)
    record = json.loads((folder / "record.json").read_text())
    assert "summary.json" in record["files"]
    assert record["made"]["notes"]["cells"] == 2


def test_analysis_needs_no_torch():
    code = "import sys, xsa.analyse.analyse; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
