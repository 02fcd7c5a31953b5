from __future__ import annotations

from tests.study.recording import record
from xsa.store.errors import UserError
from xsa.store.lock import Lock, lock_path
from xsa.store.progress import Progress
from xsa.store.status import JobStatus
from xsa.study.watch import Watch


def watch(project, results, *told):
    return Watch([(project.plan(), {(result.stage, result.key) for result in told})], results)


def tried(results, result, log=None) -> JobStatus:
    """The word of a job that had all it reads."""
    for read in result.upstream():
        if not read.folder(results).exists():
            record(read, results)
    return JobStatus(results / ".state" / result.stage / result.key, log)


def test_a_training_that_goes_on_is_told_in_one_line(project):
    results, (cell, other, *_) = project.root / "results", project.plan().cells
    training, untouched = cell.results["pretrain"], other.results["pretrain"]
    with Lock(lock_path(results, "pretrain", training.key), "x"):
        progress = Progress()
        progress.watcher = tried(results, training)
        progress.step(4, 10, loss=3.25)
        (line,) = watch(project, results, training, untouched).progress()
    assert line.startswith(f"pretrain {training.label}  step 4 of 10") and "loss 3.25" in line


def test_a_job_that_failed_is_told_with_its_reason_and_log(project):
    results = project.root / "results"
    training, other = (cell.results["pretrain"] for cell in project.plan().cells[:2])
    tried(results, training, log="here.log").ended(UserError("the loss of step 7 is nan"))
    tried(results, other).ended(UserError("a job of another run"))
    text = "\n".join(watch(project, results, training).failures())
    assert "failed" in text and "the loss of step 7 is nan" in text and "log: here.log" in text
    assert "another run" not in text


def test_what_slurm_says_of_a_job_that_was_stopped_is_its_reason(project, monkeypatch):
    monkeypatch.chdir(project.root)
    results, training = project.root / "results", project.plan().cells[0].results["pretrain"]
    log = project.root / ".snakemake/slurm_logs/rule_pretrain/x/7.log"
    log.parent.mkdir(parents=True)
    for words, reason in {
        "*** JOB 7 ON g2 CANCELLED AT 2026-11-29T16:52:42 DUE TO PREEMPTION ***": "preempted",
        "*** STEP 7.0 ON g2 CANCELLED AT 2026-11-29T16:52:42 DUE TO TIME LIMIT ***": "time limit",
        "*** JOB 7 ON g2 CANCELLED AT 2026-11-29T16:52:42 ***": "cancelled or preempted",
        "srun: error: Node failure on g3": "node failure",
    }.items():
        log.write_text(f"slurmstepd-g2: error: {words}\n")
        status = tried(results, training)
        status._told["slurm_job"] = "7"
        status.ended(SystemExit(75))
        assert f"({reason})" in "\n".join(watch(project, results, training).failures())
