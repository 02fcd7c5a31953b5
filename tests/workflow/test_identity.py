"""What runs again after a change, and what never does: on a finished study, by real Snakemake runs."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
from collections import Counter

import pytest
import yaml

from tests.workflow.conftest import RECIPE, STUDY

pytestmark = pytest.mark.workflow

EVALUATIONS = {"finetune": 1, "bpb": 1, "core": 1, "chatcore": 1, "attention": 1}
PAGE = {"analyse": 1, "report": 1, "publish": 1}


def recipe(**settings) -> dict:
    changed = copy.deepcopy(RECIPE)
    for name, values in settings.items():
        changed["settings"][name] = {**changed["settings"].get(name, {}), **values}
    return changed


def study(**changes) -> dict:
    return {**copy.deepcopy(STUDY), **changes}


def test_nothing_changed_nothing_runs(mini):
    assert mini.jobs() == {}


def test_touched_files_run_nothing(mini):
    for path in [*mini.root.rglob("*.yaml"), *(mini.root / "results").rglob("record.json"), *mini.root.rglob("*.smk")]:
        path.touch()
    assert mini.jobs() == {}


def test_a_lost_snakemake_folder_runs_nothing(mini):
    shutil.rmtree(mini.root / ".snakemake")
    assert mini.jobs() == {}


def test_a_result_that_came_after_its_driver_was_killed_hides_nothing_that_is_missing(mini):
    """Snakemake then holds it for incomplete, by a mark of its own."""
    (record,) = (mini.root / "results/core").glob("*-a1-*/record.json")
    mark = base64.b64encode(str(record.relative_to(mini.root)).encode()).decode()
    (mini.root / ".snakemake/incomplete").mkdir(exist_ok=True)
    (mini.root / ".snakemake/incomplete" / mark).touch()
    for folder in ("report", "mini"):
        shutil.rmtree(mini.root / "results" / folder)
    assert mini.jobs() == {"report": 1, "publish": 1}


def test_a_renamed_setting_file_and_its_key_order_run_nothing(mini):
    changed = copy.deepcopy(RECIPE)
    changed["settings"] = dict(reversed(list(changed["settings"].items())))
    mini.write("config/recipes/mini.yaml", changed)
    assert mini.jobs() == {}


def test_how_it_runs_changes_nothing(mini):
    mini.write(
        "config/studies/mini.yaml",
        study(run={"threads": 2, "micro_batch": 1, "save_minutes": 2, "gpus": 2, "gpu": "H100"}),
    )
    assert mini.jobs() == {}


def test_the_order_of_keys_runs_nothing(mini):
    def reversed_keys(value):
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(list(value))}
        return value

    mini.write("config/studies/mini.yaml", reversed_keys(STUDY))
    mini.write("config/recipes/mini.yaml", reversed_keys(RECIPE))
    assert mini.jobs() == {}


def test_a_number_written_otherwise_runs_nothing(mini):
    mini.write("config/studies/mini.yaml", study(factors={"xsa.alpha": [0.0, 1.0], "seed": [0.0]}))
    mini.write("config/recipes/mini.yaml", recipe(horizon={"steps": 6.0}, schedule={"final_lr_frac": 5e-2}))
    assert mini.jobs() == {}


def test_the_order_of_a_list_that_is_a_set_runs_nothing(mini):
    tasks = ["spellingbee", "humaneval", "gsm8k", "mmlu", "arc_challenge", "arc_easy"]
    mini.write("config/recipes/mini.yaml", recipe(chatcore={"tasks": tasks}, xsa={"layers": [1, 0, 1]}))
    assert mini.jobs() == {}


def test_a_default_that_is_written_out_runs_nothing(mini):
    mini.write(
        "config/recipes/mini.yaml",
        recipe(core={"tasks": "all"}, optim={"matrix": "muon"}, finetune={"lr_fraction": 0.8}),
    )
    assert mini.jobs() == {}


def test_a_study_of_another_name_has_its_own_page_of_the_same_results(mini):
    """Also when the old file is gone, which is a renaming."""
    (mini.root / "config/studies/mini.yaml").unlink()
    mini.write("config/studies/other.yaml", study(name="other"))
    assert mini.jobs("results/other/report.html", config=["study=other"]) == PAGE


def test_partition_and_resources_run_nothing(mini):
    resources = ["--default-resources", "slurm_partition=other", "--set-resources", "pretrain:gres=gpu:h100:8"]
    assert mini.jobs(*resources, "--set-threads", "pretrain=2") == {}


def test_another_place_of_the_results_runs_nothing(mini, tmp_path):
    (mini.root / "results").rename(tmp_path / "elsewhere")
    assert mini.jobs(config=[f"results={tmp_path / 'elsewhere'}"]) == {}


def test_alpha_of_one_cell_runs_that_cell_alone(mini):
    mini.write("config/studies/mini.yaml", study(factors={"xsa.alpha": [0, 0.5], "seed": [0]}))
    assert mini.jobs() == {"pretrain": 1, "overhead": 1, **EVALUATIONS, **PAGE}


def test_a_change_undone_finds_the_old_results_and_publishes_the_old_page_again(mini):
    page = mini.root / "results/mini/report.html"
    before = page.read_bytes()
    mini.write("config/studies/mini.yaml", study(title="Another title"))
    assert mini.jobs() == PAGE
    run = mini.snakemake()
    assert run.returncode == 0, run.stderr
    assert page.read_bytes() != before
    mini.write("config/studies/mini.yaml", STUDY)
    shutil.rmtree(mini.root / ".snakemake")
    assert mini.jobs() == {"publish": 1}
    assert mini.snakemake().returncode == 0
    assert page.read_bytes() == before and mini.jobs() == {}


def test_a_seed_added_runs_the_new_cells_alone(mini):
    mini.write("config/studies/mini.yaml", study(factors={"xsa.alpha": [0, 1], "seed": [0, 1]}))
    assert mini.jobs() == {"pretrain": 2, **{rule: 2 for rule in EVALUATIONS}, **PAGE}


def test_the_core_limit_runs_core_and_no_training(mini):
    mini.write("config/recipes/mini.yaml", recipe(core={"max_per_task": 11}))
    assert mini.jobs() == {"core": 2, **PAGE}


def test_a_change_is_seen_again_after_the_page_was_made_of_another(mini):
    mini.write("config/studies/mini.yaml", study(title="Another title"))
    assert mini.snakemake().returncode == 0
    assert "Another title" in (mini.root / "results/mini/report.html").read_text()
    mini.write("config/studies/mini.yaml", study(title="A third title"))
    assert mini.jobs() == PAGE


def test_results_copied_without_their_times_run_nothing(mini, tmp_path):
    shutil.rmtree(mini.root / ".snakemake")
    for number, path in enumerate(sorted((mini.root / "results").rglob("*"), reverse=True)):
        if path.is_file() and ".state" not in path.parts:
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    assert mini.jobs() == {}


def test_code_that_is_stale_stops_a_study_that_has_nothing_to_run(mini):
    lock = mini.root / "config/stages.lock"
    text = lock.read_text()
    at = text.index("fingerprint:", text.index("  pretrain:")) + len("fingerprint: ")
    lock.write_text(text[:at] + "'0000000000000000'" + text[text.index("\n", at) :])
    run = mini.snakemake()
    assert run.returncode != 0 and "xsa lock --retrain pretrain" in run.stderr and "Traceback" not in run.stderr


def test_a_study_with_a_fault_ends_in_its_sentence(mini):
    mini.write("config/studies/mini.yaml", study(factors={"xsa.alhpa": [0, 1]}))
    run = mini.snakemake()
    assert run.returncode != 0 and "did you mean 'xsa.alpha'?" in run.stderr and "Traceback" not in run.stderr


def test_a_claims_published_number_runs_the_page_alone(mini):
    claims = yaml.safe_load((mini.root / "config/claims/demo.yaml").read_text())
    mini.write("config/studies/mini.yaml", study(claims=["demo"]))
    assert mini.jobs() == {"report": 1, "publish": 1}
    assert mini.snakemake().returncode == 0
    assert "XSA raises Base CORE" in (mini.root / "results/mini/report.html").read_text()
    claims["claims"][0] |= {"published": {"baseline": 0.9, "arm": 0.8}}
    mini.write("config/claims/demo.yaml", claims)
    assert mini.jobs() == {"report": 1, "publish": 1}


def test_a_template_of_the_page_runs_the_page_alone(mini):
    style = mini.root / "report" / "style.css"
    style.write_text(style.read_text() + "/* wider */\n")
    assert mini.jobs() == {"report": 1, "publish": 1}


def test_a_lost_figure_beside_the_page_is_put_there_again(mini):
    figure = min((mini.root / "results/mini/figures").glob("*.svg"))
    content = figure.read_bytes()
    figure.unlink()
    assert mini.jobs() == {"publish": 1}
    run = mini.snakemake()
    assert run.returncode == 0 and figure.read_bytes() == content, run.stderr
    assert mini.jobs() == {}


def test_a_deleted_checkpoint_runs_nothing(mini):
    for path in (mini.root / "results/pretrain").glob("*/model.safetensors"):
        path.unlink()
    assert mini.jobs() == {}


def test_a_flipped_byte_of_a_checkpoint_is_an_error_that_names_file_and_hashes(mini):
    checkpoint = next((mini.root / "results/pretrain").glob("*-a1-*/model.safetensors"))
    content = bytearray(checkpoint.read_bytes())
    content[-1] ^= 1
    checkpoint.write_bytes(bytes(content))
    measured = next((mini.root / "results/bpb").glob("*-a1-*"))
    shutil.rmtree(measured)
    run = mini.snakemake(f"results/bpb/{measured.name}/record.json")
    text = run.stdout + run.stderr
    record = json.loads((checkpoint.parent / "record.json").read_text())
    assert run.returncode != 0
    assert "model.safetensors has changed since it was made" in text
    assert record["files"]["model.safetensors"]["sha256"] in text


def test_stale_code_stops_before_the_first_job_and_names_the_ways_out(mini):
    lock = mini.root / "config/stages.lock"
    text = lock.read_text()
    start = text.index("  bpb:")
    at = text.index("fingerprint:", start) + len("fingerprint: ")
    lock.write_text(text[:at] + "'0000000000000000'" + text[text.index("\n", at) :])
    mini.write("config/recipes/mini.yaml", recipe(core={"max_per_task": 11}))
    before = {path for path in (mini.root / "results").rglob("*")}
    run = mini.snakemake()
    text = run.stdout + run.stderr
    assert run.returncode != 0 and "xsa lock --retrain bpb" in text and "Traceback" not in text
    made = {path for path in (mini.root / "results").rglob("*")} - before
    assert not [path for path in made if path.name == "record.json"]


def test_what_was_planned_is_made_and_no_result_that_was_there_is_changed(mini):
    """Several rows of the table at once, and for real: another alpha of one cell, more items of CORE, another title."""
    before = mini.state()
    mini.write("config/studies/mini.yaml", study(factors={"xsa.alpha": [0, 0.5], "seed": [0]}, title="Another title"))
    mini.write("config/recipes/mini.yaml", recipe(core={"max_per_task": 11}))
    planned = mini.jobs()
    assert planned == {"pretrain": 1, "overhead": 1, **EVALUATIONS, "core": 2, **PAGE}
    run = mini.snakemake()
    assert run.returncode == 0, run.stdout + run.stderr
    after = mini.state()
    assert {path: after.get(path) for path in before} == before
    made = Counter(path.parts[-3] for path in after.keys() - before.keys() if path.name == "record.json")
    assert {**made, "publish": 1} == planned
    assert mini.jobs() == {}
