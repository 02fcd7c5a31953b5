"""`xsa lock`: the lock of the code, shown or settled."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from xsa.commands.options import CONTEXT
from xsa.store.errors import UserError


@click.command("lock", context_settings=CONTEXT)
@click.option(
    "--retrain", metavar="STAGE", multiple=True, help="Raise the stage's version: its results are made again."
)
@click.option(
    "--keep", metavar="STAGE", multiple=True, help="Keep the version: the change cannot alter a result. Needs --why."
)
@click.option("--why", help="The reason for --keep; written into the lock.")
@click.option("--check", is_flag=True, help="Exit 1 when any stage is stale.")
def command(retrain: tuple[str, ...], keep: tuple[str, ...], why: str | None, check: bool) -> None:
    """Show or settle the lock of the code.

    config/stages.lock ties each stage's version, which is part of its results' digests, to the code behind it.
    """
    from xsa.study.lock import StagesLock

    stages = StagesLock(Path.cwd())
    if why and not keep:
        raise UserError("--why is the reason for --keep STAGE, which is not given")
    if keep and not (why and why.strip()):
        raise UserError('--keep needs --why "…": the reason why the change cannot alter a result')
    both = sorted(set(retrain) & set(keep))
    if both:
        raise UserError(f"{both[0]} cannot be kept and made again at once; give one of --keep and --retrain")
    for stage in retrain:
        click.echo(f"{stage}: version {stages.retrain(stage)}")
    for stage in keep:
        stages.keep(stage, why)
        click.echo(f"{stage}: version {stages.version(stage)} kept ({why})")
    if retrain or keep:
        stages.write()
    stale = {one.stage: one for one in stages.stale()}
    width = max(map(len, stages.stages))
    for stage, entry in stages.stages.items():
        state = f"STALE  {stale[stage]}" if stage in stale else "matches its code"
        click.echo(f"{stage:<{width}} v{entry['version']:<3} {entry['fingerprint']}  {state}")
    if check and stale:
        sys.exit(1)
