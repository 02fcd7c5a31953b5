"""What the job of a result asks of a machine: GPUs, nodes, memory and time. None of it enters a digest.

A profile of Snakemake names the machine (`Site`), the study the number of GPUs (`run.gpus`); the rest follows from the
result's operations and its forecast, by the laws below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.study.architecture import parameter_counts
from xsa.study.forecast import TRAINING
from xsa.study.outlook import Ground, Line, device
from xsa.study.plan import Plan
from xsa.study.result import Result
from xsa.study.reuse import RUN, Action
from xsa.study.stages import STAGES

# Of a training on one GPU: 1.4 hours of an H100 at 40 % of its rate. d12 takes one, d24 eight.
MOST_FLOPS = 2e18
# Several GPUs wait for each other; an assumption.
SEVERAL_EFFICIENCY = 0.85
# Margin over a forecast, for slower nodes and for starting, compiling, hashing.
TIME_FACTOR, TIME_MINUTES = 1.5, 10
# Memory of the host: a floor, what a process with torch and CUDA takes, and float32 weights in each process while it starts,
# with two moments of each in the first, which gathers them to save. Assumptions on the safe side.
LEAST_MB, PROCESS_MB, WEIGHT_BYTES, SAVED_BYTES = 32_000, 6_000, 4, 12


@dataclass(frozen=True)
class Site:
    """What a profile says of the machine, among its `default-resources`."""

    slurm_partition: str | None = None
    mem_mb: int = 8000
    gpu_partition: str | None = None
    gpu_type: str | None = None
    gpus_per_node: int = 8
    most_nodes: int = 1
    most_minutes: int = 1440

    @classmethod
    def of(cls, values: dict[str, Any]) -> Site:
        """The site of a profile's `default-resources`. UserError where a number is none."""
        found = {}
        for name, kind in cls.__annotations__.items():
            value = values.get(name)
            if value in (None, ""):
                continue
            text = str(value).strip("'\"")
            if kind == "int":
                if not text.isdecimal() or not int(text):
                    raise UserError(
                        f"default-resources of the profile: {name} is {value!r}; give a whole number above zero"
                    )
                found[name] = int(text)
            else:
                found[name] = text
        return cls(**found)


class Requests:
    """Requests of the results of one plan; `here` is the number of GPUs of this machine, None where jobs go to a cluster."""

    def __init__(self, plan: Plan, results: Path, site: Site, here: int | None = None):
        self.plan, self.site, self._here = plan, site, here
        self._results, self._ground = results, None
        self._shapes = {
            (result.stage, result.key): cell.shape for cell in reversed(plan.cells) for result in cell.results.values()
        }

    def gpus(self, result: Result) -> int:
        """GPUs of a result's job; 0 where it computes on a CPU. A training that asks for a number gets it everywhere."""
        asked = self._asked(result)
        if asked is not None:
            return asked
        if device(self.plan, result) == "cpu":
            return 0
        count, most = 1, self._most()
        if STAGES[result.stage].several:
            flops = self._line(result).cost.flops
            rows = getattr(result.settings, "batch_rows", 0)
            while 2 * count <= most and flops / count > MOST_FLOPS and rows % (2 * count) == 0:
                count *= 2
        return count

    def nodes(self, result: Result) -> int:
        """Nodes that the GPUs of a job are on."""
        return max(1, -(-self.gpus(result) // self.site.gpus_per_node))

    def gres(self, result: Result) -> str | None:
        """SLURM's request for the GPUs of one node; None without."""
        count = self.gpus(result)
        if not count:
            return None
        kind = f"{self.site.gpu_type}:" if self.site.gpu_type else ""
        return f"gpu:{kind}{self._per_node(count)}"

    def threads(self, result: Result) -> int:
        """CPU threads of a job on one node: `run.threads` for each of its processes there."""
        return self.plan.study.run.threads * max(1, self._per_node(self.gpus(result)))

    def partition(self, result: Result) -> str | None:
        """Where a job goes; None for the cluster's own choice."""
        return (self.site.gpu_partition if self.gpus(result) else None) or self.site.slurm_partition

    def memory_mb(self, result: Result) -> int:
        """Memory of the host on one node, in MB: the profile's own number for jobs without a GPU."""
        count = self.gpus(result)
        if not count:
            return self.site.mem_mb
        model = self._known().model(result)
        weights = parameter_counts(model)["total"] / 1e6 if model else 0.0
        count = self._per_node(count)
        need = PROCESS_MB * (1 + count) + weights * (WEIGHT_BYTES * count + SAVED_BYTES)
        return max(LEAST_MB, 1000 * math.ceil(need / 1000))

    def minutes(self, result: Result, attempt: int = 1) -> int:
        """Time limit: the forecast with a margin, doubled with each further attempt, at most the site's."""
        forecast, count = self._line(result).forecast, self.gpus(result)
        seconds = forecast.seconds if forecast else 0.0
        if forecast and forecast.device == "cpu":
            seconds /= self.plan.study.run.threads * max(1, count)
        elif count > 1:
            seconds /= SEVERAL_EFFICIENCY * count
        minutes = math.ceil(TIME_FACTOR * seconds / 60 + TIME_MINUTES)
        return min(minutes * 2 ** (attempt - 1), self.site.most_minutes)

    def _asked(self, result: Result) -> int | None:
        """The number that the study gives for a training of this shape; None for the law."""
        if result.stage not in TRAINING:
            return None
        asked = self.plan.study.run.gpus
        if isinstance(asked, dict):
            asked = asked.get(self._shapes.get((result.stage, result.key), ""), "auto")
        if asked == "auto":
            return None
        return asked if self._here is None else min(asked, self._here or asked)

    def _most(self) -> int:
        return self._here if self._here is not None else self.site.gpus_per_node * self.site.most_nodes

    def _per_node(self, count: int) -> int:
        """GPUs on each node. UserError where they cannot be spread evenly."""
        nodes = max(1, -(-count // self.site.gpus_per_node))
        if count % nodes:
            raise UserError(
                f"run.gpus asks for {count} GPUs, which {nodes} nodes of {self.site.gpus_per_node} cannot share evenly; "
                f"choose a multiple of {nodes}"
            )
        return count // nodes

    def _known(self) -> Ground:
        if self._ground is None:
            self._ground = Ground(self.plan, self._results)
        return self._ground

    def _line(self, result: Result) -> Line:
        return self._known().line(result, Action(RUN))
