"""`xsa publish`: the finished page at its place."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project


@click.command("publish", context_settings=CONTEXT)
@click.argument("page", type=click.Path(path_type=Path, dir_okay=False))
def command(page: Path) -> None:
    """Copy a finished page to its place.

    PAGE is that place, e.g. results/demo/report.html; the study's tables and figures go beside it.
    """
    from xsa.store.produce import disk_error
    from xsa.store.publish import publish as copy

    results, study = page.parent.parent, page.parent.name
    report = open_project(results).plan(study).report
    try:
        click.echo(copy(report.folder(results), page.parent))
    except OSError as error:
        raise disk_error(error, page) from error
