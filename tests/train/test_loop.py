"""A run that is stopped or killed anywhere and run again ends as one that was left alone, to the last byte."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from xsa.store.errors import UserError
from xsa.train.state import States

SAME = ("model.safetensors", "optimizer.safetensors", "config.json", "log.parquet", "validation.parquet")


class Killed(BaseException):
    """Stands for a kill: nothing in the stage may catch it."""


def kill_at(step):
    def at(done):
        if done == step:
            raise Killed

    return at


def same(a, b) -> bool:
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in SAME)


@pytest.fixture
def killed(pretraining, run):
    """`killed(step)`: the job of a run that saves at every step, killed at one; run again, it goes on from what was saved."""

    def of(step: int):
        job = pretraining("killed", save_minutes=1e-9)
        job.progress.at = kill_at(step)
        with pytest.raises(Killed):
            run(job)
        return job

    return of


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_finishes_the_step_saves_and_exits_with_75(pretraining, run, number):
    undisturbed = run(pretraining("undisturbed"))
    job = pretraining("stopped")
    job.progress.at = lambda done: os.kill(os.getpid(), number) if done == 2 else None
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stopped:
        run(job)
    assert stopped.value.code == 75
    assert signal.getsignal(number) == before
    assert f"stopped by {number.name} after step 2 of 6" in job.progress.said[-1]
    assert not job.out.exists() and [state.name for state in States(job.state, print).all()] == ["step_00000002"]

    again = pretraining("stopped")
    assert same(run(again), undisturbed)
    assert again.progress.steps[0] == 3 and "goes on after step 2 of 6" in again.progress.said[0]


@pytest.mark.parametrize("step", [3, 5])
def test_a_kill_between_saves_goes_on_from_the_last_state(pretraining, run, killed, step):
    undisturbed = run(pretraining("undisturbed"))
    killed(step)
    again = pretraining("killed", save_minutes=1e-9)
    assert same(run(again), undisturbed)
    assert again.progress.steps[0] == step


def test_a_failure_after_the_last_step_costs_no_training(pretraining, run, monkeypatch):
    undisturbed = run(pretraining("undisturbed"))
    job = pretraining("failed")
    with monkeypatch.context() as patch:
        patch.setattr("xsa.train.loop.write_checkpoint", lambda *args: kill_at(0)(0))
        with pytest.raises(Killed):
            run(job)
    again = pretraining("failed")
    assert same(run(again), undisturbed)
    assert again.progress.steps == []


def test_checkpoint_is_written_before_the_last_look(pretraining, run, monkeypatch):
    job = pretraining("a", validation_every=100)
    found = []

    def look(*args):
        found.extend(path.name for path in job.out.iterdir())
        raise Killed

    monkeypatch.setattr("xsa.train.pretrain.row_losses", look)
    with pytest.raises(Killed):
        run(job)
    assert {"model.safetensors", "optimizer.safetensors", "config.json"} <= set(found)


def test_two_states_are_kept_and_a_damaged_newest_one_is_passed_over_aloud(pretraining, run, killed):
    undisturbed = run(pretraining("undisturbed"))
    job = killed(5)
    newest, previous = States(job.state, print).all()
    assert (newest.name, previous.name) == ("step_00000004", "step_00000003")
    weights = bytearray((newest / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (newest / "model.safetensors").write_bytes(weights)

    again = pretraining("killed")
    assert same(run(again), undisturbed)
    assert "step_00000004 is damaged (model.safetensors does not have the SHA-256" in again.progress.said[0]
    assert again.progress.steps[0] == 4


def test_a_state_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """Training would begin again, and remove it."""
    state = tmp_path / "step_00000002" / "state.json"
    state.parent.mkdir()

    def forbidden(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", forbidden)
    with pytest.raises(PermissionError):
        States(tmp_path, print).newest()


def test_after_a_damaged_state_two_whole_ones_are_kept_again(killed):
    job = killed(6)
    newest, previous = States(job.state, print).all()
    for state in (newest, previous):
        (state / "model.safetensors").write_bytes(b"")
    killed(4)
    assert [state.name for state in States(job.state, print).all()] == ["step_00000003", "step_00000002"]
    assert States(job.state, print).newest().name == "step_00000003"


def test_a_state_cut_short_or_altered_is_passed_over(pretraining, run, killed):
    job = killed(4)
    newest, previous = States(job.state, print).all()
    (newest / "state.json").write_text((newest / "state.json").read_text().replace('"step": 3', '"step": 4'))
    (previous / "optimizer.safetensors").unlink()
    shutil.copytree(previous, job.state / ".step_00000009.part")
    said = []
    assert States(job.state, said.append).newest() is None
    assert "state.json was altered" in said[0] and "optimizer.safetensors" in said[1]


def test_a_loss_that_is_not_finite_names_step_tensor_and_last_good_state(pretraining, run, monkeypatch):
    from xsa.model.nanochat import NanoChat

    job = pretraining("a", save_minutes=1e-9)
    forward = NanoChat.forward

    def poisoned(self, tokens, targets=None, **kwargs):
        loss = forward(self, tokens, targets, **kwargs)
        return loss * float("nan") if job.progress.steps[-1:] == [4] and kwargs.get("reduction") == "sum" else loss

    monkeypatch.setattr(NanoChat, "forward", poisoned)
    with pytest.raises(
        UserError, match=r"step 5 is not finite: its loss is nan.*the gradient of.*state is .*step_00000004"
    ):
        run(job)
    assert not job.out.exists()


def test_a_disk_that_is_full_leaves_nothing_half_written_and_training_goes_on(pretraining, run, monkeypatch):
    import xsa.train.state as state

    undisturbed = run(pretraining("undisturbed"))
    job = pretraining("full", save_minutes=1e-9)
    save_tensors = state.save_tensors

    def full(path, tensors):
        if job.progress.steps[-1] in (3, 4) and path.name == "optimizer.safetensors":
            raise OSError(28, "No space left on device", str(path))
        save_tensors(path, tensors)

    monkeypatch.setattr(state, "save_tensors", full)
    job.progress.at = kill_at(5)
    with pytest.raises(Killed):
        run(job)
    states = [path.name for path in sorted(job.state.iterdir()) if "step" in path.name]
    assert states == ["step_00000001", "step_00000002"]
    assert sum("could not be saved" in sentence for sentence in job.progress.said) == 2
    monkeypatch.setattr(state, "save_tensors", save_tensors)
    assert same(run(pretraining("full")), undisturbed)


def test_a_disk_that_refuses_the_checkpoint_is_a_sentence_and_leaves_no_result(pretraining, run, monkeypatch):
    import xsa.train.checkpoint as checkpoint

    def full(tensors, path):
        raise checkpoint.safetensors.SafetensorError("Error while serializing: I/O error: No space left (os error 28)")

    job = pretraining("full", steps=1)
    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match="is full"):
        run(job)
    assert not job.out.exists()


def test_diagnostics_along_training_survive_a_kill(pretraining, run):
    how = {"attention_steps": (0, 3, 5), "attention_rows": 1}
    undisturbed = run(pretraining("undisturbed", **how))
    job = pretraining("killed", save_minutes=1e-9, **how)
    job.progress.at = kill_at(4)
    with pytest.raises(Killed):
        run(job)
    again = run(pretraining("killed", save_minutes=1e-9, **how))
    assert same(again, undisturbed)
    assert (again / "alignment.parquet").read_bytes() == (undisturbed / "alignment.parquet").read_bytes()
