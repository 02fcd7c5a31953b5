"""What is said about a figure: its name, what it shows, the numbers in words, and the text alternative."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Drawn:
    """One figure that was drawn; `name` is its files' name without ending."""

    name: str
    title: str
    caption: str
    alt: str
