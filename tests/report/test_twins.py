"""Miniature twins of the studies of alpha and of the optimizer, from their own files: planned, trained, judged, put on a page."""

from __future__ import annotations

import shutil
from collections import Counter

import html5lib
import pytest
import yaml
from tests.train.small_project import SmallProject
from tests.workflow.conftest import ROOT

from xsa.analyse.claims import claim_rows
from xsa.analyse.verdicts import NOT_TESTED
from xsa.report.reading import read_analysis
from xsa.store.errors import UserError
from xsa.store.record import RECORD
from xsa.study.claims import Claims
from xsa.study.draft import draft
from xsa.study.execute import execute
from xsa.study.plan import Plan

# As small as it gets with layers of both kinds and room for the last three.
SHAPES = {"d12": {"model": {"n_layer": 4, "n_embd": 32, "n_head": 2}}}
SETTINGS = {
    "horizon": {"steps": 4},
    "evaluate": {"core": False, "chatcore": False, "overhead": False, "equivalence": False},
    "attention": {"rows": 1},
    "bpb": {"rows": 4},
}


class Twin:
    """A study of `config/studies/` with its factors, baseline and claims, on the miniature's recipe, `alphas` of its values."""

    def __init__(self, root, name: str, alphas: list[float]):
        self.small = SmallProject.new(root)
        shutil.copytree(ROOT / "config/claims", root / "config/claims")
        values = yaml.safe_load((ROOT / "config/studies" / f"{name}.yaml").read_text(encoding="utf-8"))
        assert set(alphas) <= set(values["factors"]["xsa.alpha"])
        factors = values["factors"] | {"xsa.alpha": alphas, "seed": [0, 1]}
        settings = SETTINGS | {"optim": values["settings"].get("optim", {})}
        kept = {key: values[key] for key in ("name", "title", "question", "baseline", "claims")}
        self.small.study(kept | {"recipe": "mini", "shapes": SHAPES, "factors": factors, "settings": settings})
        self.name, self.project = name, self.small.open()

    @property
    def plan(self) -> Plan:
        return self.project.plan(self.name)

    def run(self, wanted=lambda result: True) -> None:
        """Make the wanted results of the plan, in the order in which they read one another."""
        for result in list(self.plan.results.values()):
            if wanted(result) and not (result.folder(self.project.results) / RECORD).exists():
                execute(self.project, self.name, result.stage, result.key, device="cpu", threads=1)

    def judged(self, name: str) -> dict[str, dict]:
        """The verdicts on a claims file, by claim; the last arm's where there are several."""
        summary = read_analysis(self.plan.analyse.folder(self.project.results)).summary
        (claims,) = [one for one in self.plan.report.settings.claims if one["name"] == name]
        return {row["id"]: row for row in claim_rows(Claims.model_validate(claims), summary)}

    def page(self, report=None) -> str:
        folder = (report or self.plan.report).folder(self.project.results)
        return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def alpha(tmp_path_factory) -> Twin:
    twin = Twin(tmp_path_factory.mktemp("alpha"), "alpha", [0, 0.5, 1])
    twin.run()
    return twin


def test_the_alpha_studys_twin_trains_each_model_once_and_tests_every_claim(alpha):
    alphas = Counter(cell.settings.xsa.alpha for cell in alpha.plan.cells)
    assert alphas == {0: 2, 0.5: 14, 1: 14}
    verdicts = alpha.judged("alpha")
    assert NOT_TESTED not in {row["verdict"] for row in verdicts.values()} and len(verdicts) == 8
    assert verdicts["which-value"]["n"] == 2 and len(verdicts["which-value"]["cells"]) == 6


def test_the_alpha_studys_page_is_valid_and_names_layer_sets_and_values(alpha):
    html5lib.HTMLParser(strict=True).parse(alpha.page())
    assert "XSA layers = no_value_embeds" in alpha.page() and "XSA value = plain" in alpha.page()


def test_the_optimizer_studys_twin_contrasts_the_effects_of_two_optimizers(tmp_path):
    twin = Twin(tmp_path, "optimizer", [0, 1])
    twin.run(lambda result: result.stage not in ("bpb", "attention", "analyse", "report"))
    half = draft(twin.plan, twin.project.results)
    assert len(half[0].settings.lacking) == 16
    for result in half:
        execute(twin.project, twin.name, result.stage, result.key, device="cpu", threads=1)
    assert "16 results of this study are not there yet" in twin.page(half[1])
    twin.run()
    assert draft(twin.plan, twin.project.results) == (twin.plan.analyse, twin.plan.report)
    interaction = twin.judged("optimizer")["interaction"]
    deltas = {}
    for row in read_analysis(twin.plan.analyse.folder(twin.project.results)).summary["metrics"]:
        if row["metric"] == "bpb" and "XSA α = 1" in row["arm"]:
            deltas["adamw" if "adamw" in row["arm"] else "muon"] = row["seed_deltas"]
    by_hand = sum(m - a for m, a in zip(deltas["muon"], deltas["adamw"], strict=True)) / 2
    assert interaction["value"] == pytest.approx(by_hand) and interaction["n"] == 2
    assert {row["verdict"] for name, row in twin.judged("adamw").items() if name == "eight-tasks"} == {NOT_TESTED}


def test_a_study_of_which_nothing_is_there_has_no_draft(tmp_path):
    twin = Twin(tmp_path, "optimizer", [0, 1])
    with pytest.raises(UserError, match="nothing of the study 'optimizer' is under"):
        draft(twin.plan, twin.project.results)
