"""`xsa export`: a study's results as one file."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("export", context_settings=CONTEXT)
@click.argument("study")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The archive; STUDY.tar by default, or STUDY-PORTION.tar with --only.",
)
@click.option(
    "--only",
    type=click.Choice(["report", "results", "checkpoints"]),
    help="What tables and page are made of; those and the page; or what measurements are taken of. Everything by default.",
)
@click.option("--force", is_flag=True, help="Replace an archive that is there.")
@results_option
def command(study: str, output: Path | None, only: str | None, force: bool, results: Path) -> None:
    """Write a study's checkpoints and results, or a part of them, into one archive.

    The archive is a tar file with an RO-Crate description and the SHA-256 of every file; `xsa import` reads it.
    """
    from xsa.store.errors import UserError
    from xsa.store.produce import disk_error
    from xsa.store.progress import Progress
    from xsa.study.moving import export_study
    from xsa.study.show_outlook import size

    plan = open_project(results).plan(study)
    target = output or Path(f"{plan.study.name}-{only}.tar" if only else f"{plan.study.name}.tar")
    if target.exists() and not force:
        raise UserError(f"{target} is there already; give another name with -o, or replace it with --force")
    try:
        packed = export_study(plan, results, target, only, Progress.terminal("export"))
    except OSError as error:
        raise disk_error(error, target) from error
    click.echo(f"{target}: {packed.results} results, {size(packed.bytes)}")
    for file in packed.gone:
        click.echo(f"not in it, for it is gone: {file}")
    if packed.not_made:
        click.echo(
            f"not in it, for they are not made yet: {len(packed.not_made)} results, {packed.not_made[0]} the first"
        )
