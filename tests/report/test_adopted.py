"""The page marks every number that rests on an adopted checkpoint, and says where it came from and why."""

from __future__ import annotations

from tests.report.test_report import section, text_of

from xsa.report.report import write_report

ENTRY = {
    "shape": "d12",
    "stage": "pretrain",
    "from": "/elsewhere/<b>pretrain</b>",
    "differences": [{"field": "model.alpha", "cell": "1.0", "checkpoint": "0.5"}],
    "why": "lent <script>by</script> a friend",
    "at": "2026-01-01T00:00:00+00:00",
}


def edit(summary):
    cell = next(cell for cell in summary["cells"] if cell["arm"] != "baseline")
    summary["adopted"] = [ENTRY | {"cell": cell["cell"], "result": cell["results"]["pretrain"]}]
    cell["adopted"] = ["pretrain", "bpb"]
    for row in summary["metrics"]:
        row["adopted"] = "arm" if row["metric"] == "bpb" else ""
    for row in summary["tasks"]:
        row["adopted"] = "baseline"


def test_marks_stand_beside_the_numbers_and_lead_to_the_reason(changed, parse, tmp_path):
    tree = parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8"))
    table = next(one for one in tree.iter("table") if "changes" in one.get("class", ""))
    rows = [[text_of(cell) for cell in row.iter("td")] for row in table.iter("tr")]
    first, second = [row for row in rows if row][:2]
    assert "†" not in first[0] and first[1].endswith("†") and "†" in first[2]
    assert not any("†" in cell for cell in second), second
    tasks = next(one for one in tree.iter("table") if "tasks" in one.get("class", ""))
    cells = [text_of(cell) for cell in tasks.find("tbody/tr").iter("td")]
    assert cells[2].endswith("†") and "†" not in cells[3] and cells[4].endswith("†")
    assert section(tree, "cells").count("†") == 3  # in the words above the table, at the loss, at the bits per byte
    links = {link.get("href") for link in tree.iter("a") if text_of(link) == "†"}
    assert links == {"#adopted"} and any(one.get("id") == "adopted" for one in tree.iter("h3"))
    assert "not trained in this study" in text_of(next(tree.iter("header")))
    assert "rests on adopted checkpoints" in section(tree, "loss")


def test_the_summary_and_the_captions_of_the_paper_say_so_too(changed, tmp_path):
    folder = write_report(changed(edit), tmp_path / "out").parent
    said = "not trained in this study"
    assert (
        "**Adopted checkpoints.**" in (folder / "summary.md").read_text()
        and said in (folder / "summary.md").read_text()
    )
    captions = [
        line for line in (folder / "paper.tex").read_text().splitlines() if line.lstrip().startswith(r"\caption")
    ]
    assert captions and all(said in caption for caption in captions)


def test_the_origin_the_differences_and_the_reason_are_told_as_plain_text(changed, parse, tmp_path):
    told = section(parse(write_report(changed(edit), tmp_path / "out").read_text(encoding="utf-8")), "provenance")
    assert "/elsewhere/<b>pretrain</b>" in told and "lent <script>by</script> a friend" in told
    assert "model.alpha: the cell says 1.0, the checkpoint 0.5" in told


def test_a_study_without_any_says_nothing_of_it(page):
    assert "†" not in page and "dopted" not in page
