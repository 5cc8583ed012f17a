"""Adapter for agents of Pydantic AI. Each turn passes the message history of the session to the agent.

If the agent's `deps_type` is a dict, the session's state is passed as `deps`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import AsyncIterator
from typing import Any, Optional, get_origin

from ..errors import UnsupportedCaseError
from ..mocked_tools import FEATURES, Mocks
from ..session import Session
from ..tools import find_session
from . import HostedAgent, is_a
from .event_recorder import EventRecorder, adapt_conversations, as_text
from .pydantic_ai_trace import create_traced_model, trace_tools

# Tool of the framework with which a model returns structured output. It is not a tool of the agent.
_OUTPUT_TOOL = "final_result"
_MARK = "evalgate_mocks"


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent of Pydantic AI; return None for any other object."""
    if not any(is_a(agent, "pydantic_ai", name) for name in ("AbstractAgent", "Agent")):
        return None
    features = FEATURES if hasattr(agent, "toolsets") and hasattr(agent, "override") else ()
    return adapt_conversations(
        "an agent of Pydantic AI", lambda session: _PydanticAiConversation(agent, session), *features
    )


class _PydanticAiConversation:
    def __init__(self, agent: Any, session: Session) -> None:
        if session.mocks:
            _install_tool_mocks()
        self._agent = agent
        self._output_tools = _list_output_tools(agent)
        self._history: list[Any] = [_convert_context_message(message) for message in session.context_messages]

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        options: dict[str, Any] = {"message_history": self._history} if self._history else {}
        deps_type = getattr(self._agent, "deps_type", None)
        if get_origin(deps_type) is dict or deps_type is dict:
            options["deps"] = session.state
        if session.trace is not None and getattr(self._agent, "model", None) is not None:
            options["model"] = create_traced_model(self._agent.model, session.trace)
        usage = options["usage"] = importlib.import_module("pydantic_ai.usage").RunUsage()
        watch = _HistoryWatch()
        if _processes_history(getattr(self._agent, "root_capability", None)):
            options["capabilities"] = [watch.create_capability()]
        recorder = EventRecorder(session)
        capture = importlib.import_module("pydantic_ai").capture_run_messages
        messages: list[Any] = []
        with trace_tools(self._agent, session.trace), capture() as captured:
            try:
                result = await self._agent.run(text, **options)
                # `captured` is shorter than the history if the agent's `ProcessHistory` drops messages.
                messages = result.new_messages()
                if watch.steps:
                    messages = [*watch.steps, *_find_last_step(messages)]
            except Exception:
                messages = captured[len(self._history) :]
                raise
            finally:  # also after an error: the calls before it belong to the transcript
                recorder.record_usage(usage.input_tokens, usage.output_tokens)
                for message in messages:
                    _record_message(message, recorder, self._output_tools)
        self._history = result.all_messages()
        return as_text(result.output)


class _HistoryWatch:
    """Collector of one run's messages, for agents that drop earlier messages while the run goes on.

    An example is an agent with `ProcessHistory(keep_the_last_five)` that calls tools many times in a turn.
    """

    def __init__(self) -> None:
        self.steps: list[Any] = []
        """Responses of the model in this run, except the last, each followed by its tool results."""
        self._began = False

    def create_capability(self) -> Any:
        """Return a Pydantic AI capability that adds new messages to `self.steps` before each request."""

        async def before_model_request(_self: Any, ctx: Any, request_context: Any) -> Any:
            step = _find_last_step(ctx.messages) if self._began else []
            if step and not any(each is step[0] for each in self.steps):
                self.steps += step
            self._began = True
            return request_context

        module = importlib.import_module("pydantic_ai.capabilities")
        outermost = module.CapabilityOrdering(position="outermost")
        methods = {"before_model_request": before_model_request, "get_ordering": lambda _: outermost}
        return type("Watching", (module.AbstractCapability,), methods)()


def _processes_history(capability: Any) -> bool:
    """Return True if a capability of Pydantic AI is a `ProcessHistory`, or contains one."""
    parts = [*getattr(capability, "capabilities", ()), getattr(capability, "wrapped", None)]
    return is_a(capability, "pydantic_ai", "ProcessHistory") or any(
        _processes_history(each) for each in parts if each is not None
    )


def _find_last_step(messages: list[Any]) -> list[Any]:
    """Return the last response of the model, and the messages that follow it; [] without a response."""
    last = max((index for index, each in enumerate(messages) if each.kind == "response"), default=None)
    return [] if last is None else messages[last:]


def _list_output_tools(agent: Any) -> set[str]:
    """Return the names of the tools that the agent uses for structured output (`ToolOutput`)."""
    output_type = getattr(agent, "output_type", None)
    kinds: list[Any] = list(output_type) if isinstance(output_type, (list, tuple)) else [output_type]
    return {each.name for each in kinds if is_a(each, "pydantic_ai", "ToolOutput") and each.name}


