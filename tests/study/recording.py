"""Results as `produce` leaves them, without making anything: small files, and a record beside them."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from xsa.study.plan import Plan
from xsa.study.result import Result

FILES = {
    "pretrain": ("model.safetensors", "optimizer.safetensors", "config.json"),
    "finetune": ("model.safetensors", "optimizer.safetensors", "config.json"),
    "report": ("report.html",),
}


def record(
    result: Result,
    results: Path,
    *,
    started: str = "2026-01-01T00:00:00+00:00",
    wall_seconds: float = 10.0,
    torch: str = "2.13.0+cpu",
    gpu: str | None = None,
    notes: dict[str, Any] | None = None,
) -> Path:
    """Write one result of a plan below `results`, whole; return its folder."""
    folder = result.folder(results)
    folder.mkdir(parents=True)
    files = {}
    for name in FILES.get(result.stage, ("data.bin",)):
        content = f"{name} of {result.key}".encode()
        (folder / name).write_bytes(content)
        files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    made = {
        "started": started,
        "wall_seconds": wall_seconds,
        "packages": {"torch": torch},
        "device": "cuda" if gpu else "cpu",
        "threads": 1,
        "notes": notes or {},
    }
    content = {
        "stage": result.stage,
        "label": result.label,
        "digest": result.digest,
        "recipe": result.recipe,
        "files": files,
        "made": made | ({"gpu": gpu} if gpu else {}),
    }
    for name in (".record.json", "record.json"):
        (folder / name).write_text(json.dumps(content))
    return folder


def record_all(plan: Plan, results: Path, **how: Any) -> None:
    """Write all results of a plan and publish its page."""
    for result in plan.results.values():
        if not result.folder(results).exists():
            record(result, results, **how)
    published = results / plan.study.name
    published.mkdir(exist_ok=True)
    shutil.copy(plan.report.folder(results) / "report.html", published / "report.html")
    (published / "published.json").write_text(json.dumps({"report": plan.report.key, "files": ["report.html"]}))
