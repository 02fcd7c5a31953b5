"""Where every cell stands, known from the files alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from tests.study.conftest import STUDY
from tests.study.recording import record, record_all
from xsa.cli import main
from xsa.store.errors import UserError
from xsa.store.lock import Lock, lock_path
from xsa.store.status import JobStatus
from xsa.study.remaining import remaining
from xsa.study.states import Observer
from xsa.study.status import finished, status_text, status_values

PRETRAIN = "d2w32h2-muon-a0-s0"


@pytest.fixture
def results(project):
    return project.root / "results"


@pytest.fixture
def plan(project):
    return project.plan()


def first(plan, stage="pretrain"):
    return plan.cells[0].results[stage]


def data(plan):
    """Everything that training reads."""
    return [result for result in plan.results.values() if result.stage in ("shard", "tokenizer", "tokens", "rows")]


def state_of(plan, results, result):
    return Observer(plan, results).look()[result.stage, result.key]


def tried(results, result, error=None, **told):
    """The word that a job of a result left behind; without `error` it still says that it runs."""
    status = JobStatus(results / ".state" / result.stage / result.key)
    status._told |= told
    status.begin() if error is None else status.ended(error)


def trainings(plan, results):
    return {place: state for place, state in Observer(plan, results).look().items() if place[0] == "pretrain"}


def text(plan, results, width=160, rows=54):
    return click.unstyle(status_text(plan, Observer(plan, results).look(), width, rows))


def test_before_anything_ran_data_can_start_and_cells_wait_for_it(plan, results):
    states = Observer(plan, results).look()
    assert {state.state for (stage, _), state in states.items() if stage == "shard"} == {"ready"}
    pretrain = states["pretrain", first(plan).key]
    assert pretrain.state == "waiting" and {one.stage for one in pretrain.waits_for} == {"rows", "tokenizer"}
    assert "pretrain waits for 2 rows, tokenizer" in text(plan, results)


def test_a_finished_study_has_nothing_left(plan, results):
    record_all(plan, results, started="2026-01-01T10:00:00+00:00", wall_seconds=30.0)
    states = Observer(plan, results).look()
    assert {state.state for state in states.values()} == {"done"} and finished(plan, states)
    one = states["pretrain", first(plan).key]
    assert one.seconds == 30.0 and one.ended - one.started == 30.0
    assert "4 of 4 cells done; nothing is left to do" in text(plan, results)


def test_a_deleted_checkpoint_of_a_finished_study_is_not_needed(plan, results):
    record_all(plan, results)
    (first(plan).folder(results) / "record.json").unlink()
    states = Observer(plan, results).look()
    assert states["pretrain", first(plan).key].state == "spared" and finished(plan, states)


def test_a_job_that_holds_its_lock_runs_and_says_how_far_it_is(plan, results):
    for result in data(plan):
        record(result, results)
    progress = {"unit": "step", "done": 4, "total": 10, "numbers": {"loss": 3.25, "tok/s": 4200.0}, "seconds_left": 90}
    with Lock(lock_path(results, "pretrain", first(plan).key), "x"):
        tried(results, first(plan), progress=progress)
        state, shown = state_of(plan, results, first(plan)), text(plan, results)
    assert (state.state, state.pid) == ("running", os.getpid())
    assert "1 running" in shown and "▶40%" in shown and f"process {os.getpid()}" in shown
    assert "step 4 of 10, loss 3.25, 4,200 tok/s, 1 min 30 s left" in shown


def test_a_job_killed_without_a_word_is_told_from_one_that_runs(plan, results):
    code = (
        "import sys, time; from pathlib import Path; from xsa.store.lock import Lock; from xsa.store.status import *\n"
        "with Lock(Path(sys.argv[1]), 'x'), reported(Path(sys.argv[2]), Progress()):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    key = first(plan).key
    places = (lock_path(results, "pretrain", key), results / ".state" / "pretrain" / key)
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, places)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n" and state_of(plan, results, first(plan)).state == "running"
    child.kill()
    child.wait()
    state = state_of(plan, results, first(plan))
    assert (state.state, state.pid) == ("died", child.pid)
    assert f"process {child.pid} on {state.host} is gone" in text(plan, results)


def test_a_jobs_error_is_shown_with_its_log(plan, results):
    for result in data(plan):
        record(result, results)
    tried(results, first(plan), UserError("training stopped: the loss of step 7 is nan"))
    log = results / ".logs" / "pretrain" / f"{first(plan).key}.log"
    log.parent.mkdir(parents=True)
    log.write_text("…")
    shown = text(plan, results)
    assert "1 failed" in shown and "training stopped: the loss of step 7 is nan" in shown and f"log: {log}" in shown


def test_one_error_of_many_cells_is_told_once(plan, results):
    for result in data(plan):
        record(result, results)
    for cell in plan.cells:
        tried(results, cell.results["pretrain"], UserError("the disk is full"))
    shown = text(plan, results)
    assert shown.count("the disk is full") == 1 and f"pretrain {PRETRAIN} and 3 more  failed" in shown


def test_a_job_that_began_before_its_inputs_were_there_waits_for_them(project, plan, results, monkeypatch):
    monkeypatch.chdir(project.root)
    one = first(plan, "core")
    assert CliRunner().invoke(main, ["core", "tiny", one.key]).exit_code == 2
    assert (results / ".state" / "core" / one.key / "status.json").exists()
    assert state_of(plan, results, one).state == "waiting"


def test_a_job_refused_before_it_began_has_failed(project, plan, results, monkeypatch):
    """Its code is not what the lock says, which this project's empty fingerprints make sure of."""
    monkeypatch.chdir(project.root)
    shard = next(result for result in plan.results.values() if result.stage == "shard")
    assert CliRunner().invoke(main, ["shard", "tiny", shard.key]).exit_code == 2
    state = state_of(plan, results, shard)
    assert state.state == "failed" and "the code of 1 stage(s) has changed" in state.error


