"""One real SLURM for all tests of this folder, and projects that run on it."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.slurm.cluster import Cluster, missing, wait_for
from tests.workflow.conftest import RECIPE, STUDY, MiniProject

# The executor asks for states as seldom as a cluster's administrators like; here as often as it can.
OFTEN = ("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2")
GPU_STAGES = ("pretrain", "bpb", "attention", "overhead", "equivalence")
WEIGHTS = ("model.safetensors", "optimizer.safetensors", "log.parquet", "validation.parquet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share one SLURM, so they run in one process."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)
            item.add_marker(pytest.mark.xdist_group("slurm"))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A running SLURM of three nodes; skipped, with the reason, where none can be brought up."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class SlurmProject(MiniProject):
    """A project whose Snakemake finds the SLURM of the tests."""

    cluster: Cluster

    def environment(self) -> dict[str, str]:
        told = super().environment()
        return told | {"PATH": f"{self.cluster.clients}:{told['PATH']}"}

    def use_gpus(self) -> None:
        """Have each job of a stage that can use a GPU ask for one, though the work is done on the CPU here."""
        os.symlink("profiles/slurm", self.root / "slurm")
        for stage in GPU_STAGES:
            self.profile(stage=stage, slurm_partition="gpu", gres="'gpu:1'", mem_mb=1000, runtime=60)

    def settle_lock(self) -> None:
        """Accept the code as it is, whatever the lock of the tree says of it."""
        stages = yaml.safe_load((self.root / "config/stages.lock").read_text())["stages"]
        done = self.xsa("lock", *(f"--keep={stage}" for stage in stages), "--why=the code under test")
        assert done.returncode == 0, done.stderr

    def profile(self, retries: int | None = None, stage: str = "pretrain", **resources) -> None:
        """Change the profile for SLURM: resources of a stage's jobs, and how often a job is tried again."""
        path = self.root / "profiles/slurm/config.yaml"
        values = yaml.safe_load(path.read_text())
        values["set-resources"].setdefault(stage, {}).update(resources)
        if retries is not None:
            values["retries"] = retries
        path.write_text(yaml.safe_dump(values, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """The user's own command, with states asked for often."""
        snakemake = str(Path(sys.executable).with_name("snakemake"))
        return [snakemake, "--profile", "slurm", *OFTEN, *arguments, "--config", "study=mini"]

    def drive(self, *arguments: str) -> Driver:
        """Start Snakemake on the cluster and go on."""
        return Driver(self, self.command(*arguments))


class Driver:
    """A running Snakemake; its output goes to a file."""

    def __init__(self, project: SlurmProject, command: list[str]):
        self.project = project
        self.output = project.root / f"driver-{len(list(project.root.glob('driver-*')))}.out"
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen(
                command, cwd=project.root, env=project.environment(), stdout=out, stderr=out, start_new_session=True
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def wait(self, seconds: float = 600) -> int:
        """Its exit code; one that does not end is killed."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"no end within {seconds:g} s:\n{self.text()}") from None

    def succeed(self, seconds: float = 600) -> str:
        """What it printed, once it has ended well."""
        assert self.wait(seconds) == 0, self.text()
        return self.text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def pieces(study: dict, **changes) -> dict:
    """A study with changes at its top level."""
    return copy.deepcopy(study) | changes


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
    project.write("config/studies/mini.yaml", pieces(STUDY, factors={"xsa.alpha": [1]}, baseline={}, run=run))
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


@pytest.fixture
def project(prepared, tmp_path) -> SlurmProject:
    """A copy of the prepared study."""
    return copied(prepared, tmp_path / "project")


def copied(project: SlurmProject, root: Path) -> SlurmProject:
    shutil.copytree(project.root, root, symlinks=True)
    other = SlurmProject(root)
    other.cluster = project.cluster
    return other


def training(project: SlurmProject) -> str:
    """The record of the study's one training."""
    told = project.xsa("cells", "mini")
    (key,) = re.findall(r"pretrain +(\S+@[0-9a-f]{10})", told.stdout) or [told.stderr]
    return f"results/pretrain/{key}/record.json"


def hashes(project: SlurmProject) -> dict[str, str]:
    """SHA-256 of what a training decides, by its record."""
    (record,) = project.root.glob("results/pretrain/*/record.json")
    files = json.loads(record.read_text())["files"]
    return {name: files[name]["sha256"] for name in WEIGHTS}


__all__ = ["Driver", "SlurmProject", "hashes", "training", "wait_for"]
