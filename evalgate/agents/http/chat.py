"""Client of agents that speak OpenAI's chat completions.

Each request sends the whole conversation. The gate answers tool calls with the case's mocks and recordings.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from evalgate.agents.http.completions import Completion, CompletionAssembler, parse_chat_completion
from evalgate.agents.http.connection import AgentConnection, parse_json_body
from evalgate.agents.http.conversation import (
    Attachment,
    TurnAnswer,
    build_unsupported_error,
    read_attachments,
)
from evalgate.agents.http.off_loop import run_off_loop
from evalgate.agents.http.response_body import iter_events, read_body
from evalgate.agents.http.tool_stubs import CaseTools
from evalgate.core.protocols import AgentError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of the dialect that every request carries, and the limit of requests per turn."""

    model: str
    stream: bool = False
    instructions: str | None = None
    """System message before everything else."""
    body: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the request, such as `tools` and `temperature`."""
    max_rounds: int = 16
    """Largest number of requests in one turn."""


class ChatDialect:
    """`Dialect` of OpenAI's chat completions."""

    def __init__(self, connection: AgentConnection, options: ChatOptions) -> None:
        self._connection = connection
        self._options = options

    def open_conversation(self, case: EvalCase) -> "ChatConversation":
        """Return a conversation that starts with the instructions and the case's context messages."""
        return ChatConversation(self._connection, self._options, case)


class ChatConversation:
    """`RemoteConversation` that holds all of its messages, since the server remembers none."""

    def __init__(self, connection: AgentConnection, options: ChatOptions, case: EvalCase) -> None:
        self._connection = connection
        self._options = options
        self._case = case
        self._turn = 0
        self._tools = CaseTools(case.tool_mocks)
        system = options.instructions
        first: list[JsonObject] = [] if system is None else [{"role": "system", "content": system}]
        self._messages: list[JsonObject] = [*first, *case.context_messages]

    @property
    def applies_mocks(self) -> bool:
        """Return True: every tool result comes from the gate."""
        return True

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Request completions and answer their tool calls until one has no calls; return its text.

        Raises:
            AgentError: a request failed, a mock is missing, or the agent exceeds `max_rounds`.
        """
        self._messages.append({"role": "user", "content": _build_content(message)})
        turns = self._case.turns
        # A simulated user may go on after the last written turn, of which nothing is expected.
        self._tools.begin_turn(turns[self._turn].expected if self._turn < len(turns) else Reply())
        self._turn += 1
        events: list[Event] = []
        usage: Usage | None = None
        for _ in range(self._options.max_rounds):
            completion = await self._request_completion(usage)
            spent = completion.usage
            usage = spent if usage is None or spent is None else usage + spent
            self._messages.append(completion.message)
            calls = await run_off_loop(completion.size, partial(completion.read_calls, usage))
            if not calls:
                return TurnAnswer(Reply(completion.text, tuple(events)), usage)
            events += [Message(completion.text)] if completion.text else []
            events += calls
            results = self._get_results(calls, usage)
            events += results
            for result in results:
                text = result.result if isinstance(result.result, str) else json.dumps(result.result)
                self._messages.append({"role": "tool", "tool_call_id": result.id or "", "content": text})
        rounds = self._options.max_rounds
        sentence = f"the agent still calls tools after {rounds} rounds: raise `max_rounds` if it should"
        raise AgentError(Failure("rounds", sentence), usage=usage)

    async def end_conversation(self) -> None:
        """Do nothing: the server remembers nothing."""

    def _get_results(self, calls: Sequence[ToolCall], spent: Usage | None) -> list[ToolResult]:
        try:
            return [self._tools.get_result(call) for call in calls]
        except AgentError as error:
            error.usage = spent
            raise

    async def _request_completion(self, spent: Usage | None) -> Completion:
        options = self._options
        body: dict[str, object] = {**options.body, "model": options.model, "messages": self._messages}
        if options.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        url = self._connection.build_url("/chat/completions")
        headers = {"Accept": "text/event-stream"} if options.stream else {}
        try:
            async with self._connection.open_response("POST", url, body, headers) as response:
                if response.content_type != "text/event-stream":
                    answer = await read_body(response)
                    return await run_off_loop(
                        len(answer), lambda: parse_chat_completion(parse_json_body(answer))
                    )
                chunks = CompletionAssembler()
                async for data in iter_events(response, lambda: chunks.is_done):
                    await run_off_loop(len(data), partial(chunks.add_event, data))
                return chunks.build_completion()
        except AgentError as error:
            error.usage = error.usage or spent
            raise


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
