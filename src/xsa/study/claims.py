"""Claims of a paper: a YAML file under `config/claims/`, read, checked, and held against the study that names it.

A claim says in words what a paper states, and in settings how it is judged: what is measured, of which arms and shapes, in which
direction, by what tolerance, beside which published numbers. `xsa.analyse.claims` judges; `docs/claims.md` has the rules.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from xsa.store.errors import UserError
from xsa.study.fields import Name, Settings
from xsa.study.source import YamlFile, nearest, sentences

if TYPE_CHECKING:
    from xsa.study.study import LoadedStudy

CLAIMS = Path("config/claims")
# What a claim may be about. The names are those of `xsa.analyse.metrics`, which this package cannot import; a test holds them equal.
METRICS = ("bpb", "last_bpb", "train_loss", "core", "chatcore", "cos_y_v", "cos_y_v_centred", "diagonal")
# The measures of the stage `equivalence` that a tolerance can be set for.
EQUIVALENCE = ("forward_max_abs", "loss_abs", "gradient_max_rel", "parameters_max_rel")


def _one_of(known: tuple[str, ...], what: str):
    """A check that a word is one of `known`, whose error names the nearest."""

    def check(name: str) -> str:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; {nearest(name, list(known))}")
        return name

    return check


class Published(Settings):
    """The two numbers that a paper gives, the baseline's and the arm's."""

    baseline: float
    arm: float

    @property
    def change(self) -> float:
        return self.arm - self.baseline


class Noise(Settings):
    """How much one score varies, as others measured it."""

    sd: tuple[float, float] = Field(description="standard deviation of one score: the least and the most that was seen")
    over: Literal["seeds", "items"] = Field(description="what varied")
    source: str = Field(description="who measured it")

    @field_validator("sd")
    @classmethod
    def _rising(cls, sd: tuple[float, float]) -> tuple[float, float]:
        if not 0 < sd[0] <= sd[1]:
            raise ValueError(f"sd is {list(sd)}; give the least, above 0, and then the most")
        return sd


class _Claim(Settings):
    id: Name = Field(description="short name, once in the file")
    statement: str = Field(description="what is claimed, in words")
    where: str = Field(description="where the paper states it")
    second_hand: bool = Field(False, description="known from others' accounts of the paper, not from its text")


class _OfShapes(_Claim):
    shapes: Literal["all"] | tuple[str, ...] = Field(
        "all", description="shapes of the study that it is about, each judged apart"
    )


class _OfArms(_OfShapes):
    arm: dict[str, Any] = Field(
        default_factory=dict,
        description="factor values of the arms it is about, each judged apart; empty for every arm that is no baseline",
    )


class _OfMetric(_OfArms):
    metric: str = Field(description="what is measured", json_schema_extra={"enum": list(METRICS)})

    _known = field_validator("metric")(_one_of(METRICS, "metric"))


class DifferenceClaim(_OfMetric):
    """The arm's metric is lower, or higher, than its baseline's."""

    kind: Literal["difference"]
    direction: Literal["lower", "higher"] = Field(description="how the arm is said to differ from its baseline")
    published: Published | None = Field(None, description="the paper's numbers")
    size: float | None = Field(
        None,
        gt=0,
        description="tolerance on the published change, as a part of it: 0.5 asks for half to one and a half times; null "
        "judges the direction alone",
    )
    noise: Noise | None = Field(None, description="how much this metric varies by others' measurement")

    @model_validator(mode="after")
    def _consistent(self) -> DifferenceClaim:
        change = self.published.change if self.published else None
        if change and (change < 0) != (self.direction == "lower"):
            raise ValueError(
                f"direction is {self.direction}, but the published change is {change:+g}; mend one of them"
            )
        if self.size and not change:
            raise ValueError("size is a tolerance on the published change; give published, or leave size out")
        return self


class NoChangeClaim(_OfMetric):
    """The arm's metric is that of its baseline, within a tolerance."""

    kind: Literal["no_change"]
    tolerance: float = Field(gt=0, description="largest change that still counts as none, in the metric's unit")


class ContrastClaim(_OfShapes):
    """The change of one arm is lower, higher, or other than that of a second, each against its own baseline."""

    kind: Literal["contrast"]
    metric: str = Field(description="what is measured", json_schema_extra={"enum": list(METRICS)})
    first: dict[str, Any] = Field(min_length=1, description="factor values of the first arm")
    second: dict[str, Any] = Field(min_length=1, description="factor values of the arm that it is held against")
    direction: Literal["lower", "higher", "either"] = Field(
        description="how the first arm's change is said to differ from the second's"
    )

    _known = field_validator("metric")(_one_of(METRICS, "metric"))


