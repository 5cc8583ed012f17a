"""Client of agents that speak OpenAI's chat completions, and the parser of completions, whole or streamed.

Each request sends the whole conversation. evalgate answers tool calls with the case's mocks and recordings.
Requests and answers have the shapes that OpenAI's API reference of `POST /chat/completions` describes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from evalgate.agents.host.streamed_calls import StreamedCalls
from evalgate.agents.http.connection import AgentConnection
from evalgate.agents.http.dialect import Attachment, TurnAnswer, read_attachments
from evalgate.agents.http.errors import build_format_error, build_unsupported_error
from evalgate.agents.http.response_body import iter_events, parse_json_body, read_body, run_off_loop
from evalgate.agents.http.tool_stubs import CaseTools
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import (
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from evalgate.documents.strict_json import filter_objects


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Fields of every request, and the largest number of requests in one turn."""

    model: str
    stream: bool = False
    instructions: str | None = None
    """System message that is sent before all other messages."""
    body: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the request, such as `tools` and `temperature`."""
    max_rounds: int = 16
    """Largest number of requests in one turn."""


class ChatDialect:
    """`Dialect` (wire format) for OpenAI's chat completions."""

    def __init__(self, connection: AgentConnection, options: ChatOptions) -> None:
        self._connection = connection
        self._options = options

    def open_conversation(self, case: EvalCase) -> "ChatConversation":
        """Return a conversation that starts with the instructions and `case.context_messages`."""
        return ChatConversation(self._connection, self._options, case)


class ChatConversation:
    """`RemoteConversation` for chat completions. It keeps all messages, because the server stores none."""

    def __init__(self, connection: AgentConnection, options: ChatOptions, case: EvalCase) -> None:
        self._connection = connection
        self._options = options
        self._case = case
        self._turn = 0
        self._tools = CaseTools(case)
        system = options.instructions
        first: list[JsonObject] = [] if system is None else [{"role": "system", "content": system}]
        self._messages: list[JsonObject] = [*first, *case.context_messages]

    @property
    def applies_mocks(self) -> bool:
        """Return True: evalgate provides every tool result."""
        return True

    @property
    def applies_recordings(self) -> bool:
        """Return True: evalgate provides every tool result."""
        return True

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Request completions, and answer their tool calls, until a completion has no tool calls.

        The text of the last completion is the response.

        Raises:
            AgentError: a request failed, an answer is malformed, an attachment cannot be sent, a mocked tool
                has no result for a call, or the agent exceeds `max_rounds`.
        """
        self._messages.append({"role": "user", "content": _build_content(message)})
        turns = self._case.turns
        # A simulated user may go on after the case's last turn. Nothing is expected of further turns.
        self._tools.begin_turn(turns[self._turn].expected if self._turn < len(turns) else Reply())
        self._turn += 1
        events: list[Event] = []
        usage: Usage | None = None
        try:
            for _ in range(self._options.max_rounds):
                completion = await self._request_completion()
                if completion.usage is not None:
                    usage = (usage or Usage()) + completion.usage
                self._messages.append(completion.message)
                calls = await run_off_loop(completion.size, completion.read_calls)
                if not calls:
                    return TurnAnswer(Reply(completion.text, tuple(events)), usage)
                events += [Message(completion.text)] if completion.text else []
                events += [*calls, *self._answer_calls(calls)]
        except AgentError as error:
            # The requests so far were answered, and cost tokens.
            error.usage = error.usage or usage
            raise
        rounds = self._options.max_rounds
        sentence = f"the agent still calls tools after {rounds} rounds: raise `max_rounds` if it should"
        raise AgentError(Failure("rounds", sentence), usage=usage)

    async def end_conversation(self) -> None:
        """Do nothing: the server does not store the conversation."""

    def _answer_calls(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Return the results of tool calls, and add the results to the messages of the conversation.

        Raises:
            AgentError: a mocked or recorded tool has no result for a call.
        """
        results = [self._tools.get_result(call) for call in calls]
        for result in results:
            text = result.result if isinstance(result.result, str) else json.dumps(result.result)
            self._messages.append({"role": "tool", "tool_call_id": result.id or "", "content": text})
        return results

    async def _request_completion(self) -> "Completion":
        options = self._options
        body: dict[str, object] = {**options.body, "model": options.model, "messages": self._messages}
        if options.stream:
            # Without `include_usage`, OpenAI streams no usage.
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        url = self._connection.build_url("/chat/completions")
        headers = {"Accept": "text/event-stream"} if options.stream else {}
        async with self._connection.open_response("POST", url, body, headers) as response:
            if response.content_type != "text/event-stream":
                answer = await read_body(response)
                return await run_off_loop(len(answer), lambda: parse_chat_completion(parse_json_body(answer)))
            chunks = CompletionAssembler()
            async for data in iter_events(response, lambda: chunks.is_done):
                await run_off_loop(len(data), partial(chunks.add_event, data))
            return chunks.build_completion()


def _build_content(message: UserMessage) -> object:
    if not message.attachments:
        return message.text
    parts = [_build_part(attachment) for attachment in read_attachments(message)]
    return [{"type": "text", "text": message.text}, *parts]


def _build_part(attachment: Attachment) -> JsonObject:
    if not attachment.mime_type.startswith("image/"):
        raise build_unsupported_error(
            f"chat completions take images, and the case attaches {attachment.mime_type!r}"
        )
    url = attachment.uri or f"data:{attachment.mime_type};base64,{attachment.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


