"""Datasets of watsonx Orchestrate: one conversation each, with the graph of goals that it should reach.

The rules of the loader are those of its evaluation framework 1.6.9; beyond it, a file may be a list of
datasets. What is not evaluated here (`attack_data`, `file_upload`, …) is kept for the way back.
`max_user_turns` limits whoever plays the user: a script ends where it ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from evalgate.errors import InvalidInput, Problem
from evalgate.model import (
    ArgMatching,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    JsonObject,
    Reply,
    Scenario,
    SessionInput,
    ToolCall,
    Turn,
    UserMessage,
)
from evalgate.protocols import Document
from evalgate.reading.caseids import Id, repeated_ids
from evalgate.reading.goallines import line_of_goals
from evalgate.reading.plainvalues import items_of
from evalgate.reading.storedcases import cases_of, has_twice
from evalgate.reading.unreadkeys import unread_keys
from evalgate.reading.validation import Location, listed, shaped

_ENDING = ".json"


class OrchestrateDataset:
    """Reads the datasets of `orchestrate evaluations evaluate`."""

    def recognises(self, document: Document) -> bool:
        """An object with goals and their details, or a list that holds one."""
        listed = items_of(document.value)
        return any(map(_is_dataset, [document.value] if listed is None else listed))

    def read(self, document: Document) -> EvalSet:
        """The datasets of the file. The set is called by its path, a case by its `dataset_name` or the file.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        problems: list[Problem] = []
        cases = _cases(document, problems)
        if problems or has_twice(cases):
            problems += repeated_ids(_ids(document), file=document.path, position=document.position)
        if problems:
            raise InvalidInput(sorted(problems))
        return EvalSet(document.path, cases, document.path)

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        listed = items_of(document.value)
        if listed is not None:
            for index, value in enumerate(listed):
                yield from _unread(value, (index,))
        else:
            yield from _unread(document.value, ())


def _unread(value: object, place: Location) -> Iterator[Location]:
    dataset = value if isinstance(value, dict) else {}
    # Goals one by one: which keys one may have depends on its type.
    yield from unread_keys(_Dataset, {**dataset, "goal_details": None}, place)
    for index, goal in enumerate(dataset.get("goal_details") or ()):
        yield from unread_keys(_MODELS[goal["type"]], goal, (*place, "goal_details", index))


def _is_dataset(value: object) -> bool:
    return isinstance(value, dict) and {"goals", "goal_details"} <= value.keys()


def _cases(document: Document, problems: list[Problem]) -> Sequence[EvalCase]:
    position, listed = partial(_position, document), items_of(document.value)

    def make(index: int, value: object) -> EvalCase | None:
        place: Location = () if listed is None else (index,)
        wire = shaped(_Dataset, value, problems, file=document.path, position=position, prefix=place)
        if wire is None:
            return None
        name = wire.dataset_name or _unsaid_name(document, index)
        return _case(wire, name, document.position(place)[0])

    return cases_of([document.value] if listed is None else listed, make)


def _unsaid_name(document: Document, index: int) -> str:
    """What a dataset is called that does not say it."""
    stem, listed = PurePath(document.path).name.removesuffix(_ENDING), items_of(document.value)
    return f"{stem}-{index + 1}" if listed is not None and len(listed) > 1 else stem


def _ids(document: Document) -> Iterator[tuple[object, Location]]:
    for index, value in enumerate(items_of(document.value) or ()):
        name = value.get("dataset_name") if isinstance(value, dict) else None
        yield name or _unsaid_name(document, index), (index,)


def _position(document: Document, location: Location) -> tuple[int, int]:
    """The place of a location, without the tags that pydantic puts between a goal and its fields."""
    return document.position(tuple(part for part in location if part not in _TYPES))


# --- the file's shapes --------------------------------------------------------------------------------------

_TYPES = frozenset(
    {"tool_call", "text", "interaction", "assert_llm", "conversational_search", "tool_response"}
)

_Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _Goal(_Wire):
    name: Id


class _ToolCallGoal(_Goal):
    type: Literal["tool_call"]
    tool_name: _Text
    args: dict[str, Any] | None = None
    arg_matching: dict[str, ArgMatching] | None = None

    @model_validator(mode="after")
    def _matches_what_is_there(self) -> Self:
        known = {path for path, _ in _paths(self.args or {})}
        unknown = [path for path in self.arg_matching or {} if self.args and path not in known]
        if unknown:
            raise ValueError(f"must hold in `arg_matching` paths of `args` only, not {listed(unknown)}")
        return self


