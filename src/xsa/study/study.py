"""A study file: a base recipe, the factors that vary, what is measured; read, checked, and laid out as cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from xsa.store.errors import UserError
from xsa.store.files import canonical_json
from xsa.study.claims import Claims, load_claims
from xsa.study.fields import Name, Settings, added
from xsa.study.settings import CellSettings, IdentitySettings, LimitSettings, RunSettings
from xsa.study.source import YamlFile, fields_at, nearest, sentences
from xsa.study.stages import STAGES

STUDIES = Path("config/studies")
RECIPES = Path("config/recipes")


class Recipe(Settings):
    """A stack that studies start from: settings that differ from the defaults."""

    description: str = Field(description="what the stack is and where its numbers come from")
    settings: dict[str, Any] = Field(default_factory=dict, description="settings of a cell, as in config/defaults.yaml")


class Deviation(Settings):
    """Where a study departs from the paper that it is held against."""

    paper: str = Field(description="what the paper says, or leaves unsaid")
    here: str = Field(description="what is done here")
    why: str = Field(description="the reason")


class Study(Settings):
    """One study."""

    name: Name = Field(description="name of the study and of its folder under results/; the file's own name")
    title: str = Field(description="title of the report")
    question: str = Field(description="what the study asks, in a sentence or two")
    recipe: Name = Field(description="file under config/recipes/ that the settings start from")
    settings: dict[str, Any] = Field(default_factory=dict, description="settings that differ from the recipe's")
    shapes: dict[Name, dict[str, Any]] = Field(
        min_length=1, description="model shapes by name: the settings that make each"
    )
    factors: dict[str, list[Any]] = Field(
        description="what varies: a setting's path and its values; every combination is a cell"
    )
    baseline: dict[str, Any] = Field(description="the factor values of the arm that others are compared with")
    claims: tuple[Name, ...] = added(
        (),
        description="files under config/claims/ that the results are held against; they enter the report's identity alone",
    )
    deviations: tuple[Deviation, ...] = added(
        (), description="where the study departs from the paper and why, for the page; of the report's identity alone"
    )
    run: RunSettings = Field(default_factory=RunSettings, description="how it runs; never part of a result's identity")
    limits: LimitSettings = Field(
        default_factory=LimitSettings, description="what a run may cost; never part of a result's identity"
    )
    identity: IdentitySettings = Field(
        default_factory=IdentitySettings, description="what else decides whether a result is made again"
    )

    @field_validator("name")
    @classmethod
    def _no_stage(cls, name: str) -> str:
        if name in STAGES:
            raise ValueError(
                f"is {name!r}, which is a stage and so has its own folder under results/; choose another name"
            )
        return name

    @field_validator("factors")
    @classmethod
    def _values(cls, factors: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for path, values in factors.items():
            if not values:
                raise ValueError(f"{path} has no values; give at least one or leave the factor out")
            if any(isinstance(value, dict) for value in values):
                raise ValueError(
                    f"{path} has a mapping among its values; vary single settings by their paths, or use shapes"
                )
        return factors


@dataclass(frozen=True)
class Point:
    """One point of a study's grid: the settings of a cell and where they stand in the grid."""

    shape: str
    factors: dict[str, Any]
    settings: CellSettings


