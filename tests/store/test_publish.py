"""What the workflow reads of published figures."""

from __future__ import annotations

import json

import pytest

from xsa.store.publish import figure_captions


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
