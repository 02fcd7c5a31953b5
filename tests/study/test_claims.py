"""What a claims file may say, how it is told what is wrong, and what a change of it runs."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

from tests.study.conftest import STUDY
from xsa.analyse.metrics import METRICS as MEASURED
from xsa.store.errors import UserError
from xsa.study.claims import METRICS, Claims
from xsa.study.project import Project

ROOT = Path(__file__).parents[2]
CLAIM = {
    "id": "bpb",
    "kind": "difference",
    "statement": "It helps.",
    "where": "table 1",
    "shapes": ["d2"],
    "arm": {"xsa.alpha": 1},
    "metric": "bpb",
    "direction": "lower",
    "published": {"baseline": 0.9, "arm": 0.8},
}


@pytest.fixture
def held(project):
    """`held(claim, …)`: the plan of the tiny study, held against a file of these claims."""

    def plan(*claims: dict, name: str = "ours", study: dict | None = None):
        folder = project.root / "config/claims"
        folder.mkdir(exist_ok=True)
        values = {"name": name, "paper": "A paper", "claims": list(claims)}
        (folder / "ours.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        project.study({**copy.deepcopy(STUDY), "claims": ["ours"], **(study or {})})
        return project.plan()

    return plan


def refusal(held, *claims: dict, **kwargs) -> str:
    with pytest.raises(UserError) as error:
        held(*claims, **kwargs)
    return str(error.value)


def test_a_claims_content_is_part_of_the_reports_recipe_and_of_no_other(project, held):
    before = set(project.plan().results)
    first = held(CLAIM)
    assert {stage for stage, _ in set(first.results) ^ before} == {"report"}
    second = held(CLAIM | {"published": {"baseline": 0.9, "arm": 0.81}})
    assert {stage for stage, _ in set(second.results) ^ set(first.results)} == {"report"}
    assert second.report.settings.claims[0]["claims"][0]["published"]["arm"] == 0.81


def test_a_study_without_claims_has_none_in_its_recipe(project):
    assert "claims" not in project.plan().report.recipe["settings"]


def test_deviations_and_citation_enter_the_report_alone(project):
    before = set(project.plan().results)
    deviation = {"paper": "three heads", "here": "two", "why": "they divide the width"}
    project.study({**copy.deepcopy(STUDY), "deviations": [deviation]})
    (project.root / "CITATION.cff").write_text("title: this\ndate-released: 2026-01-02\n")
    plan = project.plan()
    assert {stage for stage, _ in set(plan.results) ^ before} == {"report"}
    assert plan.report.settings.citation == {"title": "this", "date-released": "2026-01-02"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "bbp"}, "there is no metric 'bbp'; did you mean 'bpb'?"),
        ({"shapes": ["d22"]}, "the study 'tiny' has no shape 'd22'; did you mean 'd2'?"),
        ({"arm": {"xsa.alhpa": 1}}, "does not vary 'xsa.alhpa'; did you mean 'xsa.alpha'?"),
        ({"arm": {"seed": 1}}, "does not vary 'seed'"),
        ({"arm": {"xsa.alpha": 0.5}}, "no arm of the study 'tiny' has xsa.alpha = 0.5; values are 0.0, 1.0"),
        ({"arm": {"xsa.alpha": 0}}, "arm names the baseline alone"),
        ({"direction": "higher"}, "direction is higher, but the published change is -0.1"),
        ({"directoin": "lower"}, "did you mean 'direction'?"),
        ({"kind": "diference"}, "kind is 'diference'; kinds are difference"),
        ({"published": None, "size": 0.5}, "size is a tolerance on the published change"),
        ({"noise": {"sd": [0.2, 0.1], "over": "seeds", "source": "us"}}, "give the least, above 0, and then the most"),
    ],
)
def test_what_is_wrong_in_a_claim_is_told_with_its_line_and_the_nearest_name(held, change, words):
    message = refusal(held, CLAIM | change)
    assert words in message and "ours.yaml:" in message


def test_an_unknown_claims_file_names_the_studys_line_and_the_nearest_file(held):
    message = refusal(held, CLAIM, study={"claims": ["uors"]})
    assert "tiny.yaml:" in message and "did you mean 'ours'?" in message


def test_an_id_given_twice_and_a_name_that_is_not_the_files_are_refused(held):
    assert "two claims have the id 'bpb'" in refusal(held, CLAIM, CLAIM)
    assert "name is 'other', but the file is called ours.yaml" in refusal(held, CLAIM, name="other")


def test_the_metrics_that_a_claim_may_name_are_those_that_are_measured():
    assert tuple(metric.id for metric in MEASURED) == METRICS
    assert all(metric.better for metric in MEASURED[:5]) and not any(metric.better for metric in MEASURED[5:])


@pytest.mark.parametrize("study", ["paper", "demo", "alpha", "optimizer"])
def test_the_claims_that_studies_name_fit_them(study, tmp_path):
    assert Project(ROOT, tmp_path).plan(study).report.settings.claims


def test_the_papers_five_pairs_are_held_as_published_and_at_both_readings_of_d24():
    values = yaml.safe_load((ROOT / "config/claims/muon.yaml").read_text(encoding="utf-8"))
    pairs = {
        (claim.id, claim.published.baseline, claim.published.arm): claim.shapes
        for claim in Claims.model_validate(values).claims
        if getattr(claim, "published", None)
    }
    d12, d24 = ("d12",), ("d24-measured", "d24-written")
    assert pairs == {
        ("bpb-d12", 0.8484, 0.8457): d12,
        ("bpb-d24", 0.7193, 0.7171): d24,
        ("core-d12", 0.1602, 0.1508): d12,
        ("core-d24", 0.2593, 0.2606): d24,
        ("chatcore-d24", 0.3638, 0.3682): d24,
    }
