"""One real SLURM for all tests of this folder, and projects that run on it."""

from __future__ import annotations

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing
from tests.slurm.ordeals import ORDEALS
from tests.slurm.project import SlurmProject, copied, hashes, training
from tests.workflow.conftest import RECIPE, STUDY

# Ordeals take minutes, most of them spent waiting for SLURM and for Snakemake to look, so several go on at once.
AT_ONCE = 5


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share one SLURM, so they are to be run in one process."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A running SLURM of several nodes; skipped, with the reason, where none can be brought up."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def prepared(slurm, tmp_path_factory) -> SlurmProject:
    """A study of one long training, its data made, on this machine."""
    project = SlurmProject.new(tmp_path_factory.mktemp("prepared") / "project")
    project.cluster = slurm
    project.use_gpus()
    recipe = copy.deepcopy(RECIPE)
    recipe["settings"]["data"] |= {"documents_per_shard": 1500, "tokens_per_shard": 40_000}
    recipe["settings"] |= {"horizon": {"steps": 400, "batch_tokens": 128}, "validation": {"every": 200, "rows": 4}}
    project.write("config/recipes/mini.yaml", recipe)
    run = {"threads": 1, "save_minutes": 0.01}
    project.write("config/studies/mini.yaml", STUDY | {"factors": {"xsa.alpha": [1]}, "baseline": {}, "run": run})
    project.with_own_code()
    project.settle_lock()
    record = training(project)
    run = project.snakemake(record, "--until", "rows")
    assert run.returncode == 0, run.stdout + run.stderr
    return project


@pytest.fixture(scope="session")
def undisturbed(prepared, tmp_path_factory) -> dict[str, str]:
    """Hashes of what the long training writes when nothing happens to it."""
    project = copied(prepared, tmp_path_factory.mktemp("undisturbed") / "project")
    run = project.snakemake(training(project))
    assert run.returncode == 0, run.stdout + run.stderr
    return hashes(project)


@pytest.fixture(scope="session")
def outcomes(request, prepared, tmp_path_factory):
    """The ordeals of the tests that were asked for, begun all together: projects and what drivers printed, by name."""
    asked = [item.callspec.params["name"] for item in request.session.items if item.path.name == "test_survival.py"]
    pool = ThreadPoolExecutor(AT_ONCE)

    def endure(name: str) -> tuple[SlurmProject, str]:
        project = copied(prepared, tmp_path_factory.mktemp(name) / "project")
        return project, ORDEALS[name](project)

    futures: dict[str, Future] = {name: pool.submit(endure, name) for name in asked}
    yield futures
    pool.shutdown(wait=True, cancel_futures=True)
