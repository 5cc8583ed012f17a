"""Pydantic models of the turns and sessions in tRPC-Agent-Go's files, of every release.

Files from before December 2025 are converted: Google's `parts` become texts, and the calls and answers in
`intermediateData` become `tools`.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import override

from evalgate.core.types import (
    Event,
    JsonObject,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.adk_turns import PART_KEYS
from evalgate.documents.key_spelling import normalize_key

AGENT_ROLES = frozenset({"", "assistant", "model"})
"""Roles of the agent's messages; `model`, Google's word, was used in 2025."""


class TrpcModel(BaseModel):
    """Base class for models of Go structs: unknown keys are ignored, and null counts as absent."""

    # Strict, because Go refuses a whole file for one value of another JSON type. Every field that Go omits
    # when it is empty (`omitempty`) needs a default.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, defer_build=True)

    _spellings: ClassVar[Mapping[str, str]] = {}
    _today: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _normalize_keys(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        # The fast path of nearly every file: no key to respell, nothing to convert.
        if value.keys() <= cls._today and None not in value.values():
            return value
        known = cls.get_known_keys()
        spelled: dict[str, object] = {}
        for key, each in value.items():
            name = key if key in known.values() else known.get(normalize_key(key), key)
            # Go takes the last of two spellings. Here two spellings are refused, because one expectation
            # would be lost.
            if name in spelled:
                raise ValueError(f"holds `{name}` twice, in two spellings")
            if each is not None:
                spelled[name] = each
        return cls.convert_older_shape(spelled)

    @classmethod
    def convert_older_shape(cls, value: dict[str, object]) -> dict[str, object]:
        """Convert an object from the shape of any release to today's shape.

        By default, return `value` unchanged. A model overrides this method if older files have another shape.

        Raises:
            ValueError: the object has the shape of no release.
        """
        return value

    @classmethod
    def get_known_keys(cls) -> Mapping[str, str]:
        """Return the known keys of today's and of older files.

        The result maps each key in lower case, without underscores, to the key as tRPC-Agent-Go writes it.
        """
        # Not `hasattr`: a subclass must not use the spellings of its parent.
        if "_spellings" not in cls.__dict__:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            cls._spellings = {normalize_key(name): name for name in (*names, *cls.older_keys())}
            cls._today = frozenset(names)
        return cls._spellings

    @classmethod
    def older_keys(cls) -> Mapping[str, object]:
        """Return the keys of older files that `convert_older_shape` reads, with the model of each value."""
        return {}


class _OldPart(BaseModel):
    """The keys of an item of Google's `parts`."""

    text: Any = None

    @classmethod
    def kept_unread_keys(cls) -> tuple[str, ...]:
        return ("function_call", "function_response", *PART_KEYS)


class _OldFunction(BaseModel):
    name: Any = None
    arguments: Any = None
    args: Any = None


class _OldCall(_OldFunction):
    id: Any = None
    type: Any = None
    function: _OldFunction | None = None


class _OldAnswer(BaseModel):
    id: Any = None
    tool_id: Any = None
    name: Any = None
    tool_name: Any = None
    response: Any = None
    content: Any = None
    role: Any = None


class _OldData(BaseModel):
    """The keys of `intermediateData` in older files."""

    tool_uses: list[_OldCall] = []
    tool_calls: list[_OldCall] = []
    tool_responses: list[_OldAnswer] = []
    intermediate_responses: Any = None