def test_a_stopped_training_says_from_which_step_it_goes_on(plan, results):
    tried(results, first(plan), SystemExit(75))
    for step in (40, 120):
        (results / ".state" / "pretrain" / first(plan).key / f"step_{step:08d}").mkdir()
    state = state_of(plan, results, first(plan))
    assert (state.state, state.reason, state.saved_step) == ("stopped", "SIGTERM", 120)
    assert "it goes on after step 120" in text(plan, results)


@pytest.mark.parametrize(
    ("words", "reason"),
    [("CANCELLED AT 2026-07-01 DUE TO TIME LIMIT ***", "time limit"), ("Detected 1 oom_kill event", "memory")],
)
def test_slurms_own_log_says_why_a_job_died(project, plan, results, words, reason):
    tried(results, first(plan), slurm_job="4711")
    log = project.root / ".snakemake/slurm_logs/rule_pretrain/x/4711.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"slurmstepd: error: {words}\n")
    assert state_of(plan, results, first(plan)).reason == reason


def test_the_last_words_of_a_dead_job_are_those_that_tell_something(plan, results):
    log = results / ".logs" / "pretrain" / f"{first(plan).key}.log"
    log.parent.mkdir(parents=True)
    log.write_text("pretrain x  goes on after step 3\npretrain x  step 4/10  loss 3.2\n\n")
    tried(results, first(plan))
    assert state_of(plan, results, first(plan)).error == "pretrain x  goes on after step 3"


def test_a_record_that_cannot_be_believed_is_no_success(plan, results):
    folder = record(first(plan), results)
    for name in ("record.json", ".record.json"):
        (folder / name).write_text("{")
    state = state_of(plan, results, first(plan))
    assert state.state == "failed" and "no readable JSON" in state.error.replace(
        "not readable JSON", "no readable JSON"
    )


def test_a_job_that_ends_while_it_is_looked_at_did_not_die(plan, results, monkeypatch):
    tried(results, first(plan))
    observer, look = Observer(plan, results), Observer._look_for

    def late(self, places):
        found = look(self, places)
        if not first(plan).folder(results).exists():
            record(first(plan), results)
        return found

    monkeypatch.setattr(Observer, "_look_for", late)
    assert observer.look()["pretrain", first(plan).key].state == "done"


def test_looking_writes_nothing(plan, results):
    record(first(plan), results)
    tried(results, plan.cells[1].results["pretrain"])
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    text(plan, results)
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before


def test_what_is_left_is_reckoned_from_finished_jobs_and_running_ones(plan, results):
    record(first(plan), results, wall_seconds=100.0)
    left = remaining(plan, trainings(plan, results))
    assert left.seconds == pytest.approx(300.0) and left.jobs == 1 and not left.estimated
    with Lock(lock_path(results, "pretrain", plan.cells[1].results["pretrain"].key), "x"):
        progress = {"unit": "step", "done": 9, "total": 10, "numbers": {}, "seconds_left": 10.0}
        tried(results, plan.cells[1].results["pretrain"], progress=progress, started=time.time() - 90.0)
        left = remaining(plan, trainings(plan, results))
    assert left.seconds == pytest.approx(210.0, abs=2.0)


def test_stages_of_which_nothing_is_done_are_estimated(plan, results):
    left = remaining(plan, trainings(plan, results))
    assert left.estimated == ("pretrain",) and left.seconds > 0


def test_many_cells_in_the_same_states_are_one_row(project, results):
    project.study(STUDY | {"factors": {"xsa.alpha": [0, 1], "seed": list(range(40))}})
    plan = project.plan()
    for cell in plan.cells[:30]:
        for stage in ("pretrain", "bpb"):
            record(cell.results[stage], results)
    shown = text(plan, results, rows=20)
    assert re.search(r"^30 cells +✓ .* d2w32h2-muon-a0-s0 … d2w32h2-muon-a0-s29$", shown, re.MULTILINE)
    assert len(shown.splitlines()) < 15
    assert len(text(plan, results, rows=100).splitlines()) > 80


@pytest.mark.parametrize("width", [80, 120, 200])
def test_rows_keep_within_the_terminal(plan, results, width):
    table = [line for line in text(plan, results, width=width).splitlines() if line.startswith(("d2w32h2", "   "))]
    assert len(table) == 5 and max(map(len, table)) <= width


def test_values_for_programs_hold_every_result(plan, results):
    record(first(plan), results)
    values = json.loads(json.dumps(status_values(plan, Observer(plan, results).look())))
    cell = values["cells"][0]
    assert cell["results"]["pretrain"]["state"] == "done" and cell["results"]["core"]["waits_for"]
    assert len(values["shared"]) + sum(len(one["results"]) for one in values["cells"]) >= len(plan.results)


def test_watching_ends_when_all_is_done(project, plan, results, monkeypatch):
    monkeypatch.chdir(project.root)
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            record_all(plan, results)

    monkeypatch.setattr(time, "sleep", sleep)
    shown = CliRunner().invoke(main, ["status", "tiny", "--watch", "1.5"])
    assert shown.exit_code == 0, shown.output
    assert looks == [1.5, 1.5] and shown.output.count("cells done") == 3 and "\x1b" not in shown.output
