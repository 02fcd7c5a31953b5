"""What a comparison is between: two results, two cells or two studies, by the names that people give them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.record import read_record
from xsa.study.locate import Shelf
from xsa.study.lock import StagesLock
from xsa.study.plan import Cell, Plan
from xsa.study.project import Project
from xsa.study.revision import plan_at
from xsa.study.source import nearest
from xsa.study.study import STUDIES


@dataclass(frozen=True)
class StudySide:
    """A study, by its files now or at a revision, with the lock of then."""

    name: str
    plan: Plan
    lock: StagesLock
    kind = "study"


@dataclass(frozen=True)
class CellSide:
    """A cell of a study."""

    name: str
    plan: Plan
    lock: StagesLock
    cell: Cell
    kind = "cell"


@dataclass(frozen=True)
class ResultSide:
    """A result on disk."""

    name: str
    folder: Path
    record: dict[str, Any]
    kind = "result"


Side = StudySide | CellSide | ResultSide


class Sides:
    """Finds sides by name in one project and its results."""

    def __init__(self, project: Project):
        self.project = project
        self.shelf = Shelf(project.results)
        self._studies = sorted(path.stem for path in (project.root / STUDIES).glob("*.yaml"))

    def pair(self, a: str, b: str) -> tuple[Side, Side]:
        """Two sides of one kind. Raises UserError for unknown names, and for two that cannot be compared."""
        sides = (self.side(a), self.side(b))
        if sides[0].kind != sides[1].kind:
            told = " and ".join(f"{side.name} is a {side.kind}" for side in sides)
            raise UserError(f"{told}; compare two of one kind (a result is told from a cell by its stage or digest)")
        if isinstance(sides[0], ResultSide) and sides[0].record["stage"] != sides[1].record["stage"]:
            stages = " and ".join(f"{side.name} of {side.record['stage']}" for side in sides)
            raise UserError(f"{stages} are of two stages; compare two results of one stage")
        return sides

    def side(self, name: str) -> Side:
        """[REVISION:]STUDY, [REVISION:][STUDY/]CELL, or a result as `Shelf.find` takes it."""
        revision, colon, rest = name.rpartition(":")
        if colon and not Path(name).exists():
            study, _, cell = (rest, "", "") if rest.endswith((".yaml", ".yml")) else rest.partition("/")
            return self._of(name, *plan_at(revision, study, self.project.root, self.project.results), cell)
        if name in self._studies or name.endswith((".yaml", ".yml")):
            return self._of(name, self.project.plan(name), self.project.lock)
        study, _, cell = name.partition("/")
        if cell and study in self._studies:
            return self._of(name, self.project.plan(study), self.project.lock, cell)
        if "/" not in name and "@" not in name:
            found = self._cell_anywhere(name)
            if found is not None:
                return found
        return self._result(name)

    def _of(self, name: str, plan: Plan, lock: StagesLock, cell: str = "") -> Side:
        if not cell:
            return StudySide(name, plan, lock)
        found = next((one for one in plan.cells if one.label == cell), None)
        if found is None:
            known = [one.label for one in plan.cells]
            raise UserError(f"study {plan.study.name!r} has no cell {cell!r}; {nearest(cell, known)}")
        return CellSide(name, plan, lock, found)

    def _cell_anywhere(self, label: str) -> CellSide | None:
        """The cell of a label, whichever study has it; UserError where studies have different cells of that label."""
        found: dict[tuple, tuple[str, Plan, Cell]] = {}
        for study in self._studies:
            try:
                plan = self.project.plan(study)
            except UserError:
                continue  # a study that cannot be read has no cells to offer
            for cell in plan.cells:
                if cell.label == label:
                    found.setdefault(tuple(one.key for one in cell.results.values()), (study, plan, cell))
        if len(found) > 1:
            names = " or ".join(f"{study}/{label}" for study, _, _ in found.values())
            raise UserError(f"{len(found)} studies have different cells {label!r}; say {names}")
        return next((CellSide(label, plan, self.project.lock, cell) for _, plan, cell in found.values()), None)

    def _result(self, name: str) -> ResultSide:
        try:
            found = self.shelf.find(name)
        except UserError as error:
            raise UserError(
                f"{str(error).removesuffix('?')}{'?' if str(error).endswith('?') else '.'} No study or cell is called so either; studies are {', '.join(self._studies)}"
            ) from None
        if len(found) > 1:
            names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in found)
            raise UserError(f"{name!r} names {len(found)} results; say which: {names}")
        return ResultSide(name, found[0], read_record(found[0]))
