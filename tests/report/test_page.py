"""The page stands alone, is valid, can be read without eyes or mouse, and does no harm."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re

from tests.analyse.fabricate import HOSTILE

from xsa.report.page import COLOURS, SECTIONS

FETCHING = {"img", "iframe", "object", "embed", "audio", "video", "source", "image", "foreignobject", "form", "base"}


def text_of(element) -> str:
    return " ".join("".join(element.itertext()).split())


def local(element) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def test_the_page_is_valid_html(tree):
    assert text_of(tree.find("head/title")).startswith("Fabricated study")


def test_strings_from_data_stay_text(tree, page):
    scripts = [element for element in tree.iter() if local(element) == "script"]
    assert len(scripts) == 1 and "alert(1)" not in scripts[0].text
    assert "<script>alert(1)" not in page
    assert HOSTILE in text_of(tree.find("body//h1"))
    assert any(HOSTILE.split("<")[0] in text_of(cell) for cell in tree.iter("th"))
    assert not [name for element in tree.iter() for name in element.attrib if str(name).lower().startswith("on")]


def test_the_page_fetches_nothing(tree, page):
    assert not FETCHING & {local(element) for element in tree.iter()}
    for element in tree.iter():
        for name, value in element.attrib.items():
            if str(name).rpartition("}")[2] in ("href", "src"):
                assert value.startswith("#") or value == "data:,"
    assert "http:" not in page and "https:" not in page and "@import" not in page


def test_only_the_pages_own_script_may_run(tree):
    policy = next(m.get("content") for m in tree.iter("meta") if m.get("http-equiv") == "Content-Security-Policy")
    script = next(element for element in tree.iter("script")).text
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_ids_are_unique_and_links_within_the_page_lead_somewhere(tree):
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = [a.get("href") for a in tree.iter("a")]
    assert links and all(link[1:] in ids for link in links)


def test_sections_stand_in_their_order(tree):
    sections = [section.get("id") for section in tree.iter("section")]
    # those that a page without claims has no use for are held by test_verdicts
    assert sections == [id for id, _ in SECTIONS if id in sections] and len(sections) > 8
    assert next(tree.iter("main")).find("header").get("id") == "answer"


def test_every_drawing_has_a_name_and_every_figure_a_caption(tree):
    drawings = [element for element in tree.iter() if local(element) == "svg"]
    assert len(drawings) > 10
    assert all(one.get("role") == "img" and one.get("aria-label") for one in drawings)
    figures = list(tree.iter("figure"))
    assert [text_of(one.find("figcaption")).split(".")[0] for one in figures] == [
        f"Figure {n + 1}" for n in range(len(figures))
    ]
    assert all(len(text_of(one.find("figcaption"))) > 40 for one in figures)


def test_every_table_has_headed_columns_and_what_scrolls_can_be_reached_by_keyboard(tree):
    for table in tree.iter("table"):
        heads = table.find("thead/tr").findall("th")
        assert all(head.get("scope") == "col" for head in heads)
        assert all(text_of(head) for head in heads)
    scrolling = [e for e in tree.iter() if e.get("class") in ("scroll", "plot")]
    assert scrolling and all(e.get("tabindex") == "0" and e.get("aria-label") for e in scrolling)


def test_under_each_table_of_changes_stand_the_cells_that_it_was_made_of(tree):
    tables = [table for table in tree.iter("table") if table.get("class") in ("full even changes", "full even tasks")]
    notes = [note for note in tree.iter("p") if note.get("class") == "note" and text_of(note).startswith("Cells:")]
    under = [note for note in notes if len(note) > 1 and note[0].get("href").startswith("#cell-")]
    assert len(tables) > 3 and len(under) >= len(tables)


def test_what_was_measured_for_a_shape_names_its_records(tree):
    told = " ".join(text_of(note) for note in tree.iter("p") if note.get("class") == "note")
    assert re.search(r"results/overhead/\S+@[0-9a-f]{10}/record\.json", told)
    assert re.search(r"results/equivalence/\S+@[0-9a-f]{10}/record\.json", told)


def test_the_language_and_the_viewport_are_named(tree):
    assert tree.get("lang") == "en"
    assert any(meta.get("name") == "viewport" for meta in tree.iter("meta"))


def test_headings_go_down_one_level_at_a_time(tree):
    levels = [int(e.tag[1]) for e in next(tree.iter("main")).iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - level <= 1 for level, later in itertools.pairwise(levels))


def test_the_colours_of_figures_follow_the_scheme(page):
    from xsa.analyse.style import PALETTE, QUIET

    assert {colour.lower() for colour in PALETTE} | {QUIET.lower(), "#ffffff"} == set(COLOURS)
    body = page.partition("</style>")[2]
    assert not [colour for colour in COLOURS if colour in body.lower()]
    assert all(f"{value[4:-1]}:" in page for value in COLOURS.values())


def test_the_page_says_how_to_run_it_again(tree):
    section = next(one for one in tree.iter("section") if one.get("id") == "again")
    assert "snakemake --cores all results/fabricated/report.html" in text_of(section)
    assert "--config" not in text_of(section)
