"""What the studies of a project refer to, whatever machine they are planned on."""

from __future__ import annotations

from collections.abc import Collection

from xsa.store.errors import UserError
from xsa.study.machine import MACHINES
from xsa.study.plan import Plan
from xsa.study.project import Project
from xsa.study.source import nearest
from xsa.study.study import STUDIES, LoadedStudy


def referenced(project: Project, without: Collection[str] = ()) -> set[tuple[str, str]]:
    """Stage and label@digest of every result that some study under config/studies is made of, here or on another machine.

    Studies named in `without` are passed by. UserError where one of the others cannot be planned: what it needs is not
    known then; and where there is no study of a name in `without`.
    """
    wanted: set[tuple[str, str]] = set()
    paths = {path.stem: path for path in sorted((project.root / STUDIES).glob("*.y*ml"))}
    for name in without:
        if name not in paths:
            raise UserError(f"there is no study {name!r} under {STUDIES} to pass by; {nearest(name, list(paths))}")
    for path in (path for name, path in paths.items() if name not in without):
        try:
            loaded = LoadedStudy(path, project.root)
            for machine in MACHINES:
                wanted |= Plan(loaded, project.lock, project.results, machine).results.keys()
        except UserError as error:
            raise UserError(
                f"{path} cannot be planned, so nobody knows which results it needs; mend it, take it out of {STUDIES}, or "
                f"pass it by with --without {path.stem}, which keeps no result for it: {error}"
            ) from None
    return wanted
