"""Write eval sets as tRPC-Agent-Go does today: camelCase, messages as `{role, content}`, nothing empty."""

import json
from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.core.protocols import Written
from evalgate.core.types import (
    EvalCase,
    EvalSet,
    JsonObject,
    Message,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from evalgate.datasets.conversion_losses import as_trpc, case_losses, check_something_is_left
from evalgate.integrations.trpc.cases import unnamed


@frozen
class ToolPairs:
    """The calls of a reply in order, each with its answer, if it has one."""

    pairs: tuple[tuple[ToolCall, ToolResult | None], ...]
    strays: tuple[ToolResult, ...]
    """Answers that no call asked for."""

    @property
    def ids(self) -> tuple[str, ...]:
        """An id for each call: its own where all have one, and each another; else its number."""
        own = [call.id for call, _ in self.pairs if call.id]
        if len(own) == len(set(own)) == len(self.pairs):
            return tuple(own)
        return tuple(str(number) for number in range(1, len(self.pairs) + 1))


def tool_pairs(reply: Reply) -> ToolPairs:
    """An answer belongs to the first call before or behind it that has its id, else its name."""
    open_answers = [event for event in reply.events if isinstance(event, ToolResult)]
    pairs = []
    for call in reply.tool_calls:
        answer = _first(call, open_answers)
        if answer is not None:
            # By identity: equal answers are as many as there are.
            open_answers = [each for each in open_answers if each is not answer]
        pairs.append((call, answer))
    return ToolPairs(tuple(pairs), tuple(open_answers))


def _first(call: ToolCall, answers: list[ToolResult]) -> ToolResult | None:
    for answer in answers:
        fits = answer.id == call.id if answer.id and call.id else answer.name == call.name
        if fits:
            return answer
    return None


_NAME = "trpc"
_HOLDS = frozenset(
    {
        *("context_messages", "recorded", "rubrics", "rubric_metrics", "user_id", "creation_timestamp"),
        *(
            "invocation_id",
            "messages",
            "message_authors",
            "answers",
            "call_ids",
            "other_args",
            "limits",
            "driver",
        ),
    }
)


class TrpcWriter:
    """The file `<set>.evalset.json`."""

    def write(self, eval_set: EvalSet) -> Written:
        """The file's text, and what it has no place for. A case without turns or a scenario has none.

        Raises:
            InvalidInput: no case can be said at all.
        """
        cases = [_case(case) for case in eval_set.cases if _can_be_said(case)]
        value = {
            "evalSetId": eval_set.eval_set_id,
            **_given(name=eval_set.name, description=eval_set.description),
            "evalCases": cases,
            **_given(creationTimestamp=eval_set.creation_timestamp),
        }
        lost = tuple(f"{case.eval_id}: {what}" for case in eval_set.cases for what in _lost(case))
        check_something_is_left(eval_set, cases, lost)
        return Written(json.dumps(value, indent=2, ensure_ascii=False) + "\n", lost)


def _can_be_said(case: EvalCase) -> bool:
    return bool(case.turns) or case.scenario is not None


def _lost(case: EvalCase) -> Iterator[str]:
    if not _can_be_said(case):
        yield "the whole case: it has no turn"
        return
    yield from case_losses(case, format_name=_NAME, holds=_HOLDS, attachment=as_trpc)
    said = {id(rubric) for rubric in _sayable(case)}
    yield from (
        f"the rubric `{rubric.rubric_id}`, which is for no metric"
        if rubric.text.strip()
        else "a rubric without a text"
        for rubric in case.rubrics
        if id(rubric) not in said
    )
    for number, turn in enumerate(case.turns, start=1):
        yield from (f"turn {number}: {what}" for what in _lost_of_tools(turn.expected))
    for number, reply in enumerate(case.recorded or (), start=1):
        yield from (f"recorded turn {number}: {what}" for what in _lost_of_tools(reply))


def _lost_of_tools(reply: Reply) -> Iterator[str]:
    tools = tool_pairs(reply)
    yield from (f"an answer of `{answer.name}` that no call asked for" for answer in tools.strays)
    for (call, answer), name in zip(tools.pairs, tools.ids, strict=True):
        if call.id and call.id != name:
            yield f"the id `{call.id}` of a call, which is not its alone"
        if answer is not None and answer.result is None:
            yield f"an answer of `{answer.name}` that says nothing"


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, (), 0.0)}


