"""A result is there whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from xsa.store import produce as produce_module
from xsa.store.errors import UserError
from xsa.store.job import Job, checked_file
from xsa.store.produce import is_whole, produce
from xsa.store.progress import Progress
from xsa.study.result import digest_of
from xsa.study.stages import TokensStage

RECIPE = {"stage": "tokens"}
DIGEST = digest_of(RECIPE)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Produce one result with a given stage function."""

    def run(work, results=tmp_path / "results"):
        monkeypatch.setattr(produce_module, "_entry", lambda stage: work)
        job = Job(
            stage="tokens",
            label="x",
            settings=TokensStage(),
            inputs={},
            out=results / "tokens" / f"x@{DIGEST}",
            state=results / ".state" / "tokens" / f"x@{DIGEST}",
            progress=Progress(),
        )
        return produce(job, RECIPE, DIGEST, code="f00d")

    return run


def write(job):
    (job.out / "a").mkdir()
    (job.out / "a" / "tokens.bin").write_bytes(b"123")
    return {"note": 1}


def test_the_record_holds_recipe_hashes_and_how_it_ran(make):
    record = json.loads((make(write) / "record.json").read_text())
    assert record["recipe"] == RECIPE and record["digest"] == DIGEST
    assert record["files"]["a/tokens.bin"] == {
        "bytes": 3,
        "sha256": "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3",
    }
    assert record["made"]["notes"] == {"note": 1} and record["made"]["host"] and record["made"]["packages"]["numpy"]


def test_the_record_holds_the_seconds_of_earlier_tries(make, tmp_path):
    """Of one that said how it ended, and of one that was killed: all that it last said."""
    assert "earlier_seconds" not in json.loads((make(write) / "record.json").read_text())["made"]
    results = tmp_path / "others"
    status = results / ".state" / "tokens" / f"x@{DIGEST}" / "status.json"
    status.parent.mkdir(parents=True)
    status.write_text(json.dumps({"state": "running", "started": 1000.0, "at": 4600.0}))

    def fail(job):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        make(fail, results)
    made = json.loads((make(write, results) / "record.json").read_text())["made"]
    assert 3600 <= made["earlier_seconds"] < 3660 and made["wall_seconds"] < 60


def test_a_stage_that_fails_leaves_nothing(make, tmp_path):
    def fail(job):
        (job.out / "half").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        make(fail)
    assert list((tmp_path / "results" / "tokens").iterdir()) == []


def test_snakemakes_empty_folder_is_no_obstacle(make, tmp_path):
    (tmp_path / "results" / "tokens" / f"x@{DIGEST}").mkdir(parents=True)
    assert is_whole(make(write))


def test_a_whole_result_is_kept_and_its_record_written_again(make):
    folder = make(write)
    inode = (folder / "a" / "tokens.bin").stat().st_ino
    (folder / "record.json").unlink()

    def never(job):
        raise AssertionError("ran again")

    make(never)
    assert (folder / "record.json").exists() and (folder / "a" / "tokens.bin").stat().st_ino == inode


def test_a_damaged_result_is_moved_aside_and_made_again(make):
    folder = make(write)
    (folder / "a" / "tokens.bin").write_bytes(b"12X")
    (folder / "record.json").unlink()
    make(write)
    assert (folder / "a" / "tokens.bin").read_bytes() == b"123"
    aside = [path for path in folder.parent.iterdir() if "damaged" in path.name]
    assert len(aside) == 1 and (aside[0] / "a" / "tokens.bin").read_bytes() == b"12X"


def test_what_a_killed_job_left_is_cleared(make, tmp_path):
    part = tmp_path / "results" / "tokens" / f".x@{DIGEST}.999999.part"
    part.mkdir(parents=True)
    make(write)
    assert not part.exists()


def test_a_second_job_for_the_same_result_is_refused_and_told_who_holds_it(make):
    def nested(job):
        with pytest.raises(UserError, match=f"is being made by process {os.getpid()} on "):
            make(write)
        return write(job)

    make(nested)


def test_a_lock_of_a_dead_process_is_cleared(make, tmp_path):
    lock = tmp_path / "results" / ".locks" / f"tokens-x@{DIGEST}.lock"
    lock.parent.mkdir(parents=True)
    import socket

    lock.write_text(
        json.dumps({"host": socket.gethostname(), "pid": 1, "pid_started": "0", "slurm_job": None, "since": "?"})
    )
    assert is_whole(make(write)) and not lock.exists()


