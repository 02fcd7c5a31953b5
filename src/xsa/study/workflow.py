"""What the Snakefile asks of a project: places, inputs and resources of the results that rules make."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from xsa.store.errors import UserError
from xsa.store.files import write_text
from xsa.store.lock import Lock, lock_path
from xsa.store.publish import is_published
from xsa.store.snapshot import take_snapshot
from xsa.study.failed_jobs import FailedJobs
from xsa.study.limits import check_limits
from xsa.study.machine import has_cuda
from xsa.study.outlook import outlook, price_of_retraining
from xsa.study.plan import Plan
from xsa.study.project import Project
from xsa.study.queued import wait_in_queue
from xsa.study.result import Result
from xsa.study.scheduling import Scheduling
from xsa.study.show_outlook import outlook_as_summary
from xsa.study.stages import STAGES
from xsa.study.study import STUDIES
from xsa.study.watch import Watch


class Workflow:
    """One project as Snakemake sees it. Rules name records; the folder of a record holds the result.

    `study` is the one whose results are looked for first, by name.
    """

    def __init__(self, study: str, results: str):
        self.study = str(study)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.study) or self.study.endswith((".yaml", ".yml")):
            raise UserError(f"study={self.study}: give the name of a file under {STUDIES}, without folder and ending")
        if not str(results):
            raise UserError("results= is empty; name the folder that holds all results")
        self.results = Path(str(results))
        self.project = Project(Path.cwd(), self.results)
        self._scheduling = Scheduling(self._find, self.results)
        self._watch: Watch | None = None
        self._failed: FailedJobs | None = None

    def _find(self, stage: str, key: str) -> tuple[Plan, Result]:
        return told(self.project.find, stage, key, self.study)

    def record(self, stage: str) -> str:
        """Path of a stage's record with the wildcard `result`, which is label@digest."""
        return f"{self.results}/{stage}/{{result}}/record.json"

    def log(self, stage: str) -> str:
        return f"{self.results}/.logs/{stage}/{{result}}.log"

    def inputs(self, stage: str):
        """Input function of a rule: the records that the result reads, by name.

        They are `ancient`: their digests are in the path of what is made from them, so their times mean nothing.
        """
        from snakemake.io import ancient

        def upstream(wildcards) -> dict[str, Any]:
            _, result = self._find(stage, wildcards.result)
            return {
                name: [ancient(self._record(one)) for one in given]
                if isinstance(given, list)
                else ancient(self._record(given))
                for name, given in result.inputs.items()
            }

        return upstream

    def _record(self, result: Result) -> str:
        # By hand: a study of 1,000 cells has 170,000 inputs, and a Path for each takes seconds.
        return f"{self.results}/{result.stage}/{result.key}/record.json"

    def threads(self, stage: str, workflow, alone: bool = False):
        """Threads of a stage's job: the study's, for each process. On one machine a job that is to be `alone` takes all cores."""

        def of(wildcards) -> int:
            # Asked when a job is planned: cores are not known while the Snakefile is read.
            cores = workflow.resource_settings.cores if alone and workflow.local_exec else None
            return cores or told(self._scheduling.threads, stage, wildcards.result, workflow)

        return of

    def resources(self, stage: str, workflow) -> dict[str, Callable]:
        """Resource functions of a rule, by name (`xsa.study.scheduling`)."""
        found = self._scheduling.resources(stage, workflow)
        return {name: _told_by(function) for name, function in found.items()}

    def limit_devices(self, workflow) -> None:
        """On one machine, have jobs wait for its GPUs."""
        self._scheduling.limit_devices(workflow)

    def page(self, wildcards):
        """The record of a study's page. The code of all the study's stages is checked first, also when nothing is to run."""
        from snakemake.io import ancient

        plan = told(self.project.plan, wildcards.study)
        told(self._check_code, plan, {stage for stage, _ in plan.results})
        return ancient(self._record(plan.report))

    def published_stamp(self, wildcards) -> str | list[str]:
        """A file that changes and is newer than results/<study>/ when the page published there is not the one now planned,
        or a file of it is gone.

        The page's place has no digest, so Snakemake alone would keep an old page. Small inputs are compared by content,
        so the file holds the time too: what was published once and then lost is published again.
        """
        return told(self._stamp, wildcards.study)

    def _stamp(self, study: str) -> str | list[str]:
        wanted = self.project.plan(study).report.key
        folder, stamp = self.results / study, self.results / ".state" / "publish" / study
        there = is_published(folder, wanted)
        try:
            if not there or not stamp.exists():
                write_text(stamp, f"{wanted} {time.time_ns()}")
            if there:
                os.utime(stamp, (0, 0))
        except OSError as error:
            # Nothing can be published to results that cannot be written (a read-only mount); the page there may be the one.
            if there:
                return []
            raise UserError(
                f"{self.results} cannot be written ({error.strerror}), and the page there is not of these settings"
            ) from None
        return str(stamp)

    def study_of(self, stage: str):
        """The study for which a rule's result is made."""

        def of(wildcards) -> str:
            return self._find(stage, wildcards.result)[0].study.name

        return of

    def _check_code(self, plan: Plan, stages: set[str]) -> None:
        """Raise UserError where the code of a stage is not what the lock says, with what a retrain would cost."""
        try:
            self.project.lock.check(stages)
        except UserError as error:
            stale = {one.stage for one in self.project.lock.stale(stages)}
            raise UserError(f"{error}\n{price_of_retraining(plan, self.results, stale)}") from None

    def check_start(self, jobs: list[tuple[str, str | None]], local: bool) -> None:
        """Say what a run of `jobs` (stage, label@digest) will do and cost, or refuse it before the first one, with a sentence.

        UserError for a stage whose code is not what the lock says, for GPU work on a machine without a GPU, and for a run
        that would exceed the study's limits.
        """
        for plan, keys in self._by_study(jobs):
            self._check_code(plan, {stage for stage, _ in keys})
            if (
                local
                and plan.study.run.requires == "cuda"
                and not has_cuda()
                and any(STAGES[stage].gpu for stage, _ in keys)
            ):
                raise UserError(
                    f"the study {plan.study.name!r} trains on CUDA GPUs and this machine has none: run `make demo` for a small "
                    "study on this machine, or `snakemake --profile slurm` on a cluster's login node"
                )
            ahead = outlook(plan, self.results, keys)
            print(f"\n{outlook_as_summary(ahead)}\n", file=sys.stderr, flush=True)
            check_limits(ahead)

    def _by_study(self, jobs: list[tuple[str, str | None]]) -> list[tuple[Plan, set[tuple[str, str]]]]:
        """Jobs that make results, by the study for which they do."""
        by_study: dict[str, tuple[Plan, set[tuple[str, str]]]] = {}
        for stage, key in jobs:
            if key is not None and stage in STAGES:
                plan = self.project.find(stage, key, self.study)[0]
                by_study.setdefault(plan.study.name, (plan, set()))[1].add((stage, key))
        return list(by_study.values())

    def begin(self, jobs: list[tuple[str, str | None]], workflow) -> None:
        """Check a run of `jobs` as `check_start` does, keep other runs of its studies away, freeze its code, watch it."""
        from snakemake.logging import logger

        self.check_start(jobs, workflow.local_exec)
        run = self._by_study(jobs)
        for plan, _ in run:
            self._take_turn(plan.study.name)
        self._freeze(workflow)
        self._watch = Watch(run, self.results)
        self._failed = FailedJobs(self._watch.ended)
        logger.addFilter(self._failed)
        self._failed.hear(workflow.scheduler._executor)
        if not workflow.local_exec:
            for line in wait_in_queue(workflow, jobs, self.results):
                click.echo(line, err=True)
            self._watch.start()

    def tell_failures(self) -> None:
        """Say why jobs of the run ended without a result."""
        if self._watch is not None:
            told = self._watch.failures(self._failed.silent_places)
            click.echo("\n".join(["", *told, *self._failed.silent()]), err=True)

    def _take_turn(self, study: str) -> None:
        """Refuse where another run of a study, on these results, goes on; one that was killed does not count."""
        turn = Lock(lock_path(self.results, "run", study), f"the study {study!r}")
        turn.__enter__()
        atexit.register(turn.__exit__)

    def _freeze(self, workflow) -> None:
        """Have every job of the run that now starts work by a copy of the code and configuration as they are now."""
        snapshot = take_snapshot(self.project.root, self.results)
        # Jobs inherit the environment, also those that are submitted.
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(snapshot / "src"), *([before] if before else [])])
        # A submitted job runs Snakemake again, on the Snakefile that the executor noted before the run started.
        workflow.scheduler._executor.snakefile = str(snapshot / "Snakefile")


def told(work: Callable, *args: Any) -> Any:
    """Call `work`; an error of the user ends Snakemake with its sentence alone, without a traceback."""
    try:
        return work(*args)
    except UserError as error:
        print(f"\n{error}\n", file=sys.stderr)
        sys.exit(1)


def _told_by(function: Callable) -> Callable:
    """`function` as Snakemake asks it, by the same names, with errors of the user told as `told` does."""

    @functools.wraps(function)
    def of(*args: Any, **kwargs: Any) -> Any:
        return told(functools.partial(function, **kwargs), *args)

    # Snakemake asks the signature for every job; stated, it need not be found.
    of.__signature__ = inspect.signature(function)
    return of
