"""Google ADK's agents, workflows and apps, asked through ADK's own Runner.

What a turn's events mean is what ADK's evaluation makes of them: the last final event with text is the
response, everything else that says, calls or answers something comes before it.
"""

from __future__ import annotations

import contextlib
import importlib
import uuid
from typing import Any, Optional
from weakref import WeakKeyDictionary

from ..failures import ModelFailed, WrongAnswer, summary  # noqa: TID252  the package has two names
from ..session import FEATURE, Mocks, Session  # noqa: TID252  the package has two names; an absolute import would fix one
from . import Host, is_a

# Whom ADK's evaluation says it is when the case does not.
_APP_NAME = "EvaluationGenerator"
_USER_ID = "test_user_id"
_ROLES = {"user": "user", "assistant": "model", "model": "model", "agent": "model"}


def host(agent: object) -> Optional[Host]:
    """A host for an agent, a workflow or an app of Google ADK."""
    if not is_adk(agent):
        return None
    return Host(_Conversations(agent).answer, asynchronous=True, features=(FEATURE,))


def is_adk(agent: object) -> bool:
    """Whether that is an agent, a workflow or an app of Google ADK."""
    return any(is_a(agent, "google.adk", name) for name in ("BaseAgent", "BaseNode", "App"))


def is_app(agent: object) -> bool:
    """Whether that is an app, which holds an agent."""
    return is_a(agent, "google.adk", "App")


class _Conversations:
    """The conversations with one agent, each with services of its own: nothing leaks from case to case."""

    def __init__(self, agent: object) -> None:
        self._agent = agent
        self._begun: WeakKeyDictionary[Session, _Conversation] = WeakKeyDictionary()

    async def answer(self, text: str, session: Session) -> dict[str, Any]:
        """One turn."""
        conversation = self._begun.get(session)
        if conversation is None:
            conversation = self._begun[session] = _Conversation(self._agent, session)
            await conversation.begin(session)
        return {"response": await conversation.turn(text, session)}


class _Conversation:
    """One session in one Runner, which is never closed: that would close toolsets that all cases share."""

    def __init__(self, agent: Any, session: Session) -> None:
        self._types = importlib.import_module("google.genai.types")
        self._app_name = session.app_name or _APP_NAME
        self._user_id = session.user_id or _USER_ID
        self._id = str(uuid.uuid4())
        self._root = agent.root_agent if is_app(agent) else agent
        self._sessions = _made("sessions.in_memory_session_service", "InMemorySessionService")
        self._runner = self._made_runner(agent, session.mocks)

    def _made_runner(self, agent: Any, mocks: Mocks) -> Any:
        runner = importlib.import_module("google.adk.runners").Runner
        gated = {"app": agent} if self._root is not agent else {"agent": agent}
        return runner(
            **(_with_mocks(gated, mocks) if mocks else gated),
            app_name=self._app_name,
            session_service=self._sessions,
            artifact_service=_made("artifacts.in_memory_artifact_service", "InMemoryArtifactService"),
            memory_service=_made("memory.in_memory_memory_service", "InMemoryMemoryService"),
        )

    async def begin(self, session: Session) -> None:
        """Open the session with the case's state, after what precedes the conversation."""
        opened = await self._sessions.create_session(
            app_name=self._app_name, user_id=self._user_id, session_id=self._id, state=session.state
        )
        event = importlib.import_module("google.adk.events.event").Event
        for message in session.context_messages:
            content = self._earlier(message)
            author = "user" if content.role == "user" else self._root.name
            said = event(author=author, content=content, invocation_id="context")
            await self._sessions.append_event(opened, said)

    def _earlier(self, message: dict[str, Any]) -> Any:
        role, text = _ROLES.get(str(message.get("role"))), message.get("content")
        if role is None or not isinstance(text, str):
            raise WrongAnswer(
                "a context message cannot be told to a Google ADK agent: its role must be user or assistant "
                f"and its content a text, not {message.get('role')!r} and {type(text).__name__}"
            )
        return self._types.Content(role=role, parts=[self._types.Part(text=text)])

    async def turn(self, text: str, session: Session) -> Optional[str]:
        """Ask, report what happened, and give the text of the final response.

        Raises:
            ModelFailed: there is none because the model gave an error.
            BaseException: whatever the agent raises.
        """
        events: list[Any] = []
        try:
            await self._collect(text, session, events)
        except Exception:
            _report(events, None, session)
            raise
        final = _final_event(events)
        _report(events, final, session)
        session.state = await self._state()
        if final is None:
            _check_model(events)
            return None
        return "\n".join(part.text for part in _parts(final) if part.text)

    async def _collect(self, text: str, session: Session, events: list[Any]) -> None:
        running = self._runner.run_async(
            user_id=self._user_id, session_id=self._id, new_message=self._message(text, session.attachments)
        )
        async with contextlib.aclosing(running):
            async for event in running:
                _report_usage(event, session)
                if (event.author or "").lower() != "user":
                    events.append(event)

    def _message(self, text: str, attachments: list[Any]) -> Any:
        parts = [self._types.Part(text=text)] if text or not attachments else []
        for each in attachments:
            try:
                parts.append(self._types.Part.model_validate(each))
            except ValueError as error:
                raise WrongAnswer(
                    f"an attachment is no part that Google ADK knows: {summary(error)}"
                ) from None
        return self._types.Content(role="user", parts=parts)

    async def _state(self) -> dict[str, Any]:
        now = await self._sessions.get_session(
            app_name=self._app_name, user_id=self._user_id, session_id=self._id
        )
        return dict(now.state)


