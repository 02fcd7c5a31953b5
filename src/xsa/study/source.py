"""Reading YAML that people write: every value keeps its line, so that an error can say where it is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from xsa.store.errors import UserError


class YamlFile:
    """A YAML file as plain values, with the line of every key path.

    Raises UserError for a file that is missing, is no YAML, is not a mapping, or repeats a key.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{path} does not exist") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} cannot be read: {error}") from None
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise UserError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
        self._lines: dict[tuple, int] = {}
        self.values = self._plain(node, ()) if node is not None else {}
        if not isinstance(self.values, dict):
            raise UserError(f"{path} must be a mapping of keys to values, not a {type(self.values).__name__}")

    def _plain(self, node: yaml.Node, at: tuple) -> Any:
        if isinstance(node, yaml.MappingNode):
            values: dict = {}
            for key_node, value_node in node.value:
                key = self._scalar(key_node)
                line = key_node.start_mark.line + 1
                if key in values:
                    raise UserError(f"{self.path}:{line}: the key {key!r} is there twice; keep one of them")
                self._lines[(*at, key)] = line
                values[key] = self._plain(value_node, (*at, key))
            return values
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[(*at, index)] = item.start_mark.line + 1
            return [self._plain(item, (*at, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    @staticmethod
    def _scalar(node: yaml.Node) -> Any:
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        finally:
            loader.dispose()

    def where(self, *key: Any) -> str:
        """`file:line` of a key path, or of its nearest parent that is in the file."""
        for length in range(len(key), 0, -1):
            line = self._lines.get(tuple(key[:length]))
            if line is not None:
                return f"{self.path}:{line}"
        return str(self.path)

    def has(self, *key: Any) -> bool:
        return tuple(key) in self._lines


def sentences(error: ValidationError, model: type[BaseModel], where) -> str:
    """A pydantic error as sentences: place, key, value, and what is allowed. `where(loc)` gives the place of a key path."""
    lines = []
    for problem in error.errors():
        loc = tuple(part for part in problem["loc"] if part not in _TAGS)
        lines.append(f"{where(loc)}: {_sentence(problem, loc, model)}")
    return "\n".join(dict.fromkeys(lines))


# Names that pydantic puts into a path for the branch of a union it tried.
_TAGS = {
    "builtin",
    "local",
    "hub",
    "published",
    "bool",
    "literal['all']",
    "literal['auto']",
    "constrained-str",
    "tuple[int, ...]",
    "tuple[str, ...]",
}


def _sentence(problem: dict, loc: tuple, model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in loc)
    kind, value, context = problem["type"], problem.get("input"), problem.get("ctx", {})
    if kind == "extra_forbidden":
        known = fields_at(model, loc[:-1])
        return f"unknown key {key!r}; {nearest(str(loc[-1]), known)}"
    if kind == "missing":
        return f"{key!r} is missing; it has no default"
    if kind == "value_error":
        text = str(context.get("error", problem["msg"]))
        return f"{key}: {text}" if key else text
    if kind == "union_tag_not_found":
        return f"{key!r} needs a `kind`"
    if kind == "union_tag_invalid":
        return f"{key}.kind is {context.get('tag')!r}; allowed are {context.get('expected_tags')}"
    message = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{key} is {value!r}; {message}"


def nearest(name: str, known: list[str]) -> str:
    """A half-sentence naming the known names closest to `name`."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known are {', '.join(sorted(known))}" if known else "nothing is known there"


def fields_at(model: type[BaseModel], loc: tuple) -> list[str]:
    """The names of the settings that a model, or the models in a union, have at a key path."""
    models = [model]
    for part in loc:
        if isinstance(part, str):
            fields = [outer.model_fields[part] for outer in models if part in outer.model_fields]
            models = [inner for field in fields for inner in _models(field.annotation)]
    return sorted({name for found in models for name in found.model_fields})


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The model classes inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) is None and not get_args(annotation):
        return []
    return [model for inner in get_args(annotation) for model in _models(inner)]