def test_a_flipped_byte_is_found_and_both_hashes_are_named(make):
    folder = make(write)
    (folder / "a" / "tokens.bin").write_bytes(b"124")
    with pytest.raises(UserError) as error:
        checked_file(folder, "a/tokens.bin")
    message = str(error.value)
    assert "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3" in message
    assert "6affdae3b3c1aa6aa7689e9b6a7b3225a636aa1ac0025f490cca1285ceaf1487" in message and str(folder) in message


def test_a_renamed_result_is_not_taken_for_another(make):
    folder = make(write)
    other = folder.with_name("x@ffffffffff")
    folder.rename(other)
    with pytest.raises(UserError, match=f"says digest {DIGEST}, its folder says ffffffffff"):
        checked_file(other, "a/tokens.bin")


@pytest.mark.skipif(
    os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="needs root to mount a small tmpfs"
)
def test_a_disk_that_fills_up_leaves_nothing_and_says_so(make, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine does not allow mounting a tmpfs")

    def big(job):
        (job.out / "tokens.bin").write_bytes(b"x" * 1_000_000)

    try:
        with pytest.raises(UserError, match="is full"):
            make(big, results=small)
        assert list((small / "tokens").iterdir()) == []
        assert is_whole(make(write, results=small))
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize("broken", ["record.json", ".record.json"])
def test_a_result_with_one_broken_record_is_whole(make, broken):
    folder = make(write)
    (folder / broken).write_text('{"half')

    def never(job):
        raise AssertionError("ran again")

    make(never)
    assert json.loads((folder / "record.json").read_text()) == json.loads((folder / ".record.json").read_text())


def test_the_state_of_a_finished_result_is_removed_also_after_a_kill(make, tmp_path):
    make(write)
    state = tmp_path / "results" / ".state" / "tokens" / f"x@{DIGEST}"
    state.mkdir(parents=True)
    make(write)
    assert not state.exists()


def test_a_result_that_another_job_made_meanwhile_is_kept(make):
    def slow(job):
        final = job.out.parent / f"x@{DIGEST}"
        write(job)
        from xsa.store.produce import _write_records

        final.mkdir()
        (final / "other.bin").write_bytes(b"other")
        import hashlib

        files = {"other.bin": {"bytes": 5, "sha256": hashlib.sha256(b"other").hexdigest()}}
        _write_records(final, {"digest": DIGEST, "files": files})

    folder = make(slow)
    assert (folder / "other.bin").exists() and not (folder / "a").exists()


def test_a_lock_that_was_taken_over_is_left_to_its_new_holder(tmp_path):
    from xsa.store.lock import Lock

    path = tmp_path / "a.lock"
    with Lock(path, "a"):
        path.write_text("another's")
    assert path.read_text() == "another's"


def test_an_unreadable_input_is_not_blamed_on_the_results(make):
    def forbidden(job):
        raise PermissionError(13, "Permission denied", "/data/corpus/a.parquet")

    with pytest.raises(UserError, match=r"/data/corpus/a\.parquet: permission denied"):
        make(forbidden)


def test_the_record_names_the_code_that_made_it(make):
    assert json.loads((make(write) / "record.json").read_text())["made"]["code"] == "f00d"


def test_a_log_that_cannot_be_written_does_not_fail_the_job(tmp_path):
    (tmp_path / "file").write_text("")
    progress = Progress("x", log=tmp_path / "file" / "x.log")
    progress.say("still here")
    progress.note("and here")


@pytest.mark.parametrize("text", ["[]", "{}", f'{{"digest": "{DIGEST}"}}'])
def test_a_record_that_lists_no_files_is_none(make, text):
    folder = make(write)
    for name in ("record.json", ".record.json"):
        (folder / name).write_text(text)
    with pytest.raises(UserError, match="is no record"):
        checked_file(folder, "a/tokens.bin")


def test_an_empty_lock_is_cleared(make, tmp_path):
    lock = tmp_path / "results" / ".locks" / f"tokens-x@{DIGEST}.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("")
    assert is_whole(make(write))


def test_a_file_that_the_source_never_had_is_said_to_be_missing_there(make):
    with pytest.raises(UserError, match="had none when it was made"):
        checked_file(make(write), "b/tokens.bin")
