"""`xsa show`: a result's record as a person reads it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from xsa.commands.options import CONTEXT, results_option


@click.command("show", context_settings=CONTEXT)
@click.argument("result")
@click.option("--json", "as_json", is_flag=True, help="The record with all that it is made from, for programs.")
@results_option
def command(result: str, as_json: bool, results: Path) -> None:
    """Show what a result is, how it was made, and from what.

    RESULT is [STAGE/]LABEL[@DIGEST], a digest alone, or a path; also one that no study has any more.
    """
    from xsa.analyse.headline import headline
    from xsa.study.description import describe, described, one_line
    from xsa.study.locate import Shelf

    shelf = Shelf(results)
    found = shelf.find(result)
    if as_json:
        values = [described(folder, shelf) for folder in found]
        click.echo(json.dumps(values[0] if len(values) == 1 else values, indent=1, ensure_ascii=False))
    elif len(found) == 1:
        (folder,) = found
        click.echo(describe(folder, shelf, headline(folder, folder.resolve().parent.name)))
    else:
        names = [f"{folder.parent.name}/{folder.name}" for folder in found]
        width = max(map(len, names))
        for name, folder in zip(names, found, strict=True):
            numbers = headline(folder, folder.parent.name)
            told = f"   {numbers[0].name} {numbers[0].value:.5g}" if numbers else ""
            click.echo(f"{name:<{width}}  {one_line(folder)}{told}")
        click.echo(f"\n{len(found)} results are called so; name one for all of it: xsa show {names[0]}")
