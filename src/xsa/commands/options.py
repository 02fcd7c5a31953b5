"""What verbs share: how they show help, the folder of results, the project they work in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from xsa.study.project import Project

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

results_option = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder that holds all results.",
)


def open_project(results: Path) -> Project:
    """The project of the folder that `xsa` is called in."""
    from xsa.study.project import Project

    return Project(Path.cwd(), results)
