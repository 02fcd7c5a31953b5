"""The code that runs must be that of the project's folder, where the folder has code of its own."""

from __future__ import annotations

import filecmp
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.snapshot import PACKAGE, frozen

NAMED = 3


def check_own_code(root: Path, running: Path = PACKAGE) -> None:
    """UserError where `root` is a clone whose package differs from the one that runs: an edit there would do nothing, unseen.

    The environment of another clone may be active, or a copy may be installed. Jobs run by frozen code, which is another on purpose.
    """
    own = Path(root).resolve() / "src" / running.name
    if own == running.resolve() or not own.is_dir() or frozen():
        return
    names = {path.relative_to(folder) for folder in (own, running) for path in folder.rglob("*.py")}
    differing = sorted(str(name) for name in names if not _same(own / name, running / name))
    if differing:
        more = f" and {len(differing) - NAMED} more" if len(differing) > NAMED else ""
        raise UserError(
            f"the xsa that runs is {running}, and {own} has other code ({', '.join(differing[:NAMED])}{more}): activate this "
            f"folder's own environment (`make env`, then `source .venv/bin/activate`), or set PYTHONPATH={own.parent}"
        )


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)
