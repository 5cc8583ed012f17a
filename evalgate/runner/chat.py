"""Talk with the repository's agent, one message at a time, and make a case of the conversation."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.agents.factory import AgentSpec, build_agent, check_executor, resolve_agent
from evalgate.agents.tracing.trace_context import is_trace_wanted
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import add_env_files, load_thresholds_or_default
from evalgate.config.schema.agent import ExecutorConfig
from evalgate.config.token_prices import Price
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import (
    Agent,
    AgentError,
    AgentSession,
    AgentUnreachableError,
    RecordsSpans,
    ReportsInterimResult,
    SessionLostError,
    SessionResult,
    StreamsEvents,
)
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Reply,
    SessionInput,
    TraceSpan,
    Usage,
    UserMessage,
)
from evalgate.documents.strict_json import read_json
from evalgate.system.workspace import Workspace, resolve_workspace

if TYPE_CHECKING:
    from evalgate.agents.tracing.run_trace import RunTrace


@frozen
class AgentSetup:
    """Settings from which an agent is built, and the session with which each of its conversations begins."""

    spec: AgentSpec
    executor: ExecutorConfig
    workspace: Workspace
    environ: Mapping[str, str]
    """The gate's environment with the variables of the agent's env files."""
    session: SessionInput
    prices: Mapping[str, Price]
    """Prices of models in the thresholds file, by `provider/model`."""
    keeps_trace: bool
    """True if `--trace` or the thresholds file asks for the trace of runs."""

    def build_agent(self) -> Agent:
        """Build the agent and install its dependencies, but do not start it.

        Raises:
            EvalgateError: the setup fails, or an option is wrong.
        """
        return build_agent(self.spec, self.workspace, self.environ, self.executor)


def resolve_agent_setup(
    overrides: Overrides,
    *,
    thresholds_file: str | None,
    folder: Path,
    environ: Mapping[str, str],
    state: JsonObject | None = None,
) -> AgentSetup:
    """Return the settings of the agent that `evalgate run` would start with the same options.

    `overrides` are the options of the command line. `thresholds_file` is the path of the thresholds file; if
    it is None, the file in `folder` is read, if any. `state` is the initial state of the session.

    Raises:
        InvalidInputError: the input is wrong; the error lists every problem that was found.
    """
    workspace = resolve_workspace(folder)
    thresholds = load_thresholds_or_default(workspace.folder, thresholds_file)
    config, environ = add_env_files(apply_overrides(thresholds.config, overrides), environ, workspace.folder)
    if config.agent is None:
        raise InvalidInputError(
            "no agent: name one with --agent KIND:WHAT, or in the `agent` section of the thresholds file"
        )
    spec = resolve_agent(config.agent, overrides.agent_name, thresholds)
    check_executor(config.executor, thresholds)
    given = config.session
    session = SessionInput(
        app_name=(given.app_name if given else None) or "",
        user_id=(given.user_id if given else None) or "",
        state=state or {},
    )
    return AgentSetup(spec, config.executor, workspace, environ, session, config.prices, config.agent.trace)


def read_state(path: Path, shown_as: str) -> JsonObject:
    """Return the session state in a JSON file.

    If the file holds a session of Google ADK, which has a key `state`, return the value of this key.
    Otherwise return the whole object.

    Raises:
        InvalidInputError: the file cannot be read, or holds no JSON object.
    """
    value = read_json(path, shown_as).value
    if isinstance(value, dict) and isinstance(value.get("state"), dict):
        value = value["state"]
    if not isinstance(value, dict):
        raise InvalidInputError(f"{shown_as}: the state of a session is a JSON object")
    return value


class ChatError(Exception):
    """Error for a turn without a reply of the agent. It ends the conversation; a new one may begin."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@frozen