class TrpcMessage(TrpcModel):
    """A message in a conversation."""

    role: str = ""
    content: str = ""
    # Go's `model.Message` has snake_case tags, although the rest of the file is in camelCase.
    content_parts: list[dict[str, Any]] = Field(default_factory=list)
    tool_id: Any = None
    tool_name: Any = None
    tool_calls: Any = None
    reasoning_content: Any = None
    reasoning_signature: Any = None

    @override
    @classmethod
    def older_keys(cls) -> Mapping[str, object]:
        return {"parts": list[_OldPart]}

    @override
    @classmethod
    def convert_older_shape(cls, value: dict[str, object]) -> dict[str, object]:
        # Google's `parts` become the content, their texts on a line each.
        parts = value.get("parts")
        if "content" in value or not isinstance(parts, list):
            return value
        if not all(isinstance(part, dict) and isinstance(part.get("text") or "", str) for part in parts):
            raise ValueError("must hold `parts` as objects whose `text` is a text")
        texts = [part["text"] for part in parts if part.get("text")]
        others = [part for part in parts if not part.get("text")]
        found = [part for part in others if any(key != "text" and part[key] is not None for key in part)]
        return {**value, "content": "\n".join(texts), **({"content_parts": found} if found else {})}

    def to_user_message(self) -> UserMessage:
        """Convert to the user's message; parts other than the text become attachments."""
        return UserMessage(self.content, tuple(self.content_parts))

    def to_message(self) -> Message:
        """Convert to an agent's message; a role that is not in `AGENT_ROLES` becomes the message's author."""
        return Message(self.content, None if self.role in AGENT_ROLES else self.role)

    def is_plain_text(self, roles: Container[str]) -> bool:
        """Return True if the role is one of `roles`, and the message has no data of tools and no reasoning.

        If so, `to_user_message` loses nothing.
        """
        more = (self.tool_id, self.tool_name, self.tool_calls)
        reasons = (self.reasoning_content, self.reasoning_signature)
        return self.role in roles and not any((*more, *reasons))

    def to_json(self) -> JsonObject:
        """Return the message in today's shape."""
        return {"role": self.role, **self.model_dump(exclude={"role"}, exclude_defaults=True)}


class TrpcTool(TrpcModel):
    """A tool call with its result."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    result: Any = None


class TrpcInvocation(TrpcModel):
    """One turn of a conversation."""

    user_content: TrpcMessage | None = Field(default=None, alias="userContent")
    final_response: TrpcMessage | None = Field(default=None, alias="finalResponse")
    tools: list[TrpcTool] = Field(default_factory=list)
    intermediate_responses: list[TrpcMessage] = Field(default_factory=list, alias="intermediateResponses")
    context_messages: list[dict[str, Any]] = Field(default_factory=list, alias="contextMessages")
    invocation_id: str = Field(default="", alias="invocationId")
    creation_timestamp: float = Field(default=0.0, alias="creationTimestamp")
    tool_mock: Any = Field(default=None, alias="toolMock")
    execution_trace: dict[str, Any] | None = Field(default=None, alias="executionTrace")

    @override
    @classmethod
    def older_keys(cls) -> Mapping[str, object]:
        return {"intermediateData": _OldData}

    @override
    @classmethod
    def convert_older_shape(cls, value: dict[str, object]) -> dict[str, object]:
        # Written until 2025-12-23. Today's release ignores it: without tools on either side such a case
        # passes.
        data = value.get("intermediateData")
        if data is None:
            return value
        if "tools" in value:
            raise ValueError("must hold `tools` or the older `intermediateData`, not both")
        if not isinstance(data, dict):
            raise ValueError("must hold `intermediateData` as an object")  # noqa: TRY004  pydantic's contract
        found = {normalize_key(key): each for key, each in data.items()}
        messages = found.get("intermediateresponses") or value.get("intermediateResponses") or []
        return {
            **value,
            "tools": list(_join_tools(found)),
            "intermediateResponses": _normalize_messages(messages),
        }

    def to_reply(self) -> Reply:
        """Convert to the agent's reply. A result comes right after its call, and messages after all calls."""
        calls = build_tool_events([(tool.id, tool.name, tool.arguments, tool.result) for tool in self.tools])
        messages = [message.to_message() for message in self.intermediate_responses]
        response = self.final_response
        return Reply(None if response is None else response.content, (*calls, *messages))

    def extract_native_data(self) -> JsonObject:
        """Return the data of the turn, in today's shape, that no field of `CaseTurn` holds."""
        user, response, messages = self.user_content, self.final_response, self.intermediate_responses
        found = {
            "contextMessages": self.context_messages,
            "userContent": user.to_json() if user and not user.is_plain_text({"", "user"}) else None,
            "finalResponse": response.to_json()
            if response and _has_extra_fields(response, AGENT_ROLES)
            else None,
            "toolMock": self.tool_mock,
            "intermediateResponses": [each.to_json() for each in messages]
            if any(_has_extra_fields(each, {each.role}) for each in messages)
            else (),
            "executionTrace": self.execution_trace,
        }
        return {key: value for key, value in found.items() if value}