def _paths(args: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in args.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


class _TextGoal(_Goal):
    type: Literal["text"]
    response: str | None = None
    summary: str | None = None
    keywords: list[str] | None = None


class _Identifier(_Wire):
    key: str
    value: str


class _InteractionGoal(_Goal):
    type: Literal["interaction"]
    identifier: _Identifier


class _CheckGoal(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    type: Literal["assert_llm"]
    kind: Literal["observed", "policy"]
    check: str
    scope: Literal["response", "conversation"] = "conversation"


class _SearchGoal(_Goal):
    type: Literal["conversational_search", "tool_response"]
    keywords: list[str] | None = None


_MODELS: Mapping[str, type[BaseModel]] = {
    "tool_call": _ToolCallGoal,
    "text": _TextGoal,
    "interaction": _InteractionGoal,
    "assert_llm": _CheckGoal,
    "conversational_search": _SearchGoal,
    "tool_response": _SearchGoal,
}

_AnyGoal: TypeAlias = Annotated[
    _ToolCallGoal | _TextGoal | _InteractionGoal | _CheckGoal | _SearchGoal, Field(discriminator="type")
]


def _without_null(value: object) -> object:
    return {} if value is None else value


def _listed_names(value: object) -> object:
    return [] if value is None else value


class _Dataset(_Wire):
    agent: str | None = None
    story: _Text
    starting_sentence: str | None = None
    goals: dict[str, Annotated[list[str], BeforeValidator(_listed_names)]]
    goal_details: Annotated[list[_AnyGoal], Field(min_length=1)]
    dataset_name: Id | None = None
    user_prompts: list[str] | None = None
    max_user_turns: int | None = None
    attack_data: Any = None
    agents_list_or_path: Any = None
    file_upload: Any = None
    tags: list[str] | None = None
    runtime_context: Annotated[dict[str, Any], BeforeValidator(_without_null)] = {}
    context_variables: Annotated[dict[str, Any], BeforeValidator(_without_null)] = {}

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        named = {goal.name for goal in self.goal_details if not isinstance(goal, _CheckGoal)}
        if named and not self.goals:
            raise ValueError("must name its goals in `goals`: they are empty")
        ordered = {*self.goals, *(name for names in self.goals.values() for name in names)}
        if unknown := sorted(ordered - named):
            raise ValueError(f"must describe in `goal_details` all that `goals` names: {listed(unknown)}")
        if unordered := sorted(named - ordered):
            raise ValueError(f"must name in `goals` all that `goal_details` describes: {listed(unordered)}")
        return self


# --- to our own ---------------------------------------------------------------------------------------------


def _case(wire: _Dataset, name: str, line: int) -> EvalCase:
    journey = _journey(wire)
    turns = tuple(_turns(wire, journey))
    return EvalCase(
        name,
        turns,
        scenario=None if turns else Scenario("", wire.story, max_turns=wire.max_user_turns),
        session=SessionInput(wire.agent or "", state={**wire.context_variables, **wire.runtime_context}),
        line=line,
        journey=journey,
        native={"orchestrate": kept} if (kept := _beyond(wire)) else {},
        tags=tuple(wire.tags or ()),
    )


def _beyond(wire: _Dataset) -> JsonObject:
    """What a dataset says that is in no field of ours; its goals as a whole, where they say more."""
    found = {name: getattr(wire, name) for name in _KEPT}
    if any(map(_says_more, wire.goal_details)):
        found["goal_details"] = [goal.model_dump(exclude_unset=True) for goal in wire.goal_details]
    if not wire.starting_sentence:
        found["user_prompts"] = wire.user_prompts or None
    return {name: value for name, value in found.items() if value is not None}


_KEPT = ("max_user_turns", "attack_data", "agents_list_or_path", "file_upload")


def _says_more(goal: _ToolCallGoal | _TextGoal | _InteractionGoal | _CheckGoal | _SearchGoal) -> bool:
    if isinstance(goal, _CheckGoal):
        return goal.kind != "observed"
    return isinstance(goal, _TextGoal) and goal.summary is not None


def _turns(wire: _Dataset, journey: Journey) -> Iterator[Turn]:
    """The script. Without a starting sentence somebody has to play the user."""
    if not wire.starting_sentence:
        return
    prompts = [wire.starting_sentence, *(wire.user_prompts or ())]
    # Only where there is one turn is it clear which turn the goals belong to.
    expected = _expected(journey) if len(prompts) == 1 else Reply()
    for prompt in prompts:
        yield Turn(UserMessage(prompt), expected)


def _expected(journey: Journey) -> Reply:
    """What the goals ask for, in their order where they have one alone; else in the order of the file."""
    place = {name: at for at, name in enumerate(line_of_goals(journey) or ())}
    goals = sorted(journey.goals, key=lambda goal: place.get(goal.name, 0))
    responses = [goal.response for goal in goals if goal.type == "text" and goal.response]
    calls = [ToolCall(goal.tool_name, goal.args) for goal in goals if goal.type == "tool_call"]
    return Reply(responses[-1] if responses else None, tuple(calls))


def _journey(wire: _Dataset) -> Journey:
    order = {name: tuple(later) for name, later in wire.goals.items()}
    return Journey(tuple(map(_goal, wire.goal_details)), order, wire.story, wire.max_user_turns)


def _goal(wire: _ToolCallGoal | _TextGoal | _InteractionGoal | _CheckGoal | _SearchGoal) -> Goal:
    match wire:
        case _ToolCallGoal():
            return Goal(wire.name, "tool_call", wire.tool_name, wire.args, wire.arg_matching or {})
        case _TextGoal():
            response = wire.summary if wire.response is None else wire.response
            return Goal(wire.name, "text", response=response, keywords=tuple(wire.keywords or ()))
        case _InteractionGoal():
            return Goal(wire.name, "interaction", identifier=(wire.identifier.key, wire.identifier.value))
        case _CheckGoal():
            return Goal("", "check", check=wire.check, scope=wire.scope)
        case _SearchGoal():
            return Goal(wire.name, wire.type, keywords=tuple(wire.keywords or ()))
