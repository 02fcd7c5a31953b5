from __future__ import annotations

from contextlib import ExitStack

from tests.study.recording import record
from xsa.store.errors import UserError
from xsa.store.lock import Lock, lock_path
from xsa.store.progress import Progress
from xsa.store.status import JobStatus
from xsa.study import watch as watch_module
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


def test_many_trainings_are_told_in_one_line(project, monkeypatch):
    monkeypatch.setattr(watch_module, "TOLD", 1)
    results, trainings = project.root / "results", [cell.results["pretrain"] for cell in project.plan().cells[:2]]
    with ExitStack() as stack:
        for done, training in zip((3, 8), trainings, strict=True):
            stack.enter_context(Lock(lock_path(results, "pretrain", training.key), "x"))
            tried(results, training).step(done, 10, "step", {"loss": 3.25}, 60.0 * (10 - done))
        (line,) = watch(project, results, *trainings).progress()
    assert line == "2 trainings go on, 30 to 80 % done, the first has 2 min 00 s left, the last 7 min 00 s"


def test_how_a_job_of_an_earlier_run_ended_is_not_told_as_this_runs(project):
    results, training = project.root / "results", project.plan().cells[0].results["pretrain"]
    tried(results, training).ended(UserError("the loss of step 7 is nan"))
    one = watch(project, results, training)
    assert one.failures() and one.failures({("pretrain", training.key)}) == []
    one._began += 3600
    assert one.failures() == []


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
        # The job was requeued before; and Snakemake goes on to write.
        earlier = "*** JOB 7 ON g2 CANCELLED AT 2026-11-29T15:52:42 DUE TO TIME LIMIT ***\n"
        start = "  Command: snakemake --executor slurm-jobstep --jobs 1\n"
        log.write_text(f"{start}{earlier}{start}slurmstepd-g2: error: {words}\n" + 60 * "Error in rule\n")
        status = tried(results, training)
        status._told["slurm_job"] = "7"
        status.ended(SystemExit(75))
        assert f"({reason})" in "\n".join(watch(project, results, training).failures())
