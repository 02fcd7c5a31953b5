"""`config/stages.lock`: the version of each stage and the fingerprint of its code, kept together and compared before every run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from xsa.store.errors import UserError
from xsa.store.files import write_text
from xsa.study.fingerprint import fingerprint, functions_reached
from xsa.study.source import YamlFile, nearest
from xsa.study.stages import STAGES

LOCK = Path("config/stages.lock")
# Stages that cost seconds: their fingerprint is their version, so a change of their code simply runs them again.
CHEAP = ("analyse", "report")
HEADER = """\
# Versions of the stages, and fingerprints of the code behind them. Written by `xsa lock`; see docs/identity.md.
# A stage whose code no longer matches its fingerprint stops every study that uses it until someone decides:
# `xsa lock --retrain STAGE` (results are made again) or `xsa lock --keep STAGE --why "…"` (they stay valid).
"""


@dataclass(frozen=True)
class Stale:
    """A stage whose code is no longer what the lock says."""

    stage: str
    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{word} {', '.join(names)}"
            for word, names in (("changed", self.changed), ("new", self.added), ("gone", self.removed))
            if names
        ]
        return f"{self.stage}: {'; '.join(parts)}"


def lock_values(text: str) -> Any:
    """What a lock's text holds, by the fast loader, for it is long and every job reads it. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _read(path: Path) -> Any:
    """The lock's values; by our own loader where something is wrong with it, which says where."""
    try:
        return lock_values(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return YamlFile(path).values


class StagesLock:
    """The lock file of a project. Raises UserError when it is missing or no lock."""

    def __init__(self, root: Path):
        self.path = root / LOCK
        values = _read(self.path)
        try:
            self.plumbing: tuple[str, ...] = tuple(values["plumbing"])
            self.stages: dict[str, dict[str, Any]] = values["stages"] or {}
        except (KeyError, TypeError):
            raise UserError(f"{self.path} has no `plumbing` or no `stages`; bring the committed file back") from None

    def version(self, stage: str) -> int | str:
        """A small integer; for the cheap stages the fingerprint of their code."""
        if stage in CHEAP:
            return self.fingerprint(stage)
        entry = self.stages.get(stage)
        if entry is None:
            raise UserError(f"{self.path} has no stage {stage!r}; enter it with `xsa lock --retrain {stage}`")
        return entry["version"]

    def fingerprint(self, stage: str) -> str:
        """Fingerprint of the present code of a stage."""
        return fingerprint(self.functions(stage))

    def functions(self, stage: str) -> dict[str, str]:
        return functions_reached(stage, self.plumbing)

    def stale(self, among: set[str] | None = None) -> list[Stale]:
        """Stages, of all or of some, whose code has changed since their version was given."""
        found = []
        for stage, entry in self.stages.items():
            if among is not None and stage not in among:
                continue
            now, then = self.functions(stage), entry["functions"]
            if fingerprint(now) != entry["fingerprint"]:
                found.append(
                    Stale(
                        stage,
                        changed=tuple(name for name in now if name in then and now[name] != then[name]),
                        added=tuple(name for name in now if name not in then),
                        removed=tuple(name for name in then if name not in now),
                    )
                )
        return found

    def check(self, stages: set[str]) -> None:
        """Raise UserError, naming the functions, when the code of one of `stages` is not what the lock says."""
        stale = self.stale(stages)
        if stale:
            lines = "\n".join(f"  {one}" for one in stale)
            first = stale[0].stage
            raise UserError(
                f"the code of {len(stale)} stage(s) has changed since {self.path} was written:\n{lines}\n"
                "Nothing is reused or made again until you undo the change or decide, for each of them (options may be repeated):\n"
                f"  xsa lock --retrain {first}           its results, and all that follows from them, are made again\n"
                f'  xsa lock --keep {first} --why "…"    the change cannot alter a result; existing results stay valid'
            )

    def retrain(self, stage: str) -> int:
        """Give `stage` a new version with its present code; return it."""
        self._known(stage)
        entry = self.stages.setdefault(stage, {"version": 0})
        entry["version"] += 1
        entry.pop("kept", None)
        self._enter(stage)
        return entry["version"]

    def keep(self, stage: str, why: str) -> None:
        """Accept the present code of `stage` under its present version, with the reason."""
        self._known(stage)
        entry = self.stages.get(stage)
        if entry is None:
            raise UserError(f"{self.path} has no stage {stage!r} yet; enter it with `xsa lock --retrain {stage}`")
        kept = {
            "fingerprint": fingerprint(self.functions(stage)),
            "on": datetime.now(UTC).date().isoformat(),
            "why": why,
        }
        entry["kept"] = [*entry.get("kept", []), kept]
        self._enter(stage)

    def _known(self, stage: str) -> None:
        lockable = [name for name in STAGES if name not in CHEAP]
        if stage not in lockable:
            raise UserError(f"there is no stage {stage!r} to lock; {nearest(stage, lockable)}")

    def _enter(self, stage: str) -> None:
        functions = self.functions(stage)
        self.stages[stage] |= {"fingerprint": fingerprint(functions), "functions": functions}

    def write(self) -> None:
        order = [name for name in STAGES if name in self.stages]
        keys = ("version", "fingerprint", "kept", "functions")
        stages = {name: {key: self.stages[name][key] for key in keys if key in self.stages[name]} for name in order}
        body = yaml.safe_dump(
            {"plumbing": list(self.plumbing), "stages": stages}, sort_keys=False, width=120, allow_unicode=True
        )
        write_text(self.path, HEADER + body)
