"""`xsa import-nanochat`: a checkpoint that nanochat trained, under our microscope."""

from __future__ import annotations

from pathlib import Path

import click

from xsa.commands.options import CONTEXT
from xsa.store.errors import UserError

FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command("import-nanochat", context_settings=CONTEXT)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--name", required=True, help="Name of the study and of the folder under imported/.")
@click.option("--step", type=click.IntRange(min=0), help="Step of the checkpoint; the last one by default.")
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="Folder of tokenizer.pkl; found by itself where nanochat keeps it.",
)
@click.option("--chat", type=FOLDER, help="Folder of the fine-tuned model's checkpoint, for ChatCORE.")
@click.option(
    "--recipe", default="nanochat", show_default=True, help="Recipe of the study: data, test sets, precision."
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1),
    help="Share of the own value removed in training, where the files do not say.",
)
@click.option("--layers", help="Layers that it was removed in, e.g. 0,1,5; all by default.")
@click.option(
    "--value", type=click.Choice(["attended", "plain"]), help="The value removed: with the value embedding, or without."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="FIELD",
    help="Field of model_config that nanochat does not know and that changes nothing else.",
)
def command(
    folder: Path,
    name: str,
    step: int | None,
    tokenizer: Path | None,
    chat: Path | None,
    recipe: str,
    alpha: float | None,
    layers: str | None,
    value: str | None,
    ignore: tuple[str, ...],
) -> None:
    """Bring a checkpoint of nanochat into the project.

    DIR holds model_<step>.pt and meta_<step>.json. Writes imported/NAME/ and config/studies/NAME.yaml; then
    `snakemake results/NAME/report.html` measures it. Weights alone are read, and no pickle is run.
    """
    from xsa.store.produce import disk_error
    from xsa.train.nanochat_checkpoint import Stated
    from xsa.train.nanochat_import import import_nanochat

    stated = Stated(alpha, _numbers(layers), value, ignore)
    try:
        target, study = import_nanochat(
            Path.cwd(),
            name,
            folder,
            step=step,
            tokenizer=tokenizer,
            chat=chat,
            recipe=recipe,
            stated=stated,
            say=click.echo,
        )
    except OSError as error:
        raise disk_error(error, Path("imported") / name) from error
    click.echo(f"{target.relative_to(Path.cwd())} and {study.relative_to(Path.cwd())} are written")


def _numbers(layers: str | None) -> tuple[int, ...] | None:
    if layers is None:
        return None
    try:
        return tuple(sorted({int(layer) for layer in layers.split(",")}))
    except ValueError:
        raise UserError(
            f"--layers {layers!r} is no list of layers; write their numbers, counted from 0, as 0,1,5"
        ) from None
