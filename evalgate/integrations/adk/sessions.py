"""Read sessions saved by Google ADK (`adk run --save_session`, or its web UI) as conversations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from evalgate.agents.http.adk_server import get_event_text, read_recorded_reply
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import AgentError, Document
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, SessionInput, TraceSpan, UserMessage
from evalgate.documents.strict_json import read_json

_ENDING = ".session.json"
_TOO_LATE = 1e15  # seconds


def has_sessions(path: Path) -> bool:
    """Return True if the path is a folder that contains saved sessions."""
    return path.is_dir() and any(path.glob(f"*{_ENDING}"))


def is_session(value: object) -> bool:
    """Return True if decoded JSON is a session of Google ADK: an object with events and an app's name."""
    return (
        isinstance(value, dict) and "events" in value and any(key in value for key in ("appName", "app_name"))
    )


def read_sessions(folder: Path, shown_as: str) -> EvalSet:
    """Read each `*.session.json` in a folder as a case.

    Raises:
        InvalidInputError: a session is invalid. Lists the problems of all files.
    """
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    for file in sorted(folder.glob(f"*{_ENDING}")):
        shown = str(Path(shown_as) / file.name)
        try:
            cases += parse_session(read_json(file, shown)).cases
        except InvalidInputError as error:
            problems += error.problems
    if problems:
        raise InvalidInputError(problems)
    return EvalSet(shown_as, tuple(cases), shown_as)


def parse_session(document: Document) -> EvalSet:
    """Parse the conversation in a session as an eval set with one case.

    The case's id is `NAME` for a file `NAME.session.json`. For another file it is the session's id, or the
    file's name without its ending if the session has no id.

    Each message of the user begins a turn. A turn's events are converted as in ADK's evaluation. A turn
    without a final event, as after a model's error, has no response. The state of the session becomes the
    case's expected final state. The part of it that no event changed is also the initial state.

    Raises:
        InvalidInputError: the document is not a session, an event is malformed, or there is no message of the
            user.
    """
    session, path = document.value, Path(document.path)
    if (
        not isinstance(session, dict)
        or not is_session(session)
        or not isinstance(session["events"], Iterable)
    ):
        raise _build_error(document, (), "is no session of Google ADK with its `events`")
    name = (
        path.name.removesuffix(_ENDING)
        if path.name.endswith(_ENDING)
        else str(session.get("id") or path.stem)
    )
    turns = tuple(_build_turns(session["events"], document))
    if not turns:
        raise _build_error(document, ("events",), "holds no message of the user")
    state = session.get("state")
    case = EvalCase(
        name,
        turns,
        session=SessionInput(
            _read_label(session, "appName", "app_name"),
            _read_label(session, "userId", "user_id"),
            _find_initial_state(state, session["events"]) if isinstance(state, dict) else {},
        ),
        final_state=state if isinstance(state, dict) else None,
    )
    return EvalSet(path.stem, (case,), path=document.path)


def _find_initial_state(state: Mapping[str, Any], events: Iterable[object]) -> dict[str, Any]:
    """Return the entries of a session's state that no event changed; {} if changes were not recorded."""
    actions = [event.get("actions") for event in events if isinstance(event, dict)]
    deltas = [each.get("stateDelta", each.get("state_delta")) for each in actions if isinstance(each, dict)]
    known = [each for each in deltas if isinstance(each, dict)]
    changed = {key for delta in known for key in delta}
    return {key: value for key, value in state.items() if key not in changed} if known else {}


def _build_turns(events: Iterable[object], document: Document) -> list[CaseTurn]:
    turns: list[tuple[str, list[object]]] = []
    for event in events:
        if isinstance(event, dict) and event.get("author") == "user" and (text := get_event_text(event)):
            turns.append((text, []))
        elif turns:
            turns[-1][1].append(event)
    try:
        return [CaseTurn(UserMessage(text), read_recorded_reply(answers)) for text, answers in turns]
    except AgentError as error:
        raise _build_error(document, ("events",), error.failure.message) from None


def read_session_spans(document: Document) -> tuple[TraceSpan, ...]:
    """Return the steps of a session, with times that are computed from its events.

    Return () if the session has no event, or if an event has no time.

    The document must be a session. Times are seconds after the first event. Events before the first message
    of the user are left out. The steps are:

    - `agent`: a turn, from the user's message to the last event of the turn.
    - `tool`: a tool's call, from the call to its result.
    - `model`: an answer of a model, from the previous event to the event with the answer.
    - `other`: an event without content, from the previous event to this event.
    """
    spans: list[TraceSpan] = []
    session: Any = document.value
    events = session["events"]
    times = [time for event in events if (time := _read_time(event)) is not None]
    if not times or len(times) < len(events):
        return ()
    began = previous = times[0]
    turn, root = -1, -1
    calls: dict[str, list[float]] = {}
    for event, time in zip(events, times, strict=True):
        start, end = previous - began, time - began
        if event.get("author") == "user" and get_event_text(event):
            turn, root = turn + 1, len(spans)
            author = _read_label(session, "appName", "app_name")
            note = {"times": "those of the session's events"}
            text = get_event_text(event)
            spans.append(TraceSpan(str(turn), author, "agent", turn, end, 0.0, request=text, attributes=note))
        elif turn >= 0:
            spans += _build_steps(event, f"{turn}.{len(spans)}", turn, start, end, calls)
            spans[root] = replace(spans[root], duration_s=max(0.0, end - spans[root].start_s))
        previous = time
    return tuple(spans)


def _read_time(event: object) -> float | None:
    time = event.get("timestamp") if isinstance(event, dict) else None
    if not isinstance(time, int | float) or not abs(time) < _TOO_LATE:  # NaN is not below it
        return None
    return float(time)


def _build_steps(
    event: Mapping[str, Any],
    identity: str,
    turn: int,
    start: float,
    end: float,
    calls: dict[str, list[float]],
) -> Iterator[TraceSpan]:
    """Yield the steps that `event`, which must not be a message of the user, completes.

    `start` is the time, in seconds, of the previous event, and `end` that of `event`. `turn` counts from 0.
    Each step's id begins with `identity`. `calls` maps open tool calls, by id or else by tool name, to their
    start times. A call in `event` is added to `calls`; a call with a result in `event` is removed.
    """
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    found = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    author = str(event.get("author") or "")
    rest = {"event": {key: value for key, value in event.items() if key != "content"}}
    build_step = partial(TraceSpan, turn=turn, parent_id=str(turn), author=author, attributes=rest)
    is_model = False
    for at, part in enumerate(found):
        call = part.get("functionCall") or part.get("function_call")
        result = part.get("functionResponse") or part.get("function_response")
        if isinstance(result, dict):
            name = str(result.get("name") or "")
            open_calls = calls.get(str(result.get("id") or name))
            called = open_calls.pop(0) if open_calls else start
            yield build_step(
                f"{identity}.{at}",
                name,
                "tool",
                start_s=called,
                duration_s=max(0.0, end - called),
                response=result.get("response"),
            )
            continue
        is_model = True
        if isinstance(call, dict):
            calls.setdefault(str(call.get("id") or call.get("name") or ""), []).append(end)
    if is_model or not found:
        kind: Literal["model", "other"] = "model" if found else "other"
        yield build_step(
            identity, author, kind, start_s=start, duration_s=max(0.0, end - start), response=content
        )


def _read_label(session: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := session.get(name), str)), "")


def _build_error(document: Document, where: tuple[str | int, ...], message: str) -> InvalidInputError:
    return InvalidInputError([Problem(document.path, *document.find_position(where), message)])
