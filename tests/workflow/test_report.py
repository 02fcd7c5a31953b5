"""Snakemake's own report of a finished study: its page and figures, under their categories, with captions."""

from __future__ import annotations

import json


def test_snakemakes_report_shows_page_and_figures_with_captions(mini):
    run = mini.snakemake("--report", "made.html")
    assert run.returncode == 0, run.stdout + run.stderr
    text = (mini.root / "made.html").read_text(encoding="utf-8")
    assert "What the study" in text and "Figures" in text
    figures = json.loads((mini.root / "results/mini/figures/figures.json").read_text())
    assert {"alignment", "overhead"} <= {figure["name"] for figure in figures}
    for figure in figures:
        assert f"{figure['name']}.svg" in text, figure["name"]
        assert figure["title"] in text
    assert mini.jobs() == {}
