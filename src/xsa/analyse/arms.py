"""The grid's points as cells, cells that differ in seed alone as arms, and which arm is compared with which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xsa.store.files import canonical_json
from xsa.study.stages import AnalyseStage

SEED = "seed"
_NAMES = {
    "xsa.alpha": "XSA α",
    "xsa.layers": "XSA layers",
    "xsa.value": "XSA value",
    "optim.matrix": "optimizer",
    "optim.version": "Muon of",
    "horizon.ratio": "tokens per parameter",
    "model.sequence_len": "T",
    "imported.path": "checkpoint",
}


@dataclass(frozen=True)
class Cell:
    """One trained point: its place in the grid, the settings of its training, and its results as `label@digest`."""

    name: str
    shape: str
    seed: int
    factors: dict[str, Any]
    settings: dict[str, Any]
    results: dict[str, str]
    data: str | None = None  # where the text came from: builtin, local or hub


@dataclass(frozen=True)
class Arm:
    """Cells of one shape that differ in seed alone, by seed."""

    shape: str
    label: str
    factors: dict[str, Any]
    is_baseline: bool
    cells: dict[int, Cell] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        return sorted(self.cells)


@dataclass(frozen=True)
class Comparison:
    """An arm, the baseline it is held against, and the seeds that both have."""

    baseline: Arm
    arm: Arm
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """A study's cells, arms and comparisons; shapes and arms in the order of the study file."""

    cells: tuple[Cell, ...]
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def shapes(self) -> list[str]:
        return list(dict.fromkeys(cell.shape for cell in self.cells))

    @property
    def labels(self) -> list[str]:
        """Labels of the arms, baselines first: the same label means the same treatment at every shape."""
        ordered = sorted(self.arms, key=lambda arm: not arm.is_baseline)
        return list(dict.fromkeys(arm.label for arm in ordered))

    def arms_of(self, shape: str) -> list[Arm]:
        """The arms of a shape, in the order of `labels`."""
        return sorted((arm for arm in self.arms if arm.shape == shape), key=lambda arm: self.labels.index(arm.label))

    def uncompared(self) -> list[Arm]:
        """Arms that are no baseline and have none to be held against."""
        compared = {id(comparison.arm) for comparison in self.comparisons}
        return [arm for arm in self.arms if not arm.is_baseline and id(arm) not in compared]


def read_grid(settings: AnalyseStage) -> Grid:
    """Sort a study's cells into arms and pair each arm with its baseline.

    The baseline of an arm is the arm of its shape that has the baseline's factor values and otherwise the same
    factors; where the baseline is alpha = 0, the other settings of the projection do not count. Cells are paired by
    seed.
    """
    cells = tuple(_cell(entry) for entry in settings.cells)
    named = _telling_factors(cells)
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.shape, _key(_without_seed(cell.factors))), []).append(cell)
    arms = tuple(_arm(group, named, settings.baseline) for group in groups.values())
    return Grid(cells, arms, tuple(_comparisons(arms, settings.baseline)))


def _cell(entry: dict[str, Any]) -> Cell:
    factors = dict(entry["factors"])
    seed = factors.get(SEED, entry["settings"].get(SEED, 0))
    settings, results = dict(entry["settings"]), dict(entry["results"])
    return Cell(entry["cell"], entry["shape"], int(seed), factors, settings, results, entry.get("data"))


def _arm(cells: list[Cell], named: list[str], baseline: dict[str, Any]) -> Arm:
    factors = _without_seed(cells[0].factors)
    is_baseline = _has(factors, baseline)
    bare = is_baseline and baseline.get("xsa.alpha") == 0
    silent = [name for name in named if (is_baseline and name in baseline) or (bare and name.startswith("xsa."))]
    told = {name: factors[name] for name in named if name in factors and name not in silent}
    words = ", ".join(f"{_NAMES.get(name, name.rpartition('.')[2])} = {_value(value)}" for name, value in told.items())
    label = ("baseline" + (f", {words}" if words else "")) if is_baseline else words or "arm"
    by_seed = {cell.seed: cell for cell in sorted(cells, key=lambda cell: cell.seed)}
    assert len(by_seed) == len(cells), f"two cells of {cells[0].shape} {label} have one seed"
    return Arm(cells[0].shape, label, factors, is_baseline, by_seed)


def _comparisons(arms: tuple[Arm, ...], baseline: dict[str, Any]):
    for arm in arms:
        other = None if arm.is_baseline else _baseline_of(arm, arms, baseline)
        seeds = tuple(seed for seed in arm.seeds if seed in other.cells) if other else ()
        if seeds:
            yield Comparison(other, arm, seeds)


def _baseline_of(arm: Arm, arms: tuple[Arm, ...], baseline: dict[str, Any]) -> Arm | None:
    wanted = arm.factors | {name: value for name, value in baseline.items() if name in arm.factors}
    others = [other for other in arms if other.shape == arm.shape and other.is_baseline]
    for other in others:
        if _key(other.factors) == _key(wanted):
            return other
    if baseline.get("xsa.alpha") == 0:
        # without a projection its layers and value mean nothing, and the plan trains such a cell once
        for other in others:
            if _key(_without_projection(other.factors)) == _key(_without_projection(wanted)):
                return other
    return None


def _telling_factors(cells: tuple[Cell, ...]) -> list[str]:
    """Factors that tell arms apart: those of more than one value."""
    names = dict.fromkeys(name for cell in cells for name in cell.factors if name != SEED)
    return [name for name in names if len({_key(cell.factors.get(name)) for cell in cells}) > 1]


def _has(factors: dict[str, Any], baseline: dict[str, Any]) -> bool:
    return all(_key(factors[name]) == _key(value) for name, value in baseline.items() if name in factors)


def _without_seed(factors: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in factors.items() if name != SEED}


def _without_projection(factors: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in factors.items() if not name.startswith("xsa.")}


def _key(value: Any) -> str:
    """One text for equal values: 0 and 0.0 are one, a tuple is a list."""
    return canonical_json(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return " ".join(_value(item) for item in value)
    return value if isinstance(value, str) else canonical_json(_plain(value))
