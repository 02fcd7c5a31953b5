"""Running one result of a plan: inputs found and checked, device chosen, voice given, then produced."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.job import Job
from xsa.store.produce import produce
from xsa.store.progress import Progress
from xsa.store.record import RECORD, WHOLE, read_record
from xsa.store.status import JobStatus, explained
from xsa.study.machine import has_cuda, torch_version
from xsa.study.plan import Plan
from xsa.study.project import Project
from xsa.study.result import Result
from xsa.study.source import nearest
from xsa.study.stages import STAGES


def execute(
    project: Project,
    study: str,
    stage: str,
    name: str,
    *,
    device: str = "auto",
    threads: int | None = None,
    micro_batch: int | None = None,
    log: Path | None = None,
    begin: Callable[[Job], None] = lambda job: None,
) -> Path:
    """Make the result `name` (label, or label@digest) of `stage`; return its folder. `begin`: see `produce`.

    Raises UserError when the study has no such result, its stage's code is not what the lock says, or an input is
    not there yet (naming the verb that makes it).
    """
    results = project.results
    plan, result = _named(project, study, stage, name)
    state = results / ".state" / stage / result.key
    try:
        chosen = _ready(project, plan, result, device)
    except UserError as error:
        if not (result.folder(results) / RECORD).exists():
            JobStatus(state, None if log is None else str(log)).ended(error)
        raise
    run = plan.study.run
    changes = {name: value for name, value in (("threads", threads), ("micro_batch", micro_batch)) if value is not None}
    job = Job(
        stage=stage,
        label=result.label,
        settings=result.settings,
        inputs={
            name: [one.folder(results) for one in given] if isinstance(given, list) else given.folder(results)
            for name, given in result.inputs.items()
        },
        out=result.folder(results),
        state=state,
        run=run.model_copy(update=changes),
        device=chosen,
        source=result.source,
        progress=Progress.terminal(f"{stage} {result.label}", log),
    )
    try:
        folder = produce(job, result.recipe, result.digest, project.lock.fingerprint(stage), begin)
    except Exception as error:
        job.progress.note(explained(error) or traceback.format_exc())
        raise
    job.progress.say(f"done: {folder}")
    return folder


def _ready(project: Project, plan: Plan, result: Result, device: str) -> str:
    """The device that a result can be made on now; UserError where its code, what it reads or the machine are not ready."""
    project.lock.check({result.stage})
    _check_torch(result)
    for upstream in result.upstream():
        # Either of its two copies: another driver of these results may just now have Snakemake put the declared one away.
        if not any((upstream.folder(project.results) / name).exists() for name in (RECORD, WHOLE)):
            raise UserError(
                f"{result.stage} {result.label} needs {upstream.folder(project.results)}, which is not there yet; make it "
                f"with `xsa {upstream.stage} {plan.study.name} {upstream.key}`, or let snakemake make all of them"
            )
        read_record(upstream.folder(project.results))
    if result.stage == "pretrain":
        _check_rows(project, plan, result)
    return _device(plan, result, device)


def _check_rows(project: Project, plan: Plan, result: Result) -> None:
    """UserError where bits per byte of this training would need more validation rows than there are: before it trains, not after."""
    for (stage, _), one in plan.results.items():
        if stage != "bpb" or one.inputs["checkpoint"] is not result:
            continue
        validation = one.inputs["validation"]
        there = read_record(validation.folder(project.results))["made"].get("notes", {}).get("rows", one.settings.rows)
        if one.settings.rows > there:
            raise UserError(
                f"bpb.rows = {one.settings.rows}, but {validation.folder(project.results)} holds {there} rows, and bits per byte "
                f"could not be taken after the training of {result.label}; set bpb.rows to {there} or less"
            )


def _check_torch(result: Result) -> None:
    """UserError where a recipe names a version of torch that is not the one installed."""
    wanted = result.recipe.get("torch")
    if wanted and wanted != torch_version():
        raise UserError(
            f"{result.stage} {result.label} is to be made by torch {wanted} (identity.torch of its study), and "
            f"{torch_version() or 'none'} is installed; install that version, or change identity.torch"
        )


def _named(project: Project, study: str, stage: str, name: str) -> tuple[Plan, Result]:
    """A result by its label in the study, or by label@digest in whatever study has it."""
    if "@" in name:
        return project.find(stage, name, first=study)
    plan = project.plan(study)
    found = [result for (kind, _), result in plan.results.items() if kind == stage and name == result.label]
    if len(found) == 1:
        return plan, found[0]
    if not found:
        known = [result.label for (kind, _), result in plan.results.items() if kind == stage]
        raise UserError(f"study {plan.study.name!r} has no {stage} result {name!r}; {nearest(name, known)}")
    keys = ", ".join(one.key for one in found)
    raise UserError(f"{name!r} names {len(found)} {stage} results of study {plan.study.name!r}; add the digest: {keys}")


def _device(plan: Plan, result: Result, device: str) -> str:
    """The device a job runs on: what its settings measure, else what was asked for, else a GPU where there is one.

    UserError where a GPU is wanted, by those or by the study, and there is none.
    """
    if not STAGES[result.stage].gpu:
        return "cpu"
    measured = getattr(result.settings, "device", None)
    wanted = measured or (None if device == "auto" else device)
    if wanted is None:
        wanted = "cuda" if has_cuda() or plan.study.run.requires == "cuda" else "cpu"
    if wanted == "cuda" and not has_cuda():
        instead = "" if measured else ", or on the CPU with --device cpu"
        raise UserError(
            f"{result.stage} {result.label} is to run on a GPU, and this machine has none; run it where there is one{instead}"
        )
    return wanted
