"""Pydantic models of tRPC-Agent-Go's cases, with their tool mocks and rubrics, and their conversion.

`fast_cases.py` builds the cases that have only the usual keys, because this is faster. All other cases, and
all errors, go through these models.

A tool mock has rules under `actual`, which apply to the agent, and under `expected`. Only the rules under
`actual` are read: the others apply to a runner that generates expectations, which a gate does not need. A
rule that cannot be applied is marked as unsupported, so that its case is not run.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Self

from pydantic import Field, model_validator

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    JsonObject,
    Reply,
    Rubric,
    Scenario,
    ToolMock,
    UserMessage,
)
from evalgate.documents.validation_errors import Id
from evalgate.integrations.trpc.file_models import TrpcInvocation, TrpcModel, TrpcSessionInput

_TREES = ("onlyTree", "ignoreTree", "numberTolerance")


def parse_tool_mocks(given: object, turn: int) -> Iterator[ToolMock]:
    """Yield the mocks in `given`, the `toolMock` of the turn at the index `turn` (from 0).

    The order matters: a call gets its result from the first mock that matches it. A rule that names no tool
    becomes an unsupported mock.
    """
    rules = given.get("actual") if isinstance(given, Mapping) else None
    for rule in rules if isinstance(rules, list) else ():
        if isinstance(rule, Mapping) and isinstance(rule.get("name"), str) and rule["name"]:
            yield _build_mock(rule["name"], rule, turn)
        else:
            yield ToolMock("", None, turn=turn, unsupported="a rule of `toolMock` names no tool")


def _build_mock(name: str, rule: Mapping[str, object], turn: int) -> ToolMock:
    arguments = rule.get("arguments")
    asked = arguments if isinstance(arguments, Mapping) else {}
    wanted = None if arguments is None or asked.get("ignore") is True else asked.get("expected")
    is_object = isinstance(wanted, Mapping)
    return ToolMock(
        name,
        rule.get("result"),
        wanted if isinstance(wanted, Mapping) else None,
        exact=is_object,
        turn=turn,
        unsupported=_explain_unsupported(
            name, rule, asked, free=arguments is None or asked.get("ignore") is True
        ),
    )


def _explain_unsupported(
    name: str, rule: Mapping[str, object], asked: Mapping[str, object], *, free: bool
) -> str:
    what = f"the rule of `toolMock` for `{name}`"
    if rule.get("llmGenerator") is not None:
        return f"{what} has a model make the result up, which evalgate does not: write a `result`"
    if rule.get("result") is None:
        return f"{what} has no `result`"
    trees = [key for key in _TREES if asked.get(key)]
    if trees:
        return f"{what} compares arguments by `{trees[0]}`, which evalgate does not for mocks"
    if not free and not isinstance(asked.get("expected"), Mapping):
        return f"{what} expects arguments that are no object"
    return ""


class _RubricContent(TrpcModel):
    text: str


class TrpcRubric(TrpcModel):
    """A statement that a judge must affirm, with the name of the metric that uses it."""

    id: str = ""
    metric_name: str = Field(alias="metricName")
    content: _RubricContent
    description: str | None = None
    type: str | None = None

    @model_validator(mode="after")
    def _require_content(self) -> Self:
        if not self.metric_name.strip():
            raise ValueError("must name the metric that it is for")
        if not self.content.text.strip():
            raise ValueError("must say what a judge is to affirm")
        return self

    def to_rubric(self, number: int) -> Rubric:
        """Convert to evalgate's rubric. A rubric without an id gets an id from `number`, counted from 1."""
        own = self.id if self.id.strip() else build_default_rubric_id(number)
        return Rubric(own, self.content.text, self.type, self.description, self.metric_name)


def build_default_rubric_id(number: int) -> str:
    """Return the id of a case's rubric that has no own id; `number` is the rubric's number, from 1."""
    return f"case_rubric_{number}"


class _Scenario(TrpcModel):
    starting_prompt: str = Field(default="", alias="startingPrompt")
    conversation_plan: str = Field(alias="conversationPlan")
    driver: Any = None
    stop_signal: Any = Field(default=None, alias="stopSignal")
    max_allowed_invocations: Any = Field(default=None, alias="maxAllowedInvocations")

    def to_scenario(self) -> Scenario:
        """Convert to evalgate's scenario, with its limit of turns and its stop signal.

        A positive limit stays. A limit of 0 becomes -1, which means no limit. A missing or invalid limit
        becomes None, so that the run's limit applies.

        A stop signal stays unless it is missing or blank. A missing or blank signal becomes "" if the limit
        is positive, so that only the limit ends the conversation. Without such a limit, it becomes None, so
        that the run's signal applies.
        """
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


