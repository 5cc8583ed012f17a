"""Datasets of watsonx Orchestrate, read by the rules of its evaluation framework 1.6.9.

Comments call this framework the original. Unlike the framework, evalgate also reads a file with a list of
datasets. Keys that are not evaluated here (`attack_data`, `file_upload`, …) are kept, so that a writer can
restore them. `max_user_turns` limits the number of the user's messages, whether scripted or simulated.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
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

from evalgate.core.errors import Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.protocols import Document
from evalgate.core.types import (
    ArgMatching,
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    JsonObject,
    Reply,
    Scenario,
    SessionInput,
    ToolCall,
    UserMessage,
    iter_argument_paths,
)
from evalgate.datasets.case_list_reader import finish_reading
from evalgate.datasets.cases import build_cases
from evalgate.datasets.conversion_losses import find_linear_goal_order
from evalgate.datasets.ignored_keys import IgnoredKey, KeyChecker, collect_ignored_keys
from evalgate.documents.strict_json import Location, as_sequence, get_items
from evalgate.documents.validation_errors import Id, find_repeated_ids, validate_model

_Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]


class _OrchestrateModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _Goal(_OrchestrateModel):
    name: Id


class ToolCallGoal(_Goal):
    """A tool call that should happen."""

    type: Literal["tool_call"]
    tool_name: _Text
    args: dict[str, Any] | None = None
    arg_matching: dict[str, ArgMatching] | None = None

    @model_validator(mode="after")
    def _check_argument_paths(self) -> Self:
        known = {*iter_argument_paths(self.args or {})}
        unknown = [path for path in self.arg_matching or {} if self.args and path not in known]
        if unknown:
            raise ValueError(f"must hold in `arg_matching` paths of `args` only, not {join_quoted(unknown)}")
        return self


_Keywords: TypeAlias = list[Annotated[str, Field(coerce_numbers_to_str=True)]]
"""Texts to search for. watsonx Orchestrate accepts numbers as texts."""


class TextGoal(_Goal):
    """A text that the agent should say."""

    type: Literal["text"]
    response: str | None = None
    summary: str | None = None
    keywords: _Keywords | None = None


class _Identifier(_OrchestrateModel):
    key: str
    value: str


class InteractionGoal(_Goal):
    """A widget that the agent should show."""

    type: Literal["interaction"]
    identifier: _Identifier


class CheckGoal(BaseModel):
    """A statement that a judge should affirm."""

    # The original refuses unknown keys in this kind of goal only.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: Literal["assert_llm"]
    kind: Literal["observed", "policy"]
    check: str
    scope: Literal["response", "conversation"] = "conversation"


class SearchGoal(_Goal):
    """A goal that is never reached: watsonx Orchestrate's evaluation has no rule for this type of goal."""

    type: Literal["conversational_search", "tool_response"]
    keywords: _Keywords | None = None


GOAL_MODELS: Mapping[str, type[BaseModel]] = {
    "tool_call": ToolCallGoal,
    "text": TextGoal,
    "interaction": InteractionGoal,
    "assert_llm": CheckGoal,
    "conversational_search": SearchGoal,
    "tool_response": SearchGoal,
}

GOAL_TYPES = GOAL_MODELS.keys()
"""Types of goals. pydantic inserts the type of a goal into the location of an error within the goal."""
AnyGoal: TypeAlias = Annotated[
    ToolCallGoal | TextGoal | InteractionGoal | CheckGoal | SearchGoal, Field(discriminator="type")
]


def _replace_null(value: object) -> object:
    return {} if value is None else value