ToolEntry: TypeAlias = tuple[str, str, object, object]
"""Id, name, arguments and result of an entry in `tools`. "" is a missing id, None a missing result."""


def build_tool_events(entries: Sequence[ToolEntry]) -> Iterator[Event]:
    """Yield the call of each entry, followed by its result if it has one.

    The calls keep their ids if all are present and unique. Otherwise their numbers from 1 become their ids.
    """
    ids = [entry[0] for entry in entries]
    # Results are matched with calls by id, so no two calls may have the same id.
    are_unique = all(ids) and len(set(ids)) == len(ids)
    for number, (own_id, name, arguments, result) in enumerate(entries, start=1):
        id_ = own_id if are_unique else str(number)
        if isinstance(arguments, dict):
            yield ToolCall(name, arguments, id_)
        else:
            yield ToolCall(name, None, id_, other_args=arguments)
        if result is not None:
            yield ToolResult(name, result, id_)


def _has_extra_fields(message: TrpcMessage, roles: Container[str]) -> bool:
    return bool(message.content_parts) or not message.is_plain_text(roles)


def _normalize_messages(responses: object) -> object:
    """Convert each message `[author, parts]`, as old files have it, to `{"role": author, "parts": parts}`."""
    if not isinstance(responses, list):
        return responses
    return [
        {"role": each[0], "parts": each[1]} if isinstance(each, list) and len(each) == 2 else each
        for each in responses
    ]


def _join_tools(data: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    answers = [_parse_old_answer(each) for each in _get_entries(data, "toolresponses")]
    for each in _get_entries(data, "tooluses") or _get_entries(data, "toolcalls"):
        call = _parse_old_call(each)
        # An answer with an id belongs to the call with this id, an answer without an id to the first open
        # call of its tool.
        fits = ((one["id"] == call["id"] if one["id"] else one["name"] == call["name"]) for one in answers)
        answer = next(compress(answers, fits), None)
        if answer is not None:
            answers.remove(answer)
            call["result"] = answer["result"]
        yield call
    if answers:
        raise ValueError(f"holds an answer of `{answers[0]['name']}` that no tool call asked for")


def _get_entries(data: Mapping[str, Any], key: str) -> list[Any]:
    found = data.get(key)
    if found is not None and not isinstance(found, list):
        raise ValueError("must hold tool calls and answers as lists")
    return found or []


def _parse_old_call(value: object) -> dict[str, object]:
    call = _normalize_members(value)
    function = _normalize_members(call["function"]) if "function" in call else call
    arguments = function.get("arguments", function.get("args"))
    return {"id": call.get("id") or "", "name": function.get("name") or "", "arguments": arguments}


def _parse_old_answer(value: object) -> dict[str, object]:
    answer = _normalize_members(value)
    return {
        "id": answer.get("id") or answer.get("toolid") or "",
        "name": answer.get("name") or answer.get("toolname") or "",
        "result": answer.get("response", answer.get("content")),
    }


def _normalize_members(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must hold each tool call and answer as an object")  # noqa: TRY004  pydantic's contract
    return {normalize_key(key): each for key, each in value.items()}


class TrpcSessionInput(TrpcModel):
    """The app, the user and the state with which the session starts."""

    app_name: str = Field(default="", alias="appName")
    user_id: str = Field(default="", alias="userId")
    state: dict[str, Any] = Field(default_factory=dict)

    def to_session_input(self) -> SessionInput:
        """Convert to evalgate's session input."""
        return SessionInput(self.app_name, self.user_id, self.state)
