"""How two results, cells or studies differ: settings, code, environment. All of it as plain values; nothing is printed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xsa.store.errors import UserError
from xsa.store.record import RECORD, read_record
from xsa.study.flat import ABSENT, Change, changes, flat
from xsa.study.locate import Shelf
from xsa.study.plan import Cell
from xsa.study.revision import functions_at
from xsa.study.sides import CellSide, ResultSide, Side, StudySide

# What of a record's `made` is the environment, and what of its notes.
_ENVIRONMENT = ("host", "platform", "python", "packages", "device", "gpu", "cuda", "threads", "git_commit")
_NOTES = ("processes", "micro_batch", "compiled", "device")

Values = dict[str, Any]


def differences(a: Side, b: Side, root: Path, shelf: Shelf) -> Values:
    """What differs, by section. A path absent on a side is left out there.

    settings:    path, old, new; for results `stage`; for studies `cells`, how many have the change, where cells match.
    results:     stage, old, new keys of cells; for studies how many cells' results differ.
    code:        stage, old and new version and fingerprint, the functions changed, added, removed where known, and the
                 reasons why the new code kept the version.
    environment: path, old, new, and the stages of which it holds.
    """
    if isinstance(a, ResultSide):
        pairs = [(a.record, b.record)]
        told = {"settings": _recipe_changes(a.record, b.record, shelf, set())}
    elif isinstance(a, CellSide):
        pairs = _records(shelf.results, [(a.cell, b.cell)])
        told = {"settings": [_plain(one) for one in changes(_settings(a.cell), _settings(b.cell))]}
        told["results"] = _result_changes([(a.cell, b.cell)])
    else:
        matched, only_a, only_b = match(a, b)
        pairs = _records(shelf.results, matched)
        settings = _counted(matched) if matched else _common_changes(a, b)
        told = {"study": _study_changes(a, b), "settings": settings, "results": _result_changes(matched)}
        told |= {"cells": {"both": len(matched), "only_old": only_a, "only_new": only_b}}
    told["code"] = _lock_changes(a, b) + _code_changes(pairs, root)
    told["environment"] = _environment(pairs)
    return {"kind": a.kind, "old": a.name, "new": b.name, **told}


def same(told: Values) -> bool:
    """Whether no section of `differences` holds anything that decides a result, or tells how it came about."""
    cells = told.get("cells", {})
    changed = [one for one in told.get("results", []) if one["differ"]]
    sections = [told.get(name) for name in ("study", "settings", "code", "environment")]
    return not any([*sections, changed, cells.get("only_old"), cells.get("only_new")])


def match(a: StudySide, b: StudySide) -> tuple[list[tuple[Cell, Cell]], list[str], list[str]]:
    """Cells of two studies at the same place of the grid, else of the same label; and labels that only one has."""
    places = {_place(cell): cell for cell in b.plan.cells}
    labels = {cell.label: cell for cell in b.plan.cells}
    pairs, taken, alone = [], set(), []
    for cell in a.plan.cells:
        other = places.get(_place(cell)) or labels.get(cell.label)
        if other is None or other.label in taken:
            alone.append(cell.label)
        else:
            taken.add(other.label)
            pairs.append((cell, other))
    return pairs, alone, [cell.label for cell in b.plan.cells if cell.label not in taken]


def _place(cell: Cell) -> str:
    return repr((cell.shape, sorted(cell.factors.items(), key=str)))


def _settings(cell: Cell) -> Values:
    return cell.settings.model_dump(mode="json")


def _plain(change: Change, **besides: Any) -> Values:
    sides = {"old": change.old, "new": change.new}
    return {"path": change.path, **{name: value for name, value in sides.items() if value is not ABSENT}, **besides}


def _study_changes(a: StudySide, b: StudySide) -> list[Values]:
    """What the two study files and their recipes say; settings are told by the cells."""
    sides = [side.plan.study.model_dump(mode="json", exclude={"settings", "shapes"}) for side in (a, b)]
    return [_plain(change) for change in changes(*sides)]


def _counted(pairs: list[tuple[Cell, Cell]]) -> list[Values]:
    """Changes of settings over all cells, each once with the number of cells that have it."""
    found: dict[tuple, list] = {}
    for old, new in pairs:
        for change in changes(_settings(old), _settings(new)):
            found.setdefault((change.path, repr(change.old), repr(change.new)), [change, 0])[1] += 1
    return [_plain(change, cells=count) for change, count in found.values()]


def _common_changes(a: StudySide, b: StudySide) -> list[Values]:
    """Changes between studies that have no cell in common: of each setting all the values that its cells have."""
    sides = []
    for side in (a, b):
        values: dict[str, list[Any]] = {}
        for cell in side.plan.cells:
            for path, value in flat(_settings(cell)).items():
                found = values.setdefault(path, [])
                found += [value] if value not in found else []
        sides.append({path: found[0] if len(found) == 1 else found for path, found in values.items()})
    return [_plain(change) for change in changes(*sides)]


def _result_changes(pairs: list[tuple[Cell, Cell]]) -> list[Values]:
    """By stage: the keys of one pair of cells, and in how many pairs the results differ."""
    stages = dict.fromkeys(stage for pair in pairs for cell in pair for stage in cell.results)
    told = []
    for stage in stages:
        keys = [tuple(cell.results[stage].key if stage in cell.results else None for cell in pair) for pair in pairs]
        keys = [pair for pair in keys if pair != (None, None)]
        differ = sum(old != new for old, new in keys)
        one = {"stage": stage, "differ": differ, "of": len(keys)}
        told.append(one | ({"old": keys[0][0], "new": keys[0][1]} if len(pairs) == 1 else {}))
    return told


def _recipe_changes(old: Values, new: Values, shelf: Shelf, seen: set[tuple[str, str]]) -> list[Values]:
    """Changes of two records' settings, then of what they read, where both are on disk; each pair is opened once."""
    a, b = old["recipe"], new["recipe"]
    stage = old["stage"]
    own = {name: value for name, value in a.items() if name not in ("settings", "inputs", "stage", "version")}
    other = {name: value for name, value in b.items() if name not in ("settings", "inputs", "stage", "version")}
    found = [_plain(one, stage=stage) for one in changes(own | a.get("settings", {}), other | b.get("settings", {}))]
    for name in dict.fromkeys([*a.get("inputs", {}), *b.get("inputs", {})]):
        before, after = (_listed(side.get("inputs", {}).get(name)) for side in (a, b))
        if len(before) != len(after):
            found.append({"path": f"number of {name}", "old": len(before), "new": len(after), "stage": stage})
        for pair in zip(before, after, strict=False):
            if pair[0] == pair[1] or pair in seen:
                continue
            seen.add(pair)
            records = [_read(shelf.of_digest(digest)) for digest in pair]
            if None in records:
                found.append({"path": name, "old": f"@{pair[0]}", "new": f"@{pair[1]}", "stage": stage})
            else:
                found += [one for one in _recipe_changes(*records, shelf, seen) if one not in found]
    if a.get("version") != b.get("version"):
        found.append({"path": "version", "old": a.get("version"), "new": b.get("version"), "stage": stage})
    return found


