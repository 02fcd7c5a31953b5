"""What page, summary and paper say of checkpoints that were trained elsewhere and took a cell's place."""

from __future__ import annotations

from typing import Any

from xsa.report.numbers import listed


def adopted_sentence(summary: dict[str, Any]) -> str:
    """The cells of such checkpoints, and what rests on them; empty where there are none."""
    cells = list(dict.fromkeys(entry["cell"] for entry in summary.get("adopted", [])))
    if not cells:
        return ""
    was = "was" if len(cells) == 1 else "were"
    return (
        f"{listed(cells)} {was} not trained in this study: all numbers of {'it' if len(cells) == 1 else 'them'}, and every mean, "
        "change and verdict that they enter, rest on checkpoints from elsewhere."
    )
