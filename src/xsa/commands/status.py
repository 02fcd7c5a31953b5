"""`xsa status`: where every cell of a study stands."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option

# Lines of a page that are no rows of its table, as a rule.
AROUND = 14


@click.command("status", context_settings=CONTEXT)
@click.argument("study")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.5),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Look again every so many seconds, 5 by default, until all is done.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Every result's state, for programs; one line a look with --watch."
)
@results_option
def command(study: str, watch: float | None, as_json: bool, results: Path) -> None:
    """Tell where every cell of a study stands.

    Known from the files alone, so also while jobs run on other machines, and where results cannot be written.
    """
    from xsa.study.states import Observer
    from xsa.study.status import finished, status_text, status_values

    plan = open_project(results).plan(study)
    observer = Observer(plan, results)

    def look() -> bool:
        states = observer.look()
        if as_json:
            click.echo(json.dumps(status_values(plan, states), ensure_ascii=False, indent=None if watch else 1))
        else:
            size = shutil.get_terminal_size((160, 54))
            _show(status_text(plan, states, size.columns, max(size.lines - AROUND, 8)), again=bool(watch))
        return finished(plan, states)

    try:
        while not look() and watch:
            time.sleep(watch)
    except KeyboardInterrupt:
        click.echo()


def _show(text: str, again: bool) -> None:
    """Print a page; on a terminal that is watched, over the page before, as much of it as there is room for."""
    if again and sys.stdout.isatty():
        lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
        # Home, lines cut at the edge and cleared to it, then whatever was below.
        click.echo("\x1b[H\x1b[?7l" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[?7h\x1b[J", nl=False)
    else:
        click.echo(f"{time.strftime('%H:%M:%S')}  {text}\n" if again else text)
