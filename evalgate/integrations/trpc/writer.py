"""Writer of tRPC-Agent-Go's eval sets: camelCase, messages as `{role, content}`, no empty values."""

from collections.abc import Iterator

from evalgate.core.protocols import WriteResult
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    JsonObject,
    Message,
    Reply,
    Rubric,
    Scenario,
)
from evalgate.datasets.conversion_losses import (
    build_write_result,
    check_cases_remain,
    describe_case_losses,
    omit_empty,
    to_trpc_part,
)
from evalgate.datasets.tool_call_pairs import match_tool_results
from evalgate.integrations.trpc.cases import build_default_rubric_id

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
    """Writer of the file `<set>.evalset.json`."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """Return the file's text, and a list of the data that the format cannot hold.

        A case with neither turns nor a scenario is left out.

        Raises:
            InvalidInputError: the set has cases, and none of them can be written.
        """
        cases = [_build_case(case) for case in eval_set.cases if _is_writable(case)]
        value = {
            "evalSetId": eval_set.eval_set_id,
            **omit_empty(name=eval_set.name, description=eval_set.description),
            "evalCases": cases,
            **omit_empty(creationTimestamp=eval_set.creation_timestamp),
        }
        lost = tuple(f"{case.eval_id}: {what}" for case in eval_set.cases for what in _describe_losses(case))
        check_cases_remain(eval_set, cases, lost)
        return build_write_result(value, lost)


def _is_writable(case: EvalCase) -> bool:
    return bool(case.turns) or case.scenario is not None


def _describe_losses(case: EvalCase) -> Iterator[str]:
    if not _is_writable(case):
        yield "the whole case: it has no turn"
        return
    yield from describe_case_losses(case, format_name=_NAME, holds=_HOLDS, attachment=to_trpc_part)
    written = {id(rubric) for rubric in _iter_writable_rubrics(case)}
    yield from (
        f"the rubric `{rubric.rubric_id}`, which is for no metric"
        if rubric.text.strip()
        else "a rubric without a text"
        for rubric in case.rubrics
        if id(rubric) not in written
    )
    for number, turn in enumerate(case.turns, start=1):
        yield from (f"turn {number}: {what}" for what in _describe_tool_losses(turn.expected))
    for number, reply in enumerate(case.recorded or (), start=1):
        yield from (f"recorded turn {number}: {what}" for what in _describe_tool_losses(reply))


def _describe_tool_losses(reply: Reply) -> Iterator[str]:
    tools = match_tool_results(reply)
    yield from (f"an answer of `{answer.name}` that no call asked for" for answer in tools.unmatched)
    for (call, answer), name in zip(tools.pairs, tools.ids, strict=True):
        if call.id and call.id != name:
            yield f"the id `{call.id}` of a call, which is not its alone"
        if answer is not None and answer.result is None:
            yield f"an answer of `{answer.name}` that says nothing"


def _build_case(case: EvalCase) -> JsonObject:
    kept = case.native.get(_NAME, {})
    return {
        "evalId": case.eval_id,
        **({} if case.recorded is None else {"evalMode": "trace"}),
        **omit_empty(contextMessages=case.context_messages),
        **_build_conversations(case, kept.get("actualConversation")),
        **({"conversationScenario": _build_scenario(case.scenario)} if case.scenario else {}),
        **omit_empty(expectedRunnerEnabled=kept.get("expectedRunnerEnabled")),
        "sessionInput": omit_empty(
            appName=case.session.app_name, userId=case.session.user_id, state=case.session.state
        ),
        **omit_empty(
            rubrics=[
                build_rubric(number, rubric)
                for number, rubric in enumerate(_iter_writable_rubrics(case), start=1)
            ]
        ),
        **omit_empty(creationTimestamp=case.creation_timestamp),
    }


def _build_conversations(case: EvalCase, kept: object) -> JsonObject:
    """Return the JSON of a case's turns under the keys `conversation` and `actualConversation`.

    `conversation` has the turns with the expected replies. If the case has recorded replies (a trace),
    `actualConversation` has the turns with the recorded replies. If a trace expects nothing and `kept` is
    None, the recorded replies are under `conversation`, and there is no `actualConversation`.

    `kept` is the native data of the recorded turns: a list with an object for each turn.
    """
    if case.recorded is None:
        return omit_empty(conversation=[build_invocation(turn, turn.expected) for turn in case.turns])
    asked = [build_invocation(turn, turn.expected) for turn in case.turns]
    if kept is None and not any(_EXPECTED.intersection(turn) for turn in asked):
        replies = zip(case.turns, case.recorded, strict=False)
        return {"conversation": [build_invocation(turn, reply) for turn, reply in replies]}
    extras = kept if isinstance(kept, list) else [{}] * len(case.recorded)
    recorded = zip(case.turns, case.recorded, extras, strict=False)
    return {
        "conversation": asked,
        "actualConversation": [
            build_invocation(CaseTurn(turn.user), reply, extra) for turn, reply, extra in recorded
        ],
    }


_EXPECTED = {"finalResponse", "tools", "intermediateResponses"}


def _build_scenario(scenario: Scenario) -> JsonObject:
    limits = omit_empty(driver=scenario.driver, stopSignal=scenario.stop_signal)
    if scenario.max_turns is not None:
        # With a limit alone, tRPC-Agent-Go's simulated user would talk until the limit is reached.
        own = {} if scenario.stop_signal is not None else {"stopSignal": _SIGNAL}
        limits |= {**own, "maxAllowedInvocations": max(scenario.max_turns, 0)}
    return {
        # Written even if empty: the file may be taken for one of Google ADK's, which requires it.
        "startingPrompt": scenario.starting_prompt,
        "conversationPlan": scenario.conversation_plan,
        **limits,
    }


_SIGNAL = "</finished>"


def _iter_writable_rubrics(case: EvalCase) -> Iterator[Rubric]:
    """Yield the rubrics that have a metric and a text; tRPC-Agent-Go fails a case with any other rubric."""
    return (rubric for rubric in case.rubrics if rubric.metric.strip() and rubric.text.strip())


def build_rubric(number: int, rubric: Rubric) -> JsonObject:
    """Return the JSON of a rubric. A rubric without an id gets an id from `number`, counted from 1."""
    return omit_empty(
        metricName=rubric.metric,
        id=rubric.rubric_id if rubric.rubric_id.strip() else build_default_rubric_id(number),
        content={"text": rubric.text},
        description=rubric.description,
        type=rubric.type,
    )


def build_invocation(turn: CaseTurn, reply: Reply, recorded: JsonObject | None = None) -> JsonObject:
    """Return the JSON of a turn, with `reply` as its reply.

    `recorded` holds data that a reader kept. Its keys are added to the result, and replace keys of the same
    name. If `recorded` is None, the turn's native data is used instead.
    """
    kept = turn.native.get(_NAME, {}) if recorded is None else recorded
    parts = [found for part in turn.user.attachments if (found := to_trpc_part(part)) is not None]
    response = None if reply.response is None else {"role": "assistant", "content": reply.response}
    built = {
        **omit_empty(invocationId=turn.invocation_id),
        "userContent": {"role": "user", "content": turn.user.text, **omit_empty(content_parts=parts)},
        **omit_empty(
            finalResponse=response,
            tools=_build_tools(reply),
            intermediateResponses=[
                {"role": event.author or "assistant", "content": event.text}
                for event in reply.events
                if isinstance(event, Message)
            ],
            creationTimestamp=turn.creation_timestamp,
        ),
    }
    # The kept data comes last, because it has whole messages as the source has them.
    return {**built, **kept}


def _build_tools(reply: Reply) -> list[JsonObject]:
    tools = match_tool_results(reply)
    found: list[JsonObject] = []
    for (call, answer), name in zip(tools.pairs, tools.ids, strict=True):
        result = None if answer is None else answer.result
        values = {"arguments": call.arguments, "result": result}
        given = {key: value for key, value in values.items() if value is not None}
        found.append({"id": name, "name": call.name, **given})
    return found
