"""`xsa summary`: a finished study in Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("summary", context_settings=CONTEXT)
@click.argument("study")
@results_option
def command(study: str, results: Path) -> None:
    """Print a finished study's verdicts and results as Markdown, fit for a pull request.

    STUDY is a name under config/studies or a file. The same text lies in results/STUDY/summary.md.
    """
    from xsa.report.markdown import SUMMARY
    from xsa.store.errors import UserError
    from xsa.store.job import checked_file

    report = open_project(results).plan(study).report
    folder = report.folder(results)
    if not (folder / "record.json").exists():
        raise UserError(
            f"the page of {study} is not made yet; run snakemake {results}/{Path(study).stem}/report.html first"
        )
    click.echo(checked_file(folder, SUMMARY).read_text(encoding="utf-8"), nl=False)
