"""`xsa gc`: room on the disk."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("gc", context_settings=CONTEXT)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--delete", is_flag=True, help="Remove them. Without it, nothing is touched.")
@click.option(
    "--keep-hours",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Remove nothing that cost more hours than this, unless it is named.",
)
@click.option("--without", metavar="STUDY", multiple=True, help="Pass a study by, as one whose data are elsewhere.")
@results_option
def command(names: tuple[str, ...], delete: bool, keep_hours: float, without: tuple[str, ...], results: Path) -> None:
    """List results that no study under config/studies refers to, with their size and what they cost; remove them.

    NAME is a result as the list calls it; with names, they alone are meant. Damaged results that were set aside, what killed
    jobs left behind, saved states and logs without a use, and frozen code that no result was made by are listed too.
    """
    from xsa.store.collect import chosen, remove, strays
    from xsa.store.errors import UserError
    from xsa.store.produce import disk_error
    from xsa.study.referenced import referenced
    from xsa.study.show_strays import strays_as_text, sum_as_text

    found = strays(results, referenced(open_project(results), without))
    picked, spared = chosen(found, names, keep_hours)
    click.echo(strays_as_text(picked if names else found))
    if not delete:
        return
    removed = []
    for stray in picked:
        try:
            remove(results, stray)
            removed.append(stray)
        except UserError as error:
            click.echo(f"{stray.name} stays: {error}")
        except OSError as error:
            raise disk_error(error, stray.paths[0]) from error
    click.echo(f"removed: {sum_as_text(removed)}")
    if spared:
        click.echo(
            f"kept, for each cost more than {keep_hours:g} hours or says nothing of its cost: {sum_as_text(spared)}; "
            f"name what is to go, e.g. xsa gc --delete {spared[0].name}"
        )
