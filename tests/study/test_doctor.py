"""The doctor: what is wrong with a cluster is found by its own commands, and each failing line says what to do."""

from __future__ import annotations

import json
import re
import stat
import urllib.error
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.train.small_project import SmallProject
from xsa.cli import main
from xsa.study import doctor_slurm
from xsa.study.doctor import _driver, _reached
from xsa.study.doctor_check import Shell
from xsa.study.doctor_slurm import limit_minutes, slurm_checks
from xsa.study.profile import read_profile

SINFO = "cpu|up|2-00:00:00|(null)|10\ngpu|up|1-00:00:00|gpu:h100:8(S:0-1)|4\nold|drain|infinite|gpu:a100:4|2"
SITE = {
    "slurm_partition": "cpu",
    "gpu_partition": "gpu",
    "gpu_type": "h100",
    "gpus_per_node": 8,
    "most_minutes": 1440,
}


class Cluster:
    """A login node's commands as small scripts, and a project with a profile."""

    def __init__(self, root: Path, monkeypatch):
        self.bin, self.root = root / "bin", root / "project"
        self.bin.mkdir()
        (self.root / "profiles/slurm").mkdir(parents=True)
        self.write(SITE)
        for name in ("squeue", "scancel", "srun"):
            self.command(name, "exit 0")
        self.command("sinfo", f'case "$*" in *--version*) echo "slurm 23.02";; *) echo "{SINFO}";; esac')
        self.command("scontrol", 'echo "MinJobAge               = 300 sec"')
        self.command("sacct", "exit 0")
        self.command("munge", "echo MUNGE:x")
        self.command("unmunge", "cat")
        self.command("sbatch", "echo 'sbatch: error: invalid account' >&2; exit 1")
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")

    def command(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def write(self, site: dict, **options) -> None:
        text = yaml.safe_dump({"executor": "slurm", "default-resources": site, **options})
        (self.root / "profiles/slurm/config.yaml").write_text(text)

    def checks(self, submit: bool = False) -> dict[str, tuple[str, str, str]]:
        """State, finding and advice of each check, by its name; of several of one name the worst."""
        results = self.root / "results"
        results.mkdir(exist_ok=True)
        found = {}
        for one in slurm_checks(read_profile("slurm", self.root), Shell(), results, submit):
            if one.state == "failed" or one.name not in found:
                found[one.name] = (one.state, one.found, one.advice)
        return found

    def failing(self, submit: bool = False) -> dict[str, tuple[str, str, str]]:
        failed = {name: one for name, one in self.checks(submit).items() if one[0] == "failed"}
        assert all(advice for _, _, advice in failed.values()), "a failing line says what to do"
        return failed


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def test_a_cluster_that_fits_the_profile_passes_every_check(cluster):
    found = cluster.checks()
    assert {name for name, (state, _, _) in found.items() if state != "ok"} == {"a job on a node"}
    assert found["SLURM commands"][1] == "slurm 23.02" and found["a job on a node"][0] == "skipped"


def test_a_partition_that_is_not_there_is_named_with_those_that_are(cluster):
    cluster.write(SITE | {"gpu_partition": "gpus"})
    _, found, advice = cluster.failing()["partition"]
    assert "no partition 'gpus'" in found and "cpu, gpu, old" in found and "profiles/slurm/config.yaml" in advice


def test_a_partition_of_one_rule_is_looked_at_too(cluster):
    cluster.write(SITE, **{"set-resources": {"core": {"slurm_partition": "old"}}})
    assert "old is drain" in cluster.failing()["partition"][1]


def test_a_gpu_type_that_the_partition_lacks_is_named_with_those_it_has(cluster):
    cluster.write(SITE | {"gpu_type": "a100"})
    _, found, _ = cluster.failing()["GPU type"]
    assert "no GPU of type 'a100'" in found and "there are h100" in found
    cluster.write(SITE, **{"set-resources": {"pretrain": {"gres": "'gpu:v100:2'"}}})
    assert "'v100'" in cluster.failing()["GPU type"][1]


def test_more_gpus_a_node_than_there_are_is_said(cluster):
    cluster.write(SITE | {"gpus_per_node": 16})
    assert "to 8" in cluster.failing()["GPUs a node"][2]


def test_a_time_limit_above_the_partitions_is_said(cluster):
    cluster.write(SITE | {"most_minutes": 4000})
    failed = cluster.failing()["partition"]
    assert "1440 minutes" in failed[1] and "set most_minutes" in failed[2]


def test_without_accounting_the_queue_is_to_be_asked_and_must_remember(cluster):
    cluster.command("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    assert "slurm-status-command: squeue" in cluster.failing()["states of jobs"][2]
    cluster.write(SITE, **{"slurm-status-command": "squeue"})
    assert "states of jobs" not in cluster.failing()
    cluster.command("scontrol", 'echo "MinJobAge = 10 sec"')
    failed = cluster.failing()["states of jobs"]
    assert "10 s after its end" in failed[1] and "MinJobAge=120" in failed[2]


def test_munge_and_a_controller_that_do_not_answer_are_said(cluster):
    cluster.command("unmunge", "echo 'unmunge: Error: Invalid credential'; exit 3")
    assert "Invalid credential" in cluster.failing()["munge"][1]
    cluster.command("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")
    assert "slurmctld" in cluster.failing()["controller"][2]


def test_a_machine_without_slurm_says_that_the_rest_needs_a_login_node(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    failed = cluster.failing()
    assert list(failed) == ["SLURM commands"] and "login node" in failed["SLURM commands"][2]


def test_a_submitted_job_is_refused_lost_or_answers_from_the_node(cluster, monkeypatch):
    assert "invalid account" in cluster.failing(submit=True)["a job on a node"][1]
    monkeypatch.setattr(doctor_slurm, "WAIT_SECONDS", 0.1)
    cluster.command("sbatch", f'echo "$@" > {cluster.root}/asked; echo 17')
    state, found, _ = cluster.checks(submit=True)["a job on a node"]
    assert state == "warning" and "job 17" in found
    assert "--partition=gpu --gres=gpu:h100:1" in (cluster.root / "asked").read_text()
    monkeypatch.setattr(doctor_slurm, "WAIT_SECONDS", 60)
    cluster.command("sbatch", 'for word; do last="$word"; done; sh -c "$last"; echo 18')
    cluster.command("python3", "echo torch 2.13.0 CUDA ${SEES:-False}")
    cluster.command("nvidia-smi", "echo GPU 0")
    state, found, advice = cluster.checks(submit=True)["a job on a node"]
    assert state == "failed" and "xsa or torch is missing there" in found and "`precommand`" in advice
    cluster.command("xsa", "exit 0")
    state, found, advice = cluster.checks(submit=True)["a job on a node"]
    assert state == "failed" and "torch sees none" in found and "driver" in advice
    cluster.write(SITE, precommand="export SEES=True")
    state, found, _ = cluster.checks(submit=True)["a job on a node"]
    assert state == "ok" and "is the same there; xsa is there; torch 2.13.0 CUDA True; GPU 0" in found
    assert not list((cluster.root / "results").iterdir()), "nothing is left behind"


def test_commands_of_slurm_that_fail_are_told_as_a_failure(cluster):
    cluster.command("sinfo", "echo 'sinfo: fatal: Unable to process configuration file'; exit 1")
    state, found, advice = cluster.checks()["SLURM commands"]
    assert state == "failed" and "Unable to process" in found and "SLURM_CONF" in advice


@pytest.mark.parametrize(
    ("text", "minutes"), [("1-12:00:00", 2160), ("30:00", 30), ("2:00:00", 120), ("infinite", None), ("n/a", None)]
)
def test_limits_are_read_as_slurm_writes_them(text, minutes):
    assert limit_minutes(text) == minutes


def test_the_hub_is_reached_also_where_it_wants_a_token():
    def refuses(address, timeout):
        raise urllib.error.HTTPError(address, 401, "who are you", {}, None)

    def is_away(address, timeout):
        raise urllib.error.URLError("no route")

    assert _reached(3, refuses).state == "ok"
    away = _reached(3, is_away)
    assert away.state == "failed" and "no route" in away.found and "results/" in away.advice


def test_the_verb_ends_with_1_where_something_fails_and_gives_json(tmp_path, monkeypatch):
    project = SmallProject.new(tmp_path / "project")
    (project.root / "profiles/slurm").mkdir(parents=True)
    (project.root / "profiles/slurm/config.yaml").write_text("executor: slurm\n")
    monkeypatch.chdir(project.root)
    run = CliRunner().invoke(main, ["doctor", "mini", "--json"])
    names = {one["name"]: one["state"] for one in json.loads(run.stdout)}
    assert run.exit_code == 0 and names["torch"] == "ok" and names["free disk"] == "ok"
    monkeypatch.setenv("PATH", str(tmp_path))
    run = CliRunner().invoke(main, ["doctor", "mini", "--profile", "slurm"])
    assert run.exit_code == 1 and "✗ SLURM commands" in run.stdout and "    → " in run.stdout
    run = CliRunner().invoke(main, ["doctor", "mini", "--profile", "pbs"])
    assert run.exit_code == 2 and "there is no profile 'pbs'" in run.output


@pytest.mark.parametrize(
    ("cuda", "driver", "advice"),
    [
        ("13.0", "550.90.07", "updated to one from 580 on, or install torch for an older major version"),
        ("12.6", "470.57.02", "updated to one from 525 on"),
        ("12.6", "525.60.13", "new enough for CUDA 12.6 .525.: look at CUDA_VISIBLE_DEVICES"),
        ("13.0", "", "updated to one from 580 on"),
        ("14.1", "900.1", "updated to one for CUDA 14.1"),
    ],
)
def test_a_driver_is_held_against_the_oldest_that_its_cuda_runs_on(cluster, cuda, driver, advice):
    cluster.command("nvidia-smi", f"echo {driver}" if driver else "exit 9")
    check = _driver(cuda, Shell())
    assert check.state == "failed" and f"(driver {driver or 'unknown'})" in check.found
    assert re.search(advice, check.advice)
