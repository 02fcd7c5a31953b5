"""What the workflow reads of published figures."""

from __future__ import annotations

import json

import pytest

from tests.store.results import write_result
from xsa.store.publish import figure_captions, is_published, publish, published


def test_captions_are_text_to_rest_and_short_where_snakemake_prints_them(tmp_path):
    (tmp_path / "figures").mkdir()
    figure = {"name": "loss", "title": "A_B *c*", "caption": "`rm` |x| .. raw:: html", "alt": "", "more": 1}
    (tmp_path / "figures/figures.json").write_text(json.dumps([figure]))
    found = figure_captions(tmp_path)
    assert found["loss"] == {"title": r"A\_B \*c\*", "caption": r"\`rm\` \|x\| .. raw\:\: html"}
    assert str(found) == "captions of 1 figures"


@pytest.mark.parametrize("content", [None, "", "{}", '[{"name": "x"}]', "[1]"])
def test_without_captions_there_are_none(tmp_path, content):
    if content is not None:
        (tmp_path / "figures").mkdir()
        (tmp_path / "figures/figures.json").write_text(content)
    assert figure_captions(tmp_path) == {}


def test_a_page_counts_as_published_while_all_its_files_are_there(tmp_path):
    report = write_result(tmp_path, "report", "mini", {"report.html": b"page", "figures/loss.svg": b"<svg/>"})
    publish(report, tmp_path / "mini")
    assert is_published(tmp_path / "mini", report.name) and not is_published(tmp_path / "mini", "mini@0123456789")
    (tmp_path / "mini/figures/loss.svg").unlink()
    assert not is_published(tmp_path / "mini", report.name)


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_note_of_what_was_published_that_cannot_be_read_says_nothing(tmp_path, content):
    (tmp_path / "published.json").write_text(content)
    assert published(tmp_path) == {} and not is_published(tmp_path, "mini@0123456789")