class TrpcCase(TrpcModel):
    """One eval case, with its conversation or scenario."""

    eval_id: Id = Field(alias="evalId")
    # Any text but `trace` means the default mode.
    eval_mode: str = Field(default="", alias="evalMode")
    context_messages: list[dict[str, Any]] = Field(default_factory=list, alias="contextMessages")
    conversation: list[TrpcInvocation] = Field(default_factory=list)
    actual_conversation: list[TrpcInvocation] = Field(default_factory=list, alias="actualConversation")
    scenario: _Scenario | None = Field(default=None, alias="conversationScenario")
    # Required: without a session input tRPC-Agent-Go fails the case before it asks the agent.
    session: TrpcSessionInput = Field(alias="sessionInput")
    rubrics: list[TrpcRubric] = Field(default_factory=list)
    creation_timestamp: float = Field(default=0.0, alias="creationTimestamp")
    expected_runner: Any = Field(default=None, alias="expectedRunnerEnabled")

    @model_validator(mode="after")
    def _check_playable(self) -> Self:
        # tRPC-Agent-Go fails such a case before it asks the agent, so the file is at fault.
        fault = self._find_trace_fault() if self.eval_mode == "trace" else self._find_fault()
        asked = self.actual_conversation if self.eval_mode == "trace" else self.conversation
        if not fault and any(turn.user_content is None for turn in asked):
            fault = "has a turn without `userContent`"
        if fault:
            raise ValueError(fault)
        return self

    def _find_trace_fault(self) -> str:
        recorded, expected = len(self.actual_conversation), len(self.conversation)
        if self.scenario:
            return "is a trace and a scenario: a trace holds what was said"
        if not recorded and not expected:
            return "is a trace without a conversation"
        if recorded and expected and recorded != expected:
            return f"expects {expected} turns and holds a trace of {recorded}"
        return ""

    def _find_fault(self) -> str:
        if self.actual_conversation:
            return 'has an `actualConversation`, which only a case with "evalMode": "trace" may have'
        if not self.conversation and self.scenario is None:
            return "holds neither a conversation nor a scenario"
        return "holds a conversation and a scenario" if self.conversation and self.scenario else ""


class TrpcEvalSetFile(TrpcModel):
    """An eval set; `CaseListReader` reads its cases one by one."""

    eval_set_id: Id = Field(alias="evalSetId")
    name: str | None = None
    description: str | None = None
    cases: list[TrpcCase] = Field(default_factory=list, alias="evalCases")
    creation_timestamp: float = Field(default=0.0, alias="creationTimestamp")


def build_trpc_case(wire: TrpcCase, line: int) -> EvalCase:
    """Convert `wire`, the validated model of a case, to evalgate's type.

    `line` is the first line of the case in its file.
    """
    plan, recorded = wire.scenario, None
    if wire.eval_mode == "trace":
        recorded = tuple([turn.to_reply() for turn in wire.actual_conversation or wire.conversation])
    mocks = [
        mock
        for index, turn in enumerate(wire.conversation)
        for mock in parse_tool_mocks(turn.tool_mock, index)
    ]
    return EvalCase(
        eval_id=wire.eval_id,
        turns=_build_turns(wire),
        scenario=plan.to_scenario() if plan else None,
        session=wire.session.to_session_input(),
        line=line,
        context_messages=tuple(wire.context_messages),
        recorded=recorded,
        rubrics=tuple([rubric.to_rubric(number) for number, rubric in enumerate(wire.rubrics, start=1)]),
        creation_timestamp=wire.creation_timestamp,
        native=_drop_empty({"trpc": _extract_native_data(wire)}),
        tool_mocks=tuple(mocks),
    )


def _drop_empty(kept: Mapping[str, JsonObject]) -> Mapping[str, JsonObject]:
    return {name: value for name, value in kept.items() if value}


def _extract_native_data(case: TrpcCase) -> JsonObject:
    """Return the data of a case that no field of `EvalCase` holds, so that a writer can restore it."""
    found: dict[str, object] = {"expectedRunnerEnabled": case.expected_runner}
    if case.conversation and case.actual_conversation:
        recorded = [_extract_recorded_native_data(turn) for turn in case.actual_conversation]
        found["actualConversation"] = recorded if any(recorded) else None
    return {key: value for key, value in found.items() if value}


def _extract_recorded_native_data(recorded: TrpcInvocation) -> JsonObject:
    found = {
        "invocationId": recorded.invocation_id,
        "creationTimestamp": recorded.creation_timestamp,
        **recorded.extract_native_data(),
    }
    return {key: value for key, value in found.items() if value}


def _build_turns(case: TrpcCase) -> tuple[CaseTurn, ...]:
    if case.eval_mode == "trace" and not (case.conversation and case.actual_conversation):
        # There is a recording, and nothing to compare it with.
        asked = case.conversation or case.actual_conversation
        return tuple([_build_turn(turn, Reply(), turn) for turn in asked])
    pairs = zip_longest(case.conversation, case.actual_conversation)
    return tuple([_build_turn(turn, turn.to_reply(), recorded) for turn, recorded in pairs])


def _build_turn(wire: TrpcInvocation, expected: Reply, recorded: TrpcInvocation | None) -> CaseTurn:
    kept = wire.extract_native_data()
    if recorded and wire.user_content and _to_user_message(recorded) != _to_user_message(wire):
        kept = {"userContent": wire.user_content.to_json(), **kept}
    return CaseTurn(
        _to_user_message(recorded or wire),
        expected,
        execution=recorded.execution_trace if recorded else None,
        invocation_id=wire.invocation_id,
        creation_timestamp=wire.creation_timestamp,
        native=_drop_empty({"trpc": kept}),
    )


def _to_user_message(turn: TrpcInvocation) -> UserMessage:
    return turn.user_content.to_user_message() if turn.user_content else UserMessage("")
