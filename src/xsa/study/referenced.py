"""What the studies of a project refer to, whatever machine they are planned on."""

from __future__ import annotations

from xsa.store.errors import UserError
from xsa.study.machine import MACHINES
from xsa.study.plan import Plan
from xsa.study.project import Project
from xsa.study.study import STUDIES, LoadedStudy


def referenced(project: Project) -> set[tuple[str, str]]:
    """Stage and label@digest of every result that some study under config/studies is made of, here or on another machine.

    UserError where one of the studies cannot be planned: what it needs is not known then.
    """
    wanted: set[tuple[str, str]] = set()
    for path in sorted((project.root / STUDIES).glob("*.y*ml")):
        try:
            loaded = LoadedStudy(path, project.root)
            for machine in MACHINES:
                wanted |= Plan(loaded, project.lock, project.results, machine).results.keys()
        except UserError as error:
            raise UserError(
                f"{path} cannot be planned, so nobody knows which results it needs; mend it or take it out of {STUDIES}: {error}"
            ) from None
    return wanted