class NotUniversalClaim(_OfArms):
    """The arm does not gain everywhere: some metric at some shape is worse."""

    kind: Literal["not_universal"]
    metrics: tuple[str, ...] = Field(min_length=1, description="metrics that have a better direction")

    @field_validator("metrics")
    @classmethod
    def _known(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        directed = METRICS[:5]
        return tuple(_one_of(directed, "metric with a better direction")(metric) for metric in metrics)


class StabilityClaim(_OfArms):
    """Training neither diverged nor met a number that is not finite, in the arms and in their baselines."""

    kind: Literal["stability"]
    rise: float = Field(
        gt=0,
        description="nats by which the smoothed loss may ever stand above its lowest value before, after the first tenth",
    )


class OverheadClaim(_OfArms):
    """A step takes at most so much longer than the baseline's."""

    kind: Literal["overhead"]
    mode: Literal["compiled", "eager"] = Field("compiled", description="how the steps that are judged were run")
    bound: float | Literal["noise"] = Field(
        description="part of the baseline's time, e.g. 0.05; `noise` for what cannot be told from repetition to repetition"
    )


class EquivalenceClaim(_OfShapes):
    """The projection's own path at alpha = 0 is standard attention, within tolerances."""

    kind: Literal["equivalence"]
    tolerance: dict[Literal["float32", "bfloat16"], dict[str, float]] = Field(
        min_length=1, description="largest differences that count as none, by compute dtype and measure"
    )

    @field_validator("tolerance")
    @classmethod
    def _known(cls, tolerance: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for measures in tolerance.values():
            for measure in measures:
                _one_of(EQUIVALENCE, "measure")(measure)
        return tolerance


class EarlyMatchClaim(_OfShapes):
    """Trained side by side, the path at alpha = 0 and standard attention log the same loss in the first steps."""

    kind: Literal["early_match"]
    tolerance: float = Field(ge=0, description="largest difference of the loss at any of the steps, in nats per token")


class ArtefactClaim(_OfArms):
    """Logging one arm by another convention draws an early gap greater than the arms' own."""

    kind: Literal["artefact"]


class UntestedClaim(_Claim):
    """A claim that nothing here measures, listed so that nobody takes it for tested."""

    kind: Literal["untested"]
    needs: str = Field(description="what would have to be measured")


Claim = Annotated[
    DifferenceClaim
    | NoChangeClaim
    | ContrastClaim
    | NotUniversalClaim
    | StabilityClaim
    | OverheadClaim
    | EquivalenceClaim
    | EarlyMatchClaim
    | ArtefactClaim
    | UntestedClaim,
    Field(discriminator="kind"),
]


class Claims(Settings):
    """The claims of one paper, or the questions of one study put as claims."""

    name: Name = Field(description="the file's own name")
    paper: str = Field(description="whose claims these are, as the page names it")
    claims: tuple[Claim, ...] = Field(min_length=1)

    @field_validator("claims")
    @classmethod
    def _once(cls, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
        ids = [claim.id for claim in claims]
        twice = next((one for one in ids if ids.count(one) > 1), None)
        if twice:
            raise ValueError(f"two claims have the id {twice!r}; rename one")
        return claims


def load_claims(study: LoadedStudy) -> tuple[Claims, ...]:
    """The claims files that a study names, each claim checked against the study's shapes and factors.

    Raises UserError with file, line, key and the nearest known name for what is wrong.
    """
    return tuple(_load(name, number, study) for number, name in enumerate(study.study.claims))


def _load(name: str, number: int, study: LoadedStudy) -> Claims:
    path = study.root / CLAIMS / f"{name}.yaml"
    if not path.exists():
        known = [file.stem for file in (study.root / CLAIMS).glob("*.yaml")]
        raise UserError(f"{study.where('claims', number)}: there are no claims {path}; {nearest(name, known)}")
    file = YamlFile(path)
    try:
        found = Claims.model_validate(file.values)
    except ValidationError as error:
        raise UserError(sentences(error, Claims, lambda loc: file.where(*loc))) from None
    if found.name != path.stem:
        raise UserError(
            f"{file.where('name')}: name is {found.name!r}, but the file is called {path.name}; make them one"
        )
    for index, claim in enumerate(found.claims):
        _check(claim, study, lambda *key, index=index: file.where("claims", index, *key))
    return found


def _check(claim: Claim, study: LoadedStudy, where) -> None:
    shapes = getattr(claim, "shapes", "all")
    for shape in () if shapes == "all" else shapes:
        if shape not in study.study.shapes:
            raise UserError(
                f"{where('shapes')}: the study {study.study.name!r} has no shape {shape!r}; "
                f"{nearest(shape, list(study.study.shapes))}"
            )
    for key in ("arm", "first", "second"):
        wanted = getattr(claim, key, None)
        if wanted is not None:
            _check_arm(key, wanted, study, lambda *path, key=key: where(key, *path))


def _check_arm(key: str, wanted: dict[str, Any], study: LoadedStudy, where) -> None:
    """The factor values of an arm: each is a factor of the study and one of its values; together they are no baseline alone."""
    for path, value in wanted.items():
        if path == "seed" or path not in study.study.factors:
            known = [name for name in study.study.factors if name != "seed"]
            raise UserError(
                f"{where(path)}: the study {study.study.name!r} does not vary {path!r}; {nearest(path, known)}"
            )
        values = [point.factors[path] for point in study.points]
        if not any(_same(value, one) for one in values):
            told = dict.fromkeys(str(one) for one in values)
            raise UserError(
                f"{where(path)}: no arm of the study {study.study.name!r} has {path} = {value!r}; values are "
                f"{', '.join(told)}. Give the claim one of them, or take these claims out of the study's `claims`"
            )
    baseline = study.baseline
    if not any(
        all(_same(value, point.factors[path]) for path, value in wanted.items())
        and not all(point.factors[path] == value for path, value in baseline.items())
        for point in study.points
    ):
        raise UserError(f"{where()}: {key} names the baseline alone, which is compared with nothing; name another arm")


def _same(written: Any, held: Any) -> bool:
    """Whether a value as a file writes it is one that the settings hold: lists are tuples there."""
    return (tuple(written) if isinstance(written, list) else written) == held and isinstance(
        written, bool
    ) == isinstance(held, bool)
