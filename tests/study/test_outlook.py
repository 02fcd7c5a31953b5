"""What a run will do with each result of a study, and why: on a folder of results as it is after many kinds of change."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.study.conftest import RECIPE, STUDY
from tests.study.recording import record, record_all
from xsa.study import outlook as outlook_module
from xsa.study.outlook import made_again, outlook
from xsa.study.show_outlook import WIDTH, outlook_as_json, outlook_as_summary, outlook_as_text


@pytest.fixture
def results(project):
    return project.root / "results"


@pytest.fixture
def done(project, results):
    """The study, all of it made and published."""
    record_all(project.plan(), results)
    return project


def study(**changes):
    return {**copy.deepcopy(STUDY), **changes}


def recipe(**settings):
    changed = copy.deepcopy(RECIPE)
    for name, values in settings.items():
        changed["settings"][name] = {**changed["settings"].get(name, {}), **values}
    return changed


def told(project, jobs=None) -> dict[str, set[tuple[str, str]]]:
    """(action, reason) of all results, by stage."""
    found: dict[str, set[tuple[str, str]]] = {}
    for line in outlook(project.plan(), project.root / "results", jobs).lines:
        found.setdefault(line.result.stage, set()).add((line.action.name, line.action.reason))
    return found


def running(project) -> dict[str, int]:
    """How many results of each stage are made."""
    counts: dict[str, int] = {}
    for line in outlook(project.plan(), project.root / "results").lines:
        if line.action.runs:
            counts[line.result.stage] = counts.get(line.result.stage, 0) + 1
    return counts


def test_all_of_a_fresh_study_runs(project):
    assert {action for stage in told(project).values() for action, _ in stage} == {"run"}
    assert told(project)["pretrain"] == {("run", "new cell")} and told(project)["rows"] == {("run", "not there yet")}


def test_a_finished_study_is_reused(done):
    assert {action for stage in told(done).values() for action, _ in stage} == {"reuse"}


def test_a_changed_alpha_is_told_in_the_studys_words(done):
    done.study(study(factors={"xsa.alpha": [0, 0.5], "seed": [0, 1]}))
    found = told(done)
    for stage in ("pretrain", "finetune", "bpb", "core", "chatcore", "attention"):
        assert found[stage] == {("reuse", ""), ("run", "xsa.alpha: 1.0 → 0.5")}, stage
    assert found["overhead"] == {("run", "xsa.alpha: 1.0 → 0.5")} and found["rows"] == {("reuse", "")}
    assert found["report"] == {("run", "the analysis is new")}


def test_a_cell_beside_those_that_stay_is_new(done):
    done.study(study(factors={"xsa.alpha": [0, 1], "seed": [0, 1, 2]}))
    assert told(done)["pretrain"] == {("reuse", ""), ("run", "new cell")}
    assert running(done) == {
        "pretrain": 2, "finetune": 2, "bpb": 2, "core": 2, "chatcore": 2, "attention": 2, "analyse": 1, "report": 1
    }  # fmt: skip


def test_a_version_of_code_is_told_with_all_that_follows_from_it(done):
    lock = done.root / "config/stages.lock"
    text = lock.read_text()
    at = text.index("pretrain:")
    lock.write_text(text[:at] + text[at:].replace("version: 1", "version: 2", 1))
    found = told(done)
    for stage in ("pretrain", "finetune", "bpb", "core", "chatcore", "attention"):
        assert found[stage] == {("run", "pretrain v1 → v2")}, stage
    assert found["overhead"] == {("reuse", "")}


def test_a_change_far_upstream_is_followed_down_to_the_setting(done):
    done.recipe(recipe(rows={"buffer_size": 99}))
    found = told(done)
    assert found["rows"] == {("run", "rows.buffer_size: 1000 → 99")}
    assert found["chatcore"] == {("run", "rows.buffer_size: 1000 → 99")} and found["tokens"] == {("reuse", "")}


def test_the_core_limit_runs_core_alone(done):
    done.recipe(recipe(core={"max_per_task": 12}))
    assert running(done) == {"core": 4, "analyse": 1, "report": 1}
    assert told(done)["core"] == {("run", "core.max_per_task: null → 12")}


def test_of_equally_near_results_the_one_last_made_is_named(done, results):
    done.study(study(factors={"xsa.alpha": [0, 0.25], "seed": [0, 1]}))
    for result in done.plan().results.values():
        if result.stage == "pretrain" and not result.folder(results).exists():
            record(result, results, started="2026-02-01T00:00:00+00:00")
    done.study(study(factors={"xsa.alpha": [0, 0.5], "seed": [0, 1]}))
    assert ("run", "xsa.alpha: 0.25 → 0.5") in told(done)["pretrain"]


def test_results_of_quite_another_study_are_no_relatives(project, results):
    other = recipe(model={"sequence_len": 128}, tokenizer={"vocab_size": 320}, precision={"dtype": "bfloat16"})
    project.recipe(other)
    project.study(study(shapes={"d2": {"model": {"n_layer": 4, "n_embd": 64, "n_head": 4}}}))
    record_all(project.plan(), results)
    project.recipe(RECIPE)
    project.study(STUDY)
    assert told(project)["pretrain"] == {("run", "new cell")}


def test_another_template_makes_the_page_alone_again_and_says_so(done):
    (done.root / "report/template.html.j2").write_text("another page")
    assert running(done) == {"report": 1}
    assert told(done)["report"] == {("run", "the page's templates have changed")}


def first(project, stage="pretrain"):
    return next(result for (name, _), result in project.plan().results.items() if name == stage)


def test_a_checkpoint_deleted_whose_evaluations_are_kept_is_not_needed(done, results):
    (first(done).folder(results) / "model.safetensors").unlink()
    reason = "its checkpoint was deleted, and nothing unfinished reads it"
    assert told(done)["pretrain"] == {("reuse", ""), ("not needed", reason)} and running(done) == {}


def test_a_checkpoint_deleted_that_something_must_read_is_warned_of(done, results):
    (first(done).folder(results) / "model.safetensors").unlink()
    done.recipe(recipe(core={"max_per_task": 12}))
    shown = outlook(done.plan(), results)
    assert {line.action.name for line in shown.lines if line.result.stage == "pretrain"} == {"reuse", "lacking"}
    (warning,) = shown.warnings
    assert "its checkpoint was deleted, and core must read it" in warning and "record.json to make it again" in warning


def test_optimizer_states_may_go_once_a_cell_is_fine_tuned(done, results):
    (first(done).folder(results) / "optimizer.safetensors").unlink()
    done.recipe(recipe(core={"max_per_task": 12}))
    assert outlook(done.plan(), results).warnings == []
    done.recipe(recipe(finetune={"lr_fraction": 0.5}))
    assert "its optimizer state was deleted, and finetune must read it" in outlook(done.plan(), results).warnings[0]


def test_a_deleted_record_is_restored_with_those_that_read_it_and_costs_nothing(done, results):
    done.recipe(recipe(core={"max_per_task": 12}))
    (first(done).folder(results) / "record.json").unlink()
    lines = [line for line in outlook(done.plan(), results).lines if line.action.name == "restore"]
    reasons = {line.result.stage: line.action.reason for line in lines}
    assert reasons.pop("pretrain").startswith("its record is missing")
    # ChatCORE reads fine-tuning's result, whose record is there.
    assert set(reasons) == {"finetune", "bpb", "attention"} and len(lines) == 4
    assert all(reason.startswith("it reads a result whose record is made again") for reason in reasons.values())
    assert not any(line.cost.flops or line.cpu_hours or line.gpu_hours for line in lines)


def test_a_deleted_record_that_nothing_needs_is_left(done, results):
    (first(done).folder(results) / "record.json").unlink()
    assert running(done) == {}


def test_a_checkpoint_deleted_with_its_record_is_made_again_and_says_so(done, results):
    done.recipe(recipe(core={"max_per_task": 12}))
    for name in ("record.json", "model.safetensors"):
        (first(done).folder(results) / name).unlink()
    assert ("run", "its checkpoint was deleted") in told(done)["pretrain"]


def test_a_training_goes_on_from_its_newest_saved_state_and_costs_the_rest(project, results):
    result = first(project)
    for step in (3, 6):
        state = results / ".state/pretrain" / result.key / f"step_{step:08d}"
        state.mkdir(parents=True)
        (state / "state.json").write_text("{}")
    (results / ".state/pretrain" / result.key / "step_00000009").mkdir()  # half-written: no state.json
    lines = [line for line in outlook(project.plan(), results).lines if line.result.stage == "pretrain"]
    (resumed,) = [line for line in lines if line.action.name == "resume"]
    assert resumed.action.step == 6 and resumed.action.reason == "stopped after step 6 of 10"
    assert resumed.cost.flops == pytest.approx(0.4 * lines[1].cost.flops) and lines[1].action.name == "run"
    assert "resume at step 6" in outlook_as_text(outlook(project.plan(), results))


def test_the_page_alone_is_made_again_where_another_was_published(done, results):
    (results / "tiny/published.json").write_text(json.dumps({"report": "another@0123456789", "files": []}))
    assert running(done) == {}  # publishing is no stage; all its results are there
    shutil.rmtree(done.plan().report.folder(results))
    assert running(done) == {"report": 1}


def test_jobs_that_are_given_are_what_runs(done):
    key = ("bpb", first(done, "bpb").key)
    assert {stage for stage, found in told(done, {key}).items() if any(action == "restore" for action, _ in found)} == {
        "bpb"
    }


# --- torch ---


def test_results_of_another_torch_are_reused_with_one_warning(project, results, monkeypatch):
    record_all(project.plan(), results, torch="2.12.1+cu128")
    monkeypatch.setattr(outlook_module, "torch_version", lambda: "2.13.0")
    shown = outlook(project.plan(), results)
    assert set(shown.totals.actions) == {"reuse"}
    (warning,) = shown.warnings
    torch = sum(
        stage in ("pretrain", "finetune", "bpb", "core", "chatcore", "attention", "overhead", "equivalence")
        for stage, _ in project.plan().results
    )
    assert f"{torch} by 2.12.1" in warning and "2.13.0, which is installed" in warning


def test_another_build_of_the_same_torch_is_no_other_version(project, results, monkeypatch):
    record_all(project.plan(), results, torch="2.13.0+cu128")
    monkeypatch.setattr(outlook_module, "torch_version", lambda: "2.13.0")
    assert outlook(project.plan(), results).warnings == []


# --- code that is not what the lock says ---


class Stale:
    """A lock that one stage's code no longer matches."""

    path = Path("config/stages.lock")

    def __init__(self, stage):
        self.stage = stage

    def stale(self, among):
        return [SimpleNamespace(stage=self.stage)] if self.stage in among else []


