"""Jobs of an earlier driver that SLURM still has: who would make the same result waits behind them in the queue, not on GPUs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from xsa.store.lock import holders
from xsa.study.reuse import Key
from xsa.study.stages import STAGES

# The driver's own allocation, where it runs in one: what waits for that would wait for ever. Snakemake's executor removes it from
# the environment before a run starts.
OWN = os.environ.get("SLURM_JOB_ID")
# What still works or will; jobs that are about to be gone free the lock by themselves, if not their node.
STATES = "PENDING,CONFIGURING,RUNNING,SUSPENDED"
# Several jobs that are tried again at a time ask once.
FRESH_SECONDS = 10.0
# Why SLURM never starts a job, unless somebody changes it: it was held back, by hand or after its start failed, or asks for
# what its partition or account does not give.
NEVER = re.compile(
    r"held|PartitionTimeLimit|PartitionNodeLimit|BadConstraints|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|"
    r"DependencyNeverSatisfied",
    re.IGNORECASE,
)
TOLD = 8

Makers = dict[Key, list[str]]


class Queue:
    """Jobs of this user that make results in `results`, or will, from the project's folder `root`: by stage and label@digest."""

    def __init__(self, root: str, results: Path, ask: Callable[[], str | None] | None = None):
        self._root, self._results, self._ask = root, results, ask or _asked_of_squeue
        self._makers, self._at = {}, float("-inf")

    def makers(self, again: bool = False) -> Makers:
        """Ids of SLURM jobs by what they make. SLURM is asked the first time, and `again` where that is wanted."""
        now = time.monotonic()
        if self._at == float("-inf") or (again and now - self._at > FRESH_SECONDS):
            self._makers, self._at = self._found(self._ask()), now
        return self._makers

    def _found(self, told: str | None) -> Makers:
        found: dict[Key, set[str]] = {}
        rows = [line.split("|", 3) for line in (told or "").splitlines() if line.count("|") >= 3]
        rows = [row for row in rows if row[0] != OWN and not NEVER.search(row[1])]
        locks = _locks(self._results) if rows else {}
        for job, _, comment, root in rows:
            made = [_of_comment(comment)] if root == self._root else []
            for place in [*made, *locks.get(job, ())]:
                if place is not None:
                    found.setdefault(place, set()).add(job)
        return {place: sorted(jobs, key=int) for place, jobs in found.items()}


def wait_in_queue(workflow: Any, jobs: Iterable[tuple[str, str | None]], results: Path) -> list[str]:
    """Have SLURM start none of a run's `jobs` while another job that makes the same result runs or waits; lines that say so.

    Jobs that are submitted in groups are left alone, and so is all where SLURM cannot be asked: there the second job waits
    for the first by its lock.
    """
    if workflow.executor_plugin.name != "slurm" or not workflow.is_main_process:
        return []
    queue = Queue(workflow.workdir_init, results)
    alone = {rule.name: rule for rule in workflow.rules if rule.name in STAGES and rule.group is None}
    for rule in alone.values():
        # Evaluated when a job is about to be submitted, and once more for each further try.
        rule.resources["slurm_extra"] = _behind(rule.name, rule.resources.get("slurm_extra"), queue)
    makers = queue.makers()
    held = [(stage, key, makers[stage, key]) for stage, key in jobs if stage in alone and (stage, key) in makers]
    lines = [
        f"{stage} {key.rpartition('@')[0]}  is in the hands of SLURM job {' and '.join(ids)} already; the new job stays in "
        f"the queue until that has ended, and takes over what it made (`scancel {' '.join(ids)}` has it begin sooner)"
        for stage, key, ids in held[:TOLD]
    ]
    return [*lines, *([f"… and {len(held) - TOLD} more"] if len(held) > TOLD else [])]


def in_queue(root: Path) -> list[str] | None:
    """Ids of this user's SLURM jobs that run or wait for a project's folder; None where there is a SLURM that does not answer."""
    told = _asked_of_squeue()
    if told is None:
        return None if shutil.which("squeue") else []
    return [line.split("|", 1)[0] for line in told.splitlines() if line.endswith(f"|{root}")]


def _behind(stage: str, own: Any, queue: Queue) -> Callable:
    """The resource `slurm_extra`: what the profile says, `own`, and the jobs to wait for."""

    def slurm_extra(wildcards, input, attempt, threads, rulename, async_run):
        given = {"input": input, "attempt": attempt, "threads": threads, "rulename": rulename, "async_run": async_run}
        said = own.evaluate(wildcards, **given).value if own is not None else None
        jobs = queue.makers(again=attempt > 1).get((stage, wildcards.result))
        if not jobs:
            return said
        # First, so that a dependency of the profile's own goes before.
        return " ".join([f"--dependency=afterany:{':'.join(jobs)}", *([said] if said else [])])

    return slurm_extra


def _of_comment(comment: str) -> Key | None:
    """Stage and label@digest of a job, from the comment by which Snakemake's executor submits it."""
    stage, joined, key = comment.removeprefix("rule_").partition("_wildcards_")
    return (stage, key) if joined and stage in STAGES else None


def _locks(results: Path) -> dict[str, list[Key]]:
    """What jobs of SLURM hold the locks of and work on, by job; a job may outlive what was done in it, as an allocation does."""
    found: dict[str, list[Key]] = {}
    for name, holder in holders(results).items():
        stage, _, key = name.removesuffix(".lock").partition("-")
        if "@" in key and holder["alive"] and holder["slurm_job"]:
            found.setdefault(holder["slurm_job"], []).append((stage, key))
    return found


def _asked_of_squeue() -> str | None:
    """Id, reason of waiting, comment and folder of this user's jobs, a line each; None where SLURM does not say."""
    command = ["squeue", "--noheader", f"--user={os.getuid()}", f"--states={STATES}", "--format=%A|%r|%k|%Z"]
    with suppress(subprocess.SubprocessError, OSError):
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if asked.returncode == 0:
            return asked.stdout
    return None