def _install_tool_mocks() -> None:
    """Wrap `Agent.iter`, which each run calls, so that mocks also apply to an agent that a tool runs.

    Do nothing if the method is wrapped already.
    """
    kind = importlib.import_module("pydantic_ai").Agent
    if hasattr(kind.iter, _MARK):
        return
    iterate = kind.iter

    @contextlib.asynccontextmanager
    @functools.wraps(iterate)
    async def iterate_mocked(self: Any, *values: Any, **named: Any) -> AsyncIterator[Any]:
        session = find_session(self.name or "agent")
        mocks = _mock_toolsets(self, session, named) if session is not None else contextlib.nullcontext()
        with mocks:
            async with iterate(self, *values, **named) as run:
                yield run

    setattr(iterate_mocked, _MARK, True)
    kind.iter = iterate_mocked


def _mock_toolsets(
    agent: Any, session: Session, options: dict[str, Any]
) -> contextlib.AbstractContextManager[Any]:
    """Return a context manager in which mocks answer the calls of mocked tools in the agent's toolsets.

    Args:
        agent: The agent that runs: the agent of the session, or another agent that one of its tools runs.
        session: Session with the mocks.
        options: Named arguments of the run. The toolsets in its item `toolsets` are mocked as well.

    Raises:
        UnsupportedCaseError: the model's provider runs a mocked tool. The error is also stored in
            `session.mocks.missing`, because an agent that runs `agent` in a tool may hide the error.
    """
    mocks = session.mocks
    if not mocks:
        return contextlib.nullcontext()
    try:
        _refuse_native_tools(agent, mocks)
    except UnsupportedCaseError as error:
        mocks.missing = error
        raise

    async def call_tool(self: Any, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        if mocks.is_mocked(name):
            return mocks.require_result(name, _find_written_arguments(ctx, tool_args))
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)

    base = importlib.import_module("pydantic_ai.toolsets").WrapperToolset
    mocking = type("Mocking", (base,), {"call_tool": call_tool})
    # `toolsets` includes the agent's own functions, which `tools` would add once more. Toolsets of the run
    # are ignored if toolsets are overridden.
    toolsets = [*agent.toolsets, *(options.get("toolsets") or ())]
    override: contextlib.AbstractContextManager[Any] = agent.override(
        toolsets=[mocking(each) for each in toolsets], tools=[]
    )
    return override


def _refuse_native_tools(agent: Any, mocks: Mocks) -> None:
    """Raise UnsupportedCaseError for a mocked tool that the model's provider runs."""
    natives = getattr(agent, "_cap_native_tools", None) or getattr(agent, "_builtin_tools", None) or ()
    for each in natives:
        name = getattr(each, "kind", None) or "tool"
        # Searches the descriptions of the agent's own tools, and has no effects.
        if name != "tool_search" and mocks.is_ever_mocked(name):
            raise UnsupportedCaseError(f"`{name}` is a tool of the model's provider, which cannot be mocked")


def _find_written_arguments(ctx: Any, tool_args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the model wrote them, without the tool's defaults and converted types.

    Return `tool_args` if the call is not among the messages of the run.
    """
    wanted = getattr(ctx, "tool_call_id", None)
    for message in reversed(getattr(ctx, "messages", None) or []):
        for part in message.parts:
            if part.part_kind == "tool-call" and part.tool_call_id == wanted:
                args: dict[str, Any] = part.args_as_dict()
                return args
    return tool_args


def _convert_context_message(message: dict[str, Any]) -> Any:
    messages = importlib.import_module("pydantic_ai.messages")
    role, text = message.get("role"), message.get("content")
    if role == "user" and isinstance(text, str):
        return messages.ModelRequest(parts=[messages.UserPromptPart(content=text)])
    if role == "system" and isinstance(text, str):
        return messages.ModelRequest(parts=[messages.SystemPromptPart(content=text)])
    if role == "assistant" and isinstance(text, str):
        return messages.ModelResponse(parts=[messages.TextPart(content=text)])
    raise UnsupportedCaseError(
        f"a context message of role {role!r} cannot be told to an agent of Pydantic AI"
    )


def _record_message(message: Any, recorder: EventRecorder, output_tools: set[str]) -> None:
    text = ""
    for part in message.parts:
        kind, name = part.part_kind, getattr(part, "tool_name", None)
        if kind == "text":
            text += part.content  # an answer with citations has many parts
        elif name is None or name in output_tools or name.startswith(_OUTPUT_TOOL):
            continue  # not a call of one of the agent's own tools
        elif kind.endswith("tool-call"):
            recorder.record_text(text)
            text = ""
            recorder.record_call(part.tool_name, {} if part.args is None else part.args, part.tool_call_id)
        elif kind.endswith("tool-return") or kind == "retry-prompt":
            recorder.record_text(text)
            text = ""
            recorder.record_result(part.tool_name, part.content, part.tool_call_id)
    recorder.record_text(text)