def _listed(given: str | list[str] | None) -> list[str]:
    return given if isinstance(given, list) else [given] if given else []


def _read(folder: Path | None) -> Values | None:
    try:
        return None if folder is None else read_record(folder)
    except UserError:
        return None


def _records(results: Path, pairs: list[tuple[Cell, Cell]]) -> list[tuple[Values, Values]]:
    """The records of each stage of the cells, where both sides have theirs; a pair that is one result is left out."""
    found: dict[tuple[str, str, str], tuple[Values, Values]] = {}
    for old, new in pairs:
        for stage in old.results.keys() & new.results.keys():
            folders = [cell.results[stage].folder(results) for cell in (old, new)]
            place = (stage, *(folder.name for folder in folders))
            if folders[0] != folders[1] and place not in found and all((one / RECORD).exists() for one in folders):
                records = [_read(folder) for folder in folders]
                if None not in records:
                    found[place] = tuple(records)
    return [found[place] for place in sorted(found)]


def _lock_changes(a: Side, b: Side) -> list[Values]:
    """Stages whose entries differ between the locks of two revisions."""
    if isinstance(a, ResultSide) or a.lock is b.lock:
        return []
    told = []
    for stage in dict.fromkeys([*a.lock.stages, *b.lock.stages]):
        old, new = (side.lock.stages.get(stage, {}) for side in (a, b))
        if any(old.get(name) != new.get(name) for name in ("version", "fingerprint")):
            functions = _functions(old.get("functions"), new.get("functions"))
            kept = [one["why"] for one in new.get("kept", []) if one not in old.get("kept", [])]
            told.append(
                {"stage": stage, "from": "stages.lock", **_versions(old, new), "functions": functions, "kept": kept}
            )
    return told


def _code_changes(pairs: Iterable[tuple[Values, Values]], root: Path) -> list[Values]:
    """Code that made the recorded results, where it differs; the same change of a stage once."""
    told: list[Values] = []
    for records in pairs:
        old, new = (
            {"version": one["recipe"].get("version"), "fingerprint": one.get("made", {}).get("code")} for one in records
        )
        if old == new:
            continue
        stage = records[0]["stage"]
        sides = [
            functions_at(one.get("made", {}).get("git_commit"), stage, side["fingerprint"], root)
            for one, side in zip(records, (old, new), strict=True)
        ]
        change = {"stage": stage, "from": "records", **_versions(old, new), "functions": _functions(*sides)}
        if change not in told:
            told.append(change)
    return told


def _versions(old: Values, new: Values) -> Values:
    return {
        f"{side}_{name}": entry.get(name)
        for side, entry in (("old", old), ("new", new))
        for name in ("version", "fingerprint")
    }


def _functions(old: dict[str, str] | None, new: dict[str, str] | None) -> Values | None:
    """Names of functions changed, added and removed; None where a side's are not known."""
    if old is None or new is None:
        return None
    return {
        "changed": [name for name in new if name in old and new[name] != old[name]],
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
    }


def _environment(pairs: list[tuple[Values, Values]]) -> list[Values]:
    """Where and with what the results were made, where it differs, each change with the stages that have it."""
    found: dict[tuple, Values] = {}
    for records in pairs:
        for change in changes(*(_environment_of(one.get("made", {})) for one in records)):
            one = found.setdefault((change.path, repr(change.old), repr(change.new)), _plain(change, stages=[]))
            if records[0]["stage"] not in one["stages"]:
                one["stages"].append(records[0]["stage"])
    return list(found.values())


def _environment_of(made: Values) -> Values:
    values = {name: made[name] for name in _ENVIRONMENT if made.get(name) is not None}
    notes = made.get("notes") or {}
    return values | {name: notes[name] for name in _NOTES if name in notes and name not in values}
