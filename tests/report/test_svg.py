"""Figures set into the page carry no danger, no clash of ids, and the page's colours."""

import re

import pytest

from xsa.report.svg import inline_svg
from xsa.store.errors import UserError

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="90pt" height="60pt"'


def test_scripts_handlers_foreign_content_and_outside_references_are_dropped():
    hostile = f"""<?xml version="1.0"?>{HEAD} onload="alert(1)">
      <script>alert(2)</script><style>*{{background:url(http://a.example/x)}}</style>
      <foreignObject><iframe src="http://a.example"/></foreignObject>
      <image href="http://a.example/x.png"/><a xlink:href="javascript:alert(3)"><path d="M0 0L1 1"/></a>
      <use xlink:href="http://a.example/x.svg#y"/>
      <rect style="fill: url(http://a.example/x)" fill="url('http://a.example/y')" onclick="alert(4)" width="3" height="3"/>
      <text>&lt;script&gt;alert(5)&lt;/script&gt;</text></svg>"""
    drawn = str(inline_svg(hostile, "f1", "a figure"))
    assert "<script" not in drawn and "alert(2)" not in drawn and "<style" not in drawn
    assert "a.example" not in drawn and "javascript" not in drawn and "onload" not in drawn and "onclick" not in drawn
    assert "foreignObject" not in drawn and "iframe" not in drawn
    assert "&lt;script&gt;alert(5)" in drawn


def test_ids_and_what_refers_to_them_are_renamed_under_the_prefix():
    drawing = f"""{HEAD} viewBox="0 0 90 60"><defs><path id="m1" d="M0 0L1 1"/><clipPath id="p9"><rect width="2" height="2"/></clipPath></defs>
      <g id="axes" clip-path="url(#p9)"><use xlink:href="#m1" x="3"/><path d="M0 0" style="clip-path: url(#p9)"/></g></svg>"""
    first, second = (str(inline_svg(drawing, prefix, "a")) for prefix in ("one", "two"))
    ids = [set(re.findall(r'\bid="([^"]+)"', drawn)) for drawn in (first, second)]
    assert len(ids[0]) == 3 and not ids[0] & ids[1]
    for drawn, names in zip((first, second), ids, strict=True):
        referred = set(re.findall(r'href="#([^"]+)"', drawn)) | set(re.findall(r"url\(#([^)]+)\)", drawn))
        assert len(referred) == 2 and referred <= names


def test_the_drawing_is_named_for_those_who_do_not_see_it_and_scales():
    drawn = str(inline_svg(f"{HEAD}/>", "f", 'loss "falls" & <ends>'))
    assert 'role="img"' in drawn and 'aria-label="loss &quot;falls&quot; &amp; &lt;ends&gt;"' in drawn
    assert 'viewBox="0 0 90 60"' in drawn and "pt" not in drawn


def test_colours_follow_the_page():
    drawing = f'{HEAD}><path style="fill: none; stroke: #1B1D21" d="M0 0"/><text fill="#fff">a</text></svg>'
    drawn = str(inline_svg(drawing, "f", "a", {"#1b1d21": "var(--ink)", "#ffffff": "var(--paper)"}))
    assert "stroke: var(--ink)" in drawn and 'style="fill: var(--paper)"' in drawn and "#" not in drawn


@pytest.mark.parametrize("text", ["<svg", "<html/>", ""])
def test_what_is_no_drawing_is_refused_in_a_sentence(text):
    with pytest.raises(UserError, match="run analyse again"):
        inline_svg(text, "f", "a")