def _with_mocks(gated: dict[str, Any], mocks: Mocks) -> dict[str, Any]:
    plugin = _mocking_plugin(mocks)
    if "app" in gated:
        app = gated["app"]
        return {"app": app.model_copy(update={"plugins": [plugin, *app.plugins]})}
    return {**gated, "plugins": [plugin]}


def _mocking_plugin(mocks: Mocks) -> Any:
    """A plugin that answers mocked tools before anything of the agent's sees the call."""

    async def before_tool_callback(_self: Any, *, tool: Any, tool_args: Any, **_: Any) -> Any:
        if not mocks.mocked(tool.name):
            return None
        result = mocks.result(tool.name, tool_args)
        # As ADK does with what a function returns.
        return result if isinstance(result, dict) else {"result": result}

    base = importlib.import_module("google.adk.plugins.base_plugin").BasePlugin
    return type("Mocking", (base,), {"before_tool_callback": before_tool_callback})(name="evalgate_mocks")


def _made(module: str, name: str) -> Any:
    return getattr(importlib.import_module("google.adk." + module), name)()


def _parts(event: Any) -> list[Any]:
    return (event.content and event.content.parts) or []


def _final_event(events: list[Any]) -> Any:
    """The last final event, where one without text (only audio, an image) stands in for none with text."""
    final = None
    for event in events:
        if _parts(event) and event.is_final_response() and (not _says(final) or _says(event)):
            final = event
    return final


def _says(event: Any) -> bool:
    return event is not None and any(part.text for part in _parts(event))


def _report(events: list[Any], final: Any, session: Session) -> None:
    report = session.recorder.report
    for event in events:
        is_response = event is final and not event.get_function_calls()
        for part in _parts(event):
            call, answer = part.function_call, part.function_response
            if part.text and not is_response:
                report("message", text=part.text, author=event.author)
            if call:
                report("tool_call", name=call.name or "", args=call.args, id=call.id, author=event.author)
            if answer:
                result = answer.response
                report(
                    "tool_result", name=answer.name or "", result=result, id=answer.id, author=event.author
                )


def _report_usage(event: Any, session: Session) -> None:
    # The pieces of a streamed answer carry sums that their whole carries again.
    used = getattr(event, "usage_metadata", None)
    if used is None or event.partial:
        return
    session.recorder.report(
        "usage",
        input_tokens=(used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0),
        output_tokens=(used.candidates_token_count or 0) + (used.thoughts_token_count or 0),
    )


def _check_model(events: list[Any]) -> None:
    error = next((event for event in reversed(events) if event.error_code), None)
    if error is not None:
        why = f": {error.error_message}" if error.error_message else ""
        raise ModelFailed(f"the model of `{error.author}` gave the error {error.error_code}{why}")
