"""A project folder: its lock, its studies, and the plans made of them."""

from __future__ import annotations

from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.record import RECORD
from xsa.store.snapshot import frozen
from xsa.study.lock import StagesLock
from xsa.study.machine import MACHINES
from xsa.study.own_code import check_own_code
from xsa.study.plan import Plan
from xsa.study.result import Result
from xsa.study.settings import CellSettings
from xsa.study.stages import STAGES
from xsa.study.study import STUDIES, LoadedStudy, find_study


class Project:
    """Loads studies as they are asked for. `root` is the folder with `config/`, `results` the folder of all results.

    Frozen code reads the `config/` that was frozen with it; local data are the project's own.
    """

    def __init__(self, root: Path, results: Path):
        self.root, self.results = Path(root), Path(results)
        self.code = frozen() or self.root
        if not (self.code / STUDIES).is_dir():
            raise UserError(f"{self.code} has no {STUDIES}; run this from the project's folder")
        check_own_code(self.root)
        self.lock = StagesLock(self.code)
        self._plans: dict[Path, Plan] = {}

    def plan(self, study: str) -> Plan:
        """The plan of a study given by name or path."""
        path = find_study(study, self.code).resolve()
        if path not in self._plans:
            loaded = LoadedStudy(path, self.code)
            loaded.root = self.root
            self._plans[path] = self._planned(loaded)
        return self._plans[path]

    def _planned(self, loaded: LoadedStudy) -> Plan:
        """The plan for this machine, or for another kind of machine where that made more of what is here.

        So `auto` goes on to mean what it meant when results were made, also after they were taken to a machine without a GPU.
        """
        here = Plan(loaded, self.lock, self.results)
        if loaded.study.run.requires or not any(_leaves_to_machine(point.settings) for point in loaded.points):
            return here
        if not any(self.results.glob("*/*@*")):
            return here
        return max([here, *(Plan(loaded, self.lock, self.results, machine) for machine in MACHINES)], key=self._made)

    def _made(self, plan: Plan) -> int:
        """How many of the results that depend on the machine are here."""
        dependent = (one for (stage, _), one in plan.results.items() if STAGES[stage].gpu)
        return sum((one.folder(self.results) / RECORD).exists() for one in dependent)

    def find(self, stage: str, key: str, first: str | None = None) -> tuple[Plan, Result]:
        """The result called `label@digest` of a stage, and a plan that has it: of `first` or studies read already, else of any.

        Raises UserError when no study has it: its settings or its code's version have changed since it was planned.
        """
        for plan in self._plans.values():
            if (stage, key) in plan.results:
                return plan, plan.results[stage, key]
        names = sorted(path.stem for path in (self.code / STUDIES).glob("*.yaml"))
        problems = []
        for name in sorted(names, key=lambda name: name != first):
            if find_study(name, self.code).resolve() in self._plans:
                continue
            try:
                plan = self.plan(name)
            except UserError as error:
                problems.append(str(error))
                continue
            if (stage, key) in plan.results:
                return plan, plan.results[stage, key]
        unread = f"; {len(problems)} of them cannot be read, the first because {problems[0]}" if problems else ""
        raise UserError(
            f"no study under {STUDIES} has the {stage} result {key}{unread}. Its settings or {self.lock.path.name} have "
            f"changed, or it belongs to another stage; `xsa cells STUDY` lists what there is"
        )


def _leaves_to_machine(cell: CellSettings) -> bool:
    """Whether a cell has settings that its machine decides."""
    return "auto" in (cell.precision.dtype, cell.precision.compile, cell.overhead.device, cell.equivalence.device)
