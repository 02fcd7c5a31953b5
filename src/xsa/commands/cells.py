"""`xsa cells`: what a study is made of."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("cells", context_settings=CONTEXT)
@click.argument("study")
@click.option("--json", "as_json", is_flag=True, help="All settings of every cell, for programs.")
@results_option
def command(study: str, as_json: bool, results: Path) -> None:
    """Print a study's cells and results."""
    from xsa.study.show import cells_as_json, cells_as_text

    plan = open_project(results).plan(study)
    click.echo(cells_as_json(plan, results) if as_json else cells_as_text(plan, results))
