"""`xsa export-nanochat`: one of our checkpoints as the files that nanochat reads."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT


@click.command("export-nanochat", context_settings=CONTEXT)
@click.argument("result", type=click.Path(path_type=Path, file_okay=False))
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="Folder of its tokenizer.json, where it is not beside the result.",
)
def command(result: Path, folder: Path, tokenizer: Path | None) -> None:
    """Write a checkpoint as nanochat's files.

    RESULT is the folder of a pretrain or finetune result, or of an imported checkpoint (imported/NAME/base). DIR, which is
    not there yet, gets model_<step>.pt, meta_<step>.json, tokenizer.pkl and token_bytes.pt.
    """
    from xsa.store.produce import disk_error
    from xsa.train.nanochat_export import export_nanochat

    try:
        click.echo(export_nanochat(result, folder, tokenizer, click.echo))
    except OSError as error:
        raise disk_error(error, folder) from error
