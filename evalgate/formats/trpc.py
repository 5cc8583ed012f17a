"""Eval sets of tRPC-Agent-Go, of all its releases: objects with `evalCases` and `{role, content}` messages.

What another program does (`expectedRunnerEnabled`) is kept for the way back.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Self

from pydantic import Field, model_validator

from evalgate.errors import InvalidInput, Problem
from evalgate.model import EvalCase, EvalSet, JsonObject, Reply, Scenario, ToolMock, Turn, UserMessage
from evalgate.protocols import Document
from evalgate.reading.caseids import Id, repeated_ids
from evalgate.reading.plainvalues import items_of, without_items
from evalgate.reading.storedcases import cases_of, has_twice
from evalgate.reading.trpcfiles import Wire, WireInvocation, WireSession, member, plain, spelled_position
from evalgate.reading.trpcmocks import tool_mocks
from evalgate.reading.trpcrubrics import WireRubric
from evalgate.reading.trpctoday import plain_case
from evalgate.reading.unreadkeys import unread_keys
from evalgate.reading.validation import Location, shaped

_OF_ITS_OWN = {"evalmode", "actualconversation", "contextmessages", "expectedrunnerenabled"}
_OF_ITS_RUBRICS = {"id", "content", "metricname"}
_OF_ITS_SCENARIOS = {"driver", "stopsignal", "maxallowedinvocations"}


_LOOKED_AT = 100  # a file is of one format: its first cases tell which, however many there are


class TrpcEvalSet:
    """Reads tRPC-Agent-Go's `.evalset.json`."""

    def recognises(self, document: Document) -> bool:
        """An object with eval cases as only tRPC-Agent-Go writes them; with `parts` they are ADK's too."""
        return any(map(_is_its_own, _listed(member(document.value, "evalCases"))[:_LOOKED_AT]))

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        problems: list[Problem] = []
        position = partial(_position, document)
        head = shaped(_EvalSet, _head(document.value), problems, file=document.path, position=position)
        cases = _cases(document, problems)
        if problems or has_twice(cases):
            problems += _repeated_ids(document)
        if head is None or problems:
            raise InvalidInput(sorted(problems))
        return EvalSet(
            head.eval_set_id, cases, document.path, head.name, head.description, head.creation_timestamp
        )

    def unread(self, document: Document) -> Iterator[Location]:
        """See `TellsUnread`."""
        yield from unread_keys(_EvalSet, document.value, spelled=plain)


def _is_its_own(case: object) -> bool:
    if not isinstance(case, dict):
        return False
    scenario = member(case, "conversationScenario")
    if isinstance(scenario, dict) and _OF_ITS_SCENARIOS & set(map(plain, scenario)):
        return True
    has_rubrics = any(_is_its_rubric(each) for each in _listed(member(case, "rubrics")))
    if (has_rubrics or _OF_ITS_OWN & set(map(plain, case))) and member(case, "finalSessionState") is None:
        turns = [*_listed(member(case, "conversation")), *_listed(member(case, "actualConversation"))]
        return not any(_has_parts(turn) for turn in turns)
    return any(_is_its_turn(turn) for turn in _listed(member(case, "conversation")))


def _is_its_rubric(rubric: object) -> bool:
    return isinstance(rubric, dict) and bool(_OF_ITS_RUBRICS & set(map(plain, rubric)))


def _is_its_turn(turn: object) -> bool:
    messages = member(turn, "userContent"), member(turn, "finalResponse")
    has_content = any(isinstance(each, dict) and "content" in set(map(plain, each)) for each in messages)
    return (has_content or member(turn, "tools") is not None) and not _has_parts(turn)


def _has_parts(turn: object) -> bool:
    messages = member(turn, "userContent"), member(turn, "finalResponse")
    return any(isinstance(each, dict) and "parts" in each for each in messages)


def _repeated_ids(document: Document) -> Iterator[Problem]:
    ids = (
        (member(case, "evalId"), ("evalCases", index, "evalId"))
        for index, case in enumerate(_listed(member(document.value, "evalCases")))
    )
    return repeated_ids(ids, file=document.path, position=partial(_position, document))


def _listed(value: object) -> Sequence[Any]:
    return items_of(value) or ()


def _position(document: Document, location: Location) -> tuple[int, int]:
    return document.position(spelled_position(document.value, location))


# --- the file's shapes --------------------------------------------------------------------------------------


class _Scenario(Wire):
    starting_prompt: str = Field(default="", alias="startingPrompt")
    conversation_plan: str = Field(alias="conversationPlan")
    driver: Any = None
    stop_signal: Any = Field(default=None, alias="stopSignal")
    max_allowed_invocations: Any = Field(default=None, alias="maxAllowedInvocations")

    def as_ours(self) -> Scenario:
        """The scenario. 0 turns are no limit; where nothing ends it, it ends as the run's own do."""
        limit = self.max_allowed_invocations
        is_limited = type(limit) is int and limit >= 0
        signal = self.stop_signal if isinstance(self.stop_signal, str) and self.stop_signal.strip() else None
        return Scenario(
            self.starting_prompt,
            self.conversation_plan,
            stop_signal="" if signal is None and is_limited and limit else signal,
            max_turns=(limit or -1) if is_limited else None,
            driver=str(self.driver or ""),
        )


