"""Helpers of the framework adapters: one conversation per session, and a recorder of a turn's events."""

from __future__ import annotations

import ast
import dataclasses
import json
from typing import Any, Callable, List, Optional, Protocol, Tuple
from weakref import WeakKeyDictionary

from ..channel import encode_line
from ..errors import MessageTooLargeError, UnsupportedCaseError
from ..session import Session
from . import HostedAgent


class HostedConversation(Protocol):
    """Conversation with an agent of a framework, for one session.

    It must not store a reference to its session: conversations are values in a `WeakKeyDictionary` with
    sessions as keys, so the session would stay in memory for ever.
    """

    def run_turn(self, text: str, session: Session) -> Any:
        """Run one turn, report its events, and return the response, perhaps as an awaitable.

        The response is a text, or None if the agent gave none.
        """
        ...


def adapt_conversations(
    framework: str,
    begin: Callable[[Session], HostedConversation],
    *features: str,
    asynchronous: bool = True,
) -> HostedAgent:
    """Return an adapted agent. `begin` creates the conversation of each session in its first turn.

    A turn with attachments fails with UnsupportedCaseError.

    Args:
        framework: Name of the kind of agent for messages, such as "an agent of Strands".
        begin: Function that creates the conversation of a session.
        features: Optional features of the protocol that the conversations support, such as `tool_mocks`.
        asynchronous: True if `run_turn` of the conversations is a coroutine function.
    """
    conversations: WeakKeyDictionary[Session, HostedConversation] = WeakKeyDictionary()

    def find_conversation(session: Session) -> HostedConversation:
        conversation = conversations.get(session)
        if conversation is None:
            conversation = conversations[session] = begin(session)
        _refuse_attachments(session, framework)
        return conversation

    async def run_turn_async(text: str, session: Session) -> dict[str, Any]:
        return {"response": await find_conversation(session).run_turn(text, session)}

    def run_turn(text: str, session: Session) -> dict[str, Any]:
        return {"response": find_conversation(session).run_turn(text, session)}

    return HostedAgent(run_turn_async if asynchronous else run_turn, asynchronous, features)


def _refuse_attachments(session: Session, framework: str) -> None:
    if session.attachments:
        raise UnsupportedCaseError(
            f"evalgate hands {framework} texts only, and this turn has attachments: gate a function that "
            "takes `session.attachments` and asks the agent"
        )


def read_context_messages(session: Session, framework: str) -> List[Tuple[str, str]]:
    """Return the role (`user` or `assistant`) and text of each message that precedes the conversation.

    Args:
        session: Session with the messages.
        framework: Name of the kind of agent for messages, such as "an agent of Strands".

    Raises:
        UnsupportedCaseError: a message is neither a text of the user nor one of the agent.
    """
    earlier = [(message.get("role"), message.get("content")) for message in session.context_messages]
    for role, text in earlier:
        if role not in ("user", "assistant") or not isinstance(text, str):
            raise UnsupportedCaseError(
                f"a context message of role {role!r} with a content of type {type(text).__name__} cannot be "
                f"told to {framework}"
            )
    return [(str(role), str(text)) for role, text in earlier]


def parse_tool_output(content: object) -> object:
    """Parse a tool's result from the text that a framework passes to the model.

    Frameworks write objects and lists as JSON or as Python literals. Any other text or value is returned
    unchanged.
    """
    if not isinstance(content, str) or content[:1] not in ("{", "["):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        pass
    try:
        found = ast.literal_eval(content)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return content
    return content if make_encodable(found) is not found else found


def make_encodable(value: Any) -> Any:
    """Return `value` if JSON can hold it, else its text.

    JSON cannot hold a dict with tuples as keys, for example, or a list that contains itself.
    """
    try:
        encode_line({"value": value})
    except MessageTooLargeError:
        return value
    except Exception:  # noqa: BLE001  an object of the agent's may raise anything when it is converted
        return _describe_value(value)
    return value


def make_encodable_values(values: Any) -> Any:
    """Return a dict with `make_encodable` applied to each value; return any other object unchanged."""
    if not isinstance(values, dict):
        return values
    return {str(key): make_encodable(value) for key, value in values.items()}


def _describe_value(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  a value that is nested too deep, or a broken __str__ of the agent's
        return f"<{type(value).__name__}>"


class EventRecorder:
    """Recorder of a turn's events, in order.

    The last text is the response if no tool call or tool result follows the text. Each method that records
    raises RuntimeError if the turn is over, and MessageTooLargeError if the event exceeds 16 MiB.
    """

    def __init__(self, session: Session) -> None:
        self.response: Optional[str] = None
        """Last text, as long as no tool call or tool result follows it; else None."""
        self._author: Optional[str] = None
        self._report = session.recorder.report_event
        self._names: dict[str, str] = {}

    def record_text(self, text: str, author: Optional[str] = None) -> None:
        """Record a text of the agent; ignore an empty text."""
        if text:
            self._flush_text()
            self.response, self._author = text, author

    def record_call(self, name: str, args: object, id_: Optional[str], author: Optional[str] = None) -> None:
        """Record a tool call with its arguments: a dict, or a text that is parsed as JSON.

        Arguments that are not a JSON object are recorded as None, and an empty text as {}.
        """
        self._flush_text()
        if id_:
            self._names[id_] = name
        given = make_encodable_values(_parse_arguments(args))
        self._report("tool_call", name=name, args=given, id=id_, author=author)

    def record_result(
        self, name: Optional[str], result: object, id_: Optional[str], author: Optional[str] = None
    ) -> None:
        """Record a tool result. Without `name`, record the name of the call with the same id.

        The recorded name is "" if no call has this id. A result that JSON cannot hold is recorded as text,
        because frameworks pass such a result to the model as text, too.
        """
        self._flush_text()
        name = name or self._names.get(id_ or "", "")
        result = make_encodable(result)
        self._report("tool_result", name=name, result=result, id=id_, author=author)

    def record_usage(self, input_tokens: object, output_tokens: object) -> None:
        """Record the tokens of a model call; ignore a call without tokens."""
        if input_tokens or output_tokens:
            self._report("usage", input_tokens=input_tokens or 0, output_tokens=output_tokens or 0)

    def choose_response(self, structured: object) -> Optional[str]:
        """Return the structured output as text, or the recorded `response` if `structured` is None."""
        return self.response if structured is None else as_text(structured)

    def _flush_text(self) -> None:
        if self.response is not None:
            self._report("message", text=self.response, author=self._author)
            self.response = None


def _parse_arguments(args: object) -> Optional[dict[str, Any]]:
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except (ValueError, RecursionError):
            return None  # the model wrote broken JSON: the call is scored as a wrong one
    return args if isinstance(args, dict) else None


def as_text(output: Any) -> Optional[str]:
    """Return an agent's output as the text of a response; None for None.

    Texts are unchanged. Objects, lists and numbers become JSON. Any other value, such as a `Decimal`, becomes
    its `str`.
    """
    if output is None or isinstance(output, str):
        return output
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = dataclasses.asdict(output)
    dump = getattr(output, "model_dump", None)
    value = dump(mode="json") if callable(dump) else output
    if not isinstance(value, (dict, list, tuple, int, float)):
        return _describe_value(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return _describe_value(value)
