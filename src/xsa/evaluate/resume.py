"""Finished tasks of an evaluation, kept so that a run that was killed does not do them again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xsa.store.files import write_json


def kept_or_made(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The JSON object in `path`; if there is none, or no whole one, what `make` gives, which is then kept there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        made = make()
        write_json(path, made)
        return made
