"""The studies of alpha and of the optimizer: what they train, what they share with the paper's, and how layer sets resolve."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path

import pytest

from tests.study.conftest import STUDY
from xsa.store.errors import UserError
from xsa.study.project import Project

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    project = Project(ROOT, tmp_path_factory.mktemp("results"))
    return {name: project.plan(name) for name in ("paper", "alpha", "optimizer")}


def results(plan) -> dict[str, dict[str, str]]:
    return {cell.label: {stage: one.key for stage, one in cell.results.items()} for cell in plan.cells}


@pytest.mark.parametrize("study", ["alpha", "optimizer"])
def test_every_result_of_the_papers_d12_cells_is_shared(plans, study):
    paper = {label: found for label, found in results(plans["paper"]).items() if label.startswith("d12")}
    mine = results(plans[study])
    assert len(paper) == 6 and all(mine[label] == found for label, found in paper.items())


def test_the_optimizer_study_shares_half_of_alpha_under_muon_with_the_alpha_study(plans):
    alpha, optimizer = results(plans["alpha"]), results(plans["optimizer"])
    assert {label for label in optimizer if label in alpha} == {
        f"d12w768h12-muon-a{alpha}-s{seed}" for alpha in ("0", "0.5", "1") for seed in range(3)
    }
    assert all(optimizer[label] == alpha[label] for label in optimizer if label in alpha)


def test_alpha_zero_is_trained_once_a_seed_and_the_value_once_where_it_has_no_effect(plans):
    cells = plans["alpha"].cells
    assert Counter(cell.settings.xsa.alpha for cell in cells) == {0: 3, 0.25: 21, 0.5: 21, 0.75: 21, 1: 21}
    without = {cell.settings.xsa.value for cell in cells if cell.settings.xsa.layers == "no_value_embeds"}
    assert without == {"attended"}


def test_layer_sets_by_words_are_lists_of_layers_in_every_digest(plans):
    sets = {
        cell.settings.xsa.layers: cell.results["pretrain"].recipe["settings"]["model"]["xsa_layers"]
        for cell in plans["alpha"].cells
        if cell.settings.xsa.alpha == 1
    }
    # the last of twelve layers has value embeddings, and then every other one
    assert sets == {
        "all": list(range(12)),
        "last:3": [9, 10, 11],
        "value_embeds": [1, 3, 5, 7, 9, 11],
        "no_value_embeds": [0, 2, 4, 6, 8, 10],
    }


def test_a_layer_set_by_word_and_by_list_is_one_result(project):
    def keys(layers):
        project.study({**copy.deepcopy(STUDY), "factors": {"xsa.alpha": [0, 1], "xsa.layers": [layers], "seed": [0]}})
        return set(project.plan().results) - {(s, k) for s, k in project.plan().results if s in ("analyse", "report")}

    assert keys("value_embeds") == keys([1])
    assert keys("no_value_embeds") == keys([0])


def test_a_model_of_one_layer_has_none_without_value_embeddings(project):
    shapes = {"d1": {"model": {"n_layer": 1, "n_embd": 32, "n_head": 2}}}
    project.study({**copy.deepcopy(STUDY), "shapes": shapes, "settings": {"xsa": {"layers": "no_value_embeds"}}})
    with pytest.raises(UserError, match="has none without value embeddings"):
        project.plan()


def test_adamws_own_rate_moves_its_cells_alone(project, plans):
    factors = {"optim.matrix": ["muon", "adamw"], "xsa.alpha": [0, 1], "seed": [0]}
    project.study({**copy.deepcopy(STUDY), "factors": factors})
    before = results(project.plan())
    project.study({**copy.deepcopy(STUDY), "factors": factors, "settings": {"optim": {"adamw_matrix_lr": 0.001}}})
    after = results(project.plan())
    changed = {label for label in before if before[label]["pretrain"] != after[label]["pretrain"]}
    assert changed == {label for label in before if "adamw" in label} and changed
    rates = {cell.results["pretrain"].settings.optim.matrix_lr for cell in plans["optimizer"].cells}
    assert sorted(rates) == pytest.approx([0.0006, 0.02])  # d12's batch is the one that rates are stated for
