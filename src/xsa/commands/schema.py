"""`xsa schema`: what is generated from the settings' types."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT


@click.command("schema", context_settings=CONTEXT)
def command() -> None:
    """Write defaults and schemas of the settings.

    config/defaults.yaml and config/schema/*.json, from the settings' types.
    """
    from xsa.store.files import write_text
    from xsa.study.schema import generated

    for path, text in generated().items():
        write_text(Path.cwd() / path, text)
        click.echo(path)
