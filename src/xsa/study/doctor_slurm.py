"""Checks of a SLURM cluster against a profile, by its own commands on a login node."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from xsa.study.doctor_check import FAILED, OK, SKIPPED, WARNING, Check, Shell
from xsa.study.profile import Profile

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
# The plugin asks for a job's state first after 40 s; squeue must know the job for three times as long.
LEAST_MIN_JOB_AGE = 120
WAIT_SECONDS = 300.0  # for the small job of `--submit`
END = "END-OF-ANSWER"
# What a job looks for on its node, a line each.
LOOK = (
    "command -v xsa >/dev/null && echo 'xsa is there'; "
    'python3 -c \'import torch; print("torch", torch.__version__, "CUDA", torch.cuda.is_available())\'; nvidia-smi -L; '
    f"echo {END}"
)


def slurm_checks(profile: Profile, shell: Shell, results: Path, submit: bool = False) -> Iterator[Check]:
    """Commands, munge, controller, partitions, GPU types, account of states, time limits; with `submit` a job on a node."""
    lacking = [name for name in COMMANDS if not shell.there(name)]
    if lacking:
        yield Check(
            "SLURM commands",
            FAILED,
            f"{', '.join(lacking)} not found",
            "run `xsa doctor` on the cluster's login node, where the other checks of SLURM can be made too (perhaps `module load slurm`)",
        )
        return
    code, said = shell.said("sinfo", "--version")
    if code:
        yield Check(
            "SLURM commands",
            FAILED,
            _last(said),
            "SLURM's commands cannot work here: ask for its configuration (SLURM_CONF), or run this on the cluster's login node",
        )
        return
    yield Check("SLURM commands", OK, said)
    if shell.there("munge"):
        yield _munge(shell)
    code, config = shell.said("scontrol", "show", "config")
    if code:
        yield Check(
            "controller",
            FAILED,
            _last(config),
            "ask whether slurmctld runs; `scontrol ping` tells what this machine sees of it",
        )
        return
    yield _states(profile, shell, config)
    yield from _partitions(profile, shell)
    if submit:
        yield _from_a_node(profile, shell, results)
    else:
        yield Check("a job on a node", SKIPPED, "nothing was submitted; `xsa doctor --submit` sends one small job")


def _munge(shell: Shell) -> Check:
    code, token = shell.said("munge", "--no-input")
    code, said = shell.said("unmunge", given=token) if not code else (code, token)
    if code:
        return Check("munge", FAILED, _last(said), "munged must run here with the cluster's key: ask the administrator")
    return Check("munge", OK, "a credential made here is accepted here")


def _states(profile: Profile, shell: Shell, config: str) -> Check:
    """How the ends of jobs become known: by the accounting, or by a queue that remembers long enough."""
    found = re.search(r"^MinJobAge\s*=\s*(\d+)", config, re.MULTILINE)
    age = int(found[1]) if found else 0
    if profile.asks_queue:
        if age < LEAST_MIN_JOB_AGE:
            return Check(
                "states of jobs",
                FAILED,
                f"the profile asks squeue, which forgets a job {age} s after its end (MinJobAge)",
                f"ask for MinJobAge={LEAST_MIN_JOB_AGE} or more in slurm.conf, or set slurm-init-seconds-before-status-checks to "
                f"{max(age // 3, 1)} in {profile.path}",
            )
        return Check("states of jobs", OK, f"asked of squeue, which remembers them for {age} s")
    code, said = shell.said("sacct", "--noheader", "--parsable2", "--format=JobID", "--starttime=now-1hour")
    if code:
        return Check(
            "states of jobs",
            FAILED,
            f"there is no accounting here: {_last(said)}",
            f"set `slurm-status-command: squeue` in {profile.path}",
        )
    return Check("states of jobs", OK, "asked of the accounting (sacct)")


def _partitions(profile: Profile, shell: Shell) -> Iterator[Check]:
    """Each partition named is there, up, and lets jobs run as long as they may ask for; each GPU type is in one of them."""
    code, said = shell.said("sinfo", "--noheader", "--format=%R|%a|%l|%G|%D")
    if code:
        yield Check("partitions", FAILED, _last(said), "sinfo must answer on a login node: ask the administrator")
        return
    rows = [line.split("|") for line in said.splitlines() if line.count("|") == 4]
    known: dict[str, list[list[str]]] = {}
    for row in rows:
        known.setdefault(row[0], []).append(row)
    for name in sorted(profile.named("slurm_partition")):
        yield _partition(name, known, profile)
    gres = [row[3] for row in known.get(profile.site.gpu_partition or "", rows)]
    types = {kind for text in gres for kind in re.findall(r"gpu:([A-Za-z0-9_.-]+?)(?=:)", text)}
    where = f"partition {profile.site.gpu_partition!r}" if profile.site.gpu_partition else "the cluster"
    for kind in sorted(profile.gpu_types()):
        if kind and kind not in types:
            yield Check(
                "GPU type",
                FAILED,
                f"{where} has no GPU of type {kind!r}; there are {', '.join(sorted(types)) or 'none with a type'}",
                f"set gpu_type in {profile.path} to one of them, or leave it out",
            )
        elif kind or any("gpu" in text for text in gres):
            yield Check(
                "GPU type", OK, f"{where} has {kind or 'GPUs: ' + (', '.join(sorted(types)) or 'without a type')}"
            )
        else:
            yield Check(
                "GPU type",
                FAILED,
                f"{where} has no GPUs",
                f"set gpu_partition in {profile.path} to a partition that has",
            )
    counts = [int(count) for text in gres for count in re.findall(r"gpu(?::[A-Za-z0-9_.-]+)?:(\d+)", text)]
    if counts and max(counts) < profile.site.gpus_per_node:
        yield Check(
            "GPUs a node",
            FAILED,
            f"the profile says {profile.site.gpus_per_node}, and no node of {where} has more than {max(counts)}",
            f"set gpus_per_node in {profile.path} to {max(counts)}",
        )


def _partition(name: str, known: dict[str, list[list[str]]], profile: Profile) -> Check:
    if name not in known:
        return Check(
            "partition",
            FAILED,
            f"there is no partition {name!r}; there are {', '.join(sorted(known)) or 'none'}",
            f"name one of them in {profile.path}",
        )
    _, state, limit, _, _ = known[name][0]
    if state != "up":
        return Check("partition", FAILED, f"{name} is {state}", "wait until it is up, or name another")
    minutes = limit_minutes(limit)
    if minutes is not None and minutes < profile.site.most_minutes:
        return Check(
            "partition",
            FAILED,
            f"{name} lets jobs run for {minutes} minutes, and the profile may ask for {profile.site.most_minutes}",
            f"set most_minutes in {profile.path} to {minutes}; a longer training goes on in the next job (`retries`)",
        )
    nodes = sum(int(row[4]) for row in known[name] if row[4].isdigit())
    return Check("partition", OK, f"{name}: {nodes} nodes, {limit} at most")


def limit_minutes(text: str) -> int | None:
    """Minutes of a limit as SLURM writes it (`1-12:00:00`, `30:00`); None for none."""
    if not re.fullmatch(r"(\d+-)?[\d:]+", text):
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    hours, minutes, _ = [0] * (3 - len(parts)) + parts
    return 60 * (24 * int(days or 0) + hours) + minutes


def _from_a_node(profile: Profile, shell: Shell, results: Path) -> Check:
    """A job of one minute that reads a file under the results and leaves one there, on a GPU node where there is one."""
    asked, answered = (results.resolve() / f".doctor.{os.getpid()}.{name}" for name in ("asked", "answered"))
    options = [f"--partition={name}" for name in [profile.site.gpu_partition or profile.site.slurm_partition] if name]
    if profile.site.gpu_partition:
        kind = f"{profile.site.gpu_type}:" if profile.site.gpu_type else ""
        options.append(f"--gres=gpu:{kind}1")
    options += [f"--account={name}" for name in profile.named("slurm_account")]
    before = str(profile.values.get("precommand") or "true")
    work = f"test -f {shlex.quote(str(asked))} && {{ {before}; {LOOK}; }} > {shlex.quote(str(answered))} 2>&1"
    try:
        asked.write_text("")
        code, said = shell.said(
            *(
                "sbatch",
                "--parsable",
                "--time=5",
                "--output=/dev/null",
                "--job-name=xsa-doctor",
                *options,
                "--wrap",
                work,
            )
        )
        if code:
            return Check("a job on a node", FAILED, _last(said), f"mend in {profile.path} what sbatch names")
        job = said.split(";")[0].split()[-1]
        found = _answer(answered)
        if found is None:
            shell.said("scancel", job)
            return Check(
                "a job on a node",
                WARNING,
                f"job {job} had not answered after {WAIT_SECONDS:g} s and was cancelled",
                f"the queue may be long: try again; else {results.resolve()} is not the same folder on that node",
            )
        return _judged(found, profile, results)
    finally:
        asked.unlink(missing_ok=True)
        answered.unlink(missing_ok=True)


def _judged(said: str, profile: Profile, results: Path) -> Check:
    """What a job saw on its node: `xsa`, torch, and a GPU where it asked for one."""
    told = "; ".join(said.splitlines())
    if "xsa is there" not in said or "torch " not in said:
        return Check(
            "a job on a node",
            FAILED,
            f"xsa or torch is missing there: {told}",
            f"put what a node must do first (modules, the environment) into `precommand` of {profile.path}; the environment must lie "
            "where nodes see it",
        )
    if profile.site.gpu_partition and "CUDA True" not in said:
        return Check(
            "a job on a node",
            FAILED,
            f"it asked for a GPU, and torch sees none there: {told}",
            "compare the node's driver with torch's CUDA (docs/cluster.md, Containers and environments), and see that "
            "`nvidia-smi` works in a job",
        )
    return Check("a job on a node", OK, f"{results.resolve()} is the same there; {told}")


def _answer(path: Path) -> str | None:
    """What the job wrote, once it has written all; None where nothing comes."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        if END in text:
            return text.replace(END, "").strip()
        time.sleep(1.0)
    return None


def _last(said: str) -> str:
    return said.splitlines()[-1] if said else "no answer"
