"""Random kills of all kinds over a miniature study, whose results must be those of an undisturbed run.

    python benchmarks/chaos.py [--kills 200] [--seed N] [--steps 400] [--folder FOLDER]

The study (two trainings, one of them by two processes on gloo, fine-tuning, evaluations, page) is made once undisturbed.
Then the user's command is given over and over in an empty folder, and hit at random moments: trainers, ranks, jobs' shells, other
jobs and the driver by signals, the whole machine, saved states, as root a full disk too. When a study is done before the
kills are, the next one begins; the last is left to finish. After each, hashes, logs, locks and words are looked at. Kinds come
in random order, each as often as the others. The exit code is 1 where anything differs; `--seed` gives the same dice again.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the miniature study is the tests'

from chaos_checks import Hashes, hashes
from chaos_kinds import FULL_DISK, KINDS, Deck
from chaos_round import COMMAND, Kill, Round
from chaos_scene import send
from tests.slurm.project import Driver
from tests.workflow.conftest import RECIPE, STUDY, MiniProject

DISK_BYTES = 80_000_000


def project_with_code(root: Path, steps: int) -> MiniProject:
    """The miniature study with few measurements and states saved as often as can be, on a copy of the code."""
    project = MiniProject.new(root)
    recipe = copy.deepcopy(RECIPE)
    settings = recipe["settings"]
    settings["data"].update(shards=2, documents_per_shard=8 * steps, tokens_per_shard=260 * steps)
    settings["horizon"].update(steps=steps, batch_tokens=256)
    settings["validation"].update(every=steps // 4)
    settings["finetune"].update(steps=steps // 2)
    settings["evaluate"] = dict.fromkeys(("bpb", "core", "chatcore", "attention", "overhead", "equivalence"), False)
    shapes = {
        "one": {"model": {"n_layer": 2, "n_embd": 32, "n_head": 2}, "evaluate": {"core": True, "chatcore": True}},
        "two": {"model": {"n_layer": 2, "n_embd": 48, "n_head": 2}, "evaluate": {"bpb": True}},
    }
    run = {"gpus": {"one": 1, "two": 2}, "save_minutes": 0.001, "save_share": 1.0}
    factors = {"factors": {"xsa.alpha": [1]}, "baseline": {"xsa.alpha": 1}}
    project.write("config/recipes/mini.yaml", recipe)
    project.write("config/studies/mini.yaml", STUDY | factors | {"shapes": shapes, "run": run})
    project.with_own_code()
    project.settle_lock()
    return project


@contextmanager
def disk(results: Path, small: bool) -> Iterator[None]:
    """Have `results` on a small disk of its own."""
    results.mkdir()
    if small:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "xsa-chaos", str(results)]
        subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        if small:
            kept = shutil.copytree(results, results.with_name("kept"), symlinks=True)
            subprocess.run(["umount", "--lazy", str(results)], check=True)
            results.rmdir()
            kept.rename(results)


def can_fill(folder: Path) -> bool:
    """Whether a small disk can be made here, which takes root and the right to mount."""
    try:
        with disk(folder / "probe", small=os.geteuid() == 0):
            return os.geteuid() == 0
    except (OSError, subprocess.CalledProcessError):
        return False


def undisturbed_run(project: MiniProject) -> Hashes:
    """Hashes of the study when nothing happens to it."""
    driver = Driver(project, COMMAND)
    driver.succeed()
    return hashes(project.root / "results")


def table(kills: list[Kill]) -> str:
    """Kinds, how often, and steps that were done again."""
    lines = [f"{'kind':<30} {'kills':>5}   steps done again: median, most"]
    for name in dict.fromkeys(kind.name for kind in [*KINDS, FULL_DISK]):
        mine = [kill for kill in kills if kill.kind == name]
        lost = [kill.lost for kill in mine if kill.lost is not None]
        again = f"{statistics.median(lost):g}, {max(lost)}" if lost else "-"
        lines.append(f"{name:<30} {len(mine):>5}   {again}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the dice; a new one by default")
    parser.add_argument("--steps", type=int, default=400, help="of each training")
    parser.add_argument("--folder", type=Path, help="where the study is made, and kept; a temporary folder by default")
    arguments = parser.parse_args()
    # Started in the background of a shell, this process would ignore Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    again = f"python benchmarks/chaos.py --kills {arguments.kills} --seed {arguments.seed} --steps {arguments.steps}"
    print(again, flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        faults, kills, rounds = chaos(arguments, arguments.folder or Path(temporary))
    print(f"\n{table(kills)}\n")
    if faults:
        sys.exit("\n".join([*faults, f"{len(kills)} kills, {rounds} rounds, {len(faults)} faults. Again: {again}"]))
    print(f"{len(kills)} kills, {rounds} rounds, all hashes equal")


def chaos(arguments: argparse.Namespace, folder: Path) -> tuple[list[str], list[Kill], int]:
    """Faults, kills and the number of rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    first = project_with_code(folder / "undisturbed", arguments.steps)
    clean = shutil.copytree(first.root, folder / "clean", symlinks=True)
    undisturbed = undisturbed_run(first)
    small = can_fill(folder)
    print(f"{len(undisturbed)} results undisturbed; disks are {'' if small else 'not '}filled here", flush=True)
    rng = random.Random(arguments.seed)
    deck = Deck([*KINDS, *([FULL_DISK] if small else [])], rng, arguments.kills)
    faults, kills, rounds, complete = [], [], 0, True
    while len(kills) < arguments.kills and complete:
        rounds += 1
        project = MiniProject(Path(shutil.copytree(clean, folder / f"round-{rounds}", symlinks=True)))
        with disk(project.root / "results", small):
            one = Round(project, deck, rng, len(kills))
            try:
                one.run(arguments.kills - len(kills), undisturbed)
            finally:
                send([process.pid for process in one.scene.processes()], signal.SIGKILL)
        faults += [f"round {rounds}: {fault}" for fault in dict.fromkeys(one.faults)]
        kills, complete = kills + one.kills, one.complete
        print(
            f"     round {rounds}: {len(one.kills)} kills, {one.drivers} drivers, {len(one.faults)} faults", flush=True
        )
    return faults, kills, rounds


if __name__ == "__main__":
    main()
