"""Adapter for agents, workflows and apps of Google ADK, run by ADK's own Runner.

Events are read as ADK's evaluation reads them: the last final event with text is the response, and all other
texts, calls and results are reported as events of the turn.
"""

from __future__ import annotations

import contextlib
import importlib
import uuid
from typing import Any, Optional
from weakref import WeakKeyDictionary

from ..errors import ModelError, UnsupportedCaseError, summarize_error
from ..mocked_tools import FEATURES
from ..session import Recorder, Session
from . import HostedAgent, is_a
from .event_recorder import make_encodable_values

# Names that ADK's evaluation uses if the case has none.
_APP_NAME = "EvaluationGenerator"
_USER_ID = "test_user_id"
_ROLES = {"user": "user", "assistant": "model", "model": "model", "agent": "model"}


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt an agent, a workflow or an app of Google ADK; return None for any other object."""
    if not is_adk(agent):
        return None
    return HostedAgent(_ConversationStore(agent).run_turn, asynchronous=True, features=FEATURES)


def is_adk(agent: object) -> bool:
    """Return True if the object is an agent, a workflow or an app of Google ADK."""
    return any(is_a(agent, "google.adk", name) for name in ("BaseAgent", "BaseNode", "App"))


def is_app(agent: object) -> bool:
    """Return True if the object is an app of Google ADK, which contains an agent."""
    return is_a(agent, "google.adk", "App")


class _ConversationStore:
    """Conversations with one agent, by session. Each conversation has its own ADK services."""

    def __init__(self, agent: object) -> None:
        self._agent = agent
        self._conversations: WeakKeyDictionary[Session, _AdkConversation] = WeakKeyDictionary()

    async def run_turn(self, text: str, session: Session) -> dict[str, Any]:
        """Run one turn and return the answer; the first turn of a session begins a new conversation."""
        conversation = self._conversations.get(session)
        if conversation is None:
            conversation = self._conversations[session] = _AdkConversation(self._agent, session)
            await conversation.open_session(session)
        return {"response": await conversation.run_turn(text, session)}


class _AdkConversation:
    """Conversation with a separate ADK Runner.

    The Runner is never closed, because `Runner.close` would close toolsets that other conversations use.
    """

    def __init__(self, agent: Any, session: Session) -> None:
        self._types = importlib.import_module("google.genai.types")
        self._app_name = session.app_name or _APP_NAME
        self._user_id = session.user_id or _USER_ID
        self._id = str(uuid.uuid4())
        self._root = agent.root_agent if is_app(agent) else agent
        if session.mocks:
            from .adk_mocks import refuse_unmockable_tools

            refuse_unmockable_tools(self._root, session.mocks)
        self._sessions = _create_service("sessions.in_memory_session_service", "InMemorySessionService")
        self._runner = self._create_runner(agent, _create_plugins(session, self._id))

    def _create_runner(self, agent: Any, plugins: list[Any]) -> Any:
        runner = importlib.import_module("google.adk.runners").Runner
        options = {"app": agent} if self._root is not agent else {"agent": agent}
        return runner(
            **_add_plugins(options, plugins),
            app_name=self._app_name,
            session_service=self._sessions,
            artifact_service=_create_service(
                "artifacts.in_memory_artifact_service", "InMemoryArtifactService"
            ),
            memory_service=_create_service("memory.in_memory_memory_service", "InMemoryMemoryService"),
        )

    async def open_session(self, session: Session) -> None:
        """Create ADK's session with the case's state, and append the messages that precede the conversation.

        Raises:
            UnsupportedCaseError: a message is neither a text of the user nor one of the agent.
        """
        session.ids = {"session_id": self._id, "user_id": self._user_id}
        opened = await self._sessions.create_session(
            app_name=self._app_name, user_id=self._user_id, session_id=self._id, state=session.state
        )
        event = importlib.import_module("google.adk.events.event").Event
        for message in session.context_messages:
            content = self._convert_context_message(message)
            author = "user" if content.role == "user" else self._root.name
            earlier = event(author=author, content=content, invocation_id="context")
            await self._sessions.append_event(opened, earlier)

    def _convert_context_message(self, message: dict[str, Any]) -> Any:
        role, text = _ROLES.get(str(message.get("role"))), message.get("content")
        if role is None or not isinstance(text, str):
            raise UnsupportedCaseError(
                "a context message cannot be told to a Google ADK agent: its role must be user or assistant "
                f"and its content a text, not {message.get('role')!r} and {type(text).__name__}"
            )
        return self._types.Content(role=role, parts=[self._types.Part(text=text)])

    async def run_turn(self, text: str, session: Session) -> Optional[str]:
        """Run one turn, report its events, and return the text of the final response.

        Return None if no event is final, and "" if the final response has no text. `session.state` is
        replaced by the state that ADK has at the end of the turn.

        Raises:
            ModelError: no event is final, and the model returned an error.
            UnsupportedCaseError: an attachment is not valid for ADK.
            BaseException: any exception that the agent raises.
        """
        events: list[Any] = []
        try:
            await self._collect_events(text, session, events)
        except Exception:
            # The transcript holds what happened before the error.
            _report_events(events, None, session)
            raise
        final = _find_final_event(events)
        _report_events(events, final, session)
        session.state = await self._read_state()
        if final is None:
            _raise_model_error(events)
            return None
        return "\n".join(part.text for part in _get_parts(final) if part.text)

    async def _collect_events(self, text: str, session: Session, events: list[Any]) -> None:
        running = self._runner.run_async(
            user_id=self._user_id,
            session_id=self._id,
            new_message=self._build_message(text, session.attachments),
        )
        # A cancelled turn must close the generator at once: else it ends only when it is garbage-collected.
        async with contextlib.aclosing(running):
            async for event in running:
                _report_usage(event, session.recorder)
                # The parts of a streamed answer are no messages: the whole event repeats them.
                if (event.author or "").lower() != "user" and not event.partial:
                    events.append(event)

    def _build_message(self, text: str, attachments: list[Any]) -> Any:
        parts = [self._types.Part(text=text)] if text or not attachments else []
        for each in attachments:
            try:
                parts.append(self._types.Part.model_validate(each))
            except ValueError as error:
                # The first line of pydantic's message only counts the problems.
                problems: list[dict[str, Any]] = getattr(error, "errors", list)()
                found = [f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in problems]
                raise UnsupportedCaseError(
                    "an attachment is no part that Google ADK knows: "
                    + ("; ".join(found) or summarize_error(error))
                ) from None
        return self._types.Content(role="user", parts=parts)

    async def _read_state(self) -> dict[str, Any]:
        now = await self._sessions.get_session(
            app_name=self._app_name, user_id=self._user_id, session_id=self._id
        )
        state: dict[str, Any] = make_encodable_values(dict(now.state))
        return state


def _create_plugins(session: Session, session_id: str) -> list[Any]:
    """Return the ADK plugins for usage, traces and mocks of a session.

    The trace plugin comes before the mock plugin, because ADK calls no plugin after one that answers a call.
    `session_id` is the id of ADK's own session.
    """
    plugins = [_create_usage_plugin(session.recorder, session_id)]
    if session.trace is not None:
        from .adk_trace import create_trace_plugin

        plugins.append(create_trace_plugin(session.trace))
    if session.mocks:
        from .adk_mocks import create_mock_plugin

        plugins.append(create_mock_plugin(session.mocks))
    return plugins


def _create_usage_plugin(recorder: Recorder, session_id: str) -> Any:
    """Return a plugin that reports the usage of agents that are called through an `AgentTool`.

    ADK runs such an agent in a separate session, and only the tool receives the events of this session.
    """

    async def after_model_callback(_self: Any, *, callback_context: Any, llm_response: Any) -> None:
        if callback_context.session.id != session_id:
            _report_usage(llm_response, recorder)

    base = importlib.import_module("google.adk.plugins.base_plugin").BasePlugin
    methods = {"after_model_callback": after_model_callback}
    return type("Usage", (base,), methods)(name="evalgate_usage")


def _add_plugins(options: dict[str, Any], plugins: list[Any]) -> dict[str, Any]:
    if "app" in options:
        app = options["app"]
        # A copy, because conversations with other mocks use the app at the same time.
        return {"app": app.model_copy(update={"plugins": [*plugins, *app.plugins]})}
    return {**options, "plugins": plugins}


def _create_service(module: str, name: str) -> Any:
    return getattr(importlib.import_module("google.adk." + module), name)()


def _get_parts(event: Any) -> list[Any]:
    return (event.content and event.content.parts) or []


def _find_final_event(events: list[Any]) -> Any:
    """Return the last final event with text.

    If no final event has text, return the last final event, such as audio or an image. Return None if no
    event is final.
    """
    final = None
    for event in events:
        if _get_parts(event) and event.is_final_response() and (not _has_text(final) or _has_text(event)):
            final = event
    return final


def _has_text(event: Any) -> bool:
    return event is not None and any(part.text for part in _get_parts(event))


def _report_events(events: list[Any], final: Any, session: Session) -> None:
    report = session.recorder.report_event
    for event in events:
        is_response = event is final and not event.get_function_calls()
        for part in _get_parts(event):
            call, answer = part.function_call, part.function_response
            if part.text and not is_response:
                report("message", text=part.text, author=event.author)
            if call:
                report("tool_call", name=call.name or "", args=call.args, id=call.id, author=event.author)
            if answer:
                result = make_encodable_values(answer.response)
                report(
                    "tool_result", name=answer.name or "", result=result, id=answer.id, author=event.author
                )


def _report_usage(event: Any, recorder: Recorder) -> None:
    # Partial events of a streamed answer have sums that the whole event repeats.
    used = getattr(event, "usage_metadata", None)
    if used is not None and not event.partial:
        recorder.report_event("usage", **count_tokens(used))


def count_tokens(used: Any) -> dict[str, int]:
    """Convert the usage metadata of a model's answer to the token counts of a `usage` message."""
    return {
        "input_tokens": (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        "output_tokens": (used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
    }


def _raise_model_error(events: list[Any]) -> None:
    error = next((event for event in reversed(events) if event.error_code), None)
    if error is not None:
        why = f": {error.error_message}" if error.error_message else ""
        raise ModelError(f"the model of `{error.author}` gave the error {error.error_code}{why}")
