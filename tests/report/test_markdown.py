"""summary.md: the numbers of the page in Markdown, whatever the strings in it are."""

from __future__ import annotations

import json
import re

from tests.analyse.fabricate import HOSTILE

from xsa.report.markdown import SUMMARY, escape, markdown
from xsa.report.numbers import fixed
from xsa.report.report import write_report
from xsa.report.verdicts import judged


def summary_of(analysed) -> dict:
    return json.loads((analysed / "summary.json").read_text(encoding="utf-8"))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_it_lies_beside_the_page_with_every_change(analysed, tmp_path):
    write_report(analysed, tmp_path)
    text = (tmp_path / SUMMARY).read_text(encoding="utf-8")
    for row in summary_of(analysed)["metrics"]:
        assert any(
            escape(row["name"]) in line and fixed(row["arm_mean"]) in line and row["verdict"] in line
            for line in text.splitlines()
        ), row["metric"]
    assert "results/fabricated/report.html" in text


def test_tables_are_whole_and_strings_from_outside_are_text(analysed):
    text = markdown(summary_of(analysed), [], ["a | <b>"], "page")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = [len(cells(row)) for row in rows]
    assert set(widths) == {6, 11}
    assert "<script>" not in text and escape(HOSTILE) in text
    assert r"a \| \<b\>" in text


def test_each_claim_is_told_with_its_verdict(analysed):
    claims = {
        "name": "c",
        "paper": "P",
        "claims": [
            {
                "id": "x",
                "kind": "difference",
                "statement": "bpb | falls.",
                "where": "table",
                "arm": {"xsa.alpha": 1},
                "metric": "bpb",
                "direction": "lower",
            }
        ],
    }
    summary = summary_of(analysed)
    rows = judged([claims], summary)
    text = markdown(summary, rows, [], "page")
    line = next(line for line in text.splitlines() if r"bpb \| falls" in line)
    assert f"**{rows[0]['verdict']}**" in cells(line) and len(cells(line)) == 8


def test_nobody_is_mentioned_and_no_issue_is_linked():
    assert "@someone" not in escape("@someone #12") and r"\#12" in escape("@someone #12")