@frozen
class Completion:
    """Message of the model, with the usage that the server reports."""

    message: JsonObject
    """The message in the form in which the next request sends it back to the server."""
    usage: Usage | None
    """Tokens that the server reports; None if it reports none, or a negative count."""

    @property
    def text(self) -> str | None:
        """Return the text of the message, or its refusal if `content` is missing or an empty text.

        Return None if `content` and `refusal` are both missing.

        Raises:
            AgentError: `content` is neither a text nor a list of parts.
        """
        text = self.message.get("content")
        if isinstance(text, str) or text is None:
            refusal = self.message.get("refusal")
            return text if text or not isinstance(refusal, str) else refusal
        if isinstance(text, list):
            texts = (part.get("text") for part in text if isinstance(part, dict))
            return "".join(each for each in texts if isinstance(each, str))
        raise build_format_error("the completion's `content` is not a text")

    @property
    def size(self) -> int:
        """Return the number of characters in the arguments of all tool calls, which `read_calls` parses."""
        functions = (call.get("function") for call in filter_objects(self.message.get("tool_calls")))
        texts = (each.get("arguments") for each in functions if isinstance(each, dict))
        return sum(len(text) for text in texts if isinstance(text, str))

    def read_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls in the message, with their arguments parsed from JSON.

        Raises:
            AgentError: `tool_calls` is malformed.
        """
        calls = self.message.get("tool_calls") or ()
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            raise build_format_error("the completion's `tool_calls` is not a list")
        return tuple(map(_parse_call, calls))


def _parse_call(call: object) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(name, str):
        raise build_format_error("the completion calls a tool that is not a function with a name")
    id_, text = call.get("id"), function.get("arguments")
    id_ = id_ if isinstance(id_, str) else None
    if not isinstance(text, str) or not text.strip():
        return ToolCall(name, {}, id_)
    try:
        args = parse_json_body(text)
    except AgentError:
        args = text  # a model that writes broken JSON has made a wrong call, which is scored as one
    return ToolCall(name, args, id_) if isinstance(args, dict) else ToolCall(name, None, id_, other_args=args)


def parse_chat_completion(found: object) -> Completion:
    """Return the completion in the JSON of an answer.

    Raises:
        AgentError: the answer is not a chat completion, or has no message.
    """
    choices = found.get("choices") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(choices, list):
        raise build_format_error(
            "the agent's answer is no chat completion: it has no `choices`", _dump_excerpt(found)
        )
    message = choices[0].get("message") if choices and isinstance(choices[0], dict) else None
    if not isinstance(message, dict):
        raise build_format_error("the chat completion holds no message")
    kept = {key: value for key, value in message.items() if key in _SENT_BACK and value is not None}
    return Completion({"content": None, **kept, "role": "assistant"}, _parse_usage(found.get("usage")))


# Some servers refuse further fields of their own answers, such as the reasoning, in the next request.
_SENT_BACK = ("content", "refusal", "tool_calls")


class CompletionAssembler:
    """Collector of the chunks of a streamed completion."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "refusal": []}
        self._calls = StreamedCalls()
        self._usage: Usage | None = None
        self._is_over = False
        self.is_done = False
        """True after the `[DONE]` that ends the stream."""

    def add_event(self, data: str) -> None:
        """Add the data of one event of the stream.

        Raises:
            AgentError: the data is not a chunk, or reports an error.
        """
        if data.strip() == "[DONE]":
            self._is_over = self.is_done = True
            return
        chunk = parse_json_body(data)
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise build_format_error("the agent broke its answer off with an error", _dump_excerpt(chunk))
        self._usage = _parse_usage(chunk.get("usage")) or self._usage
        for choice in filter_objects(chunk.get("choices"))[:1]:
            self._is_over = self._is_over or choice.get("finish_reason") is not None
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._add_delta(delta)

    def build_completion(self) -> Completion:
        """Return the whole completion.

        Raises:
            AgentError: the stream ended with neither a `finish_reason` nor `[DONE]`.
        """
        if not self._is_over:
            raise build_format_error("the agent's stream ended before its answer did")
        texts = {name: "".join(parts) for name, parts in self._texts.items() if parts}
        message: dict[str, object] = {"role": "assistant", "content": None, **texts}
        if calls := self._calls.calls:
            unnamed = {"name": "", "arguments": ""}
            message["tool_calls"] = [
                {
                    **call,
                    "id": call["id"] or "",
                    "type": "function",
                    "function": call.get("function", unnamed),
                }
                for call in calls
            ]
        return Completion(message, self._usage)

    def _add_delta(self, delta: JsonObject) -> None:
        for name, parts in self._texts.items():
            if isinstance(piece := delta.get(name), str):
                parts.append(piece)
        for position, piece in enumerate(filter_objects(delta.get("tool_calls"))):
            self._calls.add_piece(piece, position)


def _parse_usage(found: object) -> Usage | None:
    """Return the usage that a completion reports; None if usage is missing or a count is negative."""
    if not isinstance(found, dict):
        return None
    counts = [found.get(name) for name in ("prompt_tokens", "completion_tokens")]
    input_tokens, output_tokens = (count if isinstance(count, int) else 0 for count in counts)
    return Usage.from_tokens(input_tokens, output_tokens) if min(input_tokens, output_tokens) >= 0 else None


def _dump_excerpt(found: object) -> str:
    return shorten_text(json.dumps(found), 2_000)
