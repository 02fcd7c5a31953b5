"""What every group of settings is made of: names, strictness, and fields that came later."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
TorchVersion = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]


def added(default: Any, **kwargs: Any) -> Any:
    """A field that came later: left out of recipes while it has its default."""
    return Field(default, json_schema_extra={"added": True}, **kwargs)


class Settings(BaseModel):
    """A group of settings: no unknown keys, no NaN, no `true` where a number is meant."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_as_number(cls, values: Any) -> Any:
        for name, value in values.items() if isinstance(values, dict) else ():
            field = cls.model_fields.get(name)
            if isinstance(value, bool) and field and field.annotation in (int, float, int | None, float | None):
                raise ValueError(f"{name} is {str(value).lower()}; give a number")
        return values