class ChatTurn:
    """One message and the agent's whole reply."""

    message: UserMessage
    reply: Reply
    duration_s: float
    usage: Usage | None = None
    """Tokens and cost of this turn; None if the agent reports no usage."""
    trace: tuple[TraceSpan, ...] = ()
    """Trace spans of the turn, with times relative to the turn's start; () if turns keep no trace."""


class Chat:
    """Conversation of a person with a started agent. When it has ended, a new conversation can begin.

    A turn that fails or is cancelled ends the conversation, because an agent can neither undo nor continue
    half a turn. The turns before this turn stay in `turns`, but the agent's next session does not know them.
    If there are such turns, `is_cut_off` is True. Then call `begin_again` to forget them, or `repeat_turns`
    to send them again, before the next `send_message`.
    """

    def __init__(
        self, agent: Agent, session: SessionInput, create_trace: "Callable[[], RunTrace] | None" = None
    ) -> None:
        """Store the settings; the first message begins a conversation.

        `create_trace` is a function that creates the trace of a turn; None if turns keep no trace.
        """
        self._agent = agent
        self._create_trace = create_trace
        self._start = EvalCase("chat", session=session)
        self._context: AbstractAsyncContextManager[AgentSession] | None = None
        self._session: AgentSession | None = None
        self._last = SessionResult()
        self.turns: list[ChatTurn] = []
        self.failed_trace: tuple[TraceSpan, ...] = ()
        """Trace spans of the last turn if it failed and turns keep a trace, else (). Times are relative to
        the start of the turn."""

    @property
    def session_input(self) -> SessionInput:
        """Return the session state, app name and user id with which each conversation begins."""
        return self._start.session

    @property
    def is_cut_off(self) -> bool:
        """Return True if the conversation has ended, but `turns` still holds its turns."""
        return bool(self.turns) and self._session is None

    @property
    def state(self) -> JsonObject | None:
        """Return the agent's session state after the last turn.

        Return None before the first turn, and if the agent reports no state.
        """
        return self._last.final_state

    async def send_message(self, text: str, on_event: Callable[[Event], None] = lambda _: None) -> ChatTurn:
        """Send a message, append the turn with the agent's reply to `turns`, and return the turn.

        `on_event` gets each event before the turn ends, if the agent's sessions stream events.

        Raises:
            ChatError: the agent gave no reply. The conversation has ended.
        """
        message, started = UserMessage(text), time.perf_counter()
        self.failed_trace = ()
        if self._create_trace is not None:
            is_trace_wanted.set(True)
        try:
            session = self._session or await self._open_session()
            if isinstance(session, StreamsEvents):
                session.on_event = on_event
            try:
                reply = await session.run_turn(message)
            except BaseException as error:
                seconds, why = time.perf_counter() - started, str(error) or type(error).__name__
                self.failed_trace = self._build_trace(session, message, seconds, error=why)
                raise
        except (AgentError, SessionLostError, AgentUnreachableError) as error:
            await self._close_session(error)
            raise ChatError(error.failure) from None
        except Exception as error:
            await self._close_session(error)
            raise ChatError(Failure.from_plugin(error)) from error
        except BaseException as error:
            await self._close_session(error)
            raise
        if reply is None:
            await self._close_session(None)
            raise ChatError(Failure("no_recording", "the recording ends before this turn"))
        duration_s = time.perf_counter() - started
        before = self._last
        self._last = session.interim_result if isinstance(session, ReportsInterimResult) else SessionResult()
        trace = self._build_trace(session, message, duration_s, response=reply.response)
        turn = ChatTurn(message, reply, duration_s, _subtract_usage(self._last, before), trace)
        self.turns.append(turn)
        return turn

    def _build_trace(
        self,
        session: AgentSession,
        message: UserMessage,
        duration_s: float,
        *,
        response: str | None = None,
        error: str = "",
    ) -> tuple[TraceSpan, ...]:
        if self._create_trace is None:
            return ()
        trace = self._create_trace()
        spans = session.take_spans() if isinstance(session, RecordsSpans) else ()
        trace.add_turn(
            spans,
            start_s=0.0,
            duration_s=duration_s,
            request=message.text,
            response=response,
            error=error,
        )
        return tuple([replace(span, turn=len(self.turns)) for span in trace.build_spans()])

    async def begin_again(self) -> None:
        """End the conversation and forget its turns; the next message begins a new conversation."""
        await self._close_session(None)
        self._last = SessionResult()
        self.turns.clear()
        self.failed_trace = ()

    async def repeat_turns(self) -> None:
        """Begin a new conversation, and send the messages of all `turns` again.

        The new replies replace the old ones in `turns`. But if a message gets no reply, `turns` and `state`
        keep their old values, and the conversation has ended (`is_cut_off`).

        Raises:
            ChatError: a message has no reply.
        """
        before, last, number = list(self.turns), self._last, 0
        try:
            await self.begin_again()
            for number, turn in enumerate(before, start=1):  # noqa: B007  the number is for the message
                await self.send_message(turn.message.text)
        except BaseException as error:
            await self._close_session(None)
            self.turns[:], self._last = before, last
            if isinstance(error, ChatError):
                why = f"your earlier message {number}, sent again, got none: {error.failure.message}"
                raise ChatError(replace(error.failure, message=why)) from error
            raise

    async def _open_session(self) -> AgentSession:
        # Alone in its worker process, so that only this conversation can have killed a worker that dies.
        self._context = self._agent.open_session(self._start, 1, alone=True)
        self._session = await self._context.__aenter__()
        self._last = SessionResult()
        return self._session

    async def _close_session(self, error: BaseException | None) -> None:
        context, self._context, is_open = self._context, None, self._session is not None
        self._session = None
        if context is not None and is_open:
            await context.__aexit__(type(error) if error else None, error, None)