class LoadedStudy:
    """A study with its file, its recipe and its checked grid of points.

    Raises UserError, naming file, line, key and what is allowed, for anything wrong in either file.
    """

    def __init__(self, path: Path, root: Path):
        self.root, self.path = root, path
        self._study_file = YamlFile(path)
        self.study: Study = _validated(Study, self._study_file)
        if self.study.name != path.stem:
            raise UserError(
                f"{self._study_file.where('name')}: name is {self.study.name!r}, but the file is called {path.name}; "
                f"call the study {path.stem!r} or the file {self.study.name}.yaml"
            )
        recipe_path = root / RECIPES / f"{self.study.recipe}.yaml"
        if not recipe_path.exists():
            known = [file.stem for file in (root / RECIPES).glob("*.yaml")]
            raise UserError(
                f"{self._study_file.where('recipe')}: there is no recipe {recipe_path}; {nearest(self.study.recipe, known)}"
            )
        self._recipe_file = YamlFile(recipe_path)
        self.recipe: Recipe = _validated(Recipe, self._recipe_file)
        self._check_factors()
        self.baseline: dict[str, Any] = {}
        self.points = self._grid()
        self.claims: tuple[Claims, ...] = load_claims(self)

    def where(self, *key: Any) -> str:
        """`file:line` of a key of the study file."""
        return self._study_file.where(*key)

    def _check_factors(self) -> None:
        for path in self.study.factors:
            parts = tuple(path.split("."))
            if parts[-1] not in fields_at(CellSettings, parts[:-1]):
                known = _paths(CellSettings)
                raise UserError(
                    f"{self._study_file.where('factors', path)}: the factor {path!r} is no setting; {nearest(path, known)}"
                )
        varied = [path for path, values in self.study.factors.items() if path != "seed" and len(values) > 1]
        if varied and not self.study.baseline:
            raise UserError(
                f"{self._study_file.where('baseline')}: baseline is empty, so nothing would be compared; name a value of "
                f"{' or '.join(varied)}, e.g. {{{varied[0]}: {self.study.factors[varied[0]][0]!r}}}"
            )
        for path, value in self.study.baseline.items():
            values = self.study.factors.get(path)
            if values is None:
                raise UserError(
                    f"{self._study_file.where('baseline', path)}: baseline names {path!r}, which is no factor of this study; "
                    f"factors are {', '.join(self.study.factors)}"
                )
            if value not in values:
                raise UserError(
                    f"{self._study_file.where('baseline', path)}: baseline has {path} = {value!r}, "
                    f"which is not among the factor's values {values}"
                )

    def _grid(self) -> list[Point]:
        """Every shape with every combination of factor values."""
        base = self._laid(self.recipe.settings, self.study.settings, "settings")
        names, points, seen = list(self.study.factors), [], {}
        for shape, overrides in self.study.shapes.items():
            for values in itertools.product(*self.study.factors.values()):
                raw = self._laid(base, overrides, "shapes", shape)
                for path, value in zip(names, values, strict=True):
                    raw = merge(
                        raw, _nested(path, value), lambda *_, path=path: self._study_file.where("factors", path)
                    )
                settings = self._cell(raw, shape)
                # Values as the settings hold them, not as the file writes them: 1 and 1.0 are one value.
                factors = {path: _at(settings, path) for path in names}
                for path, value in zip(names, values, strict=True):
                    if path in self.study.baseline and value == self.study.baseline[path]:
                        self.baseline[path] = factors[path]
                key = canonical_json(settings.model_dump(mode="json"))
                if key in seen:
                    raise UserError(
                        f"{self.path}: two cells are the same: {seen[key]} and {_describe(shape, factors)}; "
                        "remove the value that is there twice, or tell the shapes apart"
                    )
                seen[key] = _describe(shape, factors)
                points.append(Point(shape, factors, settings))
        return points

    def _laid(self, base: dict, over: dict, *within: str) -> dict:
        """`over`, which stands in the study file under `within`, laid on `base`."""
        return merge(base, over, lambda *path: self._study_file.where(*within, *path))

    def _cell(self, raw: dict, shape: str) -> CellSettings:
        try:
            return CellSettings.model_validate(raw)
        except ValidationError as error:
            raise UserError(sentences(error, CellSettings, lambda loc: self._where(loc, shape))) from None

    def _where(self, loc: tuple, shape: str) -> str:
        """Place of a setting: the factor, the shape, the study's settings or the recipe, whichever has the last word."""
        dotted = ".".join(str(part) for part in loc)
        for length in range(len(loc), 0, -1):
            part = loc[:length]
            if ".".join(str(p) for p in part) in self.study.factors:
                return self._study_file.where("factors", dotted)
            for file, prefix in (
                (self._study_file, ("shapes", shape)),
                (self._study_file, ("settings",)),
                (self._recipe_file, ("settings",)),
            ):
                if file.has(*prefix, *part):
                    return file.where(*prefix, *part)
        return self._study_file.where("shapes", shape)


def find_study(name: str, root: Path) -> Path:
    """The file of a study given by path or by name. Raises UserError naming the nearest known study."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else root / STUDIES / f"{name}.yaml"
    if not path.is_absolute():
        path = root / path
    if not path.exists():
        known = [file.stem for file in (root / STUDIES).glob("*.yaml")]
        raise UserError(f"there is no study {name!r} ({path}); {nearest(Path(name).stem, known)}")
    return path


def merge(base: dict, over: dict, where: Callable[..., str], at: tuple = ()) -> dict:
    """`over` laid on `base`, mapping by mapping. A mapping of another `kind` replaces the whole one below it.

    UserError, at the place that `where` gives for a key path of `over`, when a mapping is to be replaced by something
    that is none: it would be lost without a word.
    """
    merged = dict(base)
    for key, value in over.items():
        below, path = merged.get(key), (*at, key)
        if isinstance(below, dict) and not isinstance(value, dict):
            name = ".".join(path)
            raise UserError(
                f"{where(*path)}: {name} is {value!r}, but is a group of settings ({', '.join(below)}); "
                f"give the settings below it, or leave {name} out"
            )
        same_kind = (
            isinstance(value, dict)
            and isinstance(below, dict)
            and value.get("kind", below.get("kind")) == below.get("kind")
        )
        merged[key] = merge(below, value, where, path) if same_kind else value
    return merged


def _validated(model: type[BaseModel], file: YamlFile) -> Any:
    try:
        return model.model_validate(file.values)
    except ValidationError as error:
        raise UserError(sentences(error, model, lambda loc: file.where(*loc))) from None


def _nested(path: str, value: Any) -> dict:
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def _at(settings: BaseModel, path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def _paths(model: type[BaseModel], prefix: tuple = ()) -> list[str]:
    """Every settable path of a model, dotted."""
    paths = []
    for name in fields_at(model, prefix):
        paths += _paths(model, (*prefix, name)) if fields_at(model, (*prefix, name)) else [".".join((*prefix, name))]
    return paths


def _describe(shape: str, factors: dict[str, Any]) -> str:
    return ", ".join([shape, *(f"{path} = {value}" for path, value in factors.items())])
