"""Chat messages as OpenAI's API has them, made into the turns of a case."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalgate.errors import InvalidInput
from evalgate.model import Event, Message, Reply, ToolCall, ToolResult, Turn, UserMessage
from evalgate.reading.validation import did_you_mean


class DamagedRowError(Exception):
    """No case can be made of a row of a data set; the text says why."""


ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def is_chat(value: object) -> bool:
    """Return True for a list of messages, each with a role that OpenAI knows."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(each, Mapping) and each.get("role") in ROLES for each in value)
    )


def check_chat(value: object) -> None:
    """Check that a value is a list of messages, each with a role that OpenAI knows.

    Raises:
        DamagedRowError: it is none; the text says what it is.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DamagedRowError("`messages` must be a list of objects with `role` and `content`")
    for number, each in enumerate(value, 1):
        if not isinstance(each, Mapping):
            raise DamagedRowError(f"message {number}: must be an object with `role` and `content`")
        role = each.get("role")
        if not isinstance(role, str) or role not in ROLES:
            near = did_you_mean(role, sorted(ROLES)) if isinstance(role, str) else ""
            said = f"the role is {role!r:.60}" if "role" in each else "there is no `role`"
            known = "user, assistant, tool, function, system or developer"
            raise DamagedRowError(f"message {number}: {said}, expected {known}.{near}")


def read_chat(messages: Sequence[Mapping[str, object]], lost: Counter[str]) -> tuple[Turn, ...]:
    """Return a turn for each message of the user, with what the assistant did until the next one.

    The assistant's last words in a turn are its response. `lost` counts what a case has no place for.

    Raises:
        DamagedRowError: a message is damaged; the text says which.
    """
    chat = _Chat(lost)
    for number, message in enumerate(messages, 1):
        try:
            chat.take(message)
        except DamagedRowError as error:
            raise DamagedRowError(f"message {number}: {error}") from None
    return chat.finish()


@dataclass
class _Chat:
    lost: Counter[str]
    turns: list[Turn] = field(default_factory=list)
    said: UserMessage | None = None
    events: list[Event] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Id of a call → name of its tool, which the answer does not repeat."""

    def take(self, message: Mapping[str, object]) -> None:
        role = message["role"]
        if role in {"system", "developer"}:
            self.lost[f"messages of the role `{role}`: the agent has its own instructions"] += 1
        elif role == "user":
            self._end_turn()
            self.said = UserMessage(self._text(message.get("content")))
        elif self.said is None:
            self.lost["messages before the first one of the user"] += 1
        elif role == "assistant":
            self._take_assistant(message)
        else:
            self._take_result(message)

    def finish(self) -> tuple[Turn, ...]:
        self._end_turn()
        return tuple(self.turns)

    def _take_assistant(self, message: Mapping[str, object]) -> None:
        if text := self._text(message.get("content")):
            self.events.append(Message(text))
        calls = message.get("tool_calls") or []
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise DamagedRowError("`tool_calls` must be a list")
        for call in calls:
            self.events.append(self._call(call))
        if isinstance(old := message.get("function_call"), Mapping):
            self.events.append(self._call({"function": old}))

    def _call(self, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(function, Mapping):
            raise DamagedRowError("a tool call has no `function`")
        name, call_id = str(function.get("name") or ""), call.get("id")
        if not name:
            raise DamagedRowError("a tool call has no name")
        identity = str(call_id) if call_id else None
        self.names[identity or name] = name
        return ToolCall(name, read_arguments(function.get("arguments"), name), id=identity)

    def _take_result(self, message: Mapping[str, object]) -> None:
        identity = message.get("tool_call_id")
        name = str(message.get("name") or self.names.get(str(identity)) or "")
        if not name:
            raise DamagedRowError(f"the tool's answer belongs to no call (tool_call_id {identity!r})")
        text = self._text(message.get("content"))
        self.events.append(ToolResult(name, decode_json(text), id=str(identity) if identity else None))

    def _end_turn(self) -> None:
        if self.said is None:
            return
        last = self.events[-1] if self.events else None
        response = last.text if isinstance(last, Message) else None
        events = self.events[:-1] if isinstance(last, Message) else self.events
        self.turns.append(Turn(self.said, Reply(response, tuple(events))))
        self.said, self.events = None, []

    def _text(self, content: object) -> str:
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if not isinstance(content, Sequence):
            raise DamagedRowError(f"`content` is {content!r:.60}, expected a text or a list of parts")
        texts = []
        for part in content:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind in {"text", "input_text", "output_text"} and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                self.lost[f"parts of the type `{kind}`"] += 1
        return "".join(texts)


def read_arguments(value: object, tool: str) -> Mapping[str, object]:
    """Return a call's arguments, which OpenAI's API writes as the text of a JSON object.

    Raises:
        DamagedRowError: they are something else.
    """
    found = decode_json(value) if isinstance(value, str) else value
    if found in (None, ""):
        return {}
    if not isinstance(found, Mapping):
        raise DamagedRowError(f"the arguments of the call of `{tool}` are no JSON object")
    return found


def decode_json(text: str) -> object:
    """Return the value of a JSON text, or the text itself when it is none."""
    from evalgate.reading.jsontext import parse_json

    try:
        return parse_json(text.encode(), "").value
    except (InvalidInput, UnicodeEncodeError):
        return text
