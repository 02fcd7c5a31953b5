"""A miniature study, finished once by Snakemake in a project folder of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

RECIPE = {
    "description": "as small as it gets",
    "settings": {
        "data": {"kind": "builtin", "shards": 3, "documents_per_shard": 128, "tokens_per_shard": 2_000},
        "bundle": {"kind": "builtin", "items": 16},
        "chatsets": {"kind": "builtin", "items": 16},
        "tokenizer": {"vocab_size": 400, "shards": 1},
        "model": {"sequence_len": 128},
        "horizon": {"steps": 6, "batch_tokens": 512},
        "schedule": {"warmup_steps": 2},
        "precision": {"dtype": "float32", "compile": False},
        "validation": {"every": 3, "rows": 4},
        "finetune": {
            "steps": 3,
            "mixture": [{"set": "smoltalk"}, {"set": "gsm8k"}, {"set": "simplespelling", "limit": 20}],
        },
        "bpb": {"rows": 8},
        "core": {"max_per_task": 12, "baselines": "bundle"},
        "chatcore": {"max_per_task": 4, "spellingbee_items": 4, "max_new_tokens": 8},
        "attention": {"rows": 2},
        "overhead": {"repetitions": 3, "warmup": 1, "batch_rows": 2, "device": "cpu"},
        "equivalence": {"steps": 2, "batch_rows": 2, "device": "cpu"},
    },
}
STUDY = {
    "name": "mini",
    "title": "The miniature",
    "question": "Does every stage run?",
    "recipe": "mini",
    "shapes": {"d2": {"model": {"n_layer": 2, "n_embd": 32, "n_head": 2}}},
    "factors": {"xsa.alpha": [0, 1], "seed": [0]},
    "baseline": {"xsa.alpha": 0},
}


class MiniProject:
    """A project folder with the repository's workflow and the miniature study."""

    def __init__(self, root: Path):
        self.root = root

    @classmethod
    def new(cls, root: Path) -> MiniProject:
        for folder in ("config/studies", "config/recipes"):
            (root / folder).mkdir(parents=True)
        for name in ("rules", "report", "profiles", "config/claims"):
            shutil.copytree(ROOT / name, root / name)
        shutil.copy(ROOT / "Snakefile", root / "Snakefile")
        shutil.copy(ROOT / "config/stages.lock", root / "config/stages.lock")
        project = cls(root)
        project.write("config/recipes/mini.yaml", RECIPE)
        project.write("config/studies/mini.yaml", STUDY)
        return project

    def write(self, path: str, values: dict) -> None:
        (self.root / path).write_text(yaml.safe_dump(values, sort_keys=False))

    def with_own_code(self) -> Path:
        """Give the project a copy of the package, which runs from now on; return its folder."""
        package = self.root / "installed" / "xsa"
        shutil.copytree(ROOT / "src" / "xsa", package, ignore=shutil.ignore_patterns("__pycache__"))
        return package

    def settle_lock(self) -> None:
        """Accept the code as it is, whatever the lock of the tree says of it."""
        stages = yaml.safe_load((self.root / "config/stages.lock").read_text())["stages"]
        done = self.xsa("lock", *(f"--keep={stage}" for stage in stages), "--why=the code under test")
        assert done.returncode == 0, done.stderr

    def environment(self) -> dict[str, str]:
        """Of the commands that are run in the project."""
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.root),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(self.root / "installed"),
            # Snakemake's plugin asks SLURM at every start, and waits for a controller that is down.
            "SLURM_CONF": "/dev/null",
        }

    def snakemake(
        self, *arguments: str, config: list[str] | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess:
        """Run Snakemake as a user does, on two cores."""
        command = [str(Path(sys.executable).with_name("snakemake")), "--cores", "2", *arguments]
        return subprocess.run(
            [*command, "--config", "study=mini", *(config or [])],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(),
        )

    def xsa(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run a verb as a user does."""
        command = [str(Path(sys.executable).with_name("xsa")), *arguments]
        return subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, timeout=600, env=self.environment()
        )

    def state(self) -> dict[Path, tuple[int, bytes]]:
        """Inode and content of every file of every result."""
        files = [path for path in (self.root / "results").glob("*/*@*/**/*") if path.is_file()]
        return {path: (path.stat().st_ino, path.read_bytes()) for path in files}

    def jobs(self, *arguments: str, config: list[str] | None = None) -> dict[str, int]:
        """How many jobs of each rule a dry run plans; `all` left out. Planning changes no result."""
        before = self.state()
        run = self.snakemake("--dry-run", *arguments, config=config)
        assert run.returncode == 0, run.stdout + run.stderr
        assert self.state() == before
        text = run.stdout + run.stderr
        counts = dict(re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE))
        counts.pop("total", None)
        counts.pop("all", None)
        return {rule: int(count) for rule, count in counts.items()}


@pytest.fixture(scope="session")
def finished(made_once) -> MiniProject:
    """The miniature study, run to its page. Tests work on copies."""

    def make(root: Path) -> None:
        run = MiniProject.new(root).snakemake()
        assert run.returncode == 0, run.stdout + run.stderr

    return MiniProject(made_once("mini", make))


@pytest.fixture
def mini(finished, tmp_path) -> MiniProject:
    """A copy of the finished miniature study, in another folder."""
    shutil.copytree(finished.root, tmp_path / "copy", symlinks=True)
    return MiniProject(tmp_path / "copy")
