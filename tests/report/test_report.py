"""The report is written whole, from the analysis alone, and says what it lacks."""

from __future__ import annotations

import json

import pytest

from xsa.report.report import report, write_report
from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.study.stages import ReportStage


def text_of(element) -> str:
    return " ".join("".join(element.itertext()).split())


def section(tree, name: str) -> str:
    return next(text_of(one) for one in tree.iter("section") if one.get("id") == name)


def test_tables_and_figures_lie_beside_the_page(analysed, tmp_path):
    page = write_report(analysed, tmp_path)
    assert page == tmp_path / "report.html"
    for folder in ("tables", "figures"):
        files = {path.name: path.read_bytes() for path in (analysed / folder).iterdir()}
        assert files and {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()} == files
    assert not list(tmp_path.rglob("*.part"))


def test_the_same_analysis_gives_the_same_page(analysed, tmp_path):
    first, second = (write_report(analysed, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_stage_writes_into_its_own_folder(analysed, tmp_path):
    settings = ReportStage(study="fabricated", templates_sha256="0")
    job = Job("report", "fabricated", settings, {"analyse": analysed}, out=tmp_path / "out", state=tmp_path / "state")
    assert report(job)["bytes"] == (tmp_path / "out" / "report.html").stat().st_size


def test_a_page_that_cannot_be_made_leaves_the_old_one(changed, tmp_path):
    (tmp_path / "report.html").write_text("old")
    folder = changed(lambda summary: summary.pop("metrics"))
    with pytest.raises(UserError, match=r"summary\.json lacks metrics.*run analyse again"):
        write_report(folder, tmp_path)
    assert (tmp_path / "report.html").read_text() == "old" and not (tmp_path / "tables").exists()


def test_an_analysis_that_is_not_there_is_asked_for(tmp_path):
    with pytest.raises(UserError, match="run analyse before the report"):
        write_report(tmp_path, tmp_path / "out")


def test_a_broken_template_is_named_with_its_line(analysed, tmp_path):
    (tmp_path / "style.css").write_text("")
    (tmp_path / "script.js").write_text("")
    (tmp_path / "template.html.j2").write_text("fine\n{{ nonsense }}\n")
    with pytest.raises(UserError, match=r"template\.html\.j2, line 2: .*'nonsense' is undefined"):
        write_report(analysed, tmp_path / "out", templates=tmp_path)


def test_made_up_data_are_called_so(page, tree, changed, parse, tmp_path):
    assert "say nothing about the paper" in page and "Values of a made-up world" in page

    def edit(summary):
        for cell in summary["cells"]:
            cell["data"] = "hub"

    folder = changed(edit)
    real = write_report(folder, tmp_path / "out").read_text(encoding="utf-8")
    assert "made-up world" not in real and "Hugging Face hub" in real


def test_provenance_gives_paths_digests_hashes_and_how_it_ran(analysed, tree):
    summary = json.loads((analysed / "summary.json").read_text(encoding="utf-8"))
    told = section(tree, "provenance")
    for cell in summary["cells"]:
        for stage, result in cell["results"].items():
            assert f"{stage}/{result}" in told
            record = json.loads((analysed.parents[1] / stage / result / "record.json").read_text())
            if "log.parquet" in record["files"]:
                assert record["files"]["log.parquet"]["sha256"] in told
    assert next(iter(summary["streams"][0]["hashes"].values())) in told
    for fact in ("torch 2.13.0", "Fabricated GPU", "0123456789ab", "30 min 00 s", "read the same training rows"):
        assert fact in told


def test_cells_that_read_other_rows_are_told_at_the_top_and_below(changed, parse, tmp_path):
    def edit(summary):
        summary["streams"][0]["equal"] = False

    tree = parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8"))
    assert "did not all read the same training rows" in text_of(next(tree.iter("header")))
    assert "did not all read the same rows" in section(tree, "provenance")


def test_what_is_missing_is_listed(changed, parse, tmp_path):
    def edit(summary):
        cell = summary["cells"][0]
        summary["missing"] = [{"cell": cell["cell"], "shape": cell["shape"], "stage": "core"}]
        summary["not_taken"] = ["chatcore"]
        summary["uncompared"] = [{"shape": "d12", "arm": "optimizer = adamw"}]
        cell["results"]["bpb"] = "elsewhere@0000000000"

    told = section(parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8")), "missing")
    for fact in (
        "not here: CORE of d12-alpha0-seed0",
        "Not measured in this study: ChatCORE",
        "optimizer = adamw",
        "records of",
        "made-up world",
    ):
        assert fact in told


def test_a_study_without_a_measurement_says_so_in_its_place(changed, parse, tmp_path):
    def edit(summary):
        for name in ("tasks", "attention", "overhead", "equivalence", "stability", "streams", "metrics"):
            summary[name] = []

    folder = changed(edit)
    (folder / "figures" / "figures.json").write_text("[]")
    tree = parse(write_report(folder, tmp_path / "out").read_text(encoding="utf-8"))
    for name, words in {
        "results": "No arm could be compared",
        "loss": "no curve can be drawn",
        "mechanism": "not taken",
        "overhead": "not timed",
        "equivalence": "not checked",
    }.items():
        assert words in section(tree, name)


def test_a_result_name_with_a_path_in_it_reads_nothing_elsewhere(changed, parse, tmp_path):
    def edit(summary):
        summary["cells"][0]["results"] = {"bpb": "../../../etc@0123456789", "core": ".."}

    tree = parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8"))
    assert section(tree, "provenance").count("no record in this copy") >= 2


def test_provenance_is_a_table_of_results_and_plain_notes_without_internals(tree, changed, parse, tmp_path):
    told = section(tree, "provenance")
    assert "Pretraining ran at 980,000 tokens a second, compiled." in told
    for internal in ("peak_bytes", "held_out", "sandbox.", "data_stream_sha256", "reads ", "why –"):
        assert internal not in told
    entry = next(one for one in tree.iter("details") if one.get("class") == "entry")
    heads = [text_of(head) for head in entry.find("div/table/thead/tr").findall("th")]
    assert heads == ["Stage", "Result", "Wall time", "Device"]


def test_the_days_of_the_run_stand_at_the_top(tree, changed, parse, tmp_path):
    assert "Run2026-01-01" in text_of(next(tree.iter("dl")))

    def edit(summary):
        summary["environment"]["started"] = ["2026-01-01T00:00:00+00:00", "2026-01-03T09:00:00+00:00"]

    later = parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8"))
    assert "Run2026-01-01 to 2026-01-03" in text_of(next(later.iter("dl")))


def test_a_task_that_no_arm_solves_is_told_as_such(changed, parse, tmp_path):
    def edit(summary):
        task = summary["tasks"][0]
        task |= {
            "baseline_accuracy": 0.0,
            "arm_accuracy": 0.0,
            "delta": 0.0,
            "verdict": "no difference beyond rounding",
        }

    told = section(parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8")), "results")
    assert "no item solved" in told


def test_a_change_at_rounding_is_never_shown_as_zero_outside_noise(changed, parse, tmp_path):
    def edit(summary):
        row = next(row for row in summary["metrics"] if row["metric"] == "bpb")
        row |= {"delta": 1.6e-8, "relative_percent": 7e-7, "verdict": "no difference beyond rounding"}

    tree = parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8"))
    assert "predict held-out text alike" in text_of(next(tree.iter("header")))
    table = next(one for one in tree.iter("table") if "changes" in one.get("class", ""))
    cells = [text_of(cell) for cell in table.find("tbody/tr").iter("td")]
    assert cells[2].startswith("+1.6 × 10⁻⁸") and cells[-1].startswith("no difference beyond rounding")
