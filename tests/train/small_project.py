"""A project folder whose stages run in this process: the miniature study's settings, and a lock that fits any code."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from tests.workflow.conftest import RECIPE, ROOT, STUDY
from xsa.store.record import RECORD
from xsa.study.execute import execute
from xsa.study.lock import CHEAP, StagesLock
from xsa.study.project import Project
from xsa.study.stages import STAGES

SETTINGS = {"chatcore": {"tasks": ["arc_easy", "gsm8k"], "max_per_task": 4, "max_new_tokens": 4}}


class SmallProject:
    """`make` brings a result and all that it reads; `results` may be another folder of the same project."""

    def __init__(self, root: Path):
        self.root = root

    @classmethod
    def new(cls, root: Path) -> SmallProject:
        for folder in ("config/studies", "config/recipes"):
            (root / folder).mkdir(parents=True)
        shutil.copytree(ROOT / "report", root / "report")
        (root / "config/stages.lock").write_text(yaml.safe_dump({"plumbing": ["xsa.*"], "stages": {}}))
        lock = StagesLock(root)
        for stage in STAGES:
            if stage not in CHEAP:
                lock.retrain(stage)
        lock.write()
        (root / "config/recipes/mini.yaml").write_text(yaml.safe_dump(RECIPE))
        project = cls(root)
        project.study(STUDY | {"settings": SETTINGS})
        return project

    def study(self, values: dict) -> None:
        (self.root / "config/studies" / f"{values['name']}.yaml").write_text(yaml.safe_dump(values, sort_keys=False))

    def open(self, results: str = "results") -> Project:
        return Project(self.root, self.root / results)

    def cell(self, alpha: float, study: str = "mini"):
        """The one cell of the study with this alpha."""
        (found,) = [cell for cell in self.open().plan(study).cells if cell.settings.xsa.alpha == alpha]
        return found

    def folder(self, stage: str, alpha: float, study: str = "mini", results: str = "results") -> Path:
        return self.cell(alpha, study).results[stage].folder(self.root / results)

    def make(self, result, study: str = "mini", results: str = "results") -> Path:
        """Make `result` and whatever it reads that is not there yet."""
        folder = result.folder(self.root / results)
        if not (folder / RECORD).exists():
            for upstream in result.upstream():
                self.make(upstream, study, results)
            execute(self.open(results), study, result.stage, result.key, device="cpu", threads=1)
        return folder
