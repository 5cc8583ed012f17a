"""What a dataset of watsonx Orchestrate holds, by the rules of its evaluation framework 1.6.9."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from evalgate.model import ArgMatching
from evalgate.reading.caseids import Id
from evalgate.reading.validation import listed

_Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _Goal(_Wire):
    name: Id


class ToolCallGoal(_Goal):
    """A tool should be called."""

    type: Literal["tool_call"]
    tool_name: _Text
    args: dict[str, Any] | None = None
    arg_matching: dict[str, ArgMatching] | None = None

    @model_validator(mode="after")
    def _matches_what_is_there(self) -> Self:
        known = {*_paths(self.args or {})}
        unknown = [path for path in self.arg_matching or {} if self.args and path not in known]
        if unknown:
            raise ValueError(f"must hold in `arg_matching` paths of `args` only, not {listed(unknown)}")
        return self


def _paths(args: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Of all values; an empty object has none that could be matched, except at the top."""
    for key, value in args.items():
        if value != {} or not prefix:
            yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


_Keywords: TypeAlias = list[Annotated[str, Field(coerce_numbers_to_str=True)]]
"""The original looks for texts, and lets numbers pass for such."""


class TextGoal(_Goal):
    """Something should be said."""

    type: Literal["text"]
    response: str | None = None
    summary: str | None = None
    keywords: _Keywords | None = None


class _Identifier(_Wire):
    key: str
    value: str


class InteractionGoal(_Goal):
    """A widget should be shown."""

    type: Literal["interaction"]
    identifier: _Identifier


class CheckGoal(BaseModel):
    """A judge should affirm something."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: Literal["assert_llm"]
    kind: Literal["observed", "policy"]
    check: str
    scope: Literal["response", "conversation"] = "conversation"


class SearchGoal(_Goal):
    """What no rule of the original is ever reached by."""

    type: Literal["conversational_search", "tool_response"]
    keywords: _Keywords | None = None


GOALS: Mapping[str, type[BaseModel]] = {
    "tool_call": ToolCallGoal,
    "text": TextGoal,
    "interaction": InteractionGoal,
    "assert_llm": CheckGoal,
    "conversational_search": SearchGoal,
    "tool_response": SearchGoal,
}

TYPES = GOALS.keys()
"""Types of goals: pydantic puts them into the place of an error."""
AnyGoal: TypeAlias = Annotated[
    ToolCallGoal | TextGoal | InteractionGoal | CheckGoal | SearchGoal, Field(discriminator="type")
]


def _or_none(value: object) -> object:
    return value or None


def _without_null(value: object) -> object:
    return {} if value is None else value


def _names(value: object) -> list[str] | str:
    """What follows a goal: names, or one alone; null is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    if value is None:
        return []
    raise ValueError("must be a list of names")


def listed_names(value: Any) -> Any:
    """A list of names; a name alone is the only one."""
    return [value] if isinstance(value, str) else value


class _Attack(_Wire):
    attack_category: Literal["on_policy", "off_policy"]
    attack_type: str
    attack_name: str
    attack_instructions: str


def _is_an_attack(value: dict[str, Any]) -> dict[str, Any]:
    """`value`, as it is kept for the way back."""
    _Attack.model_validate(value)
    return value


class Dataset(_Wire):
    """One conversation with its goals."""

    agent: str | None = None
    story: _Text
    starting_sentence: str | None = None
    goals: dict[str, Annotated[Any, AfterValidator(_names)]]
    """After each goal those that follow; a single name where a list should be."""
    goal_details: Annotated[list[AnyGoal], Field(min_length=1)]
    dataset_name: Annotated[Id | None, BeforeValidator(_or_none)] = None
    user_prompts: list[str] | None = None
    max_user_turns: int | None = None
    attack_data: Annotated[dict[str, Any], AfterValidator(_is_an_attack)] | None = None
    agents_list_or_path: list[str] | str | None = None
    file_upload: dict[str, Any] | None = None
    tags: Annotated[list[str] | None, BeforeValidator(listed_names)] = None
    runtime_context: Annotated[dict[str, Any], BeforeValidator(_without_null)] = {}
    context_variables: Annotated[dict[str, Any], BeforeValidator(_without_null)] = {}

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        named = {goal.name for goal in self.goal_details if not isinstance(goal, CheckGoal)}
        if named and not self.goals:
            raise ValueError("must name its goals in `goals`: they are empty")
        later = [names for names in self.goals.values() if isinstance(names, list)]
        ordered = {*self.goals, *(name for names in later for name in names)}
        alone = {names for names in self.goals.values() if isinstance(names, str) and names}
        if unknown := sorted((ordered | alone) - named):
            raise ValueError(f"must describe in `goal_details` all that `goals` names: {listed(unknown)}")
        if unordered := sorted(named - ordered):
            raise ValueError(f"must name in `goals` all that `goal_details` describes: {listed(unordered)}")
        return self
