"""`xsa plan`: what a run of a study would do, why, and what it would cost."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("plan", context_settings=CONTEXT)
@click.argument("study")
@click.option("--json", "as_json", is_flag=True, help="Everything about every result, for programs.")
@click.option("--cells", is_flag=True, help="Every result on a line of its own.")
@results_option
def command(study: str, as_json: bool, cells: bool, results: Path) -> None:
    """Show what a run of a study would do: what is reused, restored, resumed or run, why, and at what cost."""
    from xsa.study.outlook import outlook
    from xsa.study.show_outlook import outlook_as_json, outlook_as_text

    project = open_project(results)
    shown = outlook(project.plan(study), results, lock=project.lock)
    click.echo(outlook_as_json(shown, results) if as_json else outlook_as_text(shown, cells=cells))
