"""Why a result is to be made: how it differs from the recorded results of its stage, in a study's own words.

Two results differ in fields of their own recipes or of those they are made from. So each result is taken as the set of all
(stage, field, value) behind it, and the closest recorded one is that with the fewest fields of its own. Sets are kept as the
bits of an integer: a study of a thousand cells is compared with as many recorded ones in a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xsa.store.files import canonical_json
from xsa.store.recorded import Recorded
from xsa.study.result import Result

# Beyond this many differing fields, those that follow from others apart, two results are no relatives: the one is new.
FAR = 4
SHOWN = 3
# Distance of a result that the study no longer wants and that differs in the value of one field: none is nearer.
ONE_FIELD = 4
CELL_STAGES = ("pretrain", "finetune", "bpb", "core", "chatcore", "attention", "overhead", "equivalence")
# Settings of a stage that a study file calls otherwise.
_WORDS = {
    "model.alpha": "xsa.alpha",
    "model.xsa_layers": "xsa.layers",
    "model.xsa_value": "xsa.value",
    "model.vocab_size": "tokenizer.vocab_size",
    "steps": "horizon.steps",
    "batch_rows": "rows a step",
    "dtype": "precision.dtype",
    "compile": "precision.compile",
    "validation_every": "validation.every",
    "validation_rows": "validation.rows",
    "tokens_per_shard": "data.tokens_per_shard",
    "sequence_len": "model.sequence_len",
}
_OWN_GROUPS = ("model.", "optim.", "schedule.", "seed")
# What laws make of other settings, and what is written as several: told last.
_FOLLOWS = ("optim.", "batch_rows", "steps", "model.xsa_layers", "shard", "number")


class Relatives:
    """Recorded results, made comparable with those of a plan.

    `recipes` holds every recipe known by digest; `wanted` the digests of the plan's results, which stay what they are.
    """

    def __init__(self, recipes: Mapping[str, dict[str, Any]], recorded: Iterable[Recorded], wanted: set[str]):
        self._recipes, self._wanted = recipes, wanted
        self._bits: dict[tuple[str, str, str], int] = {}
        self._fields: list[tuple[str, str, str]] = []
        self._masks: dict[str, int] = {}
        self._lists: dict[tuple[str, ...], int] = {}
        self._by_stage: dict[str, list[Recorded]] = {}
        self._comparable: dict[str, list[tuple[Recorded, int, bool]]] = {}
        for one in sorted(recorded, key=lambda one: str(one.made.get("started", "")), reverse=True):
            self._by_stage.setdefault(one.stage, []).append(one)

    def reason(self, result: Result) -> str:
        """In a few words, why a result that is not there has to be made."""
        if result.stage not in CELL_STAGES:
            return self._shared_reason(result)
        mine = self._mask(result.digest)
        nearest, least = None, None
        for other, mask, stays in self._of_stage(result.stage):
            # Of equally near ones that which the study no longer wants is what this result stands in for.
            distance = 2 * (mine ^ mask).bit_count() + stays
            if (least is None or distance < least) and other.digest != result.digest:
                nearest, least = other, distance
                if distance <= ONE_FIELD:
                    break
        if nearest is None or nearest.digest in self._wanted:
            return "new cell"
        now, then = mine & ~self._mask(nearest.digest), self._mask(nearest.digest) & ~mine
        now, then = self._decoded(now), self._decoded(then)
        chosen = {(stage, field) for stage, field, _ in now | then if not _follows(stage, field)}
        return told(_differences(now, then)) if len({word(*one) for one in chosen}) <= FAR else "new cell"

    def _shared_reason(self, result: Result) -> str:
        """The reason of data and pages: they are told against the last result of the same name."""
        last = next((one for one in self._by_stage.get(result.stage, []) if _label(one.key) == result.label), None)
        if last is None or last.digest == result.digest:
            return "not there yet"
        own, other = (self._own(recipe) for recipe in (result.recipe, last.recipe))
        changes = _differences(own - other, other - own)
        if changes:
            return told(changes)
        read = {"analyse": "results that it reads are new", "report": "the analysis is new"}
        return read.get(result.stage, "what it is made from is new")

    def _of_stage(self, stage: str) -> list[tuple[Recorded, int, bool]]:
        """The recorded results of a stage, last made first, with their fields and whether the plan has them."""
        if stage not in self._comparable:
            self._comparable[stage] = [
                (one, self._mask(one.digest), one.digest in self._wanted) for one in self._by_stage.get(stage, [])
            ]
        return self._comparable[stage]

    # --- sets of fields as bits ---

    def _mask(self, digest: str) -> int:
        """The fields of a result and of all that it is made from."""
        if digest not in self._masks:
            recipe = self._recipes.get(digest)
            if recipe is None:
                return self._of(("?", "result", digest))
            mask = 0
            for field in self._own(recipe):
                mask |= self._of(field)
            for name, given in recipe.get("inputs", {}).items():
                mask |= self._mask(given) if isinstance(given, str) else self._listed(recipe["stage"], name, given)
            self._masks[digest] = mask
        return self._masks[digest]

    def _listed(self, stage: str, name: str, digests: list[str]) -> int:
        key = (stage, name, *digests)
        if key not in self._lists:
            mask = self._of((stage, f"number of {name}", str(len(digests))))
            for digest in digests:
                mask |= self._mask(digest)
            self._lists[key] = mask
        return self._lists[key]

    def _of(self, field: tuple[str, str, str]) -> int:
        if field not in self._bits:
            self._bits[field] = 1 << len(self._fields)
            self._fields.append(field)
        return self._bits[field]

    def _own(self, recipe: dict[str, Any]) -> set[tuple[str, str, str]]:
        """(stage, field, value as JSON) of a recipe itself."""
        stage = recipe.get("stage", "?")
        fields = {(stage, "version", canonical_json(recipe.get("version")))}
        if "torch" in recipe:
            fields.add((stage, "torch", recipe["torch"]))
        for name, value in _flat(recipe.get("settings", {})):
            # The cells of an analysis are its inputs, told by themselves.
            if (stage, name) != ("analyse", "cells"):
                fields.add((stage, name, _json(value)))
        return fields

    def _decoded(self, mask: int) -> set[tuple[str, str, str]]:
        found = set()
        while mask:
            low = mask & -mask
            found.add(self._fields[low.bit_length() - 1])
            mask ^= low
        return found


def told(changes: list[str]) -> str:
    """The first few changes, and how many more there are."""
    more = len(changes) - SHOWN
    return ", ".join(changes[:SHOWN]) + (f", and {more} more" if more > 0 else "")


def _differences(mine: set[tuple[str, str, str]], other: set[tuple[str, str, str]]) -> list[str]:
    """`field: old → new` of each field that differs, the telling ones first, each once however many stages have it."""
    now, then = _values(mine), _values(other)
    fields = sorted(now.keys() | then.keys(), key=_order)
    counted = any(field.startswith("number of ") for _, field in fields)
    changes = []
    for stage, field in fields:
        # Which shards there are is told by their number.
        if stage == "shard" and counted:
            continue
        changes.append(_change(stage, field, then.get((stage, field)), now.get((stage, field))))
    return list(dict.fromkeys(changes))


def _change(stage: str, field: str, then: str | None, now: str | None) -> str:
    if field == "version":
        if stage in ("analyse", "report"):
            return f"the code of {stage} has changed"
        return f"{stage} v{then} → v{now}"
    if field == "templates_sha256":
        return "the page's templates have changed"
    if field == "torch":
        return f"torch {then or '(any)'} → {now or '(any)'}"
    return f"{word(stage, field)}: {_short(then)} → {_short(now)}"


def word(stage: str, field: str) -> str:
    """What a study file calls a field of a stage's settings."""
    if field.startswith("number of "):
        return "shards" if field == "number of rows" else field
    if stage == "pretrain" and field in _WORDS:
        return _WORDS[field]
    if field in ("model.alpha", "dtype", "compile", "sequence_len"):
        return _WORDS[field]
    if field.startswith(_OWN_GROUPS) or stage in ("analyse", "report"):
        return field
    return f"{'data' if stage == 'shard' else stage}.{field}"


def _order(field: tuple[str, str]) -> tuple:
    stage, name = field
    return (name != "version", _follows(stage, name), stage != "pretrain", stage, name)


def _follows(stage: str, name: str) -> bool:
    return stage == "shard" or name.startswith(_FOLLOWS)


def _values(fields: set[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    values: dict[tuple[str, str], str] = {}
    for stage, field, value in sorted(fields):
        values[stage, field] = f"{values[stage, field]}, {value}" if (stage, field) in values else value
    return values


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs = []
    for name, value in values.items():
        pairs += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return pairs


def _json(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _short(value: str | None) -> str:
    if value is None:
        return "(default)"
    return value if len(value) <= 40 else value[:38] + "…"


def _label(key: str) -> str:
    return key.rpartition("@")[0]
