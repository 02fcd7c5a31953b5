"""What the Snakefile asks of a project: places, inputs and resources of the results that rules make."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.publish import published
from xsa.study.machine import has_cuda
from xsa.study.project import Project
from xsa.study.stages import STAGES


class Workflow:
    """One project as Snakemake sees it. Rules name records; the folder of a record holds the result."""

    def __init__(self, study: str, results: str):
        self.results = Path(results)
        self.project = Project(Path.cwd(), self.results)
        self.plan = self.project.plan(study)
        self.study = self.plan.study.name

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
            _, result = self.project.find(stage, wildcards.result)
            return {
                name: [ancient(self._record(one)) for one in given]
                if isinstance(given, list)
                else ancient(self._record(given))
                for name, given in result.inputs.items()
            }

        return upstream

    def _record(self, result) -> str:
        return str(result.folder(self.results) / "record.json")

    def threads(self, stage: str):
        def of(wildcards) -> int:
            return self.project.find(stage, wildcards.result)[0].study.run.threads

        return of

    def page(self, study: str) -> str:
        """The record of the page of `study`."""
        return self._record(self.project.plan(study).report)

    def published_stamp(self, study: str) -> str:
        """A file that is newer than results/<study>/ whenever the page published there is not the one now planned.

        The page's place has no digest, so Snakemake alone would keep an old page when settings are changed back.
        """
        stamp = self.results / ".state" / "publish" / study
        folder = self.results / study
        wanted = self.project.plan(study).report.key
        outdated = published(folder).get("report") != wanted and (folder / "report.html").exists()
        if not stamp.exists() or (outdated and stamp.stat().st_mtime <= (folder / "report.html").stat().st_mtime):
            stamp.parent.mkdir(parents=True, exist_ok=True)
            stamp.touch()
            if not outdated:
                os.utime(stamp, (0, 0))
        return str(stamp)

    def study_of(self, stage: str):
        """The study for which a rule's result is made."""

        def of(wildcards) -> str:
            return self.project.find(stage, wildcards.result)[0].study.name

        return of

    def check_start(self, jobs: list[tuple[str, str | None]], local: bool) -> None:
        """Refuse a run of `jobs` (stage, label@digest) before the first one, with a sentence.

        UserError for a stage whose code is not what the lock says, and for GPU work on a machine without a GPU.
        """
        stages = {stage for stage, key in jobs if key is not None and stage in STAGES}
        self.project.lock.check(stages)
        if not local or has_cuda():
            return
        for stage, key in jobs:
            if key is not None and STAGES[stage].gpu:
                study = self.project.find(stage, key)[0].study
                if study.run.requires == "cuda":
                    raise UserError(
                        f"the study {study.name!r} trains on CUDA GPUs and this machine has none: run `make demo` for a small "
                        "study on this machine, or `snakemake --profile slurm` on a cluster's login node"
                    )


def told(work: Callable, *args: Any) -> Any:
    """Call `work`; an error of the user ends Snakemake with its sentence alone, without a traceback."""
    try:
        return work(*args)
    except UserError as error:
        print(f"\n{error}\n", file=sys.stderr)
        sys.exit(1)