def _validate_goal_names(value: object) -> list[str] | str:
    """Return `value`, the names of the goals that come after a goal; return [] if `value` is None.

    Raises:
        ValueError: `value` is neither a text, nor a list of texts, nor None.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    if value is None:
        return []
    raise ValueError("must be a list of names")


def ensure_name_list(value: Any) -> Any:
    """Return a single name as a list with this name; return any other value unchanged."""
    # The original reads a name alone as a list of its letters, so that the goal is never reached.
    return [value] if isinstance(value, str) else value


class _Attack(_OrchestrateModel):
    attack_category: Literal["on_policy", "off_policy"]
    attack_type: str
    attack_name: str
    attack_instructions: str


def _validate_attack(value: dict[str, Any]) -> dict[str, Any]:
    _Attack.model_validate(value)
    return value


class OrchestrateFile(_OrchestrateModel):
    """A dataset: one conversation with its goals."""

    agent: str | None = None
    story: _Text
    starting_sentence: str | None = None
    goals: dict[str, Annotated[Any, AfterValidator(_validate_goal_names)]]
    """Maps a goal's name to the names of the goals that must be reached after it: a list, or one name."""
    goal_details: Annotated[list[AnyGoal], Field(min_length=1)]
    dataset_name: Annotated[Id | None, BeforeValidator(lambda value: value or None)] = None
    user_prompts: list[str] | None = None
    max_user_turns: int | None = None
    attack_data: Annotated[dict[str, Any], AfterValidator(_validate_attack)] | None = None
    agents_list_or_path: list[str] | str | None = None
    file_upload: dict[str, Any] | None = None
    tags: Annotated[list[str] | None, BeforeValidator(ensure_name_list)] = None
    runtime_context: Annotated[dict[str, Any], BeforeValidator(_replace_null)] = {}
    # Orchestrate's recorder writes this key, and its loader only knows `runtime_context`.
    context_variables: Annotated[dict[str, Any], BeforeValidator(_replace_null)] = {}

    @model_validator(mode="after")
    def _check_goal_names(self) -> Self:
        # The original refuses such a file too, its own example `data_simple.json` included.
        named = {goal.name for goal in self.goal_details if not isinstance(goal, CheckGoal)}
        if named and not self.goals:
            raise ValueError("must name its goals in `goals`: they are empty")
        later = [names for names in self.goals.values() if isinstance(names, list)]
        ordered = {*self.goals, *(name for names in later for name in names)}
        alone = {names for names in self.goals.values() if isinstance(names, str) and names}
        if unknown := sorted((ordered | alone) - named):
            raise ValueError(
                f"must describe in `goal_details` all that `goals` names: {join_quoted(unknown)}"
            )
        if unordered := sorted(named - ordered):
            raise ValueError(
                f"must name in `goals` all that `goal_details` describes: {join_quoted(unordered)}"
            )
        return self


_ENDING = ".json"


class OrchestrateFormat:
    """Format of the datasets that `orchestrate evaluations evaluate` reads."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with goals and their details, or a list that contains such an object."""
        listed = as_sequence(document.value)
        return any(
            isinstance(value, dict) and {"goals", "goal_details"} <= value.keys()
            for value in ([document.value] if listed is None else listed)
        )

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build a case for each dataset of the file.

        The id of the set is the file's path. The id of a case is its `dataset_name`. A case without
        `dataset_name` has the file's name without `.json` as its id, with `-1`, `-2`, … at the end if the
        file holds several datasets.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem with its line and column.
        """
        problems: list[Problem] = []
        keys = KeyChecker(document.path, document.find_position, problems)
        cases = _build_cases(document, problems, keys)
        notices = finish_reading(keys, cases, partial(_find_repeated_names, document))
        return EvalSet(document.path, cases, document.path, notices=notices)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read."""
        listed = as_sequence(document.value)
        if listed is not None:
            for index, value in enumerate(listed):
                yield from (found.location for found in _iter_ignored_keys(value, (index,)))
        else:
            yield from (found.location for found in _iter_ignored_keys(document.value, ()))


def _iter_ignored_keys(value: object, location: Location) -> Iterator[IgnoredKey]:
    dataset = value if isinstance(value, dict) else {}
    # Goals are checked one by one, because their keys depend on their type.
    yield from collect_ignored_keys(OrchestrateFile, {**dataset, "goal_details": None}, location)
    for index, goal in enumerate(get_items(dataset, "goal_details")):
        kind = goal.get("type") if isinstance(goal, dict) else None
        if isinstance(kind, str) and kind in GOAL_MODELS:
            yield from collect_ignored_keys(GOAL_MODELS[kind], goal, (*location, "goal_details", index))


def _build_cases(document: Document, problems: list[Problem], keys: KeyChecker) -> Sequence[EvalCase]:
    listed = as_sequence(document.value)

    def find_position(location: Location) -> tuple[int, int]:
        # pydantic inserts the goal's type between a goal and its fields: remove it.
        return document.find_position(tuple(part for part in location if part not in GOAL_TYPES))

    def make_case(index: int, value: object) -> EvalCase | None:
        location: Location = () if listed is None else (index,)
        if keys.is_open:
            keys.add_keys(_iter_ignored_keys(value, location))
        wire = validate_model(
            OrchestrateFile, value, problems, file=document.path, position=find_position, prefix=location
        )
        if wire is None:
            return None
        name = wire.dataset_name or _build_default_name(document, index)
        return _build_case(wire, name, document.find_position(location)[0])

    return build_cases([document.value] if listed is None else listed, make_case)


def _build_default_name(document: Document, index: int) -> str:
    """Return the id of a case without `dataset_name`: the file's name without `.json`.

    If the file holds several datasets, `-` and the dataset's number (from 1) follow.
    """
    stem, listed = PurePath(document.path).name.removesuffix(_ENDING), as_sequence(document.value)
    return f"{stem}-{index + 1}" if listed is not None and len(listed) > 1 else stem


