"""`xsa import`: results that were made elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("import", context_settings=CONTEXT)
@click.argument("archive", type=click.Path(path_type=Path))
@results_option
def command(archive: Path, results: Path) -> None:
    """Put the results of an archive that `xsa export` wrote in place.

    Everything is checked before anything is visible, and nothing that is there is overwritten. The study's file and recipe
    are put under config/ where there are none of that name.
    """
    from xsa.store.errors import UserError
    from xsa.store.produce import disk_error
    from xsa.store.progress import Progress
    from xsa.study.moving import import_archive

    project = open_project(results)
    try:
        brought = import_archive(project, archive, Progress.terminal("import"))
    except OSError as error:
        raise disk_error(error, results) from error
    click.echo(f"{len(brought.new)} results put in place, {len(brought.there)} were there already")
    for path in brought.config:
        click.echo(f"{path} put in place")
    lacking = sum(bool(one.lacking) for one in brought.new)
    if lacking:
        click.echo(
            f"{lacking} of them came without checkpoints: enough for the report, not for measuring or training on"
        )
    if brought.study:
        try:
            known = project.plan(brought.study).results
        except UserError as error:
            click.echo(f"the study {brought.study} cannot be planned here: {error}")
            return
        every = [*brought.new, *brought.there]
        used = sum((one.stage, one.key) in known for one in every)
        click.echo(f"the study {brought.study}, as it stands here, uses {used} of the {len(every)}")
        if used < len(every):
            click.echo(
                "the others were made with other settings or another version of the code; `xsa show` tells which"
            )
