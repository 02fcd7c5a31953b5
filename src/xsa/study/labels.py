"""Names of results, for people: made of what is resolved, so that one result has one name in every study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xsa.study.architecture import ModelConfig
from xsa.study.settings import CellSettings


def shape_label(model: ModelConfig) -> str:
    """Layers, width, heads, and key/value heads where they are fewer."""
    groups = f"kv{model.n_kv_head}" if model.n_kv_head != model.n_head else ""
    return f"d{model.n_layer}w{model.n_embd}h{model.n_head}{groups}"


def arm_label(model: ModelConfig) -> str:
    """A shape with its projection, whatever trains it."""
    return f"{shape_label(model)}-a{model.alpha:g}{_special(model)}"


def _special(model: ModelConfig) -> str:
    """What is special about the projection: the layers, where not all, and the value, where not the attended one."""
    layers, count, special = model.xsa_layers, len(model.xsa_layers), ""
    if count < model.n_layer:
        last = layers == tuple(range(model.n_layer - count, model.n_layer))
        special += f"-last{count}" if last else "-layers" + ".".join(map(str, layers))
    return special + ("-plain" if model.xsa_value == "plain" else "")


def cell_label(settings: CellSettings, model: ModelConfig) -> str:
    """What a person reads of a cell: shape, optimizer, alpha, what is special about the projection, seed."""
    return f"{shape_label(model)}-{settings.optim.matrix}-a{model.alpha:g}{_special(model)}-s{settings.seed}"


def slug(text: str) -> str:
    """Plain letters, digits, dot, dash and underscore only, for names that go into paths and wildcards."""
    return "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "._-" else "-" for letter in text)


def told_apart(cells: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Labels of a study's cells, given by label, shape and factors: where two are the same, shape and factors' values are added."""
    labels = [label for label, _, _ in cells]
    named = []
    for label, shape, factors in cells:
        if labels.count(label) > 1:
            numbers = [each_once(other[path] for _, _, other in cells).index(value) for path, value in factors.items()]
            label += f"-{slug(shape)}" + "".join(f".{number}" for number in numbers)
        named.append(label)
    return named


def each_once(values: Iterable[Any]) -> list[Any]:
    """Values in order, each the first time it comes; they need not be hashable."""
    once: list[Any] = []
    for value in values:
        if value not in once:
            once.append(value)
    return once