def _case(case: EvalCase) -> JsonObject:
    kept = case.native.get(_NAME, {})
    return {
        "evalId": case.eval_id,
        **({} if case.recorded is None else {"evalMode": "trace"}),
        **_given(contextMessages=case.context_messages),
        **_conversations(case, kept.get("actualConversation")),
        **({"conversationScenario": _scenario(case.scenario)} if case.scenario else {}),
        **_given(expectedRunnerEnabled=kept.get("expectedRunnerEnabled")),
        "sessionInput": _given(
            appName=case.session.app_name, userId=case.session.user_id, state=case.session.state
        ),
        **_given(rubrics=[_rubric(number, rubric) for number, rubric in enumerate(_sayable(case), start=1)]),
        **_given(creationTimestamp=case.creation_timestamp),
    }


def _conversations(case: EvalCase, kept: object) -> JsonObject:
    """What is expected, and what was recorded; one list where nothing is expected of a recording."""
    if case.recorded is None:
        return _given(conversation=[_invocation(turn, turn.expected) for turn in case.turns])
    asked = [_invocation(turn, turn.expected) for turn in case.turns]
    if kept is None and not any(_EXPECTED.intersection(turn) for turn in asked):
        replies = zip(case.turns, case.recorded, strict=False)
        return {"conversation": [_invocation(turn, reply) for turn, reply in replies]}
    extras = kept if isinstance(kept, list) else [{}] * len(case.recorded)
    recorded = zip(case.turns, case.recorded, extras, strict=False)
    return {
        "conversation": asked,
        "actualConversation": [_invocation(Turn(turn.user), reply, extra) for turn, reply, extra in recorded],
    }


_EXPECTED = {"finalResponse", "tools", "intermediateResponses"}


def _scenario(scenario: Scenario) -> JsonObject:
    limits = _given(driver=scenario.driver, stopSignal=scenario.stop_signal)
    if scenario.max_turns is not None:
        # A limit alone would let the original's user talk until it is reached.
        own = {} if scenario.stop_signal is not None else {"stopSignal": _SIGNAL}
        limits |= {**own, "maxAllowedInvocations": max(scenario.max_turns, 0)}
    return {
        # Written when empty, too: the file may pass for one of Google ADK's, which demands it.
        "startingPrompt": scenario.starting_prompt,
        "conversationPlan": scenario.conversation_plan,
        **limits,
    }


_SIGNAL = "</finished>"


def _sayable(case: EvalCase) -> Iterator[Rubric]:
    """Rubrics that the original accepts: it fails a case with one that is for no metric, or blank."""
    return (rubric for rubric in case.rubrics if rubric.metric.strip() and rubric.text.strip())


def _rubric(number: int, rubric: Rubric) -> JsonObject:
    return _given(
        metricName=rubric.metric,
        id=rubric.rubric_id if rubric.rubric_id.strip() else unnamed(number),
        content={"text": rubric.text},
        description=rubric.description,
        type=rubric.type,
    )


def _invocation(turn: Turn, reply: Reply, recorded: JsonObject | None = None) -> JsonObject:
    kept = turn.native.get(_NAME, {}) if recorded is None else recorded
    response = None if reply.response is None else {"role": "assistant", "content": reply.response}
    built = {
        **_given(invocationId=turn.invocation_id),
        "userContent": _user(turn.user),
        **_given(
            finalResponse=response,
            tools=_tools(reply),
            intermediateResponses=[_said(event) for event in reply.events if isinstance(event, Message)],
            creationTimestamp=turn.creation_timestamp,
        ),
    }
    return {**built, **kept}


def _user(user: UserMessage) -> JsonObject:
    parts = [found for part in user.attachments if (found := as_trpc(part)) is not None]
    return {"role": "user", "content": user.text, **_given(content_parts=parts)}


def _said(message: Message) -> JsonObject:
    return {"role": message.author or "assistant", "content": message.text}


def _tools(reply: Reply) -> list[JsonObject]:
    tools = tool_pairs(reply)
    found: list[JsonObject] = []
    for (call, answer), name in zip(tools.pairs, tools.ids, strict=True):
        arguments = call.args if call.other_args is None else call.other_args
        result = None if answer is None else answer.result
        values = {"arguments": arguments, "result": result}
        given = {key: value for key, value in values.items() if value is not None}
        found.append({"id": name, "name": call.name, **given})
    return found