class _Case(Wire):
    eval_id: Id = Field(alias="evalId")
    eval_mode: str = Field(default="", alias="evalMode")
    context_messages: list[dict[str, Any]] = Field(default_factory=list, alias="contextMessages")
    conversation: list[WireInvocation] = Field(default_factory=list)
    actual_conversation: list[WireInvocation] = Field(default_factory=list, alias="actualConversation")
    scenario: _Scenario | None = Field(default=None, alias="conversationScenario")
    session: WireSession = Field(alias="sessionInput")
    rubrics: list[WireRubric] = Field(default_factory=list)
    creation_timestamp: float = Field(default=0.0, alias="creationTimestamp")
    expected_runner: Any = Field(default=None, alias="expectedRunnerEnabled")

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        """What makes the original fail the case before it asks the agent is wrong with the file."""
        fault = self._trace_fault() if self.eval_mode == "trace" else self._fault()
        asked = self.actual_conversation if self.eval_mode == "trace" else self.conversation
        if not fault and any(turn.user_content is None for turn in asked):
            fault = "has a turn without `userContent`"
        if fault:
            raise ValueError(fault)
        return self

    def _trace_fault(self) -> str:
        recorded, expected = len(self.actual_conversation), len(self.conversation)
        if self.scenario:
            return "is a trace and a scenario: a trace holds what was said"
        if not recorded and not expected:
            return "is a trace without a conversation"
        if recorded and expected and recorded != expected:
            return f"expects {expected} turns and holds a trace of {recorded}"
        return ""

    def _fault(self) -> str:
        if self.actual_conversation:
            return 'has an `actualConversation`, which only a case with "evalMode": "trace" may have'
        if not self.conversation and self.scenario is None:
            return "holds neither a conversation nor a scenario"
        return "holds a conversation and a scenario" if self.conversation and self.scenario else ""


class _EvalSet(Wire):
    eval_set_id: Id = Field(alias="evalSetId")
    name: str | None = None
    description: str | None = None
    cases: list[_Case] = Field(default_factory=list, alias="evalCases")
    creation_timestamp: float = Field(default=0.0, alias="creationTimestamp")


# --- to our own ---------------------------------------------------------------------------------------------


def _head(value: object) -> object:
    """What the file says beside its cases."""
    (key,) = spelled_position(value, ("evalCases",))
    return without_items(value, str(key))


def _cases(document: Document, problems: list[Problem]) -> Sequence[EvalCase]:
    (key,) = spelled_position(document.value, ("evalCases",))
    position = partial(_position, document)

    def make(index: int, raw: object) -> EvalCase | None:
        place, (line, _) = ("evalCases", index), document.position((key, index))
        if (case := plain_case(raw, line)) is not None:
            return case
        wire = shaped(_Case, raw, problems, file=document.path, position=position, prefix=place)
        return None if wire is None else _case(wire, line)

    return cases_of(_listed(member(document.value, "evalCases")), make)


def _case(wire: _Case, line: int) -> EvalCase:
    plan = wire.scenario
    return EvalCase(
        eval_id=wire.eval_id,
        turns=_turns(wire),
        scenario=plan.as_ours() if plan else None,
        session=wire.session.as_ours(),
        line=line,
        context_messages=tuple(wire.context_messages),
        recorded=_recorded(wire),
        rubrics=tuple([rubric.as_ours(number) for number, rubric in enumerate(wire.rubrics, start=1)]),
        creation_timestamp=wire.creation_timestamp,
        native=_native({"trpc": _beyond(wire)}),
        tool_mocks=_mocks(wire),
    )


def _mocks(case: _Case) -> tuple[ToolMock, ...]:
    turns = enumerate(case.conversation)
    return tuple(mock for index, turn in turns for mock in tool_mocks(turn.tool_mock, index))


def _native(kept: Mapping[str, JsonObject]) -> Mapping[str, JsonObject]:
    return {name: value for name, value in kept.items() if value}


def _beyond(case: _Case) -> JsonObject:
    """What a case says that is in no field of ours."""
    found: dict[str, object] = {"expectedRunnerEnabled": case.expected_runner}
    if case.conversation and case.actual_conversation:
        recorded = [_recorded_beyond(turn) for turn in case.actual_conversation]
        found["actualConversation"] = recorded if any(recorded) else None
    return {key: value for key, value in found.items() if value}


def _recorded_beyond(recorded: WireInvocation) -> JsonObject:
    found = {
        "invocationId": recorded.invocation_id,
        "creationTimestamp": recorded.creation_timestamp,
        **recorded.beyond(),
    }
    return {key: value for key, value in found.items() if value}


def _turns(case: _Case) -> tuple[Turn, ...]:
    if case.eval_mode == "trace" and not (case.conversation and case.actual_conversation):
        # There is a recording and nothing to hold it against.
        asked = case.conversation or case.actual_conversation
        return tuple([_turn(turn, Reply(), turn) for turn in asked])
    pairs = zip_longest(case.conversation, case.actual_conversation)
    return tuple([_turn(turn, turn.reply(), recorded) for turn, recorded in pairs])


def _turn(wire: WireInvocation, expected: Reply, recorded: WireInvocation | None) -> Turn:
    kept = wire.beyond()
    if recorded and wire.user_content and _user(recorded) != _user(wire):
        kept = {"userContent": wire.user_content.as_written(), **kept}
    return Turn(
        _user(recorded or wire),
        expected,
        execution=recorded.execution_trace if recorded else None,
        invocation_id=wire.invocation_id,
        creation_timestamp=wire.creation_timestamp,
        native=_native({"trpc": kept}),
    )


def _user(turn: WireInvocation) -> UserMessage:
    return turn.user_content.as_user_message() if turn.user_content else UserMessage("")


def _recorded(case: _Case) -> tuple[Reply, ...] | None:
    if case.eval_mode != "trace":
        return None
    return tuple([turn.reply() for turn in case.actual_conversation or case.conversation])