def test_stale_code_is_warned_of_with_what_a_retrain_would_make_again(done, results):
    (warning,) = outlook(done.plan(), results, lock=Stale("finetune")).warnings
    # 4 cells' fine-tuning and ChatCORE, the analysis and the page.
    assert "the code of finetune" in warning and "would make 10 results of the study 'tiny' again" in warning


def test_a_retrain_makes_all_that_follows_and_costs_it_whole(done, results):
    again = made_again(done.plan(), results, {"pretrain"})
    assert {line.result.stage for line in again} == {
        "pretrain", "finetune", "bpb", "core", "chatcore", "attention", "analyse", "report"
    }  # fmt: skip
    assert all(line.cost.flops for line in again if line.result.stage == "pretrain")


# --- what a person and a program read ---


def test_the_table_is_as_wide_as_a_terminal_and_sums_up(project, results):
    project.study(study(run={"requires": "cuda", "gpu": "H100"}))
    text = outlook_as_text(outlook(project.plan(), results))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "d2w32h2-muon-a{0,1}-s{0,1}" in text and "all of it" in text and "FLOPs at 40 % of H100" in text


def test_the_summary_fits_fifteen_lines_however_much_there_is_to_say(done, results):
    shapes = {f"d{n}": {"model": {"n_layer": n, "n_embd": 32, "n_head": 2}} for n in range(2, 9)}
    done.study(study(shapes=shapes, factors={"xsa.alpha": [0, 0.3], "seed": [0, 7]}))
    for step, (stage, key) in enumerate(done.plan().results, start=1):
        if stage == "pretrain":
            state = results / ".state/pretrain" / key / f"step_{step % 9 + 1:08d}"
            state.mkdir(parents=True)
            (state / "state.json").write_text("{}")
    text = outlook_as_summary(outlook(done.plan(), results))
    assert len(text.splitlines()) <= 15 and max(map(len, text.splitlines())) <= WIDTH
    assert "other reasons, which `xsa plan tiny` lists" in text


