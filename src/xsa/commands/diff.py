"""`xsa diff`: how two results, cells or studies differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xsa.commands.options import CONTEXT, open_project, results_option
from xsa.store.errors import UserError

if TYPE_CHECKING:
    from xsa.study.sides import Side


@click.command("diff", context_settings=CONTEXT)
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="All of it, for programs.")
@results_option
def command(a: str, b: str, as_json: bool, results: Path) -> None:
    """Tell how two results, cells or studies differ.

    Settings, code, environment, and metrics with their noise. A and B are two of one kind: STUDY, or REVISION:STUDY for
    a study as git has it; CELL or STUDY/CELL; [STAGE/]LABEL@DIGEST or the path of a result.
    """
    from xsa.study.differences import differences
    from xsa.study.show_differences import differences_text
    from xsa.study.sides import Sides

    project = open_project(results)
    sides = Sides(project)
    pair = sides.pair(a, b)
    told = differences(*pair, project.root, sides.shelf) | {"metrics": [], "not_compared": None}
    try:
        told["metrics"] = _metrics(*pair, results)
    except UserError as error:
        # A file that is gone or damaged: the rest is told all the same.
        told["not_compared"] = str(error)
    click.echo(json.dumps(told, indent=1, ensure_ascii=False) if as_json else differences_text(told))


def _metrics(a: Side, b: Side, results: Path) -> list[dict[str, Any]]:
    """What both sides measured; nothing where both are of the same results."""
    if a.kind == "result":
        if a.folder.resolve() == b.folder.resolve():
            return []
        from xsa.analyse.contrast import contrast_results

        return contrast_results(a.folder, b.folder)
    settings = [side.plan.analyse.settings for side in (a, b)]
    if a.kind == "cell":
        if a.cell.results == b.cell.results:
            return []
        from xsa.analyse.contrast import contrast_cells

        return contrast_cells(settings[0], a.cell.label, settings[1], b.cell.label, results)
    if settings[0] == settings[1]:
        return []
    from xsa.analyse.contrast import contrast_studies

    return contrast_studies(*settings, results)
