"""Reading YAML that people write: every value keeps its line, so that an error can say where it is."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from xsa.store.errors import UserError
from xsa.study.settings import CellSettings


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
            raise UserError(_not_yaml(path, error)) from None
        self._lines: dict[tuple, int] = {}
        self.values = self._plain(node, ()) if node is not None else {}
        if not isinstance(self.values, dict):
            raise UserError(f"{path} must be a mapping of keys to values, not a {type(self.values).__name__}")

    def _plain(self, node: yaml.Node, at: tuple, above: tuple = ()) -> Any:
        if any(node is parent for parent in above):
            raise self._refused(node, "an alias (*) stands inside what it stands for; write the values out")
        inside = (*above, node)
        if isinstance(node, yaml.MappingNode):
            values: dict = {}
            for key_node, value_node in node.value:
                key = self._key(key_node)
                if key in values:
                    raise self._refused(key_node, f"the key {key!r} is there twice; keep one of them")
                self._lines[(*at, key)] = key_node.start_mark.line + 1
                values[key] = self._plain(value_node, (*at, key), inside)
            return values
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[(*at, index)] = item.start_mark.line + 1
            return [self._plain(item, (*at, index), inside) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _key(self, node: yaml.Node) -> str:
        if node.tag == "tag:yaml.org,2002:merge":
            raise self._refused(node, "merge keys (<<) are not read; write the keys out, or put them into a recipe")
        if not isinstance(node, yaml.ScalarNode):
            raise self._refused(node, "a key must be a single word or number")
        return self._scalar(node)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError):
            raise self._refused(
                node, f"{node.value!r} cannot be read as {node.tag.rpartition(':')[2]}; quote it if it is text"
            ) from None
        finally:
            loader.dispose()

    def _refused(self, node: yaml.Node, why: str) -> UserError:
        return UserError(f"{self.path}:{node.start_mark.line + 1}: {why}")

    def where(self, *key: Any) -> str:
        """`file:line` of a key path, or of its nearest parent that is in the file."""
        for length in range(len(key), 0, -1):
            line = self._lines.get(tuple(key[:length]))
            if line is not None:
                return f"{self.path}:{line}"
        return str(self.path)

    def has(self, *key: Any) -> bool:
        return tuple(key) in self._lines


def sentences(error: ValidationError, model: type[BaseModel], where: Callable[[tuple], str]) -> str:
    """A pydantic error as sentences: place, key, value, and what is allowed. `where(key path)` gives the place.

    A value that fits no branch of a union gives one error a branch; they are told as one.
    """
    by_key: dict[tuple, list[dict]] = {}
    for problem in error.errors():
        by_key.setdefault(_Path(model, problem["loc"]).keys, []).append(problem)
    lines = []
    for keys, problems in by_key.items():
        told = dict.fromkeys(_sentence(problem, model) for problem in problems)
        if len(told) > 1:
            wants = dict.fromkeys(_lower(problem["msg"]) for problem in problems)
            told = {f"{_dotted(keys)} is {problems[0].get('input')!r}; {', or '.join(wants)}": None}
        lines += [f"{where(keys)}: {sentence}" for sentence in told]
    return "\n".join(lines)


class _Path:
    """Where an error is: the keys as a file has them, and the models that may stand there.

    pydantic's path also names the branch of a union that it tried; those parts are no keys.
    """

    def __init__(self, model: type[BaseModel], loc: tuple):
        self.models: list[type[BaseModel]] = [model]
        keys: list[Any] = []
        for index, part in enumerate(loc):
            fields = [found.model_fields[part] for found in self.models if part in found.model_fields]
            last = index == len(loc) - 1
            if fields:
                self.parents = self.models
                self.models = [inner for field in fields for inner in _models(field.annotation)]
            elif isinstance(part, str) and not last and self.models:
                self.models = [found for found in self.models if part in _kinds(found)] or self.models
                continue
            elif isinstance(part, str) and last and keys and not self.models and _is_branch(part):
                continue
            keys.append(part)
        self.keys = tuple(keys)


def _is_branch(part: str) -> bool:
    """True for pydantic's names of the branches of a union of plain types."""
    return part in ("bool", "int", "float", "str", "constrained-str", "[key]") or part.startswith(
        ("literal[", "tuple[", "list[")
    )


def _kinds(model: type[BaseModel]) -> tuple:
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def _instead(path: _Path) -> str:
    """Where an unknown key belongs, or what there is in its place."""
    name, known = str(path.keys[-1]), {name: info for model in path.models for name, info in model.model_fields.items()}
    if len(path.keys) == 1 and "settings" in known and name in CellSettings.model_fields:
        return "it is a setting of cells: write it under 'settings'"
    return nearest(name, sorted(known))


def _sentence(problem: dict, model: type[BaseModel]) -> str:
    path = _Path(model, problem["loc"])
    key, kind, value, context = _dotted(path.keys), problem["type"], problem.get("input"), problem.get("ctx", {})
    if kind == "extra_forbidden":
        return f"unknown key {key!r}; {_instead(path)}"
    if kind == "missing":
        return f"{key!r} is missing; it has no default"
    if kind == "value_error":
        text = str(context.get("error", problem["msg"]))
        return f"{key}: {text}" if key else text
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        kinds = ", ".join(name for found in path.models for name in _kinds(found))
        said = f"{key}.kind is {context['tag']!r}" if "tag" in context else f"{key!r} says no `kind`"
        return f"{said}; kinds are {kinds}"
    return f"{key} is {value!r}; {_lower(problem['msg'])}"


def _not_yaml(path: Path, error: yaml.YAMLError) -> str:
    """Where the reader gave up and why, with what it was reading from which line on."""
    mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    if mark is None:
        return f"{path} is not valid YAML: {' '.join(str(error).split())}"
    inside = f" {error.context}" + (f" that begins in line {begun.line + 1}" if begun else "") if error.context else ""
    return f"{path}:{mark.line + 1}: not valid YAML{inside}: {error.problem}"


def _lower(message: str) -> str:
    return message[0].lower() + message[1:]


def _dotted(keys: tuple) -> str:
    return ".".join(str(key) for key in keys)


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
