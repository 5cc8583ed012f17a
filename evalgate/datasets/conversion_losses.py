"""Describe data that a conversion between formats loses, as `case: loss` or `case: turn 2: loss`.

The module also has functions that the writers of all formats share, and converts attachments. A case holds
an attachment in the form of the file that it was read from: a part of Google ADK has a key with its kind
(`inline_data`), and a part of tRPC-Agent-Go has a `type`.

The goals of a case belong to the whole conversation. If there is only one turn, its expected reply is the
same as the goals. If there are several turns, no goal is assigned to any of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import WriteResult
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.adk_turns import CONTENTS, differs_only_in_role, is_known_part
from evalgate.documents.json_layout import format_indented_json


def omit_empty(**fields: object) -> dict[str, object]:
    """Return the given fields without those that are None, "", False, zero or an empty container."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, (), 0.0)}


def build_write_result(file: object, losses: Iterable[str]) -> WriteResult:
    """Return the text of an eval set's file and the losses; `file` is the content as a JSON value."""
    return WriteResult(format_indented_json(file) + "\n", tuple(losses))


_FORMATTED = ("image", "audio")
"""Kinds of attachments with a `format` that is the second half of a MIME type."""


def to_adk_part(part: JsonObject) -> JsonObject | None:
    """Convert an attachment to a part in Google ADK's form; return None if ADK has no equivalent."""
    kind = part.get("type")
    if not isinstance(kind, str):
        # A part with a text would be read as a part of the user's text.
        return part if is_known_part(part) and not part.get("text") else None
    held = part.get(kind)
    if not isinstance(held, dict) or part.keys() != {"type", kind}:
        return None
    mime_type, name = _get_mime_type(kind, held), held.get("filename")
    if mime_type is None or not held.keys() <= {"data", "url", "format", "filename"}:
        return None
    more = {"display_name": name} if name else {}
    if held.get("data") and not held.get("url"):
        return {"inline_data": {"mime_type": mime_type, "data": held["data"], **more}}
    if held.get("url") and not held.get("data"):
        return {"file_data": {"file_uri": held["url"], "mime_type": mime_type, **more}}
    return None


def _get_mime_type(kind: str, held: JsonObject) -> str | None:
    form = held.get("format")
    if not isinstance(form, str) or not form:
        return None
    if kind in _FORMATTED and "filename" not in held:
        return f"{kind}/{form}"
    return form if kind == "file" and "/" in form else None


def to_trpc_part(part: JsonObject) -> JsonObject | None:
    """Convert an attachment to a part in tRPC-Agent-Go's form; return None if there is no equivalent."""
    if isinstance(part.get("type"), str):
        return part
    given = {key: value for key, value in part.items() if value is not None}
    if len(given) != 1:
        return None
    ((word, held),) = given.items()
    if not isinstance(held, dict):
        return None
    if word in {"inline_data", "inlineData"}:
        return _build_trpc_part(held, "data", "data")
    return _build_trpc_part(held, "file_uri", "url") if word in {"file_data", "fileData"} else None


_SNAKE = {"mimeType": "mime_type", "displayName": "display_name", "fileUri": "file_uri"}


def _build_trpc_part(held: dict[str, Any], source: str, target: str) -> JsonObject | None:
    members = {_SNAKE.get(key, key): value for key, value in held.items() if value is not None}
    mime_type, content = members.pop("mime_type", None), members.pop(source, None)
    name = members.pop("display_name", None)
    if members or not content or not isinstance(mime_type, str):
        return None
    kind, _, form = mime_type.partition("/")
    if kind in _FORMATTED and form and name is None:
        return {"type": kind, kind: {target: content, "format": form}}
    more = {"filename": name} if name else {}
    return {"type": "file", "file": {**more, target: content, "format": mime_type}} if form else None


def find_linear_goal_order(journey: Journey) -> tuple[str, ...] | None:
    """Return the names of the goals in order if they must be reached one after the other, else None.

    For example, the result is None if two goals may be the first. Goals of the type `check` are left out,
    because they have neither name nor order.
    """
    names = dict.fromkeys(goal.name for goal in journey.goals if goal.type != "check")
    followers = {name: set(journey.order.get(name, ())) for name in names}
    led = set[str]().union(*followers.values())
    firsts = [name for name in names if name not in led]
    line: list[str] = []
    while len(firsts) == 1 and firsts[0] not in line:
        line.append(firsts[0])
        firsts = sorted(followers.get(firsts[0], ()))
    return tuple(line) if not firsts and len(line) == len(names) else None