def _subtract_usage(now: SessionResult, before: SessionResult) -> Usage | None:
    if now.usage is None:
        return None
    old, new = before.usage or Usage(), now.usage
    known = new.cost_usd is not None and old.cost_usd is not None
    return Usage(
        new.input_tokens - old.input_tokens,
        new.output_tokens - old.output_tokens,
        new.min_cost_usd - old.min_cost_usd if known else None,
        new.models,
        0.0 if known else max(new.min_cost_usd - old.min_cost_usd, 0.0),
    )


# --- a case of the conversation -----------------------------------------------------------------------------


def build_chat_case(eval_id: str, turns: Sequence[ChatTurn], session: SessionInput) -> EvalCase:
    """Return a case with the messages of `turns`; its expectations are the agent's replies and tool calls."""
    return EvalCase(eval_id, tuple(CaseTurn(turn.message, turn.reply) for turn in turns), session=session)


_LONGEST_ID = 40


def choose_case_id(text: str, taken: Sequence[str] = ()) -> str:
    """Return a case id made of the first words of a message, different from every id in `taken`.

    If the message has no word, the id is `conversation`. If `taken` has the id, a number such as `_2` is
    added.
    """
    words = re.findall(r"\w+", text.lower())
    name = ""
    for word in words:
        if name and len(name) + len(word) >= _LONGEST_ID:
            break
        name = f"{name}_{word}"[: _LONGEST_ID + 1].lstrip("_")
    name = name or "conversation"
    number = 1
    while (found := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return found


def select_turns(text: str, count: int) -> tuple[int, ...]:
    """Return the sorted 0-based indices of the turns that a text such as `1-3,5` selects.

    The numbers in the text are 1-based. A blank text selects all turns. `count` is the number of turns.

    Raises:
        ValueError: the text is not a list of numbers and ranges, or names a turn outside of 1 to `count`.
    """
    if not text.strip():
        return tuple(range(count))
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 1 <= low <= high <= count:
            raise ValueError(f"there are turns 1 to {count}")
        found.update(range(low - 1, high))
    return tuple(sorted(found))
