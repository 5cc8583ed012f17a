"""Check eval sets that a program or plugin built from Python objects instead of reading them from a file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)


def find_wrong_cases(eval_set_id: object, cases: object) -> Iterator[str]:
    """Yield a sentence for each wrong id, turn, tag or session of an eval set, and each duplicate case id.

    In turns, the messages, expected replies and tool calls are checked; in sessions, only the state, which
    must be JSON. Other fields of a case are not checked.
    """
    where = f"eval set {eval_set_id!r}"
    if not isinstance(eval_set_id, str):
        yield f"{where}: `eval_set_id` must be a text"
    if not isinstance(cases, Sequence) or isinstance(cases, str | bytes):
        yield f"{where}: `cases` must be a tuple of `EvalCase` objects, not {cases!r}"
        return
    seen: set[str] = set()
    for case in cases:
        if not isinstance(case, EvalCase):
            yield f"{where}: `cases` must be `EvalCase` objects, not {case!r}"
            continue
        problems = list(_find_wrong_parts(case, f"{where}, case {case.eval_id!r}"))
        yield from problems
        if not problems and case.eval_id in seen:
            yield f"{where}: {case.eval_id!r} is the id of several cases; give each its own"
        if not problems:
            seen.add(case.eval_id)


def _find_wrong_parts(case: EvalCase, where: str) -> Iterator[str]:
    # Annotated as `object`: a program may have passed anything, because dataclasses check no types.
    eval_id: object = case.eval_id
    turns: object = case.turns
    tags: object = case.tags
    session: object = case.session
    if not isinstance(eval_id, str) or not eval_id:
        yield f"{where}: `eval_id` must be a text that is not empty"
    if not isinstance(turns, list | tuple):
        yield f"{where}: `turns` must be a tuple of `CaseTurn` objects, not {turns!r}"
    else:
        for number, turn in enumerate(turns, 1):
            yield from (f"{where}, turn {number}: {problem}" for problem in _find_wrong_turn(turn))
    if not isinstance(tags, list | tuple | set | frozenset) or not all(isinstance(tag, str) for tag in tags):
        yield f"{where}: `tags` must be a tuple of texts, not {tags!r}"
    if not isinstance(session, SessionInput):
        yield f"{where}: `session` must be a `SessionInput`, not {session!r}"
    elif session.state:
        yield from (f"{where}: {problem}" for problem in _find_no_json("`session.state` is", session.state))


def _find_wrong_turn(turn: object) -> Iterator[str]:
    if not isinstance(turn, CaseTurn):
        yield f"must be a `CaseTurn`, not {turn!r}"
        return
    user: object = turn.user
    expected: object = turn.expected
    if not isinstance(user, UserMessage):
        yield f"`user` must be a `UserMessage`, not {user!r}"
    elif not _is_text(user.text):
        yield f"`user.text` must be a text, not {user.text!r}"
    if not isinstance(expected, Reply):
        yield f"`expected` must be a `Reply`, not {expected!r}; leave it out if nothing is expected"
    else:
        yield from _find_wrong_reply(expected)


def _find_wrong_reply(reply: Reply) -> Iterator[str]:
    events: object = reply.events
    if not (reply.response is None or _is_text(reply.response)):
        yield f"`expected.response` must be a text, not {reply.response!r}"
    if not isinstance(events, list | tuple):
        yield f"`expected.events` must be a tuple, not {events!r}"
        return
    for event in events:
        if not isinstance(event, Event):
            yield (f"`expected.events` must be `ToolCall`, `ToolResult` and `Message` objects, not {event!r}")
        elif isinstance(event, Message):
            if not _is_text(event.text):
                yield f"the text of a message must be a text, not {event.text!r}"
        elif not _is_text(event.name):
            yield f"the name of a tool must be a text, not {event.name!r}"
        else:
            yield from _find_wrong_data(event)


def _find_wrong_data(event: ToolCall | ToolResult) -> Iterator[str]:
    if isinstance(event, ToolResult):
        yield from _find_no_json(f"the result of `{event.name}` is", event.result)
        return
    args: object = event.args
    if args is not None and not isinstance(args, Mapping):
        yield f"the `args` of `{event.name}` must be a mapping, not {args!r}; other values are `other_args`"
    else:
        yield from _find_no_json(f"the arguments of `{event.name}` are", event.arguments)


def _find_no_json(subject: str, value: object) -> Iterator[str]:
    try:
        json.dumps(value, allow_nan=False, default=_as_dict)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"{subject} no JSON: {error}"


def _as_dict(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _is_text(value: object) -> bool:
    return isinstance(value, str)
