"""The generated files are the settings'."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from xsa.study.project import Project
from xsa.study.schema import generated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", list(generated()), ids=str)
def test_the_committed_file_is_what_the_settings_generate(path):
    assert (ROOT / path).read_text(encoding="utf-8") == generated()[path], "run `xsa schema`"


@pytest.mark.parametrize(("kind", "folder"), [("study", "studies"), ("recipe", "recipes")])
def test_every_committed_file_satisfies_its_schema(kind, folder):
    schema = json.loads((ROOT / f"config/schema/{kind}.json").read_text(encoding="utf-8"))
    files = sorted((ROOT / "config" / folder).glob("*.yaml"))
    assert files
    for file in files:
        jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), schema)


def test_the_schema_knows_no_other_keys():
    schema = json.loads((ROOT / "config/schema/study.json").read_text(encoding="utf-8"))
    study = yaml.safe_load((ROOT / "config/studies/demo.yaml").read_text(encoding="utf-8"))
    study["settings"] = {"horizon": {"ratoi": 8}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(study, schema)


def test_the_defaults_are_a_cells_defaults():
    from xsa.study.settings import CellSettings

    values = yaml.safe_load((ROOT / "config/defaults.yaml").read_text(encoding="utf-8"))
    for beside_the_cell in ("run", "limits", "identity"):
        values.pop(beside_the_cell)
    values["model"] |= {"n_layer": 1, "n_embd": 32, "n_head": 1}
    values["data"] = {"kind": "hub"}
    bare = CellSettings.model_validate({"data": {"kind": "hub"}, "model": {"n_layer": 1, "n_embd": 32, "n_head": 1}})
    assert CellSettings.model_validate(values) == bare


def test_the_paper_study_has_the_shapes_as_written_and_as_measured(tmp_path):
    plan = Project(ROOT, tmp_path).plan("paper")
    models = {cell.shape: cell.results["pretrain"].settings.model for cell in plan.cells}
    assert {shape: (m.n_layer, m.n_embd, m.n_head) for shape, m in models.items()} == {
        "d12": (12, 768, 12),
        "d24-written": (24, 1024, 16),
        "d24-measured": (24, 1536, 12),
    }
    assert len(plan.cells) == 3 * 2 * 3
