"""A project on the tests' SLURM, and the driver of a study there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from tests.slurm.cluster import Cluster
from tests.workflow.conftest import MiniProject

# The executor asks for states as seldom as a cluster's administrators like; here as often as it can.
OFTEN = ("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2")
GPU_STAGES = ("pretrain", "bpb", "attention", "overhead", "equivalence")
WEIGHTS = ("model.safetensors", "optimizer.safetensors", "log.parquet", "validation.parquet")


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

    def profile(self, retries: int | None = None, stage: str = "pretrain", **resources) -> None:
        """Change the profile for SLURM: resources of a stage's jobs, and how often a job is tried again."""
        path = self.root / "profiles/slurm/config.yaml"
        values = yaml.safe_load(path.read_text())
        values["set-resources"].setdefault(stage, {}).update(resources)
        if retries is not None:
            values["retries"] = retries
        path.write_text(yaml.safe_dump(values, sort_keys=False))

    def site(self, **values) -> None:
        """Change what the profile for SLURM says of the cluster."""
        path = self.root / "profiles/slurm/config.yaml"
        profile = yaml.safe_load(path.read_text())
        profile["default-resources"].update(values)
        path.write_text(yaml.safe_dump(profile, sort_keys=False))

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
