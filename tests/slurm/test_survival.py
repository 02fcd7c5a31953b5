"""Whatever a cluster does to a training, the same command ends in the same weights, and what was saved is not lost."""

from __future__ import annotations

import re

import pytest

from tests.slurm.ordeals import ORDEALS, log
from tests.slurm.project import hashes

# In these nothing happens to the job itself.
UNTOUCHED = ("kill_of_the_driver", "kill_of_the_driver_of_a_job_in_the_queue", "termination_of_the_driver")


@pytest.mark.parametrize("name", ORDEALS)
def test_ends_in_the_weights_of_an_undisturbed_training(name, outcomes, undisturbed):
    project, text = outcomes[name].result()
    assert hashes(project) == undisturbed, text
    if name not in UNTOUCHED:
        assert re.search(r"goes on after step \d+ of 400", log(project)), f"began again:\n{log(project)}\n{text}"
