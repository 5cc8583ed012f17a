"""Eval sets of tRPC-Agent-Go, of all its releases: objects with `evalCases` and `{role, content}` messages.

What another program does (`toolMock`, `expectedRunnerEnabled`, `rubrics`, `executionTrace`) is passed over.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from evalgate.errors import InvalidInput, Problem
from evalgate.model import EvalCase, EvalSet, Reply, Scenario, Turn, UserMessage
from evalgate.protocols import Document
from evalgate.reading.caseids import Id, repeated_ids
from evalgate.reading.trpcfiles import Wire, WireInvocation, WireSession, member, plain, spelled_position
from evalgate.reading.validation import Location, problems_of

_OF_ITS_OWN = {"evalmode", "actualconversation", "contextmessages", "expectedrunnerenabled", "rubrics"}
_OF_ITS_SCENARIOS = {"driver", "stopsignal", "maxallowedinvocations"}


_LOOKED_AT = 100  # a file is of one format: its first cases tell which, however many there are


class TrpcEvalSet:
    """Reads tRPC-Agent-Go's `.evalset.json`."""

    def recognises(self, document: Document) -> bool:
        """An object with eval cases as only tRPC-Agent-Go writes them; with `parts` they are ADK's too."""
        cases = member(document.value, "evalCases")
        return isinstance(cases, list) and any(map(_is_its_own, cases[:_LOOKED_AT]))

    def read(self, document: Document) -> EvalSet:
        """The eval set, with the line of each case.

        Raises:
            InvalidInput: with every problem of the file, each at its line and column.
        """
        try:
            wire = _EvalSet.model_validate(document.value)
        except ValidationError as error:
            problems = problems_of(error, file=document.path, position=partial(_position, document))
            raise InvalidInput(sorted([*problems, *_repeated_ids(document)])) from None
        cases = tuple(_cases(wire, document))
        if len({case.eval_id for case in cases}) < len(cases):
            raise InvalidInput(sorted(_repeated_ids(document)))
        return EvalSet(wire.eval_set_id, cases, document.path, wire.name, wire.description)


def _is_its_own(case: object) -> bool:
    if not isinstance(case, dict):
        return False
    scenario = member(case, "conversationScenario")
    if isinstance(scenario, dict) and _OF_ITS_SCENARIOS & set(map(plain, scenario)):
        return True
    if _OF_ITS_OWN & set(map(plain, case)) and member(case, "finalSessionState") is None:
        turns = [*_listed(member(case, "conversation")), *_listed(member(case, "actualConversation"))]
        return not any(_has_parts(turn) for turn in turns)
    return any(_is_its_turn(turn) for turn in _listed(member(case, "conversation")))


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


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _position(document: Document, location: Location) -> tuple[int, int]:
    return document.position(spelled_position(document.value, location))


# --- the file's shapes --------------------------------------------------------------------------------------


class _Scenario(Wire):
    starting_prompt: str = Field(default="", alias="startingPrompt")
    conversation_plan: str = Field(alias="conversationPlan")


class _Case(Wire):
    eval_id: Id = Field(alias="evalId")
    eval_mode: str = Field(default="", alias="evalMode")
    context_messages: list[dict[str, Any]] = Field(default_factory=list, alias="contextMessages")
    conversation: list[WireInvocation] = Field(default_factory=list)
    actual_conversation: list[WireInvocation] = Field(default_factory=list, alias="actualConversation")
    scenario: _Scenario | None = Field(default=None, alias="conversationScenario")
    session: WireSession = Field(alias="sessionInput")

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        """What makes the original fail the case before it asks the agent is wrong with the file."""
        fault = self._trace_fault() if self.eval_mode == "trace" else self._fault()
        turns = [*self.conversation, *self.actual_conversation]
        if not fault and any(turn.user_content is None for turn in turns):
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


# --- to our own ---------------------------------------------------------------------------------------------


def _cases(wire: _EvalSet, document: Document) -> Iterator[EvalCase]:
    (key,) = spelled_position(document.value, ("evalCases",))
    for index, case in enumerate(wire.cases):
        line, _ = document.position((key, index))
        plan = case.scenario
        yield EvalCase(
            eval_id=case.eval_id,
            turns=_turns(case),
            scenario=Scenario(plan.starting_prompt, plan.conversation_plan) if plan else None,
            session=case.session.as_ours(),
            line=line,
            context_messages=tuple(case.context_messages),
            recorded=_recorded(case),
        )


def _turns(case: _Case) -> tuple[Turn, ...]:
    if case.eval_mode == "trace" and not (case.conversation and case.actual_conversation):
        # There is a recording and nothing to hold it against.
        return tuple([Turn(_user(turn)) for turn in case.conversation or case.actual_conversation])
    return tuple([Turn(_user(turn), turn.reply()) for turn in case.conversation])


def _user(turn: WireInvocation) -> UserMessage:
    return turn.user_content.as_user_message() if turn.user_content else UserMessage("")


def _recorded(case: _Case) -> tuple[Reply, ...] | None:
    if case.eval_mode != "trace":
        return None
    return tuple([turn.reply() for turn in case.actual_conversation or case.conversation])