def _find_repeated_names(document: Document) -> Iterator[Problem]:
    names: list[tuple[object, Location]] = []
    for index, value in enumerate(as_sequence(document.value) or ()):
        name = value.get("dataset_name") if isinstance(value, dict) else None
        names.append((name or _build_default_name(document, index), (index,)))
    return find_repeated_ids(names, file=document.path, position=document.find_position)


def _build_case(wire: OrchestrateFile, name: str, line: int) -> EvalCase:
    order = {name: tuple(ensure_name_list(later) if later else ()) for name, later in wire.goals.items()}
    journey = Journey(tuple(map(_build_goal, wire.goal_details)), order, wire.story, wire.max_user_turns)
    turns, scenario = tuple(_iter_turns(wire, journey)), None
    if not turns:
        # The simulated user begins, although the later messages may be scripted.
        script = None if wire.user_prompts is None else tuple(wire.user_prompts)
        scenario = Scenario("", wire.story, max_turns=wire.max_user_turns, script=script)
    return EvalCase(
        name,
        turns,
        scenario=scenario,
        session=SessionInput(wire.agent or "", state={**wire.context_variables, **wire.runtime_context}),
        line=line,
        journey=journey,
        native={"orchestrate": kept} if (kept := _extract_native_data(wire)) else {},
        tags=tuple(wire.tags or ()),
    )


def _extract_native_data(wire: OrchestrateFile) -> JsonObject:
    """Return the data of a dataset that the writer cannot rebuild from the fields of `EvalCase`."""
    found = {name: getattr(wire, name) for name in _KEPT}
    # One goal with data that a `Goal` cannot hold is enough to keep all goals.
    if any(map(_has_extra_fields, wire.goal_details)):
        found["goal_details"] = [goal.model_dump(exclude_unset=True) for goal in wire.goal_details]
    # An empty script means that the user says nothing more, which one turn alone does not express.
    if wire.user_prompts == [] or len(_get_prompts(wire)) <= len(wire.user_prompts or ()):
        found["user_prompts"] = wire.user_prompts
    return {name: value for name, value in found.items() if value is not None}


_KEPT = ("max_user_turns", "attack_data", "agents_list_or_path", "file_upload")


def _has_extra_fields(goal: AnyGoal) -> bool:
    if isinstance(goal, CheckGoal):
        return goal.kind != "observed"
    return isinstance(goal, TextGoal) and goal.summary is not None


def _iter_turns(wire: OrchestrateFile, journey: Journey) -> Iterator[CaseTurn]:
    """Yield the scripted turns of a dataset.

    Yield nothing if the dataset has no starting sentence: then the user is simulated.
    """
    prompts = _get_prompts(wire)
    # With several turns, it is unknown which turn a goal belongs to.
    expected = _build_expected_reply(journey) if len(prompts) == 1 else Reply()
    for prompt in prompts:
        yield CaseTurn(UserMessage(prompt), expected)


def _get_prompts(wire: OrchestrateFile) -> list[str]:
    """Return the user's scripted messages, at most `max_user_turns` if this number is above 0.

    Return [] without a starting sentence.
    """
    if not wire.starting_sentence:
        return []
    # The starting sentence counts as a turn.
    prompts = [wire.starting_sentence, *(wire.user_prompts or ())]
    return prompts[: wire.max_user_turns] if (wire.max_user_turns or 0) > 0 else prompts


def _build_expected_reply(journey: Journey) -> Reply:
    """Build a reply with the tool calls of all goals, and the response of the last goal that has one.

    The goals are in the order of the journey if it puts all of them in a single sequence. Otherwise they are
    in the order of the file.
    """
    rank = {name: at for at, name in enumerate(find_linear_goal_order(journey) or ())}
    goals = sorted(journey.goals, key=lambda goal: rank.get(goal.name, 0))
    responses = [goal.response for goal in goals if goal.type == "text" and goal.response]
    calls = [ToolCall(goal.tool_name, goal.args) for goal in goals if goal.type == "tool_call"]
    return Reply(responses[-1] if responses else None, tuple(calls))


def _build_goal(wire: AnyGoal) -> Goal:
    match wire:
        case ToolCallGoal():
            return Goal(wire.name, "tool_call", wire.tool_name, wire.args, wire.arg_matching or {})
        case TextGoal():
            response = wire.response or wire.summary or None
            return Goal(wire.name, "text", response=response, keywords=tuple(wire.keywords or ()))
        case InteractionGoal():
            return Goal(wire.name, "interaction", identifier=(wire.identifier.key, wire.identifier.value))
        case CheckGoal():
            return Goal("", "check", check=wire.check, scope=wire.scope)
        case _:
            return Goal(wire.name, wire.type, keywords=tuple(wire.keywords or ()))
