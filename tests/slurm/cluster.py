"""A real SLURM in a folder of its own, on this machine: controller, several nodes, stand-ins for GPUs, a preemptable partition.

Nothing of the system's own SLURM or munge is touched: configuration, key, sockets, ports and state are private. Clients find
the configuration by wrappers on the PATH, for jobs are started without SLURM_CONF.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CLIENTS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
DAEMONS = ("munged", "slurmctld", "slurmd")
# Of the nodes, only their names, CPUs and GPUs differ. Existing device files stand in for GPUs.
NODES = {
    "c1": (8, ""),
    "g1": (8, "gpu:h100:4"),
    "g2": (4, "gpu:h100:2"),
    "g3": (4, "gpu:h100:1"),
    "g4": (4, "gpu:h100:1"),
    "g5": (4, "gpu:h100:1"),
}
DEVICES = {"g1": "/dev/tty[10-13]", "g2": "/dev/tty[14-15]", "g3": "/dev/tty16", "g4": "/dev/tty17", "g5": "/dev/tty18"}
CONFIGURATION = """\
ClusterName=xsatest
SlurmctldHost={host}
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,sched_min_interval=0,batch_sched_delay=0,requeue_setup_env_fail
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=1
TaskProlog={folder}/prolog
MinJobAge=600
KillWait=5
{nodes}
PartitionName=cpu Nodes=c1 Default=YES State=UP
PartitionName=gpu Nodes=g1 State=UP
PartitionName=failing Nodes=g3,g4 State=UP
PartitionName=held Nodes=g2 State=UP PriorityTier=10
PartitionName=crowded Nodes=g5 State=UP
PartitionName=spare Nodes=g2 State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=urgent Nodes=g2 State=UP PriorityTier=100
"""


def missing() -> str | None:
    """Why no SLURM can be brought up here; None where one can."""
    absent = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=_system_path()) is None]
    if absent:
        return f"a real SLURM needs {', '.join(absent)} (apt-get install slurmctld slurmd slurm-client munge)"
    if os.geteuid() != 0:
        return "a real SLURM is brought up by root only"
    return None


def _system_path() -> str:
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Cluster:
    """A running SLURM; `stop` ends everything that it started."""

    def __init__(self, folder: Path):
        self.folder, self.clients = Path(folder), Path(folder) / "bin"
        self._daemons: list[subprocess.Popen] = []
        self._nodes: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        """Write the configuration, start the daemons, wait until all nodes are idle."""
        self._configure()
        socket_file = self.folder / "munge" / "socket"
        private = [
            ("socket", "socket"),
            ("key-file", "key"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ]
        self._daemon(
            "munged",
            "--force",
            "--foreground",
            *(f"--{option}={self.folder / 'munge' / name}" for option, name in private),
        )
        wait_for(socket_file.exists, 20, "munged does not start")
        self._daemon("slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        for node in NODES:
            (self.folder / f"spool.{node}").mkdir()
            self._nodes[node] = self._daemon("slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"))
        wait_for(
            lambda: self.run("sinfo", "--noheader", "--Node", "--format=%T").split().count("idle") >= len(NODES),
            60,
            "no idle nodes",
        )

    def stop(self) -> None:
        """End all jobs, then all daemons, in the reverse order of their start."""
        if len(self._daemons) > 1:
            self.run("scancel", "--full", "--signal=KILL", "--user=root")
            self.run("scancel", "--user=root")
            try:
                wait_for(lambda: not self.run("squeue", "--noheader").strip(), 20, "jobs stay")
            except AssertionError as error:
                print(error)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def run(self, client: str, *arguments: str) -> str:
        """What a SLURM command prints."""
        done = subprocess.run([str(self.clients / client), *arguments], capture_output=True, text=True, timeout=60)
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What SLURM says of a job."""
        return dict(re.findall(r"(\S+?)=(\S*)", self.run("scontrol", "show", "job", "--details", number)))

    def lose(self, node: str, job: str) -> None:
        """Have a node go down with the job that it works on, as when its power fails."""
        self._nodes[node].kill()
        for process in processes():
            if f"SLURM_JOB_ID={job}" in process.environment or process.command.startswith(f"slurmstepd: [{job}."):
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def tasks(self) -> list[tuple[str, ...]]:
        """Of every task that jobs ran: job, step, number of the task in its step, and the devices it was given."""
        lines = (self.folder / "tasks").read_text().splitlines()
        return [tuple(line.split(" ")) for line in lines]

    def _configure(self) -> None:
        for name in ("bin", "state", "munge"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o755)  # munged wants its socket to be reachable
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        ports = free_ports(len(NODES) + 1)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=400000"
            + (f" Gres={gres}" if gres else "")
            for (name, (cpus, gres)), port in zip(NODES.items(), ports[1:], strict=True)
        )
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(host=host, controller=ports[0], folder=self.folder, nodes=nodes)
        )
        (self.folder / "gres.conf").write_text(
            "".join(f"NodeName={node} Name=gpu Type=h100 File={files}\n" for node, files in DEVICES.items())
        )
        prolog = self.folder / "prolog"
        prolog.write_text(
            f'#!/bin/sh\necho "$SLURM_JOB_ID ${{SLURM_STEP_ID:-batch}} $SLURM_PROCID $CUDA_VISIBLE_DEVICES" >> {self.folder}/tasks\n'
        )
        prolog.chmod(0o755)
        for client in CLIENTS:
            wrapper = self.clients / client
            real = shutil.which(client, path=_system_path())
            wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder}/slurm.conf exec {real} "$@"\n')
            wrapper.chmod(0o755)

    def _daemon(self, name: str, *arguments: str) -> subprocess.Popen:
        """Start a daemon that dies with this process, however that ends."""
        real = shutil.which(name, path=_system_path())
        with open(self.folder / f"{name}.out", "ab") as out:
            self._daemons.append(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "TERM", str(real), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env={"PATH": _system_path(), "SLURM_CONF": str(self.folder / "slurm.conf")},
                    start_new_session=True,
                )
            )
        return self._daemons[-1]


class Process(NamedTuple):
    """A process of this machine."""

    pid: int
    command: str
    environment: list[str]


def processes() -> Iterator[Process]:
    """All that can be looked at."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command, environment = (
                (folder / name).read_bytes().decode(errors="replace").split("\0") for name in ("cmdline", "environ")
            )
            yield Process(int(folder.name), " ".join(command), environment)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(ready: Callable[[], object], seconds: float, what: str):
    """The first true value that `ready` returns; AssertionError, saying `what`, when none comes in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = ready()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what} within {seconds:g} s")
