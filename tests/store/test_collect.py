"""What nobody needs is found with its cost, and removed only as far as was asked."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from tests.store.results import write_result
from xsa.store.collect import chosen, remove, strays
from xsa.store.errors import UserError
from xsa.store.lock import Lock, lock_path
from xsa.study import queued


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def costly(results):
    """A training of three hours on two GPUs."""
    return write_result(
        results,
        "pretrain",
        "big",
        {"model.safetensors": b"w" * 1000},
        wall_seconds=10_800.0,
        device="cuda",
        notes={"processes": 2},
    )


def by_name(found) -> dict:
    return {one.name: one for one in found}


def test_a_result_that_a_study_refers_to_is_none_of_them(results, costly):
    assert strays(results, {("pretrain", costly.name)}) == []


def test_a_result_that_no_study_refers_to_is_told_with_size_and_hours_of_all_its_gpus(results, costly):
    (one,) = strays(results, set())
    assert (one.kind, one.name, one.hours, one.device) == ("result", f"pretrain/{costly.name}", 6.0, "cuda")
    assert one.bytes == sum(path.stat().st_size for path in costly.iterdir())


def test_what_was_stopped_and_went_on_cost_what_all_tries_took(results):
    write_result(results, "pretrain", "d2", {"a": b"1"}, wall_seconds=360.0, earlier_seconds=7200.0, device="cuda")
    (one,) = strays(results, set())
    assert one.hours == pytest.approx(2.1) and chosen([one], (), 1.0) == ([], [one])


def test_state_and_log_go_with_their_result(results, costly):
    state, log = results / ".state" / "pretrain" / costly.name, results / ".logs" / "pretrain" / f"{costly.name}.log"
    for path in (state / "status.json", log):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (one,) = strays(results, set())
    remove(results, one)
    assert not costly.exists() and not state.exists() and not log.exists()


def test_the_state_of_a_result_that_is_still_to_be_made_is_kept(results):
    state = results / ".state" / "pretrain" / "d2@0123456789" / "step_00000001"
    state.mkdir(parents=True)
    assert strays(results, {("pretrain", "d2@0123456789")}) == []


def test_the_state_of_a_finished_result_and_a_log_without_a_result_cost_nothing(results, costly):
    (results / ".state" / "pretrain" / costly.name / "step_00000001").mkdir(parents=True)
    log = results / ".logs" / "bpb" / "d2@0123456789.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    found = strays(results, {("pretrain", costly.name)})
    assert sorted((one.kind, one.hours) for one in found) == [("log", 0.0), ("state", 0.0)]


def test_a_saved_training_that_no_study_refers_to_must_be_named(results):
    (results / ".state" / "pretrain" / "d2@0123456789" / "step_00000001").mkdir(parents=True)
    (one,) = strays(results, set())
    assert one.kind == "state" and one.hours is None
    assert chosen([one], (), 1e9) == ([], [one])
    assert chosen([one], ("pretrain/d2@0123456789",), 0) == ([one], [])


def test_leftovers_of_killed_jobs_and_damaged_results_are_found(results, costly):
    damaged = costly.with_name(f".{costly.name}.damaged-123")
    shutil.copytree(costly, damaged)
    (results / "bpb" / ".d2@0123456789.99999999.part").mkdir(parents=True)
    (results / ".import-elsewhere-1").mkdir()
    (results / ".import-elsewhere-1" / "a").write_text("")
    os.utime(results / ".import-elsewhere-1", (0, 0))
    found = by_name(strays(results, {("pretrain", costly.name)}))
    assert found[damaged.name].kind == "damaged" and found[damaged.name].hours == 6.0
    assert {one.kind for name, one in found.items() if name != damaged.name} == {"unfinished"} and len(found) == 3
    for one in found.values():
        remove(results, one)
    assert sorted(path.name for path in results.iterdir() if path.name != ".locks") == ["bpb", "pretrain"]
    assert costly.exists()


def test_without_names_only_what_was_cheap_is_chosen(results, costly):
    cheap = write_result(results, "bpb", "d2", {"bpb.json": b"1"})
    found = strays(results, set())
    picked, spared = chosen(found, (), 1.0)
    assert [one.name for one in picked] == [f"bpb/{cheap.name}"] and [one.name for one in spared] == [
        f"pretrain/{costly.name}"
    ]
    assert len(chosen(found, (), 6.0)[0]) == 2


@pytest.mark.parametrize("form", ["pretrain/{}", "{}", "{path}", "{path}/", "{path}/record.json"])
def test_what_is_named_is_chosen_alone_whatever_it_cost(results, costly, form):
    write_result(results, "bpb", "d2", {"bpb.json": b"1"})
    picked, spared = chosen(strays(results, set()), (form.format(costly.name, path=costly),), 0)
    assert [one.key for one in picked] == [costly.name] and spared == []


def test_a_name_that_a_study_refers_to_is_refused(results, costly):
    with pytest.raises(UserError, match="a study under config/studies refers to it"):
        chosen(strays(results, {("pretrain", costly.name)}), (costly.name,), 1)


def test_what_somebody_works_on_is_never_removed(results, costly):
    part = results / "pretrain" / f".{costly.name}.123.part"
    part.mkdir()
    with Lock(lock_path(results, "pretrain", costly.name), "x"):
        found = strays(results, set())
        assert all(one.holder for one in found) and chosen(found, (), 1e9) == ([], [])
        with pytest.raises(UserError, match="is being made by process"):
            chosen(found, (costly.name,), 1)
        with pytest.raises(UserError, match="is being made by process"):
            remove(results, found[0])
    assert costly.exists() and part.exists()


def test_what_lies_on_another_file_system_by_a_link_is_removed_there(results, costly, monkeypatch):
    log = results / ".logs" / "pretrain" / f"{costly.name}.log"
    log.parent.mkdir(parents=True)
    log.write_text("step")
    rename = os.rename

    def within_one_file_system(old, new):
        if Path(old).parent != Path(new).parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(old))
        rename(old, new)

    monkeypatch.setattr(os, "rename", within_one_file_system)
    (one,) = strays(results, set())
    remove(results, one)
    assert not list(costly.parent.iterdir()) and not log.exists()


@pytest.mark.parametrize("place", ["pretrain", ".state/pretrain", ".code"])
def test_what_a_removal_that_was_killed_left_is_found_where_it_lay(results, place):
    left = results / place / f".gc-{socket.gethostname()}-4194305"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    (one,) = strays(results, set())
    assert (one.kind, one.paths, one.holder) == ("unfinished", (left,), None)
    remove(results, one)
    assert not left.exists()


def test_a_folder_that_the_store_did_not_make_is_left_alone(results):
    for path in ("mini/report.html", "pretrain/notes.txt", "mine/a@b"):
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        (results / path).write_text("")
    assert strays(results, set()) == []


def test_a_result_without_a_readable_record_is_of_unknown_cost(results):
    folder = results / "pretrain" / "d2@0123456789"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w")
    (one,) = strays(results, set())
    assert one.hours is None and chosen([one], (), 1e9)[0] == []


DAYS = 86_400


def freeze(results, name: str, days: float = 3, made: str | None = None):
    """Frozen code last used some days ago, and maybe a result that was made by it."""
    folder = results / ".code" / name
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_bytes(b"x" * 100)
    (folder / "src" / "a.py").chmod(0o444)
    then = time.time() - days * DAYS
    os.utime(folder, (then, then))
    if made:
        write_result(results, "bpb", made, {"bpb.json": b"1"}, snapshot=name)
    return folder


@pytest.fixture(autouse=True)
def no_jobs(monkeypatch):
    """A SLURM without jobs, whatever this machine has."""
    monkeypatch.setattr(queued, "_asked_of_squeue", lambda: "")


def code(results) -> dict:
    """What is listed of frozen code, results aside, by name."""
    return {one.name: one for one in strays(results, set()) if one.kind not in ("result", "state", "log")}


def test_frozen_code_that_no_record_names_is_listed_with_its_size_and_removed(results):
    old, used, young = freeze(results, "0" * 12), freeze(results, "1" * 12, made="d2"), freeze(results, "2" * 12, 0.9)
    left = freeze(results, "." + "3" * 12 + ".node7.77.part")
    half = freeze(results, "." + "4" * 12 + ".node7.78.part", 0.9)
    found = code(results)
    assert {name: (one.kind, one.bytes) for name, one in found.items()} == {
        f".code/{old.name}": ("code", 100),
        left.name: ("unfinished", 100),
    }
    picked, spared = chosen(list(found.values()), (), 0)
    for one in picked:
        remove(results, one)
    assert spared == [] and sorted((results / ".code").iterdir()) == sorted([used, young, half])


def test_code_that_a_result_without_its_first_record_was_made_by_stays(results):
    freeze(results, "1" * 12, made="d2")
    (record,) = results.glob("bpb/*/record.json")
    record.unlink()
    assert code(results) == {}


def test_frozen_code_stays_while_a_run_goes_on(results):
    old = freeze(results, "0" * 12)
    with Lock(lock_path(results, "run", "mini"), "x"):
        (one,) = code(results).values()
        assert one.holder.startswith("process ") and chosen([one], (), 1) == ([], [])
        with pytest.raises(UserError, match="is needed by process"):
            chosen([one], (f".code/{old.name}",), 1)


def test_frozen_code_stays_while_slurm_has_a_job_of_the_project(results, tmp_path, monkeypatch):
    freeze(results, "0" * 12)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(queued, "_asked_of_squeue", lambda: f"7|None|x|{tmp_path}2\n8|Priority|x|{tmp_path}\n")
    (one,) = code(results).values()
    assert one.holder == "SLURM job 8"
    # A SLURM that does not answer may have one.
    monkeypatch.setattr(queued, "_asked_of_squeue", lambda: None)
    monkeypatch.setattr(queued.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert next(iter(code(results).values())).holder == "a job of SLURM, perhaps: `squeue` does not answer"
    monkeypatch.setattr(queued.shutil, "which", lambda name: None)
    assert next(iter(code(results).values())).holder is None


def test_code_that_a_run_took_up_since_it_was_listed_stays(results):
    old = freeze(results, "0" * 12)
    (one,) = code(results).values()
    os.utime(old)
    with pytest.raises(UserError, match="a run that has just started works by"):
        remove(results, one)
    assert old.exists()
