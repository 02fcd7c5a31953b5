"""What a run would do with each result of a plan: reuse it, restore its record, resume it, make it, or leave it alone.

It follows Snakemake's rule: what nothing unfinished reads is not made, and a result is there when its record is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xsa.store.publish import is_published
from xsa.store.record import RECORD
from xsa.store.recorded import Recorded
from xsa.study.plan import Plan
from xsa.study.result import Result
from xsa.study.stages import STAGES

REUSE, RESTORE, RESUME, RUN, NOT_NEEDED, LACKING = "reuse", "restore", "resume", "run", "not needed", "lacking"
ACTIONS = (RUN, RESUME, RESTORE, REUSE, NOT_NEEDED, LACKING)
# Large files of a checkpoint, which people delete: what they are called, and who never reads them.
_NAMES = {"model.safetensors": "checkpoint", "optimizer.safetensors": "optimizer state"}
_NOT_READ_BY = {
    "model.safetensors": {"analyse"},
    "optimizer.safetensors": set(STAGES) - {"finetune"},
}

Key = tuple[str, str]


@dataclass(frozen=True)
class Action:
    """What happens to a result: one of ACTIONS, why, and for a training that goes on the step it goes on from."""

    name: str
    reason: str = ""
    step: int | None = None

    @property
    def runs(self) -> bool:
        return self.name in (RUN, RESUME, RESTORE)


def needed(plan: Plan, results: Path) -> set[Key]:
    """Results whose jobs Snakemake would run for the study's page.

    From the page down, what is missing; and beside it, whatever reads a result whose record is missing: Snakemake runs that
    too, though a result that is whole only gets its record written again.
    """
    if is_published(results / plan.study.name, plan.report.key):
        return set()
    missing = {key for key, result in plan.results.items() if not (result.folder(results) / RECORD).exists()}
    readers = _readers(plan)
    jobs: set[Key] = set()
    waiting = [_key(plan.report)] if _key(plan.report) in missing else []
    while waiting:
        key = waiting.pop()
        if key in jobs:
            continue
        jobs.add(key)
        waiting += [_key(one) for one in plan.results[key].upstream() if _key(one) in missing]
        waiting += readers.get(key, []) if key in missing else []
    return jobs


def actions(
    plan: Plan,
    results: Path,
    recorded: Mapping[Key, Recorded],
    jobs: set[Key],
    reason: Callable[[Result], str],
) -> dict[Key, Action]:
    """The action on every result of the plan, when `jobs` run. `reason` says why a result without any trace has to be made."""
    readers, found = _readers(plan), {}
    for key, result in plan.results.items():
        there = recorded.get(key)
        if key in jobs:
            found[key] = _to_make(result, results, there, reason)
        else:
            unfinished = {stage for stage, name in readers.get(key, []) if (stage, name) in jobs}
            found[key] = _left(there, unfinished, result, results)
    return found


def _to_make(result: Result, results: Path, there: Recorded | None, reason: Callable[[Result], str]) -> Action:
    step = saved_step(results / ".state" / result.stage / result.key)
    lacking = there.lacking() if there else []
    if there and not lacking:
        why = "it reads a result whose record is made again" if there.declared else "its record is missing"
        return Action(RESTORE, f"{why}; its files are there and stay, only the record is written")
    if step is not None:
        steps = getattr(result.settings, "steps", None)
        return Action(RESUME, f"stopped after step {step:,}" + (f" of {steps:,}" if steps else ""), step)
    if lacking:
        return Action(RUN, f"its {_named(lacking)} {_gone(lacking, there)}")
    return Action(RUN, reason(result))


def _left(there: Recorded | None, readers: set[str], result: Result, results: Path) -> Action:
    """The action on a result that no job makes."""
    if there is None:
        # A record that is there and cannot be read still counts for Snakemake; who reads it is told.
        if (result.folder(results) / RECORD).exists():
            return Action(LACKING if readers else REUSE, "its record cannot be read")
        return Action(NOT_NEEDED, "not there, and nothing unfinished reads it")
    lacking = there.lacking()
    if not lacking:
        return Action(REUSE)
    read = [name for name in lacking if readers - _NOT_READ_BY.get(name, set())]
    what = f"its {_named(read or lacking)} {_gone(read or lacking, there)}"
    if not read:
        return Action(NOT_NEEDED, f"{what}, and nothing unfinished reads it")
    who = sorted(set().union(*(readers - _NOT_READ_BY.get(name, set()) for name in read)))
    ways = f"bring it back, or delete {there.folder / RECORD} to make it again"
    return Action(LACKING, f"{what}, and {', '.join(who)} must read it: {ways}")


def _readers(plan: Plan) -> dict[Key, list[Key]]:
    """The results that read each result."""
    readers: dict[Key, list[Key]] = {}
    for key, result in plan.results.items():
        for upstream in result.upstream():
            readers.setdefault(_key(upstream), []).append(key)
    return readers


def _key(result: Result) -> Key:
    return result.stage, result.key


def saved_step(state: Path) -> int | None:
    """The step of the newest saved state of a training; None where none was saved. Its hashes are not checked here."""
    steps = [_number(folder.name) for folder in state.glob("step_*") if (folder / "state.json").is_file()]
    return max((step for step in steps if step is not None), default=None)


def _number(name: str) -> int | None:
    digits = name.removeprefix("step_")
    return int(digits) if digits.isdecimal() else None


def _named(files: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(_NAMES.get(file, file) for file in files))


def _gone(files: list[str], there: Recorded) -> str:
    """`was deleted`, or `is not what its record says` where a file is there and of another size."""
    deleted = all(not (there.folder / file).exists() for file in files)
    were = "was" if len(set(map(_named, ([file] for file in files)))) == 1 else "were"
    return f"{were} deleted" if deleted else "is not what its record says"
