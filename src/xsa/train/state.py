"""Resume state: all that a training run needs to go on as if it had never stopped.

A state is a folder `step_<n>` with weights, optimizer, random generators, the log so far, and `state.json`: the step, the
running hash of the data stream, and the SHA-256 of every file. It is written under another name, flushed to disk and
then renamed, so a kill at any moment leaves the states before it whole. The last two are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from xsa.optim.muon_adamw import MuonAdamW
from xsa.store.files import canonical_json, sha256_file
from xsa.train.checkpoint import MODEL, OPTIMIZER, copy_weights, load_optimizer, load_tensors, save_tensors
from xsa.train.log import Log

STATE, GENERATORS = "state.json", "generators.safetensors"
KEPT = 2


@dataclass
class Position:
    """How far a run is: updates done, hash of the rows read so far, and what was logged."""

    step: int
    stream: str
    log: Log


class States:
    """The saved states of one run, in `folder`. `say` is told of everything that a user should know."""

    def __init__(self, folder: Path, say: Callable[[str], None]):
        self.folder, self.say = Path(folder), say

    def save(self, model: torch.nn.Module, optimizer: MuonAdamW, position: Position) -> Path | None:
        """Save one state and return its folder; all ranks call this, and the first writes (the others get None).

        OSError where the disk refuses; older states are untouched then.
        """
        moments = optimizer.state_dict_flat()
        if optimizer.sharding.rank:
            return None
        final = self.folder / f"step_{position.step:08d}"
        part = self.folder / f".{final.name}.part"
        for leftover in self.folder.glob(".step_*.part"):
            shutil.rmtree(leftover, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            save_tensors(part / MODEL, model.state_dict())
            save_tensors(part / OPTIMIZER, moments)
            save_tensors(part / GENERATORS, _generators())
            position.log.write(part)
            files = {path.name: sha256_file(path) for path in sorted(part.iterdir())}
            content = {"step": position.step, "stream": position.stream, "files": files}
            (part / STATE).write_text(json.dumps({**content, "sha256": _digest(content)}, indent=1), encoding="utf-8")
            for path in [*part.iterdir(), part]:
                _flush(path)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(part, final)
            _flush(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        saved = self.all()
        here = saved.index(final)
        # Those of later steps were damaged and passed over; left there, they would stand for some that are to be kept.
        for other in [*saved[:here], *saved[here + KEPT :]]:
            shutil.rmtree(other, ignore_errors=True)
        return final

    def all(self) -> list[Path]:
        """Folders of saved states, newest first."""
        return sorted(self.folder.glob("step_*"), reverse=True)

    def newest(self) -> Path | None:
        """The newest state whose every file has the hash it was saved with; damaged ones are named and passed over."""
        for state in self.all():
            fault = _fault(state)
            if fault is None:
                return state
            self.say(f"the saved state {state} is damaged ({fault}) and is passed over")
        return None

    def where(self) -> str:
        """The last good state, in words for an error message."""
        state = self.newest()
        return f"the last good state is {state}" if state else f"no state was saved in {self.folder} before"


def restore(state: Path, model: torch.nn.Module, optimizer: MuonAdamW) -> Position:
    """Load the state in `state`, a folder that `States.newest` has verified, into `model` and `optimizer`."""
    content = json.loads((state / STATE).read_text(encoding="utf-8"))
    copy_weights(model, load_tensors(state / MODEL), state / MODEL)
    load_optimizer(state / OPTIMIZER, optimizer)
    generators = load_tensors(state / GENERATORS)
    torch.set_rng_state(generators["cpu"])
    if "cuda" in generators and torch.cuda.is_available():
        torch.cuda.set_rng_state(generators["cuda"])
    return Position(content["step"], content["stream"], Log.read(state))


def _generators() -> dict[str, torch.Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _fault(state: Path) -> str | None:
    """What is wrong with a saved state, or None. PermissionError where it may not be read: it may be whole."""
    try:
        content = json.loads((state / STATE).read_text(encoding="utf-8"))
        stated = content.pop("sha256")
        if stated != _digest(content):
            return f"{STATE} was altered"
        for name, expected in content["files"].items():
            if sha256_file(state / name) != expected:
                return f"{name} does not have the SHA-256 it was saved with"
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, AttributeError) as error:
        return str(error) or type(error).__name__
    return None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