def test_json_holds_a_row_for_every_result_and_their_sums(project, results):
    plan = project.plan()
    value = json.loads(outlook_as_json(outlook(plan, results), results))
    assert {(row["stage"], row["result"]) for row in value["results"]} == set(plan.results)
    for name in ("tokens", "flops", "gpu_hours", "cpu_hours", "cost", "bytes"):
        assert sum(row[name] for row in value["results"]) == pytest.approx(value["totals"][name], abs=len(plan.results))
    trained = [row for row in value["results"] if row["stage"] == "pretrain"]
    assert all(row["cells"] and row["basis"] == "estimated" and row["tokens"] == 2560 for row in trained)


def test_shards_of_the_hub_are_counted_as_fetched(project, results):
    data = {"kind": "hub", "dataset": "a/b", "shards": 40, "tokens_per_shard": 1000}
    project.study(study(settings={"data": data}))
    shown = outlook(project.plan(), results)
    # 2,560 tokens need 3 shards, and the last one is for validation.
    assert shown.totals.shards == 4 and shown.totals.shard_bytes == pytest.approx(4 * 100e6)
    assert "4 shards to fetch (400 MB)" in outlook_as_text(shown)


def test_labels_that_are_no_grid_are_told_by_the_first_and_by_what_the_last_has_otherwise():
    from xsa.study.show_outlook import names

    assert names(["d2-muon-a0-s1", "d2-muon-a1-s0", "d2-muon-a1-s1"]) == "d2-muon-a0-s1 … a1-s1"
    assert names(["d2-muon-a0-s0", "d2-muon-a1-s0"]) == "d2-muon-a{0,1}-s0"
