"""A profile of Snakemake, read without running it: what `xsa doctor` looks for on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xsa.store.errors import UserError
from xsa.study.resources import Site


@dataclass(frozen=True)
class Profile:
    """A profile's settings. `executor` is None for the machine itself."""

    path: Path
    values: dict[str, Any]
    site: Site

    @property
    def executor(self) -> str | None:
        return self.values.get("executor")

    @property
    def asks_queue(self) -> bool:
        """Whether the state of jobs is asked of `squeue`, not of the accounting."""
        return str(self.values.get("slurm-status-command", "")) == "squeue"

    def named(self, resource: str) -> set[str]:
        """All values of a resource in the profile, of whatever rule."""
        groups = [self.values.get("default-resources") or {}, *(self.values.get("set-resources") or {}).values()]
        found = {
            str(group[resource]).strip("'\"") for group in groups if isinstance(group, dict) and group.get(resource)
        }
        extra = {"slurm_partition": self.site.gpu_partition}.get(resource)
        return found | ({extra} if extra else set())

    def gpu_types(self) -> set[str]:
        """Types of GPU that are asked for; an empty name stands for any."""
        given = {text for text in self.named("gres") if text.startswith("gpu")}
        types = {text.split(":")[1] if text.count(":") == 2 else "" for text in given}
        return types | {self.site.gpu_type or ""}


def read_profile(name: str, root: Path) -> Profile:
    """The profile that `snakemake --profile NAME` finds in the project. UserError where there is none, or it is no YAML."""
    places = [root / name / "config.yaml", root / "profiles" / name / "config.yaml"]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        known = sorted(place.parent.name for place in (root / "profiles").glob("*/config.yaml"))
        raise UserError(f"there is no profile {name!r} ({places[0]}); there are {', '.join(known) or 'none'}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise UserError(f"{path} is no YAML: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a mapping of options; write `option: value`, one a line")
    return Profile(path, values, Site.of(values.get("default-resources") or {}))
