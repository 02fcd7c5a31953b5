"""`xsa draft`: the page of a study that is half done."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option


@click.command("draft", context_settings=CONTEXT)
@click.argument("study")
@results_option
def command(study: str, results: Path) -> None:
    """Write a page of what is there of a study, marked as half done.

    It lies in results/STUDY/draft/, beside the place of the finished page. Nothing is trained or measured.
    """
    from xsa.store.publish import publish
    from xsa.study.draft import draft
    from xsa.study.execute import execute

    project = open_project(results)
    plan = project.plan(study)
    for result in draft(plan, results):
        folder = execute(project, study, result.stage, result.key)
    click.echo(publish(folder, results / plan.study.name / "draft"))
