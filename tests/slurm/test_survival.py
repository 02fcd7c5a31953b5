"""Whatever a cluster does to a training, the same command ends in the same weights."""
from __future__ import annotations
from tests.slurm.conftest import hashes, training

def test_undisturbed(project, undisturbed):
    driver = project.drive(training(project))
    print(driver.succeed())
    assert hashes(project) == undisturbed
