"""A project folder: its lock, its studies, and the plans made of them."""

from __future__ import annotations

from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.snapshot import frozen
from xsa.study.lock import StagesLock
from xsa.study.plan import Plan
from xsa.study.result import Result
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
        self.lock = StagesLock(self.code)
        self._plans: dict[Path, Plan] = {}

    def plan(self, study: str) -> Plan:
        """The plan of a study given by name or path."""
        path = find_study(study, self.code).resolve()
        if path not in self._plans:
            loaded = LoadedStudy(path, self.code)
            loaded.root = self.root
            self._plans[path] = Plan(loaded, self.lock, self.results)
        return self._plans[path]

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
