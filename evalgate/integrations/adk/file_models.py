"""Pydantic models of Google ADK's eval-set files, in snake_case or camelCase, except those of a case."""

from typing import Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from evalgate.documents.validation_errors import Id


class AdkModel(BaseModel):
    """An object in either spelling; unknown keys are ignored."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
        loc_by_alias=False,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class AdkEvalSetHeader(AdkModel):
    """An eval set without its cases, which are read one by one."""

    eval_set_id: Id
    name: str | None = None
    description: str | None = None
    eval_cases: list[Any]
    creation_timestamp: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _reject_double_spelling(cls, value: object) -> object:
        # Google ADK's documentation shows camelCase here, which its releases refuse. Of two spellings,
        # pydantic would drop one without notice.
        keys = value if isinstance(value, dict) else {}
        for snake, camel in (("eval_cases", "evalCases"), ("eval_set_id", "evalSetId")):
            if snake in keys and camel in keys:
                raise ValueError(f"holds both `{snake}` and `{camel}`: keep one")
        return value
