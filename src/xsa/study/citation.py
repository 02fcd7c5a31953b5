"""How the project is to be cited: CITATION.cff, as plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xsa.study.source import YamlFile

CITATION = "CITATION.cff"


def read_citation(root: Path) -> dict[str, Any] | None:
    """The content of the project's CITATION.cff, or None where there is none. UserError where it is no YAML mapping."""
    if not (root / CITATION).exists():
        return None
    # dates become text: a recipe holds what JSON can
    return json.loads(json.dumps(YamlFile(root / CITATION).values, default=str))
