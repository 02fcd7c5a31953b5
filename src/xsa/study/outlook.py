"""What a run of a study will do and cost: an action, a cost and a forecast for each result, and their totals."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xsa.store.recorded import Recorded, recorded_results
from xsa.study.architecture import ModelConfig
from xsa.study.cost import Cost, Costs
from xsa.study.forecast import BRINGS, Forecast, Forecasts
from xsa.study.lock import StagesLock
from xsa.study.machine import gpu_model, has_cuda, plain_version, torch_version
from xsa.study.plan import Plan
from xsa.study.relatives import Relatives
from xsa.study.result import Result
from xsa.study.reuse import LACKING, RESTORE, RESUME, REUSE, RUN, Action, Key, actions, needed
from xsa.study.stages import STAGES


@dataclass(frozen=True)
class Line:
    """One result of a study: what happens to it. `cost` and `forecast` are of what is still to be done; nothing, where nothing is."""

    result: Result
    cells: tuple[str, ...]
    action: Action
    cost: Cost
    forecast: Forecast | None
    price: float = 0.0

    @property
    def gpu_hours(self) -> float:
        return self.forecast.hours if self.forecast and self.forecast.device == "gpu" else 0.0

    @property
    def cpu_hours(self) -> float:
        return self.forecast.hours if self.forecast and self.forecast.device == "cpu" else 0.0

    @property
    def fetched(self) -> bool:
        """Whether a shard is to come over the network."""
        return self.result.stage == "shard" and self.action.runs and getattr(self.result.settings, "kind", "") == "hub"


@dataclass(frozen=True)
class Totals:
    """Sums over lines; `cost` in the currency of `run.gpu_hour_price`."""

    actions: dict[str, int]
    tokens: int
    flops: float
    gpu_hours: float
    cpu_hours: float
    cost: float
    bytes: float
    shards: int
    shard_bytes: float


@dataclass(frozen=True)
class Outlook:
    """All lines of a study in the order of its plan, and what else its user should know, a sentence each."""

    plan: Plan
    lines: list[Line]
    gpu: str
    warnings: list[str]

    @property
    def totals(self) -> Totals:
        return totals(self.lines)


class Ground:
    """What an outlook rests on: the recorded results of a folder, and costs and forecasts by all recipes that are known."""

    def __init__(self, plan: Plan, results: Path):
        self.plan = plan
        self.recorded = recorded_results(results, STAGES)
        self.recipes = {one.digest: one.recipe for one in self.recorded.values()}
        self.recipes |= {result.digest: result.recipe for result in plan.results.values()}
        self._costs = Costs(self.recipes)
        self.forecasts = Forecasts(self._costs, self.recorded.values(), plan.study.run.gpu or gpu_model())

    def model(self, result: Result) -> ModelConfig | None:
        """The model that a result's job runs."""
        return self._costs.model(result.recipe)

    def line(self, result: Result, action: Action, cells: tuple[str, ...] = ()) -> Line:
        """A result with an action, and what that costs."""
        if not action.runs:
            return Line(result, cells, action, Cost(), None)
        cost = _with_source(self._costs.of(result.recipe), result)
        forecast = self.forecasts.of(result.recipe, cost, device(self.plan, result))
        return Line(
            result, cells, action, *_remaining(result, action, cost, forecast), self.plan.study.run.gpu_hour_price
        )


def outlook(plan: Plan, results: Path, jobs: set[Key] | None = None, lock: StagesLock | None = None) -> Outlook:
    """What a run of the study will do: of its whole page, or of the given `jobs`, which Snakemake chose.

    With the `lock` of the code, stages that it no longer matches are warned of.
    """
    ground, cells = Ground(plan, results), _cells(plan)
    wanted = {result.digest for result in plan.results.values()}
    relatives = Relatives(ground.recipes, ground.recorded.values(), wanted)
    jobs = needed(plan, results) if jobs is None else jobs
    found = actions(plan, results, ground.recorded, jobs, relatives.reason)
    lines = [ground.line(plan.results[key], action, cells.get(key, ())) for key, action in found.items()]
    warnings = [*_stale_warning(plan, results, lock), *_warnings(lines, ground.recorded, results)]
    return Outlook(plan, lines, ground.forecasts.gpu, warnings)


def made_again(plan: Plan, results: Path, stages: set[str]) -> list[Line]:
    """The results of `stages` and all that follow from them, each with the whole cost of making it."""
    ground, affected = Ground(plan, results), {}
    # A plan holds what is read before what reads it.
    for key, result in plan.results.items():
        if result.stage in stages or any((one.stage, one.key) in affected for one in result.upstream()):
            affected[key] = ground.line(result, Action(RUN))
    return list(affected.values())


def device(plan: Plan, result: Result) -> str:
    """`gpu` or `cpu`: where a result will be made, as far as can be told before it is."""
    if not STAGES[result.stage].gpu:
        return "cpu"
    measured = getattr(result.settings, "device", None)
    cuda = measured == "cuda" if measured else plan.study.run.requires == "cuda" or has_cuda()
    return "gpu" if cuda else "cpu"


