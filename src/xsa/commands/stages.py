"""The stages' verbs: `xsa STAGE STUDY RESULT` makes one result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xsa.commands.options import CONTEXT, open_project, results_option
from xsa.store.devices import claimed
from xsa.store.errors import UserError
from xsa.study.stages import STAGES

if TYPE_CHECKING:
    from xsa.store.job import Job

HELP = {
    "shard": "Bring one shard of text and check it.",
    "bundle": "Bring the CORE evaluation bundle.",
    "chatsets": "Bring the chat sets.",
    "tokenizer": "Train the tokenizer.",
    "imported_tokenizer": "Take over the tokenizer of an imported checkpoint.",
    "tokens": "Encode one shard.",
    "rows": "Pack one shard's tokens into rows.",
    "pretrain": "Train one cell.",
    "finetune": "Fine-tune a trained cell on conversations.",
    "imported": "Take over an imported checkpoint.",
    "imported_chat": "Take over an imported chat model.",
    "bpb": "Measure bits per byte of a trained cell.",
    "core": "Measure CORE of a trained cell.",
    "chatcore": "Measure ChatCORE of a fine-tuned cell.",
    "attention": "Measure how attention's output aligns with the own value.",
    "overhead": "Time the exclusive projection against standard attention.",
    "equivalence": "Compare standard attention with alpha = 0.",
    "analyse": "Make a study's tables and figures.",
    "report": "Write a study's page.",
}
EPILOG = (
    "\n\nSTUDY is a name under config/studies or a file; RESULT is what `xsa cells STUDY` prints, with or without its "
    "@digest, or the path of its record.json."
)


def stage_verb(stage: str) -> click.Command:
    """The command of one stage."""

    @click.command(stage, help=HELP[stage] + EPILOG, context_settings=CONTEXT)
    @click.argument("study")
    @click.argument("result")
    @results_option
    @click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="Where to compute; auto is a GPU if there is one.",
    )
    @click.option("--threads", type=click.IntRange(min=1), help="CPU threads; the study's `run.threads` by default.")
    @click.option("--micro-batch", type=click.IntRange(min=1), help="Rows a device takes at once.")
    @click.option(
        "--devices",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="GPUs to take, all nodes together, with a process for each (on a CPU, processes); 0 is one process.",
    )
    @click.option(
        "--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Nodes of a SLURM job to spread over."
    )
    @click.option(
        "--log", type=click.Path(path_type=Path, dir_okay=False), help="File that gets a copy of the progress."
    )
    def verb(
        study: str,
        result: str,
        results: Path,
        device: str,
        threads: int | None,
        micro_batch: int | None,
        devices: int,
        nodes: int,
        log: Path | None,
    ) -> None:
        from xsa.study.execute import execute

        def make(begin: Callable[[Job], None] = lambda job: None) -> None:
            folder, name = _place(stage, result, results)
            execute(
                open_project(folder),
                study,
                stage,
                name,
                device=device,
                threads=threads,
                micro_batch=micro_batch,
                log=log,
                begin=begin,
            )

        if os.environ.get("WORLD_SIZE", "1") != "1":
            from xsa.train.together import make_together

            make_together(stage, make)
            return
        names = _gpus(stage, device)
        shares = bool(names) and _shares(study, result, stage, results)
        if devices > 1:
            sys.exit(_launched(stage, devices, nodes, threads, names, shares))
        with claimed(1, names, shares, say=_say):
            make()

    return verb


def _launched(stage: str, devices: int, nodes: int, threads: int | None, names: list[str], shares: bool) -> int:
    """Exit code of this very call in one process a device. UserError where the stage is made by one, or nodes cannot share."""
    from xsa.study.launch import launched_nodes, run_on_nodes, run_processes

    if not STAGES[stage].several:
        raise UserError(f"{stage} is made by one process; call it with --devices 1")
    if devices % nodes:
        raise UserError(f"{devices} devices cannot be shared evenly by {nodes} nodes; choose a multiple of {nodes}")
    arguments = sys.argv[1:]
    if launched_nodes(nodes):
        return run_on_nodes(arguments, nodes)
    here = devices // nodes
    if threads is not None:
        arguments += ["--threads", str(max(1, threads // here))]
    with claimed(here, names, shares, say=_say) as held:
        return run_processes(arguments, here, held)


def _gpus(stage: str, device: str) -> list[str]:
    """The GPUs that a job of the stage may take."""
    from xsa.study.machine import gpus

    return gpus() if STAGES[stage].gpu and device != "cpu" else []


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _shares(study: str, result: str, stage: str, results: Path) -> bool:
    """Whether the study lets its jobs use GPUs that others use."""
    folder, name = _place(stage, result, results)
    project = open_project(folder)
    plan = project.find(stage, name, first=study)[0] if "@" in name else project.plan(study)
    return plan.study.run.share_gpus


def _place(stage: str, result: str, results: Path) -> tuple[Path, str]:
    """The results folder and the name of a result, which may be given by the path of its record or its folder."""
    path = Path(result)
    folder = path.parent if path.name == "record.json" else path
    if len(folder.parts) < 2:
        return results, folder.name
    if folder.parent.name != stage:
        raise UserError(f"{result} is a result of the stage {folder.parent.name!r}, not of {stage!r}; call that verb")
    return folder.parents[1], folder.name
