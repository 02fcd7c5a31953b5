"""Figures: the same bytes for the same data, the page's ink, one colour an arm."""

import xml.etree.ElementTree as ET

import pytest

from tests.analyse.fabricate import HOSTILE
from xsa.analyse.style import INK, PALETTE, Colours, figure_style, finish, page_svg, panels, plain, save


def draw(folder, title="T"):
    with figure_style():
        figure, (ax,) = panels(1)
        ax.plot([0, 1], [0, 1])
        ax.set(title=plain(title), xlabel="x", ylabel="y")
        finish(figure, title)
        save(figure, folder, "f", f"alt of {title}", [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}])
    return folder


def test_a_figure_comes_in_three_formats_with_its_data_and_is_the_same_to_the_byte(tmp_path):
    one, other = draw(tmp_path / "one"), draw(tmp_path / "other")
    for name in ("f.svg", "f.pdf", "f.png", "f.csv"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert (one / "f.csv").read_text() == "x,y\n0.0,0.0\n1.0,1.0\n"


def test_ink_follows_the_page_and_text_is_text(tmp_path):
    svg = (draw(tmp_path) / "f.svg").read_text()
    root = ET.fromstring(svg)
    texts = [element for element in root.iter() if element.tag.endswith("}text")]
    assert {"T", "x", "y"} <= {"".join(element.itertext()) for element in texts}
    assert INK not in svg
    assert "currentColor" in svg
    assert "metadata" not in svg
    title = next(element for element in root if element.tag.endswith("}title"))
    assert title.text == "alt of T"


@pytest.mark.parametrize("text", [HOSTILE, "$\\frac{", "a\x00b\x1b\ud800", "]]>", ""])
def test_hostile_labels_leave_well_formed_svg_without_elements_of_their_own(tmp_path, text):
    root = ET.fromstring((draw(tmp_path, text) / "f.svg").read_text(encoding="utf-8"))
    assert not [element for element in root.iter() if element.tag.endswith("}script")]


def test_an_arm_has_one_colour_and_marker_whatever_else_is_drawn():
    colours = Colours(["baseline", "a", "b"])
    assert [colours.colour(label) for label in ("b", "baseline", "a")] == [PALETTE[2], PALETTE[0], PALETTE[1]]
    assert len({colours.marker(label) for label in ("baseline", "a", "b")}) == 3


def test_colours_begin_again_after_the_last():
    assert Colours([str(number) for number in range(9)]).colour("8") == PALETTE[8 % len(PALETTE)]


def test_long_labels_are_cut():
    assert plain("x" * 50, 10) == "x" * 9 + "…"


def test_the_alternative_text_is_escaped():
    assert "<title>&lt;b&gt; &amp;</title>" in page_svg('<svg width="1">\n</svg>', "<b> &")
