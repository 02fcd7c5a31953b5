"""`xsa <verb>`: one verb a stage, and verbs that look at studies. What a verb needs is imported when it runs."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xsa.store.errors import UserError
from xsa.study.stages import STAGES

if TYPE_CHECKING:
    from xsa.study.project import Project

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Verbs(click.Group):
    """Shows the stages in the order in which data flows, then the rest, and turns UserError into one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*STAGES, *sorted(set(self.commands) - set(STAGES))]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.secho(f"xsa {ctx.invoked_subcommand}: ", fg="red", bold=True, err=True, nl=False)
            click.echo(str(error), err=True)
            ctx.exit(2)
        except BrokenPipeError:
            ctx.exit(0)


@click.group(cls=Verbs, context_settings=CONTEXT)
@click.version_option(package_name="xsa", prog_name="xsa")
def main() -> None:
    """Reproduce "Exclusive Self-Attention Beyond AdamW", stage by stage.

    Snakemake calls these verbs; each also runs by hand, from the project's folder.

    Exit codes: 0 done, 2 something to mend (the message says what), 75 stopped after its state was saved (run it again
    to go on), 143 ended by SIGTERM.
    """


def _project(results: Path) -> Project:
    from xsa.study.project import Project

    return Project(Path.cwd(), results)


def _place(stage: str, result: str, results: Path) -> tuple[Path, str]:
    """The results folder and the name of a result, which may be given by the path of its record or its folder."""
    path = Path(result)
    folder = path.parent if path.name == "record.json" else path
    if len(folder.parts) < 2:
        return results, folder.name
    if folder.parent.name != stage:
        raise UserError(f"{result} is a result of the stage {folder.parent.name!r}, not of {stage!r}; call that verb")
    return folder.parents[1], folder.name


results_option = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder that holds all results.",
)


def _stage_verb(stage: str) -> click.Command:
    @click.command(stage, help=HELP[stage], context_settings=CONTEXT)
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
        "--log", type=click.Path(path_type=Path, dir_okay=False), help="File that gets a copy of the progress."
    )
    def verb(
        study: str,
        result: str,
        results: Path,
        device: str,
        threads: int | None,
        micro_batch: int | None,
        log: Path | None,
    ) -> None:
        from xsa.study.execute import execute

        results, result = _place(stage, result, results)
        execute(
            _project(results), study, stage, result, device=device, threads=threads, micro_batch=micro_batch, log=log
        )

    return verb


HELP = {
    "shard": "Bring one shard of text and check it.",
    "bundle": "Bring the CORE evaluation bundle.",
    "chatsets": "Bring the chat sets.",
    "tokenizer": "Train the tokenizer.",
    "tokens": "Encode one shard.",
    "rows": "Pack one shard's tokens into rows.",
    "pretrain": "Train one cell.",
    "finetune": "Fine-tune a trained cell on conversations.",
    "bpb": "Measure bits per byte of a trained cell.",
    "core": "Measure CORE of a trained cell.",
    "chatcore": "Measure ChatCORE of a fine-tuned cell.",
    "attention": "Measure how attention's output aligns with the own value.",
    "overhead": "Time the exclusive projection against standard attention.",
    "equivalence": "Compare standard attention with alpha = 0.",
    "analyse": "Make a study's tables and figures.",
    "report": "Write a study's page.",
}
EPILOG = "\n\nSTUDY is a name under config/studies or a file; RESULT is what `xsa cells STUDY` prints, with or without its @digest, or the path of its record.json."
for _stage in STAGES:
    HELP[_stage] += EPILOG
    main.add_command(_stage_verb(_stage))


@main.command(context_settings=CONTEXT)
@click.argument("page", type=click.Path(path_type=Path, dir_okay=False))
def publish(page: Path) -> None:
    """Copy a finished page to its place.

    PAGE is that place, e.g. results/demo/report.html; the study's tables and figures go beside it.
    """
    from xsa.store.produce import disk_error
    from xsa.store.publish import publish as copy

    results, study = page.parent.parent, page.parent.name
    report = _project(results).plan(study).report
    try:
        click.echo(copy(report.folder(results), page.parent))
    except OSError as error:
        raise disk_error(error, page) from error


@main.command(context_settings=CONTEXT)
@click.argument("study")
@click.option("--json", "as_json", is_flag=True, help="All settings of every cell, for programs.")
@results_option
def cells(study: str, as_json: bool, results: Path) -> None:
    """Print a study's cells and results."""
    from xsa.study.show import cells_as_json, cells_as_text

    plan = _project(results).plan(study)
    click.echo(cells_as_json(plan, results) if as_json else cells_as_text(plan, results))


@main.command(context_settings=CONTEXT)
@click.option(
    "--retrain", metavar="STAGE", multiple=True, help="Raise the stage's version: its results are made again."
)
@click.option(
    "--keep", metavar="STAGE", multiple=True, help="Keep the version: the change cannot alter a result. Needs --why."
)
@click.option("--why", help="The reason for --keep; written into the lock.")
@click.option("--check", is_flag=True, help="Exit 1 when any stage is stale.")
def lock(retrain: tuple[str, ...], keep: tuple[str, ...], why: str | None, check: bool) -> None:
    """Show or settle the lock of the code.

    config/stages.lock ties each stage's version, which is part of its results' digests, to the code behind it.
    """
    from xsa.study.lock import StagesLock

    stages = StagesLock(Path.cwd())
    if why and not keep:
        raise UserError("--why is the reason for --keep STAGE, which is not given")
    if keep and not (why and why.strip()):
        raise UserError('--keep needs --why "…": the reason why the change cannot alter a result')
    for stage in retrain:
        click.echo(f"{stage}: version {stages.retrain(stage)}")
    for stage in keep:
        stages.keep(stage, why)
        click.echo(f"{stage}: version {stages.version(stage)} kept ({why})")
    if retrain or keep:
        stages.write()
    stale = {one.stage: one for one in stages.stale()}
    for stage, entry in stages.stages.items():
        state = f"STALE  {stale[stage]}" if stage in stale else "matches its code"
        click.echo(f"{stage:<12} v{entry['version']:<3} {entry['fingerprint']}  {state}")
    if check and stale:
        sys.exit(1)


@main.command(context_settings=CONTEXT)
def schema() -> None:
    """Write defaults and schemas of the settings.

    config/defaults.yaml and config/schema/*.json, from the settings' types.
    """
    from xsa.store.files import write_text
    from xsa.study.schema import generated

    for path, text in generated().items():
        write_text(Path.cwd() / path, text)
        click.echo(path)


def run() -> None:
    """Entry of the console script: SIGTERM ends a verb as Ctrl-C does, so that `finally` clauses run."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()


if __name__ == "__main__":
    run()
