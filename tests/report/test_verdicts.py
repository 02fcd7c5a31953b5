"""The page with claims: verdicts first, every number beside what was published and leading to its cells."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from tests.analyse.fabricate import HOSTILE
from tests.report.test_page import FETCHING, local, text_of

from xsa.analyse.verdicts import CANNOT_TELL, INSIDE_NOISE, NOT_TESTED, REPRODUCED
from xsa.report.citation import cited
from xsa.report.page import SECTIONS
from xsa.report.report import write_report
from xsa.report.verdicts import tally
from xsa.study.citation import read_citation
from xsa.study.claims import Claims
from xsa.study.stages import ReportStage

ROOT = Path(__file__).parents[2]
DEVIATION = {"paper": "Three & more heads.", "here": "Two.", "why": "They divide the width."}


def settings(**changes) -> ReportStage:
    """The demo's claims with a hostile statement among them, a deviation, the project's own citation."""
    values = yaml.safe_load((ROOT / "config/claims/demo.yaml").read_text(encoding="utf-8"))
    values["claims"][0] |= {"published": {"baseline": 0.9, "arm": 0.898}, "statement": f"Lower. {HOSTILE}"}
    values["claims"].append(
        {"id": "never", "kind": "untested", "statement": "It sings.", "where": "a song", "needs": "ears"}
    )
    told = {"claims": (Claims.model_validate(values).model_dump(mode="json"),), "deviations": (DEVIATION,)}
    return ReportStage(study="fabricated", templates_sha256="", **(told | {"citation": read_citation(ROOT)} | changes))


@pytest.fixture(scope="module")
def held(analysed, tmp_path_factory):
    """The folder of a page that is held against claims."""
    folder = tmp_path_factory.mktemp("held")
    write_report(analysed, folder, settings())
    return folder


@pytest.fixture(scope="module")
def tree(held, parse):
    return parse((held / "report.html").read_text(encoding="utf-8"))


def section(tree, name):
    return next(one for one in tree.iter("section") if one.get("id") == name)


def test_all_sections_stand_in_their_order_and_the_verdicts_come_first(tree):
    assert [one.get("id") for one in tree.iter("section")] == [id for id, _ in SECTIONS]
    assert SECTIONS[0][0] == "verdicts"


def test_without_claims_the_page_has_no_place_for_them(analysed, parse, tmp_path):
    bare = parse(write_report(analysed, tmp_path).read_text(encoding="utf-8"))
    there = {one.get("id") for one in bare.iter("section")}
    assert not there & {"verdicts", "words", "claims", "deviations", "cite"} and "results" in there
    assert not (tmp_path / "tables/claims.csv").exists()


def test_ids_are_unique_links_lead_somewhere_and_nothing_is_fetched(tree, held):
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert all(a.get("href")[1:] in ids for a in tree.iter("a"))
    assert not FETCHING & {local(element) for element in tree.iter()}
    page = (held / "report.html").read_text(encoding="utf-8")
    assert "http:" not in page and "https:" not in page and "<script>alert(1)" not in page


def test_every_claim_is_in_the_table_with_its_verdict_and_leads_to_its_numbers(tree):
    bodies = section(tree, "verdicts").findall("div/table/tbody")
    names = [claim["id"] for claim in settings().claims[0]["claims"]]
    assert [body.find("tr/th/a").get("href") for body in bodies] == [f"#claim-demo-{name}" for name in names]
    verdicts = {name: text_of(body.find("tr/td[@class='said']")) for name, body in zip(names, bodies, strict=True)}
    assert verdicts["never"] == NOT_TESTED and verdicts["alignment-falls"] == verdicts["alpha-zero"] == REPRODUCED
    assert verdicts["core"] == INSIDE_NOISE
    assert HOSTILE in text_of(bodies[0].find("tr/th"))


def test_a_claims_numbers_stand_with_the_published_ones_its_reasons_and_its_cells(tree):
    claim = next(one for one in tree.iter("div") if one.get("id") == "claim-demo-bpb")
    told = text_of(claim)
    for words in (
        "0.9000 → 0.8980",
        "2 seeds",
        "times the published",
        "noise measured here",
        "paired seed",
        "after the paper",
    ):
        assert words in told
    cells = {a.get("href") for a in claim.iter("a") if a.get("href").startswith("#cell-")}
    assert len(cells) == 4
    (drawing,) = [one for one in claim.iter() if local(one) == "svg"]
    assert "published −0.0020" in drawing.get("aria-label")
    assert any(one.get("class") == "published" for one in drawing.iter())


def test_the_verdicts_lie_beside_the_page_as_csv_and_tex(held):
    rows = pd.read_csv(held / "tables/claims.csv")
    assert len(rows) == 11 and set(rows["id"]) == {claim["id"] for claim in settings().claims[0]["claims"]}
    assert "inside noise" in (held / "tables/claims.tex").read_text(encoding="utf-8")


def test_one_seed_says_at_the_top_that_it_cannot_tell(changed, parse, tmp_path):
    def edit(summary):
        for row in summary["metrics"]:
            row |= {
                "n_seeds": 1,
                "seed_lo": None,
                "seed_hi": None,
                "difference_sd": None,
                "seed_deltas": [row["delta"]],
            }
            row |= {"total_lo": None, "total_hi": None, "seeds": [0], "verdict": CANNOT_TELL}

    tree = parse(write_report(changed(edit), tmp_path / "out", settings()).read_text(encoding="utf-8"))
    header = text_of(next(tree.iter("header")))
    assert "one seed, cannot tell" in header and "cannot be told from one seed" in header


def test_cells_that_read_other_rows_are_told_above_the_verdicts(changed, parse, tmp_path):
    def edit(summary):
        summary["streams"][0]["equal"] = False

    tree = parse(write_report(changed(edit), tmp_path / "out", settings()).read_text(encoding="utf-8"))
    assert "did not all read the same training rows" in text_of(next(tree.iter("header")))


def test_a_study_that_is_half_done_is_marked_so_and_names_what_is_not_there(changed, parse, tmp_path):
    def edit(summary):
        cell = summary["cells"][0]
        summary["lacking"] = [{"cell": cell["cell"], "stage": stage} for stage in ("core", "chatcore")]

    tree = parse(write_report(changed(edit), tmp_path / "out", settings()).read_text(encoding="utf-8"))
    assert text_of(tree.find("head/title")).startswith("Half done: ")
    assert "2 results of this study are not there yet" in text_of(next(tree.iter("header")))
    assert "Not there yet: CORE of d12-alpha0-seed0" in text_of(section(tree, "missing"))


def test_deviations_and_citation_are_told(tree):
    told = text_of(section(tree, "deviations"))
    assert all(words in told for words in DEVIATION.values())
    cite = text_of(section(tree, "cite"))
    for words in ("xsa: a reproduction pipeline", "@software{xsa,", "arxiv.org/abs/2603.09078", "analyse/fabricated@"):
        assert words in cite


def test_a_citation_with_odd_characters_gives_a_sound_entry():
    entry = cited({"title": "50 % {of} it", "authors": [{"family-names": "O_", "given-names": "A"}, {"name": "B & C"}]})
    assert r"title = {{50 \% \{of\} it}}" in entry["bibtex"] and r"author = {{A O\_} and {B \& C}}" in entry["bibtex"]
    assert cited(None) is None


def test_the_tally_counts_judgements_of_each_kind():
    rows = [
        {"file": "f", "id": str(n % 2), "verdict": one} for n, one in enumerate([REPRODUCED, REPRODUCED, INSIDE_NOISE])
    ]
    assert tally(rows) == "Of 2 claims, judged 3 times over shapes and arms: 2 reproduced and 1 inside noise."
    assert tally([]) == ""


def test_the_same_claims_give_the_same_page(analysed, held, tmp_path):
    assert write_report(analysed, tmp_path, settings()).read_bytes() == (held / "report.html").read_bytes()
    assert json.loads(json.dumps(settings().claims)) == list(settings().claims)


def test_the_headline_figure_stands_before_the_claims_and_not_again(tree, analysed, parse, tmp_path):
    def figures(page, name):
        return [one.get("id") for one in section(page, name).iter("figure")]

    assert figures(tree, "words") == ["figure-differences"]
    assert "figure-differences" not in figures(tree, "results")
    bare = parse(write_report(analysed, tmp_path).read_text(encoding="utf-8"))
    assert figures(bare, "results")[0] == "figure-differences"
