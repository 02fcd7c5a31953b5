"""`xsa doctor`: whether this machine or cluster can run a study, before anything is started."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from xsa.commands.options import CONTEXT, open_project, results_option

MARKS = {"ok": ("✓", "green"), "failed": ("✗", "red"), "warning": ("!", "yellow"), "skipped": ("·", None)}


@click.command("doctor", context_settings=CONTEXT)
@click.argument("study", default="paper")
@click.option("--profile", help="A profile of Snakemake, e.g. slurm; without it this machine alone is looked at.")
@click.option("--submit", is_flag=True, help="Also send a job of a minute to the cluster, to look from a node.")
@click.option("--json", "as_json", is_flag=True, help="Everything, for programs.")
@results_option
@click.pass_context
def command(ctx: click.Context, study: str, profile: str | None, submit: bool, as_json: bool, results: Path) -> None:
    """Check a machine or a cluster before STUDY is run on it; each failing line says what to do.

    Exit code 1 where something failed.
    """
    from xsa.study.doctor import examine
    from xsa.study.doctor_check import Shell
    from xsa.study.profile import read_profile

    project = open_project(results)
    read = read_profile(profile, project.root) if profile else None
    found = []
    for check in examine(project.plan(study), results, read, Shell(), submit):
        found.append(check)
        if not as_json:
            mark, colour = MARKS[check.state]
            click.echo(f"{click.style(mark, fg=colour, bold=True)} {check.name}: {check.found}")
            if check.advice:
                click.echo(f"    → {check.advice}")
    if as_json:
        click.echo(json.dumps([asdict(check) for check in found], ensure_ascii=False, indent=1))
    ctx.exit(1 if any(check.state == "failed" for check in found) else 0)
