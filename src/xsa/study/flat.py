"""Nested settings as dotted paths, and what differs between two of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from xsa.store.files import canonical_json

ABSENT = object()


class Change(NamedTuple):
    """A path whose value differs; ABSENT stands for one that a side does not have."""

    path: str
    old: Any
    new: Any


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Leaves by dotted path. A list is a leaf, and so is an empty mapping."""
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        leaves |= flat(value, f"{path}.") if isinstance(value, dict) and value else {path: value}
    return leaves


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """The paths whose values differ, in the order of `old` and then of `new`. 1 and 1.0 are one value, a tuple is a list."""
    before, after = flat(old), flat(new)
    return [
        Change(path, before.get(path, ABSENT), after.get(path, ABSENT))
        for path in dict.fromkeys([*before, *after])
        if _key(before.get(path, ABSENT)) != _key(after.get(path, ABSENT))
    ]


def word(value: Any) -> str:
    """A value as a line can hold it."""
    if value is ABSENT:
        return "absent"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, list | tuple) and all(isinstance(item, int | float | str) for item in value):
        return "[" + ", ".join(map(word, value)) + "]"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else canonical_json(value)


def _key(value: Any) -> str:
    return "absent" if value is ABSENT else canonical_json(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
