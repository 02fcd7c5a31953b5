"""The launcher: processes that know each other, signals that reach them, and one exit code that says what became of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.train.small_project import SmallProject
from tests.workflow.conftest import RECIPE, STUDY
from xsa.store.errors import UserError
from xsa.study import launch
from xsa.study.launch import exit_code, launched_nodes, run_on_nodes, run_processes, start, supervise


def python(code: str) -> subprocess.Popen:
    return start([sys.executable, "-c", code], dict(os.environ))


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], 0),
        ([75, 75], 75),
        ([75, 0], 75),
        ([1, 2], 2),
        ([-15, 1], 1),
        ([75, -9], 137),
        ([143, 143], 143),
        ([-15, 75], 143),
    ],
)
def test_one_exit_code_says_what_became_of_all(codes, code):
    assert exit_code(codes) == code


@pytest.mark.parametrize("first", [True, False])
def test_when_one_fails_the_others_are_ended_also_those_that_do_not_listen(first):
    deaf = python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    )
    end = threading.Timer(60, deaf.kill)
    end.start()
    failing = python("raise SystemExit(2)")
    assert supervise([failing, deaf] if first else [deaf, failing], grace=0.5, kill=0.5) == 2
    assert deaf.returncode == -signal.SIGKILL and end.is_alive(), "nobody ended it"
    end.cancel()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_signal_reaches_every_process_and_their_exit_code_is_the_launchers(number, tmp_path):
    code = (
        f"import pathlib, signal, sys, time; signal.signal({int(number)}, lambda *_: sys.exit(75)); "
        "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    )
    ready = [tmp_path / "a", tmp_path / "b"]
    processes = [start([sys.executable, "-c", code, str(path)], dict(os.environ)) for path in ready]

    def send() -> None:
        while not all(path.exists() for path in ready):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=send).start()
    assert supervise(processes) == 75


def test_processes_are_asked_to_stop_when_the_launcher_is_killed(tmp_path):
    code = (
        "import os, pathlib, signal, sys, time\n"
        "def stop(*_): pathlib.Path(sys.argv[1]).with_suffix('.stopped').touch(); sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, stop); pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    )
    parent = (
        "import os, sys; from xsa.study.launch import start, supervise\n"
        "supervise([start([sys.executable, '-c', sys.argv[1], sys.argv[2]], dict(os.environ))])"
    )
    ready = tmp_path / "ready"
    launcher = subprocess.Popen([sys.executable, "-c", parent, code, str(ready)])
    while not ready.exists():
        time.sleep(0.02)
    launcher.kill()
    launcher.wait()
    for _ in range(1500):
        if ready.with_suffix(".stopped").exists():
            return
        time.sleep(0.02)
    raise AssertionError("the process was not told")


def fake_xsa(monkeypatch, tmp_path) -> Path:
    """What is started in place of `python -m xsa`: a script that writes down who it was told it is."""
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib, sys\n"
        "names = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'GROUP_RANK', 'MASTER_ADDR', 'MASTER_PORT')\n"
        "told = {name: os.environ[name] for name in names} | {'arguments': sys.argv[1:]}\n"
        f"pathlib.Path({str(tmp_path)!r}, 'rank' + told['RANK']).write_text(json.dumps(told))\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return script


def ranks(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank*"))]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_process_of_one_node_is_told_who_it_is_as_torchrun_tells_it(count, monkeypatch, tmp_path):
    fake_xsa(monkeypatch, tmp_path)
    assert run_processes(["pretrain", "mini", "any"], count) == 0
    told = ranks(tmp_path)
    assert [(one["RANK"], one["LOCAL_RANK"]) for one in told] == [(str(rank), str(rank)) for rank in range(count)]
    assert {(one["WORLD_SIZE"], one["LOCAL_WORLD_SIZE"], one["MASTER_ADDR"]) for one in told} == {
        (str(count), str(count), "127.0.0.1")
    }
    assert len({one["MASTER_PORT"] for one in told}) == 1
    assert told[0]["arguments"] == ["-m", "xsa", "pretrain", "mini", "any"]


def test_processes_of_several_nodes_meet_at_the_first_of_the_jobs_nodes(monkeypatch, tmp_path):
    fake_xsa(monkeypatch, tmp_path)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        '#!/bin/sh\ncase "$2" in hostnames) printf "gpu07\\ngpu08\\n";; node) echo "NodeName=$3 NodeAddr=10.0.0.7 X=1";; esac\n'
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[07-08]")
    monkeypatch.delenv("SLURM_STEP_NODELIST", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "123456")
    monkeypatch.setenv(launch.ON_NODE, "2")
    for node in ("0", "1"):
        monkeypatch.setenv("SLURM_NODEID", node)
        assert run_processes(["pretrain"], 2) == 0
    told = ranks(tmp_path)
    assert [(one["RANK"], one["LOCAL_RANK"], one["GROUP_RANK"]) for one in told] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "1"),
        ("3", "1", "1"),
    ]
    assert {(one["WORLD_SIZE"], one["MASTER_ADDR"], one["MASTER_PORT"]) for one in told} == {("4", "10.0.0.7", "23456")}


def test_srun_starts_this_call_once_on_each_node_and_outside_a_job_that_is_a_sentence(monkeypatch, tmp_path):
    srun = tmp_path / "srun"
    srun.write_text(f'#!/bin/sh\necho "$XSA_ON_NODE $SLURM_STEP_ID|$SLURM_JOB_ID|$*" > {tmp_path}/asked; exit 75\n')
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert launched_nodes(2) and not launched_nodes(1)
    assert run_on_nodes(["pretrain", "mini", "any", "--nodes", "2"], 2) == 75
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("2 |9|--overlap --nodes=2 --ntasks=2 --ntasks-per-node=1")
    assert asked.strip().endswith("-m xsa pretrain mini any --nodes 2")
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(UserError, match="this is no SLURM job"):
        run_on_nodes(["pretrain"], 2)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> SmallProject:
    """The miniature study with a training of 60 steps, all that it reads made."""
    project = SmallProject.new(tmp_path_factory.mktemp("launch") / "project")
    settings = {
        "horizon": {"steps": 60, "batch_tokens": 512},
        "data": RECIPE["settings"]["data"] | {"tokens_per_shard": 15_400},
    }
    project.study(STUDY | {"settings": settings})
    for upstream in project.cell(0.0).results["pretrain"].upstream():
        project.make(upstream)
    return project


def call(project: SmallProject, *arguments: str) -> subprocess.Popen:
    result = project.cell(0.0).results["pretrain"]
    return subprocess.Popen(
        [sys.executable, "-m", "xsa", "pretrain", "mini", result.key, *arguments],
        cwd=project.root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(launch.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_training_of_two_processes_stops_with_75_when_its_launcher_is_told_and_goes_on(project):
    first = call(project, "--devices", "2", "--threads", "2")
    said = ""
    for line in first.stdout:
        said += line
        if "step 1/" in line:
            first.send_signal(signal.SIGTERM)
    assert first.wait() == 75, said
    assert "stopped by " in said and said.count("Run it again to go on") == 1
    second = call(project, "--devices", "2", "--threads", "2")
    said, _ = second.communicate()
    assert second.returncode == 0 and "goes on after step" in said, said
    made = json.loads((project.folder("pretrain", 0.0) / "record.json").read_text())["made"]
    assert made["notes"]["processes"] == 2 and made["threads"] == 1


def test_a_stage_of_one_process_refuses_several_devices_in_a_sentence(project):
    run = subprocess.run(
        [sys.executable, "-m", "xsa", "core", "mini", "any", "--devices", "2"],
        cwd=project.root,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2 and "core is made by one process" in run.stderr and "Traceback" not in run.stderr
