"""A cell whose checkpoint was trained elsewhere is planned without a training, and by content alone."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from tests.study.conftest import STUDY
from xsa.store.errors import UserError

MODEL = {
    "architecture": "nanochat",
    "vocab_size": 300,
    "sequence_len": 64,
    "n_layer": 2,
    "n_head": 2,
    "n_kv_head": 2,
    "n_embd": 32,
    "window_pattern": "SSSL",
    "alpha": 0.5,
    "xsa_layers": [1],
    "xsa_value": "attended",
}


def imported(project, name="theirs", kinds=("base", "chat"), **model):
    folder = project.root / "imported" / name
    for kind in (*kinds, "tokenizer"):
        (folder / kind).mkdir(parents=True)
        (folder / kind / "weights").write_text(f"{kind} {model}")
        (folder / kind / "config.json").write_text(json.dumps({"model": MODEL | model}))
    return folder


def study(project, paths=("imported/theirs",), **settings):
    project.study(
        copy.deepcopy(STUDY)
        | {"factors": {"imported.path": list(paths)}, "baseline": {"imported.path": paths[0]}, "settings": settings}
    )
    return project.plan()


def test_it_is_measured_and_never_trained(project):
    imported(project)
    (cell,) = study(project).cells
    assert set(cell.results) == {
        "imported", "bpb", "core", "imported_chat", "chatcore", "attention", "overhead", "equivalence",
    }  # fmt: skip
    assert cell.results["bpb"].inputs["checkpoint"] is cell.results["imported"] is cell.checkpoint
    assert cell.results["chatcore"].inputs["checkpoint"] is cell.results["imported_chat"]
    stages = {stage for stage, _ in project.plan().results}
    assert not stages & {"pretrain", "finetune", "tokenizer"} and "imported_tokenizer" in stages


def test_its_model_projection_and_vocabulary_are_the_checkpoints(project):
    imported(project)
    (cell,) = study(project).cells
    assert cell.results["imported"].settings.model.model_dump(mode="json") == MODEL
    assert (cell.settings.xsa.alpha, cell.settings.xsa.layers, cell.settings.tokenizer.vocab_size) == (0.5, (1,), 300)
    assert cell.results["overhead"].settings.model.alpha == 0.5
    assert cell.label == "theirs-d2w32h2-a0.5-last1"


def test_the_contents_are_the_identity_and_the_place_is_not(project):
    folder = imported(project)
    before = study(project).cells[0].checkpoint.digest
    folder.rename(project.root / "elsewhere")
    moved = study(project, ["elsewhere"]).cells[0].checkpoint
    assert moved.digest == before and moved.source["path"] == str(project.root / "elsewhere" / "base")
    (project.root / "elsewhere/base/weights").write_text("other")
    assert study(project, ["elsewhere"]).cells[0].checkpoint.digest != before


def test_two_checkpoints_of_one_vocabulary_read_the_same_rows(project):
    for name, alpha in (("plain", 0.0), ("exclusive", 1.0)):
        folder = imported(project, name, alpha=alpha)
        (folder / "tokenizer/weights").write_text("the same")
        (folder / "tokenizer/config.json").write_text("{}")
    cells = study(project, ["imported/plain", "imported/exclusive"]).cells
    assert len(cells) == 2 and len({cell.results["bpb"].inputs["validation"].key for cell in cells}) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": {"n_layer": 2, "n_embd": 64, "n_head": 2}}, r"has n_embd = 32, the study says model\.n_embd = 64"),
        ({"model": {"window_pattern": "L"}}, r"has window_pattern = SSSL, the study says"),
        ({"xsa": {"alpha": 1}}, r"trained with xsa .*'alpha': 0\.5.*leave xsa out"),
    ],
)
def test_a_study_that_says_otherwise_is_refused(project, settings, said):
    imported(project)
    values = copy.deepcopy(STUDY)
    values["shapes"]["d2"] = {"model": values["shapes"]["d2"]["model"] | settings.pop("model", {})} | settings
    project.study(values | {"factors": {"imported.path": ["imported/theirs"]}, "baseline": {}})
    with pytest.raises(UserError, match=said):
        project.plan()


def test_a_chat_model_that_is_missing_is_asked_for_only_where_it_is_measured(project):
    imported(project, kinds=("base",))
    with pytest.raises(UserError, match=r"has no chat model.*evaluate\.chatcore"):
        study(project)
    assert "chatcore" not in study(project, evaluate={"chatcore": False}).cells[0].results


def test_finished_results_can_be_planned_where_the_folder_is_not(project):
    imported(project)
    before = set(study(project).results)
    shutil.rmtree(project.root / "imported")
    assert set(study(project).results) == before
    shutil.rmtree(project.root / "results")
    with pytest.raises(UserError, match=r"imported\.path: there is no folder"):
        study(project)


def test_a_horizon_that_fits_no_rows_is_no_matter(project):
    imported(project)
    assert study(project, horizon={"batch_tokens": 100}, evaluate={"equivalence": False}).cells
