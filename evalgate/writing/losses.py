"""What a format has no place for, in words: `case: what`, or `case: turn 2: what`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from evalgate.errors import InvalidInput, Problem
from evalgate.model import EvalCase, EvalSet, JsonObject, Message, Reply, Rubric, ToolCall, ToolResult, Turn
from evalgate.reading.adkshapes import CONTENTS, has_only_another_role
from evalgate.writing.goals import lost_goals

Attachment: TypeAlias = Callable[[JsonObject], JsonObject | None]
"""An attachment as a format holds it; None when it cannot."""


def _messages(reply: Reply) -> list[Message]:
    return [event for event in reply.events if isinstance(event, Message)]


def _answers(reply: Reply) -> list[ToolResult]:
    return [event for event in reply.events if isinstance(event, ToolResult)]


def _all_rubrics(case: EvalCase) -> list[Rubric]:
    return [*case.rubrics, *(rubric for turn in case.turns for rubric in turn.rubrics)]


def _calls_and_answers(reply: Reply) -> list[ToolCall | ToolResult]:
    return [event for event in reply.events if not isinstance(event, Message)]


def _speaks_before_a_call(reply: Reply) -> bool:
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
        lambda case: any(rubric.metric for rubric in _all_rubrics(case)),
    ),
    "user_id": ("the user's id", lambda case: case.session.user_id),
    "session_id": ("the session's id", lambda case: case.session.session_id),
    "creation_timestamp": ("the time stamp", lambda case: case.creation_timestamp),
    "tags": ("the tags", lambda case: case.tags),
}
_OF_A_TURN: Mapping[str, tuple[str, Callable[[Turn], object]]] = {
    "turn_rubrics": ("the rubrics", lambda turn: turn.rubrics),
    "app_details": ("the recorded agents", lambda turn: turn.app_details),
    "invocation_id": ("the invocation's id", lambda turn: turn.invocation_id),
    "creation_timestamp": ("the time stamp", lambda turn: turn.creation_timestamp),
}
_OF_A_REPLY: Mapping[str, tuple[str, Callable[[Reply], object]]] = {
    "messages": ("what is said before the final response", _messages),
    "message_authors": ("who says what", lambda reply: any(said.author for said in _messages(reply))),
    "payload": (
        "the widget of a message",
        lambda reply: any(said.payload is not None for said in _messages(reply)),
    ),
    "answers": ("what the tools answer", _answers),
    "call_authors": (
        "who calls which tool",
        lambda reply: any(event.author for event in _calls_and_answers(reply)),
    ),
    "call_ids": (
        "the ids of the calls",
        lambda reply: any(event.id for event in _calls_and_answers(reply)),
    ),
    "order": ("what is said before a tool is called", _speaks_before_a_call),
}


def losses(
    eval_set: EvalSet, *, format_name: str, holds: frozenset[str], attachment: Attachment
) -> Iterator[str]:
    """What is lost of `eval_set` in a format that has a place for `holds` and for some attachments."""
    for case in eval_set.cases:
        for sentence in case_losses(case, format_name=format_name, holds=holds, attachment=attachment):
            yield f"{case.eval_id}: {sentence}"


def case_losses(
    case: EvalCase, *, format_name: str, holds: frozenset[str], attachment: Attachment
) -> Iterator[str]:
    """The same of one case, without its name."""
    if "journey" not in holds:
        yield from lost_goals(case)
    for thing, (words, is_there) in _OF_A_CASE.items():
        if thing not in holds and is_there(case):
            yield words
    for name, kept in case.native.items():
        if name != format_name:
            yield from (f"`{key}`, which only {_OWNERS.get(name, name)} knows" for key in kept)
    of_turns = [_turn_losses(turn, format_name, holds, attachment) for turn in case.turns]
    yield from (f"{_turns(numbers)}: {words}" for words, numbers in _places(of_turns))
    if "recorded" in holds:
        of_replies = [_reply_losses(reply, holds) for reply in case.recorded or ()]
        yield from (f"recorded {_turns(numbers)}: {words}" for words, numbers in _places(of_replies))


def _places(losses_of: Iterable[Iterable[str]]) -> Iterable[tuple[str, list[int]]]:
    """What is lost, each with the numbers (1-based) of where."""
    places: dict[str, list[int]] = {}
    for number, lost in enumerate(losses_of, start=1):
        for words in dict.fromkeys(lost):
            places.setdefault(words, []).append(number)
    return places.items()


_OWNERS = {"adk": "Google ADK", "trpc": "tRPC-Agent-Go", "orchestrate": "watsonx Orchestrate"}


def _turns(numbers: list[int]) -> str:
    return f"turn{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _turn_losses(
    turn: Turn, format_name: str, holds: frozenset[str], attachment: Attachment
) -> Iterator[str]:
    if any(attachment(part) is None for part in turn.user.attachments):
        yield "an attachment"
    for thing, (words, is_there) in _OF_A_TURN.items():
        if thing not in holds and is_there(turn):
            yield words
    yield from _reply_losses(turn.expected, holds)
    for name, kept in turn.native.items():
        if name != format_name:
            yield from _native_losses(name, kept)


def _reply_losses(reply: Reply, holds: frozenset[str]) -> Iterator[str]:
    if "other_args" not in holds:
        for call in reply.tool_calls:
            if call.other_args is not None:
                yield f"the arguments of `{call.name}`, which are no object"
    for thing, (words, is_there) in _OF_A_REPLY.items():
        if thing not in holds and is_there(reply):
            yield words


def _native_losses(name: str, kept: JsonObject) -> Iterator[str]:
    for key, value in kept.items():
        if key not in CONTENTS:
            yield f"`{key}`, which only {_OWNERS.get(name, name)} knows"
        elif not has_only_another_role(key, value):
            yield f"what `{key}` holds beside texts, calls and answers"


def check_something_is_left(eval_set: EvalSet, written: Sequence[object], lost: Iterable[str]) -> None:
    """Raise InvalidInput, with what is lost, when there are cases and none of them is written."""
    if eval_set.cases and not written:
        problems = [Problem(eval_set.path, 0, 0, sentence) for sentence in lost]
        nothing = Problem(eval_set.path, 0, 0, "nothing is left to write: see below for each case")
        raise InvalidInput([nothing, *problems])
