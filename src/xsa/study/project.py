"""A project folder: its lock, its studies, and the plans made of them."""

from __future__ import annotations

from pathlib import Path

from xsa.store.errors import UserError
from xsa.study.lock import StagesLock
from xsa.study.plan import Plan
from xsa.study.result import Result
from xsa.study.study import STUDIES, LoadedStudy, find_study


class Project:
    """Loads studies as they are asked for. `root` is the folder with `config/`, `results` the folder of all results."""

    def __init__(self, root: Path, results: Path):
        self.root, self.results = Path(root), Path(results)
        if not (self.root / STUDIES).is_dir():
            raise UserError(f"{self.root} has no {STUDIES}; run this from the project's folder")
        self.lock = StagesLock(self.root)
        self._plans: dict[str, Plan] = {}

    def plan(self, study: str) -> Plan:
        """The plan of a study given by name or path."""
        path = find_study(study, self.root)
        if path.stem not in self._plans:
            self._plans[path.stem] = Plan(LoadedStudy(path, self.root), self.lock, self.results)
        return self._plans[path.stem]

    def find(self, stage: str, key: str) -> tuple[Plan, Result]:
        """The result called `label@digest` of a stage, and a plan that has it: of the studies asked for, else of any.

        Raises UserError when no study has it: its settings or its code's version have changed since it was planned.
        """
        for plan in self._plans.values():
            if (stage, key) in plan.results:
                return plan, plan.results[stage, key]
        problems = []
        for path in sorted((self.root / STUDIES).glob("*.yaml")):
            if path.stem in self._plans:
                continue
            try:
                plan = self.plan(path.stem)
            except UserError as error:
                problems.append(str(error))
                continue
            if (stage, key) in plan.results:
                return plan, plan.results[stage, key]
        unread = f" ({len(problems)} studies could not be read: {problems[0]})" if problems else ""
        raise UserError(
            f"no study has the {stage} result {key}{unread}; a study file or config/stages.lock has changed since it was "
            "planned. Start the same snakemake command again"
        )
