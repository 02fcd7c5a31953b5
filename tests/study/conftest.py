"""A small project folder to plan studies in: config/ with a recipe, a study and a lock."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from xsa.study.project import Project
from xsa.study.stages import STAGES

RECIPE = {
    "description": "for tests",
    "settings": {
        "data": {"kind": "builtin", "shards": 3, "documents_per_shard": 64, "tokens_per_shard": 10_000},
        "bundle": {"kind": "builtin", "items": 16},
        "chatsets": {"kind": "builtin", "items": 16},
        "tokenizer": {"vocab_size": 300, "shards": 2},
        "model": {"sequence_len": 64},
        "horizon": {"steps": 10, "batch_tokens": 256},
        "precision": {"dtype": "float32", "compile": False},
        "overhead": {"device": "cpu"},
        "equivalence": {"device": "cpu"},
    },
}
STUDY = {
    "name": "tiny",
    "title": "Tiny",
    "question": "Does it work?",
    "recipe": "base",
    "shapes": {"d2": {"model": {"n_layer": 2, "n_embd": 32, "n_head": 2}}},
    "factors": {"xsa.alpha": [0, 1], "seed": [0, 1]},
    "baseline": {"xsa.alpha": 0},
}


class ProjectFolder:
    """Writes files of a project and plans its studies."""

    def __init__(self, root: Path):
        self.root = root
        for folder in ("config/studies", "config/recipes", "report"):
            (root / folder).mkdir(parents=True)
        (root / "report" / "template.html.j2").write_text("page")
        lock = {
            "plumbing": ["xsa.*"],
            "stages": {stage: {"version": 1, "fingerprint": "", "functions": {}} for stage in STAGES},
        }
        (root / "config" / "stages.lock").write_text(yaml.safe_dump(lock))
        self.recipe(RECIPE)
        self.study(STUDY)

    def recipe(self, values: dict) -> None:
        (self.root / "config/recipes/base.yaml").write_text(yaml.safe_dump(values, sort_keys=False))

    def study(self, values: dict, text: str | None = None) -> Path:
        path = self.root / "config/studies" / f"{values['name']}.yaml"
        path.write_text(text if text is not None else yaml.safe_dump(values, sort_keys=False))
        return path

    def plan(self, name: str = "tiny"):
        return Project(self.root, self.root / "results").plan(name)


@pytest.fixture
def project(tmp_path):
    return ProjectFolder(tmp_path)
