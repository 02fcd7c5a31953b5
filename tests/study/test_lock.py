"""A change of code stops a run until someone decides."""

from __future__ import annotations

import pytest

from xsa.store.errors import UserError
from xsa.study import lock as lock_module
from xsa.study.lock import StagesLock


@pytest.fixture
def lock(project, monkeypatch):
    code = {"xsa.data.rows.rows": "a", "xsa.data.packing.pack": "b"}
    monkeypatch.setattr(lock_module, "functions_reached", lambda stage, plumbing: dict(code))
    stages = StagesLock(project.root)
    stages.stages = {}
    stages.retrain("rows")
    stages.write()
    return code, project.root


def test_an_unchanged_stage_is_not_stale(lock):
    _, root = lock
    StagesLock(root).check({"rows"})


def test_a_changed_stage_stops_and_names_the_functions_and_both_ways_out(lock):
    code, root = lock
    code["xsa.data.packing.pack"] = "c"
    code["xsa.data.packing.more"] = "d"
    with pytest.raises(UserError) as error:
        StagesLock(root).check({"rows"})
    message = str(error.value)
    assert "changed xsa.data.packing.pack; new xsa.data.packing.more" in message
    assert "xsa lock --retrain rows" in message and "xsa lock --keep rows --why" in message


def test_a_change_that_a_study_does_not_use_does_not_stop_it(lock):
    code, root = lock
    code["xsa.data.packing.pack"] = "c"
    StagesLock(root).check({"bpb"})


def test_retrain_raises_the_version(lock):
    code, root = lock
    code["xsa.data.packing.pack"] = "c"
    stages = StagesLock(root)
    stages.retrain("rows")
    stages.write()
    assert StagesLock(root).version("rows") == 2 and not StagesLock(root).stale()


def test_keep_keeps_the_version_and_the_reason(lock):
    code, root = lock
    code["xsa.data.packing.pack"] = "c"
    stages = StagesLock(root)
    stages.keep("rows", "renamed a variable")
    stages.write()
    again = StagesLock(root)
    assert again.version("rows") == 1 and not again.stale()
    assert again.stages["rows"]["kept"][0]["why"] == "renamed a variable"


def test_an_unknown_stage_names_the_nearest(lock):
    with pytest.raises(UserError, match="did you mean 'rows'"):
        StagesLock(lock[1]).retrain("row")
