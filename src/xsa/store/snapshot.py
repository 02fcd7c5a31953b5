"""Frozen code: the jobs of a run work by a copy of the code and the configuration that was taken when the run started.

Jobs wait for hours, and what is edited meanwhile must not change what they do. A snapshot is the folder
`<results>/.code/<hash>/`, named after its content: the package, `config/`, `rules/`, `report/` and the Snakefile. It is
written once. Code knows by the place where it lies that it is frozen.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from xsa.store.errors import UserError
from xsa.store.files import canonical_json, sha256_file

CODE = ".code"
ABOUT = "snapshot.json"
PART = ".part"
PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = ("config", "report", "rules")
FILES = ("CITATION.cff", "Snakefile")
# Written while jobs run, so it stays the project's own.
LIVE = Path("config/data.lock")


def frozen() -> Path | None:
    """The snapshot that this code is part of; None where it is a project's own code."""
    root = PACKAGE.parents[1]
    return root if (root / ABOUT).is_file() else None


def take_snapshot(root: Path, results: Path) -> Path:
    """Copy the code that runs now and the configuration of the project at `root`; return the snapshot's absolute path.

    One that is there already is used again; its time is that of its last use. UserError where it cannot be written, or what is there was altered.
    """
    sources = {path: root / path for folder in FOLDERS for path in _files(root, folder)}
    sources |= {Path(name): root / name for name in FILES if (root / name).is_file()}
    sources |= {Path("src") / path: PACKAGE.parent / path for path in _files(PACKAGE.parent, PACKAGE.name)}
    name = _hash(sources)
    final = Path(results).resolve() / CODE / name
    try:
        if final.exists():
            with suppress(OSError):
                os.utime(final)
        else:
            _write(sources, final)
    except OSError as error:
        raise UserError(
            f"the code cannot be frozen in {final.parent} ({error.strerror}): make room there, or allow it, and start again"
        ) from None
    there = {path: final / path for top in (*FOLDERS, *FILES, "src") for path in _files(final, top)}
    if _hash(there) != name:
        raise UserError(
            f"{final} is the frozen code of a run and was altered; delete it when no job runs, and start again"
        )
    return final


def git_commit() -> str | None:
    """Commit of the code that runs, with `+` where tracked files differ from it; None where it came from no clone."""
    snapshot = frozen()
    if snapshot is not None:
        return json.loads((snapshot / ABOUT).read_text(encoding="utf-8"))["git_commit"]
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            timeout=20,
        )
        if run.returncode == 0:
            return run.stdout.strip()
    return None


def _files(root: Path, top: str) -> list[Path]:
    """Paths below `root` of the files at or in `top` that count, in order, also in folders that are links."""
    place = root / top
    inside = (Path(folder) / name for folder, _, names in os.walk(place, followlinks=True) for name in names)
    found = [place] if place.is_file() else sorted(path for path in inside if path.is_file())
    paths = [path.relative_to(root) for path in found]
    return [
        path
        for path in paths
        if path != LIVE and not any(part == "__pycache__" or part[0] == "." for part in path.parts)
    ]


def _hash(sources: dict[Path, Path]) -> str:
    hashes = {path.as_posix(): sha256_file(source) for path, source in sources.items()}
    return hashlib.sha256(canonical_json(hashes).encode()).hexdigest()[:12]


def _write(sources: dict[Path, Path], final: Path) -> None:
    part = final.parent / f".{final.name}.{socket.gethostname()}.{os.getpid()}{PART}"
    try:
        for path, source in sources.items():
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, part / path)
        (part / ABOUT).write_text(json.dumps({"git_commit": git_commit()}) + "\n", encoding="utf-8")
        for path in [*sources, Path(ABOUT)]:
            (part / path).chmod(0o444)
        # Another run that freezes the same code may be first; its copy is the same.
        with suppress(FileExistsError):
            os.rename(part, final)
    finally:
        shutil.rmtree(part, ignore_errors=True)
