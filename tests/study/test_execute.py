"""What is refused before a job begins."""

from __future__ import annotations

import pytest

from tests.train.small_project import SETTINGS, SmallProject
from tests.workflow.conftest import STUDY
from xsa.store.errors import UserError


def test_a_training_whose_bits_per_byte_would_lack_validation_rows_is_refused_before_it_trains(tmp_path):
    project = SmallProject.new(tmp_path / "project")
    project.study(STUDY | {"settings": SETTINGS | {"bpb": {"rows": 100_000}}})
    cell = project.cell(1)
    with pytest.raises(UserError, match=r"bpb.rows = 100000, but \S+ holds (\d+) rows.*set bpb.rows to \1 or less"):
        project.make(cell.results["pretrain"])
    assert not cell.results["pretrain"].folder(project.root / "results").exists()
