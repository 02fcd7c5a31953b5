"""The pictures of a page: which sections they show, what is cut off, and what is said where they cannot be taken."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[2] / "docs/gallery.py"
spec = importlib.util.spec_from_file_location("gallery", SCRIPT)
gallery = importlib.util.module_from_spec(spec)
sys.modules["gallery"] = gallery
spec.loader.exec_module(gallery)

PAGE = (
    "<!DOCTYPE html><html><head><title>t</title></head><body style='margin:0;background:#fff'><main>"
    "<section id='a' style='background:#c00;height:60px'></section>"
    '<section id="b" style="background:#00c;height:90px"></section></main></body></html>'
).replace("'a'", '"a"')


def test_blank_ground_at_the_foot_is_cut_off():
    image = Image.new("RGB", (10, 300), "white")
    image.paste("black", (2, 5, 4, 50))
    assert gallery.cut(image).size == (10, 50 + gallery.MARGIN)
    assert gallery.cut(Image.new("RGB", (10, 30), "white")).size == (10, 30)


def test_a_section_that_a_page_lacks_is_left_out():
    picture = gallery.Picture("p", ("verdicts", "b"))
    assert gallery.shown_sections(PAGE, picture) == ["b"]
    assert "main > *:not(#b)" in gallery.only_sections(PAGE, picture)


def test_the_gallery_shows_every_picture_and_no_other():
    text = (SCRIPT.parent / "gallery.md").read_text(encoding="utf-8")
    named = {picture.name for picture in gallery.PICTURES}
    assert {line.split("images/")[1].split(".png")[0] for line in text.splitlines() if "images/" in line} == named
    assert {path.stem for path in (SCRIPT.parent / "images").glob("*.png")} == named


@pytest.mark.parametrize(
    ("page", "path", "said"),
    [
        ("gone.html", "/usr/bin:/bin", r"there is no gone.html; make it first"),
        ("page.html", "/nowhere", r"there is no Chromium here .*apt-get install chromium"),
    ],
)
def test_what_is_missing_is_said_in_a_sentence(tmp_path, page, path, said):
    (tmp_path / "page.html").write_text(PAGE)
    done = subprocess.run(
        [sys.executable, SCRIPT, page, "out"], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert re.search(said, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not any(map(shutil.which, gallery.BROWSERS)), reason="there is no Chromium here")
def test_a_picture_holds_the_asked_section_alone(tmp_path):
    picture = gallery.Picture("p", ("b",), width=500, height=300)
    with Image.open(gallery.take(gallery.find_browser(), PAGE, picture, tmp_path)) as image:
        seen = image.convert("RGB")
    assert seen.size == (500, 16 + 90 + gallery.MARGIN)  # a rem above
    assert seen.getpixel((250, 10)) == (0, 0, 204)
