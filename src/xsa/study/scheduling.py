"""The resources of rules, as functions that Snakemake asks when it plans a job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from xsa.study.machine import gpus
from xsa.study.plan import Plan
from xsa.study.resources import Requests, Site
from xsa.study.result import Result

Find = Callable[[str, str], tuple[Plan, Result]]


class Scheduling:
    """Resources of the stages' jobs. `find(stage, label@digest)` gives a result with its plan."""

    def __init__(self, find: Find, results: Path):
        self._find, self._results = find, results
        self._requests: dict[int, Requests] = {}

    def resources(self, stage: str, workflow: Any) -> dict[str, Callable]:
        """Resource functions of a rule that may use GPUs, by name.

        `devices` (GPUs, or processes) and `on_nodes` are this project's own, for its rules and for one machine; the rest are
        SLURM's, and left out where jobs run on one machine.
        """

        def on_cluster(ask: Callable[[Requests, Result, int], Any]):
            def of(wildcards, attempt):
                # A submitted job asks again, where it runs; it has what it was given.
                if workflow.local_exec or not workflow.is_main_process:
                    return None
                return ask(*self._of(stage, wildcards.result, workflow), attempt)

            return of

        def everywhere(ask: Callable[[Requests, Result], Any]):
            return lambda wildcards: ask(*self._of(stage, wildcards.result, workflow))

        def memory(wildcards):
            requests, result = self._of(stage, wildcards.result, workflow)
            # Snakemake wants a number of this one everywhere.
            cluster = workflow.is_main_process and not workflow.local_exec
            return requests.memory_mb(result) if cluster else requests.site.mem_mb

        def cpus(wildcards):
            return None if workflow.local_exec else self.threads(stage, wildcards.result, workflow)

        return {
            "devices": everywhere(lambda requests, result: requests.gpus(result)),
            "on_nodes": everywhere(lambda requests, result: requests.nodes(result)),
            "cpus_per_task": cpus,
            "nodes": on_cluster(
                lambda requests, result, attempt: requests.nodes(result) if requests.nodes(result) > 1 else None
            ),
            "gres": on_cluster(lambda requests, result, attempt: requests.gres(result)),
            "slurm_partition": on_cluster(lambda requests, result, attempt: requests.partition(result)),
            "mem_mb": memory,
            "runtime": on_cluster(lambda requests, result, attempt: requests.minutes(result, attempt)),
        }

    def threads(self, stage: str, key: str, workflow: Any) -> int:
        """CPU threads of a job."""
        requests, result = self._of(stage, key, workflow)
        return requests.threads(result)

    def limit_devices(self, workflow: Any) -> None:
        """On one machine, have jobs wait for its GPUs: as many `devices` as it has, unless `--resources devices=…` says else."""
        count = len(gpus())
        if count and workflow.local_exec and workflow.is_main_process and "devices" not in workflow.global_resources:
            workflow.register_resource("devices", count)

    def _of(self, stage: str, key: str, workflow: Any) -> tuple[Requests, Result]:
        plan, result = self._find(stage, key)
        if id(plan) not in self._requests:
            # A submitted job runs Snakemake once more, where it sees the GPUs of one node alone.
            here = len(gpus()) if workflow.local_exec and workflow.is_main_process else None
            self._requests[id(plan)] = Requests(plan, self._results, site_of(workflow), here)
        return self._requests[id(plan)], result


def site_of(workflow: Any) -> Site:
    """What the profile says of the machine."""
    return Site.of({name: _text(value) for name, value in (workflow.resource_settings.default_resources or {}).items()})


def _text(value: Any) -> Any:
    """A resource as it was written; None for one that only a job gives a value."""
    raw = getattr(value, "raw", value)
    return value.value if raw is None and not value.is_evaluable() else raw
