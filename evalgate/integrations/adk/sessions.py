"""Sessions saved by Google ADK (`adk run --save_session`, or its web UI's export), as conversations."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evalgate.agents.http.adk_server import get_event_text, read_recorded_reply
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import AgentError, Document
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, SessionInput, UserMessage
from evalgate.documents.strict_json import read_json

_ENDING = ".session.json"


def has_sessions(path: Path) -> bool:
    """Return True for a folder with saved sessions."""
    return path.is_dir() and any(path.glob(f"*{_ENDING}"))


def is_session(value: object) -> bool:
    """Return True if decoded JSON is a session of Google ADK with its events."""
    return (
        isinstance(value, dict) and "events" in value and any(key in value for key in ("appName", "app_name"))
    )


def read_sessions(folder: Path, display_path: str) -> EvalSet:
    """Read every session in a folder.

    Raises:
        InvalidInputError: a session is invalid. Lists the problems of all files.
    """
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    for file in sorted(folder.glob(f"*{_ENDING}")):
        shown = str(Path(display_path) / file.name)
        try:
            cases += parse_session(read_json(file, shown)).cases
        except InvalidInputError as error:
            problems += error.problems
    if problems:
        raise InvalidInputError(problems)
    return EvalSet(display_path, tuple(cases), display_path)


def parse_session(document: Document) -> EvalSet:
    """Parse the conversation in a session; the case is named after `NAME.session.json`, or the session's id.

    Each message of the user begins a turn. The events up to the next one are converted as ADK's own
    evaluation does. A turn that its model ended with an error has no response.

    Raises:
        InvalidInputError: the document is no session, or holds no message of the user.
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
            _read_label(session, "appName", "app_name"), _read_label(session, "userId", "user_id")
        ),
        final_state=state if isinstance(state, dict) else None,
    )
    return EvalSet(path.stem, (case,), path=document.path)


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


def _read_label(session: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := session.get(name), str)), "")


def _build_error(document: Document, where: tuple[str | int, ...], message: str) -> InvalidInputError:
    return InvalidInputError([Problem(document.path, *document.find_position(where), message)])
