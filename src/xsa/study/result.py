"""One result of a plan: its recipe, its digest, its place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from xsa.store.files import canonical_json


@dataclass(frozen=True)
class Result:
    """One result: what decides it (recipe), what it is called, what it reads, and where outside data lie (`source`)."""

    stage: str
    label: str
    settings: BaseModel
    recipe: dict[str, Any]
    digest: str
    inputs: dict[str, Any]  # name -> Result or list of Results
    source: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.label}@{self.digest}"

    def folder(self, results: Path) -> Path:
        return results / self.stage / self.key

    def upstream(self) -> list[Result]:
        """Results read, each once, in order."""
        flat = [one for given in self.inputs.values() for one in (given if isinstance(given, list) else [given])]
        return list({(one.stage, one.key): one for one in flat}.values())


def digest_of(recipe: dict[str, Any]) -> str:
    """The first 10 hex digits of the SHA-256 of a recipe's canonical JSON. Refuses NaN, sets and objects (ValueError, TypeError)."""
    return hashlib.sha256(canonical_json(recipe).encode()).hexdigest()[:10]


def without_added_defaults(settings: BaseModel) -> dict[str, Any]:
    """A settings object as JSON values, without the fields that came later and are at their default (`settings.added`)."""
    values = settings.model_dump(mode="json")
    for name, info in type(settings).model_fields.items():
        value = getattr(settings, name)
        if (info.json_schema_extra or {}).get("added") and value == info.default:
            del values[name]
        elif isinstance(value, BaseModel):
            values[name] = without_added_defaults(value)
        elif isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
            values[name] = [without_added_defaults(item) for item in value]
    return values
