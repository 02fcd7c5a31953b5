"""Small results as the store writes them, for tests of what moves and removes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xsa.store.files import sha256_file, write_json
from xsa.study.result import digest_of


def write_result(results: Path, stage: str, label: str, files: dict[str, bytes], **made: Any) -> Path:
    """A finished result of a recipe that its label makes unlike others; return its folder."""
    recipe = {"stage": stage, "version": 1, "settings": {"of": label}, "inputs": {}}
    digest = digest_of(recipe)
    folder = results / stage / f"{label}@{digest}"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    known = {
        name: {"bytes": len(content), "sha256": sha256_file(folder / name)} for name, content in sorted(files.items())
    }
    how = {"started": "2026-01-02T03:04:05+00:00", "wall_seconds": 60.0, "device": "cpu", "notes": {}} | made
    record = {"stage": stage, "label": label, "digest": digest, "recipe": recipe, "files": known, "made": how}
    for name in ("record.json", ".record.json"):
        write_json(folder / name, record)
    return folder