def describe_lost_goals(case: EvalCase) -> Iterator[str]:
    """Yield a description of each part of a case's goals that its turns and scenario do not express.

    Parts are the goals, their order, and the story of the user. Yield nothing for a case without goals.
    """
    journey = case.journey
    if journey is None:
        return
    if journey.story and case.scenario is None:
        yield "the story"
    if len(case.turns) != 1:
        yield "the goals and their order"
        return
    response = case.turns[0].expected.response
    for goal in journey.goals:
        yield from _describe_lost_goal(goal, response)
    if find_linear_goal_order(journey) is None:
        yield "the order of the goals, which is no line"


def _describe_lost_goal(goal: Goal, response: str | None) -> Iterator[str]:
    if goal.type == "tool_call":
        if any(way != "strict" for way in goal.arg_matching.values()):
            yield f"how the arguments of the goal `{goal.name}` are compared"
        return
    if goal.type == "text":
        if goal.response != response:
            yield f"the response of the goal `{goal.name}`"
        if goal.keywords:
            yield f"the keywords of the goal `{goal.name}`"
        return
    yield f"the check `{goal.check}`" if goal.type == "check" else f"the goal `{goal.name}`"


AttachmentConverter: TypeAlias = Callable[[JsonObject], JsonObject | None]
"""Function that converts an attachment to the form of a format; None if the format has no equivalent."""


def _get_messages(reply: Reply) -> list[Message]:
    return [event for event in reply.events if isinstance(event, Message)]


def _get_tool_events(reply: Reply) -> list[ToolCall | ToolResult]:
    return [event for event in reply.events if not isinstance(event, Message)]


def _has_message_before_call(reply: Reply) -> bool:
    events = reply.events
    first = next((at for at, event in enumerate(events) if isinstance(event, Message)), len(events))
    return any(isinstance(event, ToolCall | ToolResult) for event in events[first:])


_OF_A_CASE: Mapping[str, tuple[str, Callable[[EvalCase], object]]] = {
    "persona": ("the user's persona", lambda case: case.scenario and case.scenario.user_persona),
    "limits": (
        "what ends the simulated user's conversation",
        lambda case: case.scenario and (case.scenario.stop_signal, case.scenario.max_turns) != (None, None),
    ),
    "driver": ("whom the simulated user talks to", lambda case: case.scenario and case.scenario.driver),
    "script": ("what the user says after the opening", lambda case: case.scenario and case.scenario.script),
    "context_messages": ("the context messages", lambda case: case.context_messages),
    "recorded": ("the recorded conversation", lambda case: case.recorded is not None),
    "final_state": ("the expected session state", lambda case: case.final_state),
    "rubrics": ("the rubrics", lambda case: case.rubrics),
    "rubric_metrics": (
        "which metrics its rubrics are meant for",
        lambda case: (
            any(rubric.metric for rubric in case.rubrics)
            or any(rubric.metric for turn in case.turns for rubric in turn.rubrics)
        ),
    ),
    "rubric_points": (
        "the points of its rubrics",
        lambda case: any(
            rubric.points not in {None, 1}
            for rubric in (*case.rubrics, *(rubric for turn in case.turns for rubric in turn.rubrics))
        ),
    ),
    "user_id": ("the user's id", lambda case: case.session.user_id),
    "session_id": ("the session's id", lambda case: case.session.session_id),
    "creation_timestamp": ("the time stamp", lambda case: case.creation_timestamp),
    "tags": ("the tags", lambda case: case.tags),
}
_OF_A_TURN: Mapping[str, tuple[str, Callable[[CaseTurn], object]]] = {
    "turn_rubrics": ("the rubrics", lambda turn: turn.rubrics),
    "app_details": ("the recorded agents", lambda turn: turn.app_details),
    "invocation_id": ("the invocation's id", lambda turn: turn.invocation_id),
    "creation_timestamp": ("the time stamp", lambda turn: turn.creation_timestamp),
}
_OF_A_REPLY: Mapping[str, tuple[str, Callable[[Reply], object]]] = {
    "messages": ("what is said before the final response", _get_messages),
    "message_authors": (
        "who says what",
        lambda reply: any(message.author for message in _get_messages(reply)),
    ),
    "payload": (
        "the widget of a message",
        lambda reply: any(message.payload is not None for message in _get_messages(reply)),
    ),
    "answers": (
        "what the tools answer",
        lambda reply: any(isinstance(event, ToolResult) for event in reply.events),
    ),
    "call_authors": (
        "who calls which tool",
        lambda reply: any(event.author for event in _get_tool_events(reply)),
    ),
    "call_ids": (
        "the ids of the calls",
        lambda reply: any(event.id for event in _get_tool_events(reply)),
    ),
    "order": ("what is said before a tool is called", _has_message_before_call),
}


