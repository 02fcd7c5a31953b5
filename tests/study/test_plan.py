"""What is part of a result's identity, and what is not."""

from __future__ import annotations

import copy

import pytest

from tests.study.conftest import RECIPE, STUDY
from xsa.study.result import digest_of, without_added_defaults
from xsa.study.settings import Settings, added


def keys(project, stage: str = "pretrain", name: str = "tiny") -> list[str]:
    return sorted(key for kind, key in project.plan(name).results if kind == stage)


def with_settings(**settings):
    return {**copy.deepcopy(STUDY), "settings": settings}


def test_a_digest_is_the_first_ten_hex_digits_of_the_canonical_json():
    assert digest_of({"b": 1, "a": [1.0, "é"]}) == digest_of({"a": [1.0, "é"], "b": 1})
    import hashlib

    assert digest_of({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()[:10]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_what_json_cannot_hold_stably_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        digest_of({"a": value})


def test_a_number_written_as_an_integer_or_a_float_is_one(project):
    before = keys(project)
    project.study({**copy.deepcopy(STUDY), "factors": {"xsa.alpha": [0.0, 1.0], "seed": [0, 1]}})
    assert keys(project) == before


def test_key_order_and_study_name_change_nothing_upstream_of_the_analysis(project):
    before = keys(project)
    renamed = dict(reversed(list(copy.deepcopy(STUDY).items()))) | {"name": "other"}
    project.study(renamed)
    assert keys(project, name="other") == before


def test_how_a_study_runs_changes_nothing(project):
    before = set(project.plan().results)
    project.study({**copy.deepcopy(STUDY), "run": {"threads": 7, "micro_batch": 3, "save_minutes": 1}})
    assert set(project.plan().results) == before


def test_alpha_changes_a_cells_training_and_not_its_data(project):
    before = set(project.plan().results)
    project.study({**copy.deepcopy(STUDY), "factors": {"xsa.alpha": [0, 0.5], "seed": [0, 1]}})
    new = {stage for stage, _ in set(project.plan().results) - before}
    assert new == {"pretrain", "finetune", "bpb", "core", "chatcore", "attention", "overhead", "analyse", "report"}


def test_the_core_task_list_changes_core_alone(project):
    before = set(project.plan().results)
    project.study(with_settings(core={"max_per_task": 8}))
    assert {stage for stage, _ in set(project.plan().results) - before} == {"core", "analyse", "report"}


def test_a_seed_added_adds_cells_and_keeps_the_old_ones(project):
    before = keys(project)
    project.study({**copy.deepcopy(STUDY), "factors": {"xsa.alpha": [0, 1], "seed": [0, 1, 2]}})
    assert set(before) < set(keys(project)) and len(keys(project)) == len(before) + 2


def test_a_setting_of_fine_tuning_leaves_pretraining_alone(project):
    before = keys(project)
    project.study(with_settings(finetune={"lr_fraction": 0.5}))
    assert keys(project) == before and keys(project, "finetune")


def test_all_cells_read_the_same_rows(project):
    cells = project.plan().cells
    assert len({tuple(row.key for row in cell.results["pretrain"].inputs["rows"]) for cell in cells}) == 1


def test_the_validation_shard_is_the_last_and_is_never_trained_on(project):
    pretrain = project.plan().cells[0].results["pretrain"]
    assert pretrain.inputs["validation"].label.startswith("builtin-s0-00002")
    assert pretrain.inputs["validation"].key not in {row.key for row in pretrain.inputs["rows"]}


def test_overhead_and_equivalence_are_shared_by_seeds(project):
    plan = project.plan()
    assert len([key for stage, key in plan.results if stage == "overhead"]) == 1
    assert len([key for stage, key in plan.results if stage == "equivalence"]) == 1


def test_an_option_that_came_later_is_left_out_at_its_default():
    class Old(Settings):
        a: int = 1

    class New(Settings):
        a: int = 1
        b: float = added(0.5)

    assert without_added_defaults(New()) == without_added_defaults(Old())
    assert without_added_defaults(New(b=0.7)) == {"a": 1, "b": 0.7}


def test_a_local_file_is_known_by_its_content_not_its_name_or_time(project):
    corpus = project.root / "corpus"
    corpus.mkdir()
    for index in range(3):
        (corpus / f"part{index}.parquet").write_bytes(b"PAR1" + bytes([index]))
    data = {"kind": "local", "path": "corpus", "tokens_per_shard": 10_000}
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["data"] = data
    project.recipe(recipe)
    before = set(project.plan().results)
    (corpus / "part0.parquet").touch()
    assert set(project.plan().results) == before
    (corpus / "part0.parquet").write_bytes(b"PAR1other")
    assert {"shard", "tokens", "rows", "pretrain"} <= {stage for stage, _ in set(project.plan().results) - before}


def test_a_stage_version_changes_it_and_what_follows(project):
    import yaml

    before = set(project.plan().results)
    path = project.root / "config/stages.lock"
    lock = yaml.safe_load(path.read_text())
    lock["stages"]["finetune"]["version"] = 2
    path.write_text(yaml.safe_dump(lock))
    assert {stage for stage, _ in set(project.plan().results) - before} == {"finetune", "chatcore", "analyse", "report"}


def test_a_local_file_renamed_is_the_same_file(project):
    corpus = project.root / "corpus"
    corpus.mkdir()
    for index in range(3):
        (corpus / f"part{index}.parquet").write_bytes(b"PAR1" + bytes([index]))
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["data"] = {"kind": "local", "path": "corpus", "tokens_per_shard": 10_000}
    project.recipe(recipe)
    before = set(project.plan().results)
    (corpus / "part0.parquet").rename(corpus / "p-art-ä.parquet")
    assert set(project.plan().results) == before


def test_finished_results_are_found_where_the_local_data_are_not(project):
    import shutil

    corpus = project.root / "corpus"
    corpus.mkdir()
    for index in range(3):
        (corpus / f"part{index}.parquet").write_bytes(b"PAR1" + bytes([index]))
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["data"] = {"kind": "local", "path": "corpus", "tokens_per_shard": 10_000}
    project.recipe(recipe)
    before = set(project.plan().results)
    shutil.rmtree(corpus)
    assert set(project.plan().results) == before


def test_cells_that_differ_in_fine_tuning_alone_are_two_and_share_their_training(project):
    project.study(
        {
            **copy.deepcopy(STUDY),
            "factors": {"finetune.lr_fraction": [0.5, 0.8], "seed": [0]},
            "baseline": {"finetune.lr_fraction": 0.5},
        }
    )
    cells = project.plan().cells
    assert len(cells) == 2 and len({cell.label for cell in cells}) == 2
    assert cells[0].results["pretrain"] is cells[1].results["pretrain"]
    assert cells[0].results["chatcore"].key != cells[1].results["chatcore"].key


def test_the_label_is_the_resolved_models(project):
    project.study({**copy.deepcopy(STUDY), "factors": {"xsa.alpha": [0, 1], "xsa.layers": [[1]], "seed": [0]}})
    assert [cell.label for cell in project.plan().cells] == ["d2w32h2-muon-a0-s0", "d2w32h2-muon-a1-last1-s0"]


def test_the_baseline_may_be_written_otherwise_than_the_settings_hold_it(project):
    project.study(
        {
            **copy.deepcopy(STUDY),
            "factors": {"optim.matrix_lr": ["1e-3", "2e-3"], "seed": [0]},
            "baseline": {"optim.matrix_lr": "1e-3"},
        }
    )
    assert project.plan().analyse.settings.baseline == {"optim.matrix_lr": 0.001}


def test_time_for_generated_programs_is_part_of_chatcore(project):
    before = set(project.plan().results)
    project.study(with_settings(chatcore={"sandbox_seconds": 1}))
    assert {stage for stage, _ in set(project.plan().results) - before} == {"chatcore", "analyse", "report"}


def test_a_study_that_requires_gpus_decides_auto_as_they_would(project):
    auto = {
        "precision": {"dtype": "auto", "compile": "auto"},
        "overhead": {"device": "auto"},
        "equivalence": {"device": "auto"},
    }
    project.study({**with_settings(**auto), "run": {"requires": "cuda"}})
    results = project.plan().cells[-1].results
    assert results["pretrain"].settings.dtype == "bfloat16" and results["pretrain"].settings.compile
    assert results["overhead"].settings.device == results["equivalence"].settings.device == "cuda"


def test_two_shapes_with_one_model_keep_cells_of_their_own_names(project):
    model = {"n_layer": 2, "n_embd": 32, "n_head": 2}
    shapes = {"d2": {"model": model}, "slow": {"model": model, "schedule": {"warmdown_ratio": 0.1}}}
    project.study({**copy.deepcopy(STUDY), "shapes": shapes})
    labels = [cell.label for cell in project.plan().cells]
    assert len(set(labels)) == 8 and sum("-slow" in label for label in labels) == 4
