"""Adapter for LangGraph's graphs and LangChain's runnables.

If the input of a graph has `messages`, the events of a turn are read from these messages. For all other
runnables, callbacks report the tools that ran. Callbacks always report the usage of models.

A graph with `messages` and a checkpointer stores its conversation itself. If a graph with `messages` has no
checkpointer, its state at the end of a turn is part of the next turn's input.
"""

from __future__ import annotations

import importlib
import json
import uuid
from collections import Counter
from typing import Any, Optional, get_type_hints

from ..errors import InvalidAnswerError, UnsupportedCaseError, UnusableEntryError, summarize_error
from ..mocked_tools import FEATURES
from ..session import Session
from . import HostedAgent, is_a
from .event_recorder import EventRecorder, adapt_conversations, as_text, make_encodable_values

# Names that chains use for their answer.
_OUTPUTS = ("output", "response", "answer", "result", "text")


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt a compiled graph or any other runnable of LangChain; return None for any other object.

    Raises:
        UnusableEntryError: the graph is not compiled, or several input keys could take the user's text.
    """
    if is_a(agent, "langgraph", "StateGraph"):
        raise UnusableEntryError("it is a graph that is not compiled: name what `compile()` gives")
    if not is_a(agent, "langchain_core", "Runnable"):
        return None
    takes = _list_input_keys(agent)
    if is_a(agent, "langgraph", "Pregel") and "messages" in takes:
        return adapt_conversations(
            "a graph of LangGraph", lambda session: _GraphConversation(agent, takes, session), *FEATURES
        )
    is_model = is_a(agent, "langchain_core", "BaseLanguageModel")
    key = None if is_model else _choose_input_key(takes)
    found = adapt_conversations(
        "a runnable of LangChain", lambda session: _RunnableConversation(agent, key, session), *FEATURES
    )
    # LangChain's older chains store the conversation in their `memory`.
    return found._replace(shareable=is_model or getattr(agent, "memory", None) is None)


def _list_input_keys(agent: Any) -> list[str]:
    """Return the keys of the input; an empty list if the input is not an object or its schema is unknown."""
    schema = getattr(getattr(agent, "builder", None), "input_schema", None)
    try:
        if schema is not None:  # a graph's, which LangGraph cannot describe if it is a `typing.TypedDict`
            return list(get_type_hints(schema))
        return list(agent.get_input_jsonschema().get("properties") or ())
    except Exception:  # noqa: BLE001  a schema of any type that pydantic cannot describe
        return []


def _choose_input_key(keys: list[str]) -> str:
    if len(keys) > 1 and "input" not in keys and "messages" not in keys:
        raise UnusableEntryError(
            f"it takes {', '.join(sorted(keys))}, and which of them is what the user says cannot be told; "
            "name a function (text, session) that asks it"
        )
    return next((key for key in ("messages", "input") if key in keys), keys[0] if keys else "")


def _check_context_messages(session: Session) -> list[dict[str, Any]]:
    """Return the messages that precede the conversation, unchanged, after checking them.

    Raises:
        UnsupportedCaseError: LangChain cannot convert a message.
    """
    convert = importlib.import_module("langchain_core.messages").convert_to_messages
    for message in session.context_messages:
        try:
            convert([message])
        except Exception as error:  # noqa: BLE001  LangChain raises errors of many types
            role, content = message.get("role"), message.get("content")
            raise UnsupportedCaseError(
                f"a context message of role {role!r} with a content of type {type(content).__name__} cannot "
                f"be told to LangChain: {summarize_error(error)}"
            ) from None
    return list(session.context_messages)


def _prepare_mocks(session: Session) -> None:
    if session.mocks:
        from .langchain_mocks import install_tool_mocks

        install_tool_mocks()


class _GraphConversation:
    """Conversation with a graph that has `messages` in its input."""

    def __init__(self, graph: Any, takes: list[str], session: Session) -> None:
        _prepare_mocks(session)
        self._graph = graph
        self._remembers = bool(getattr(graph, "checkpointer", None))
        self._thread = str(uuid.uuid4())
        state = {key: value for key, value in session.state.items() if key in takes and key != "messages"}
        self._values: dict[str, Any] = {**state, "messages": _check_context_messages(session)}
        self._last: dict[str, Any] = {}
        self._is_interrupted = False
        """True if the graph waits for the user and continues with the next message."""
        # With `stream_mode="values"`, each step returns all messages of the conversation so far.
        self._seen: set[object] = set()
        """Keys of the messages that were recorded or sent; `_list_messages` gives each message its key."""
        self._newest: Any = None
        """Key and latest version of the newest message; None if there is none.

        The newest message is recorded only after the next step of the graph, because the next node may
        replace the message. For example, a middleware may edit a tool call or redact an answer.
        """

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        session.ids = {"session_id": self._thread}
        recorder = EventRecorder(session)
        message = {"role": "user", "content": text}
        first = not self._is_interrupted
        graph_input: Any = {**self._values, "messages": [*self._values["messages"], message]}
        if self._is_interrupted:
            graph_input = importlib.import_module("langgraph.types").Command(resume=text)
        config = {
            "configurable": {"thread_id": self._thread},
            "callbacks": _create_callbacks(recorder, session, tools=False),
        }
        self._newest = None
        try:
            async for values in self._graph.astream(graph_input, config=config, stream_mode="values"):
                self._record_messages(values.get("messages") or (), recorder, message if first else None)
                first, self._last = False, values
        except Exception:
            self._record_newest(recorder)
            raise
        self._record_newest(recorder)
        return self._finish_turn(session, recorder)

    def _record_messages(self, messages: Any, recorder: EventRecorder, sent: object) -> None:
        """Record the messages that are new since the last call, except the newest one.

        The newest message waits for the next call, because the next node of the graph may replace it. The
        first call of a turn records nothing: it only marks `messages`, the input of the turn, as seen.

        Args:
            messages: All messages of the conversation after a step of the graph.
            recorder: Recorder of the turn.
            sent: The user's message in the first call of a turn; None in all later calls.
        """
        if sent is not None:
            self._seen = {key for key, _ in _list_messages(messages)}
            return
        for key, message in _list_messages(messages):
            if key not in self._seen:
                self._seen.add(key)
                self._record_newest(recorder)
                self._newest = (key, message)
            elif self._newest is not None and key == self._newest[0]:
                self._newest = (key, message)

    def _record_newest(self, recorder: EventRecorder) -> None:
        if self._newest is not None:
            _record_message(self._newest[1], recorder)
        self._newest = None

    def _finish_turn(self, session: Session, recorder: EventRecorder) -> Optional[str]:
        values = {key: value for key, value in self._last.items() if not key.startswith("__")}
        ended = {key: value for key, value in values.items() if key != "messages"}
        session.state = {**session.state, **make_encodable_values(ended)}
        self._values = {"messages": []} if self._remembers else values
        questions = [as_text(each.value) or "" for each in self._last.get("__interrupt__") or ()]
        self._is_interrupted = bool(questions) and self._remembers
        if questions:
            recorder.record_text("\n".join(questions))
            return recorder.response
        return recorder.choose_response(values.get("structured_response"))


def _list_messages(messages: Any) -> list[tuple[object, Any]]:
    """Return (key, message) for each message. In later calls, the same message has the same key."""
    convert = importlib.import_module("langchain_core.messages").convert_to_messages
    found: list[tuple[object, Any]] = []
    equal: Counter[str] = Counter()
    for message in convert(messages):
        key: object = getattr(message, "id", None)
        # Without LangGraph's reducer, messages have no ids, and a node may shorten or replace the list. The
        # key is then the content, with the number of equal messages before it.
        if not key:
            text = f"{message.type} {message.content} {getattr(message, 'tool_calls', None)}"
            key = (text, equal[text])
            equal[text] += 1
        found.append((key, message))
    return found


def _record_message(message: Any, recorder: EventRecorder) -> None:
    author = getattr(message, "name", None)
    if message.type == "tool":
        recorder.record_result(author, _parse_result(message.content), message.tool_call_id)
    elif message.type == "ai":
        recorder.record_text(_join_text(message.content), author)
        for call in message.tool_calls:
            recorder.record_call(call["name"], call["args"], call.get("id"), author)
        for call in message.invalid_tool_calls:
            recorder.record_call(call.get("name") or "", None, call.get("id"), author)


def _join_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = (each if isinstance(each, str) else each.get("text") or "" for each in content)
    return "".join(blocks)


def _parse_result(content: Any) -> Any:
    """Return a tool's result; parse a text in which LangChain wrote an object or a list as JSON."""
    if isinstance(content, str) and content[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


class _RunnableConversation:
    """Conversation with a model, a chain, or any other runnable that is not a graph with `messages`."""

    def __init__(self, runnable: Any, key: Optional[str], session: Session) -> None:
        _prepare_mocks(session)
        self._runnable = runnable
        self._key = key
        """Key of the user's text in the input. "": the input is the text itself. None: the input is the list
        of all messages."""
        self._id = str(uuid.uuid4())
        self._messages: list[dict[str, Any]] = _check_context_messages(session)

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        session.ids = {"session_id": self._id}
        recorder = EventRecorder(session)
        known = {"session_id": self._id, "thread_id": self._id}
        config = {"configurable": known, "callbacks": _create_callbacks(recorder, session, tools=True)}
        self._messages.append({"role": "user", "content": text})
        response = _extract_response(await self._runnable.ainvoke(self._build_input(text), config=config))
        self._messages.append({"role": "assistant", "content": response or ""})
        return response

    def _build_input(self, text: str) -> object:
        if self._key is None:
            return list(self._messages)
        if self._key == "messages":
            return {"messages": list(self._messages)}
        return {self._key: text} if self._key else text


def _extract_response(output: Any) -> Optional[str]:
    if isinstance(output, dict):
        key = next((key for key in _OUTPUTS if key in output), None)
        if key is None:
            raise InvalidAnswerError(
                f"the runnable gave {', '.join(map(str, output)) or 'nothing'}, and which of them is the "
                "answer cannot be told; name a function (text, session) that asks it"
            )
        output = output[key]
    return _join_text(output.content) if hasattr(output, "content") else as_text(output)


def _create_callbacks(recorder: EventRecorder, session: Session, tools: bool) -> list[Any]:
    handlers = [_create_callback_handler(recorder, tools)]
    if session.trace is not None:
        from .langchain_trace import create_trace_handler

        handlers.append(create_trace_handler(session.trace))
    return handlers


def _create_callback_handler(recorder: EventRecorder, tools: bool) -> Any:
    """Return a callback handler of LangChain that records usage and, with `tools`, tool calls and results."""
    names: dict[object, str] = {}

    def on_llm_end(_self: Any, response: Any, **_: Any) -> None:
        for generation in (each for batch in response.generations for each in batch):
            used = getattr(getattr(generation, "message", None), "usage_metadata", None) or {}
            recorder.record_usage(used.get("input_tokens"), used.get("output_tokens"))

    def on_tool_start(_self: Any, serialized: Any, input_str: str, *, run_id: Any, **more: Any) -> None:
        names[run_id] = (serialized or {}).get("name") or more.get("name") or ""
        recorder.record_call(names[run_id], more.get("inputs") or input_str, str(run_id))

    def on_tool_end(_self: Any, output: Any, *, run_id: Any, **_: Any) -> None:
        content = _parse_result(getattr(output, "content", output))
        recorder.record_result(names.pop(run_id, None), content, str(run_id))

    def on_tool_error(_self: Any, error: BaseException, *, run_id: Any, **_: Any) -> None:
        if not is_a(error, "langgraph", "GraphBubbleUp"):  # not an error: the graph interrupts itself
            recorder.record_result(names.pop(run_id, None), {"error": str(error)}, str(run_id))

    base = importlib.import_module("langchain_core.callbacks").BaseCallbackHandler
    # Inline, since callbacks in other threads would lose the order of events. If not for `raise_error`,
    # LangChain would only log an error of a callback, and events would be missing without notice.
    methods: dict[str, Any] = {"on_llm_end": on_llm_end, "run_inline": True, "raise_error": True}
    if tools:
        methods.update(on_tool_start=on_tool_start, on_tool_end=on_tool_end, on_tool_error=on_tool_error)
    return type("Watcher", (base,), methods)()