def totals(lines: Iterable[Line]) -> Totals:
    """Sums over `lines`."""
    lines = list(lines)
    fetched = [line for line in lines if line.fetched]
    return Totals(
        actions=dict(Counter(line.action.name for line in lines)),
        tokens=sum(line.cost.tokens for line in lines),
        flops=sum(line.cost.flops for line in lines),
        gpu_hours=sum(line.gpu_hours for line in lines),
        cpu_hours=sum(line.cpu_hours for line in lines),
        cost=sum(line.gpu_hours * line.price for line in lines),
        bytes=sum(line.cost.bytes for line in lines),
        shards=len(fetched),
        shard_bytes=sum(line.cost.bytes for line in fetched),
    )


def _cells(plan: Plan) -> dict[Key, tuple[str, ...]]:
    """The cells that each result belongs to; data belong to none."""
    found: dict[Key, tuple[str, ...]] = {}
    for cell in plan.cells:
        for result in cell.results.values():
            key = (result.stage, result.key)
            found[key] = (*found.get(key, ()), cell.label)
    return found


def _with_source(cost: Cost, result: Result) -> Cost:
    """The cost, of the size that local files really have."""
    path = result.source.get("path")
    if not path or result.stage not in BRINGS or not Path(path).exists():
        return cost
    files = [Path(path)] if Path(path).is_file() else [file for file in Path(path).rglob("*") if file.is_file()]
    return replace(cost, bytes=float(sum(file.stat().st_size for file in files)))


def _remaining(result: Result, action: Action, cost: Cost, forecast: Forecast) -> tuple[Cost, Forecast]:
    """What is left of a result's cost: all, a training's last steps, or nothing where its files are there."""
    left, steps = 1.0, getattr(result.settings, "steps", None)
    if action.name == RESTORE:
        return Cost(), replace(forecast, seconds=0.0, said="nothing is computed")
    if action.name == RESUME and steps:
        left = max(0.0, 1 - action.step / steps)
    remaining = Cost(round(cost.tokens * left), cost.flops * left, cost.bytes, cost.characters)
    return remaining, replace(forecast, seconds=forecast.seconds * left)


# --- warnings ---


def _stale_warning(plan: Plan, results: Path, lock: StagesLock | None) -> list[str]:
    stale = [one.stage for one in lock.stale({stage for stage, _ in plan.results})] if lock else []
    if not stale:
        return []
    return [
        f"the code of {', '.join(stale)} is not what {lock.path.name} says, and a run stops until you decide (`xsa lock`); "
        f"{price_of_retraining(plan, results, set(stale))}"
    ]


def price_of_retraining(plan: Plan, results: Path, stages: set[str]) -> str:
    """In a sentence, what making the results of `stages` again would cost."""
    whole = totals(made_again(plan, results, stages))
    hours = f"{whole.gpu_hours:,.3g} GPU-hours (cost {whole.cost:,.2f}) and " if whole.gpu_hours else ""
    return (
        f"`--retrain` would make {sum(whole.actions.values()):,} results of the study {plan.study.name!r} again, in about "
        f"{hours}{whole.cpu_hours:,.3g} CPU-hours"
    )


def _warnings(lines: list[Line], recorded: dict[Key, Recorded], results: Path) -> list[str]:
    found = [
        f"{line.result.stage} {line.result.key}: {line.action.reason}; the run will stop there"
        for line in lines
        if line.action.name == LACKING
    ]
    torch = _torch_warning(lines, recorded)
    room = _room_warning(sum(line.cost.bytes for line in lines), results)
    return [*found, *(one for one in (torch, room) if one)]


def _torch_warning(lines: list[Line], recorded: dict[Key, Recorded]) -> str | None:
    """One sentence where results to be reused were made by another torch than the installed one."""
    versions: Counter[str] = Counter()
    for line in lines:
        stage, there = line.result.stage, recorded.get((line.result.stage, line.result.key))
        if line.action.name in (REUSE, RESTORE) and there and STAGES[stage].torch:
            version = _torch_of(there.made)
            if version:
                versions[version] += 1
    installed = torch_version()
    others = {version: count for version, count in versions.items() if version != installed}
    if installed is None or not others:
        return None
    told = ", ".join(f"{count} by {version}" for version, count in sorted(others.items()))
    return (
        f"results to be reused were made by another torch than {installed}, which is installed: {told}. They stay valid; "
        "`identity: {torch: true}` in the study would make them again"
    )


def _torch_of(made: dict[str, Any]) -> str | None:
    packages = made.get("packages")
    version = packages.get("torch") if isinstance(packages, dict) else None
    return plain_version(version) if isinstance(version, str) else None


def _room_warning(wanted: float, results: Path) -> str | None:
    place = next((path for path in (results, *results.resolve().parents) if path.exists()), Path("/"))
    free = shutil.disk_usage(place).free
    if wanted <= free:
        return None
    return f"the run adds about {wanted / 1e9:,.0f} GB under {results}, and {free / 1e9:,.0f} GB are free there"
