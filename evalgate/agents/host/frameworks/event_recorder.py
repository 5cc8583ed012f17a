"""What hosts of frameworks share: one conversation per session, and telling what happened in a turn."""

from __future__ import annotations

import ast
import dataclasses
import json
from typing import Any, Callable, List, Optional, Protocol, Tuple
from weakref import WeakKeyDictionary

from ..failures import UnsupportedCaseError  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import Session  # noqa: TID252
from . import AgentHost


class HostedConversation(Protocol):
    """What a framework remembers of one session. Must not hold the session, which it would keep alive."""

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        """Ask, tell what happens, and give the response."""
        ...


def create_conversation_host(begin: Callable[[Session], HostedConversation], *features: str) -> AgentHost:
    """A host that begins a conversation with the first turn of each session."""
    begun: WeakKeyDictionary[Session, HostedConversation] = WeakKeyDictionary()

    async def run_turn(text: str, session: Session) -> dict[str, Any]:
        conversation = begun.get(session)
        if conversation is None:
            conversation = begun[session] = begin(session)
        return {"response": await conversation.run_turn(text, session)}

    return AgentHost(run_turn, asynchronous=True, features=features)


def read_context_messages(session: Session, framework: str) -> List[Tuple[str, str]]:
    """Return the role and text of each message that precedes the conversation.

    Raises:
        UnsupportedCaseError: one of them is neither a text of the user nor one of the agent.
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
    """Return what a tool returned, from the text that a framework makes of it for the model.

    Frameworks write objects and lists as JSON or as Python literals; any other text is the result itself.
    """
    if not isinstance(content, str) or content[:1] not in ("{", "["):
        return content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(content)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return content


def refuse_attachments(session: Session, framework: str) -> None:
    """Raise Unsupported when the user's message is more than text."""
    if session.attachments:
        raise UnsupportedCaseError(
            f"evalgate hands {framework} texts only, and this turn has attachments: gate a function that "
            "takes `session.attachments` and asks the agent"
        )


class EventRecorder:
    """Tells what happens in a turn, in order. A text that nothing follows is the response."""

    def __init__(self, session: Session) -> None:
        self.response: Optional[str] = None
        """The last text, while nothing follows it."""
        self._author: Optional[str] = None
        self._report = session.recorder.report_event
        self._names: dict[str, str] = {}

    def record_text(self, text: str, author: Optional[str] = None) -> None:
        """The agent says something; no text is nothing."""
        if text:
            self._flush_text()
            self.response, self._author = text, author

    def record_call(self, name: str, args: object, id_: Optional[str], author: Optional[str] = None) -> None:
        """A tool is called; arguments that are a text are read as JSON."""
        self._flush_text()
        if id_:
            self._names[id_] = name
        self._report("tool_call", name=name, args=_parse_arguments(args), id=id_, author=author)

    def record_result(
        self, name: Optional[str], result: object, id_: Optional[str], author: Optional[str] = None
    ) -> None:
        """A tool answered; without a name, the one that was called by that id."""
        self._flush_text()
        name = name or self._names.get(id_ or "", "")
        self._report("tool_result", name=name, result=result, id=id_, author=author)

    def record_usage(self, input_tokens: object, output_tokens: object) -> None:
        """A model was asked."""
        if input_tokens or output_tokens:
            self._report("usage", input_tokens=input_tokens or 0, output_tokens=output_tokens or 0)

    def _flush_text(self) -> None:
        if self.response is not None:
            self._report("message", text=self.response, author=self._author)
            self.response = None


def _parse_arguments(args: object) -> Optional[dict[str, Any]]:
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError:
            return None
    return args if isinstance(args, dict) else None


def as_text(output: Any) -> Optional[str]:
    """An agent's output as a response: a text as it is, an object as its JSON."""
    if output is None or isinstance(output, str):
        return output
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = dataclasses.asdict(output)
    dump = getattr(output, "model_dump", None)
    return json.dumps(dump(mode="json") if callable(dump) else output, ensure_ascii=False, default=str)