def describe_losses(
    eval_set: EvalSet, *, format_name: str, holds: frozenset[str], attachment: AttachmentConverter
) -> Iterator[str]:
    """Yield a text `case id: loss` for each kind of data that a case loses in the format `format_name`.

    `holds` names the data that the format can hold. Possible names are `journey`, `other_args`, and the keys
    of the mappings `_OF_A_CASE`, `_OF_A_TURN` and `_OF_A_REPLY`. `attachment` returns None for
    an attachment that the format cannot hold.
    """
    for case in eval_set.cases:
        for sentence in describe_case_losses(
            case, format_name=format_name, holds=holds, attachment=attachment
        ):
            yield f"{case.eval_id}: {sentence}"


def describe_case_losses(
    case: EvalCase, *, format_name: str, holds: frozenset[str], attachment: AttachmentConverter
) -> Iterator[str]:
    """Yield a text, such as `turn 2: the rubrics`, for each kind of data that a case loses in a format.

    `holds` names the data that the format can hold. Possible names are `journey`, `other_args`, and the keys
    of the mappings `_OF_A_CASE`, `_OF_A_TURN` and `_OF_A_REPLY`. `attachment` returns None for
    an attachment that the format cannot hold.
    """
    if "journey" not in holds:
        yield from describe_lost_goals(case)
    for thing, (words, is_there) in _OF_A_CASE.items():
        if thing not in holds and is_there(case):
            yield words
    for name, kept in case.native.items():
        if name != format_name:
            yield from (f"`{key}`, which only {_OWNERS.get(name, name)} knows" for key in kept)
    of_turns = [_describe_turn_losses(turn, format_name, holds, attachment) for turn in case.turns]
    yield from (f"{_format_turns(numbers)}: {words}" for words, numbers in _group_by_turn(of_turns))
    if "recorded" in holds:
        of_replies = [_describe_reply_losses(reply, holds) for reply in case.recorded or ()]
        yield from (
            f"recorded {_format_turns(numbers)}: {words}" for words, numbers in _group_by_turn(of_replies)
        )


def _group_by_turn(losses_of: Iterable[Iterable[str]]) -> Iterable[tuple[str, list[int]]]:
    """Return (loss, 1-based numbers of the turns with this loss) for each loss.

    `losses_of` has the losses of each turn, in the order of the turns.
    """
    numbers: dict[str, list[int]] = {}
    for number, losses in enumerate(losses_of, start=1):
        for words in dict.fromkeys(losses):
            numbers.setdefault(words, []).append(number)
    return numbers.items()


_OWNERS = {"adk": "Google ADK", "trpc": "tRPC-Agent-Go", "orchestrate": "watsonx Orchestrate"}


def _format_turns(numbers: list[int]) -> str:
    return f"turn{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _describe_turn_losses(
    turn: CaseTurn, format_name: str, holds: frozenset[str], attachment: AttachmentConverter
) -> Iterator[str]:
    if any(attachment(part) is None for part in turn.user.attachments):
        yield "an attachment"
    for thing, (words, is_there) in _OF_A_TURN.items():
        if thing not in holds and is_there(turn):
            yield words
    yield from _describe_reply_losses(turn.expected, holds)
    for name, kept in turn.native.items():
        if name != format_name:
            yield from _describe_native_losses(name, kept)


def _describe_reply_losses(reply: Reply, holds: frozenset[str]) -> Iterator[str]:
    if "other_args" not in holds:
        for call in reply.tool_calls:
            if call.other_args is not None:
                yield f"the arguments of `{call.name}`, which are no object"
    for thing, (words, is_there) in _OF_A_REPLY.items():
        if thing not in holds and is_there(reply):
            yield words


def _describe_native_losses(name: str, kept: JsonObject) -> Iterator[str]:
    for key, value in kept.items():
        if key not in CONTENTS:
            yield f"`{key}`, which only {_OWNERS.get(name, name)} knows"
        elif not differs_only_in_role(key, value):
            yield f"what `{key}` holds other than texts, calls and answers"


def check_cases_remain(eval_set: EvalSet, written: Sequence[object], lost: Iterable[str]) -> None:
    """Raise InvalidInputError with all losses if an eval set has cases and none of them was written."""
    if eval_set.cases and not written:
        problems = [Problem(eval_set.path, 0, 0, sentence) for sentence in lost]
        nothing = Problem(eval_set.path, 0, 0, "nothing is left to write: see below for each case")
        raise InvalidInputError([nothing, *problems])
