"""`xsa adopt`: a checkpoint that was trained elsewhere takes a cell's place."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("adopt", context_settings=CONTEXT)
@click.argument("study")
@click.argument("cell")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--stage",
    type=click.Choice(["pretrain", "finetune"]),
    default="pretrain",
    show_default=True,
    help="Whose place the checkpoint takes.",
)
@click.option("--why", help="Why it may stand there although it differs; kept in the record and shown in the report.")
@results_option
def command(study: str, cell: str, folder: Path, stage: str, why: str | None, results: Path) -> None:
    """Let a checkpoint trained elsewhere take a cell's place.

    CELL is a label that `xsa cells STUDY` prints; FOLDER a pretrain or finetune result of another results folder, or
    imported/NAME/base. Settings, vocabulary and data stream are compared first, and every difference is listed.
    """
    from xsa.store.produce import disk_error
    from xsa.train.adoption import adopt

    try:
        click.echo(adopt(open_project(results), study, cell, folder, stage=stage, why=why, say=click.echo))
    except OSError as error:
        raise disk_error(error, results) from error
