"""Hold the conversation of the chat page. The agent runs in a thread with its own event loop."""

import asyncio
import os
import threading
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalgate.agents.tracing.span_prices import TraceFactory
from evalgate.config.cli_overrides import Overrides
from evalgate.config.token_prices import merge_own_prices
from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent
from evalgate.core.types import Event, Failure, TraceSpan
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.chat import (
    AgentSetup,
    Chat,
    ChatError,
    ChatTurn,
    build_chat_case,
    choose_case_id,
    resolve_agent_setup,
)
from evalgate.runner.saved_cases import SavedCases, list_case_ids, save_cases
from evalgate.viewer.project_agents import PROJECT_AGENT, list_adk_agents, list_agents, read_project_config

_END_S = 20.0


@frozen
class ChatState:
    """State of the conversation that the chat page shows."""

    agent: str
    turns: tuple[ChatTurn, ...]
    message: str
    """Message that the agent works on; "" while the agent waits for a message."""
    events: tuple[Event, ...]
    """Events of the turn in progress; if no turn is in progress, events of the last turn."""
    failure: Failure | None
    """Reason why the last message has no reply. None if it has a reply, or if its turn is in progress."""
    unsent: str
    """The last message if its turn failed, so that the page can show it again; otherwise ""."""
    is_cut_off: bool
    """True if the agent's session has ended, although `turns` is not empty.

    The next message then begins a new session, and first sends the user's messages of these turns again.
    """
    failed_trace: tuple[TraceSpan, ...]
    """Steps (trace spans) of the last turn if this turn failed; otherwise ()."""


class BackgroundChat:
    """Conversation of the chat page with an agent, which runs in a thread.

    The constructor starts the thread, and `close` ends it. A viewer has one conversation at a time.
    """

    def __init__(self, folder: Path, thresholds_file: str | None) -> None:
        self._folder = folder
        self._thresholds = thresholds_file
        self._redactor = LiveRedactor.from_environment(os.environ)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evalgate-chat", daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        """Lock of `begin`, `send` and `close`, so that two clicks at once start one agent and one turn."""
        self._choice: str | None = None
        """Agent that was chosen. None: the default agent is chosen when the first message is sent."""
        self._setup: AgentSetup | None = None
        self._agent: Agent | None = None
        self._chat: Chat | None = None
        self._message = ""
        self._events: list[Event] = []
        self._failure: Failure | None = None
        self._unsent = ""
        self._task: asyncio.Task[None] | None = None

    def get_state(self) -> ChatState:
        """Return the current state, with secrets replaced."""
        chat = self._chat
        turns: Sequence[ChatTurn] = tuple(chat.turns) if chat is not None else ()
        return self._redactor.redact_tree(
            ChatState(
                self.list_choices()[0] if self._choice is None else self._choice,
                tuple(turns),
                self._message,
                tuple(self._events),
                self._failure,
                self._unsent,
                chat is not None and chat.is_cut_off,
                chat.failed_trace if chat is not None else (),
            )
        )

    def list_choices(self) -> tuple[str, ...]:
        """Return the agents to choose from, the default first.

        `PROJECT_AGENT` stands for the agent of the thresholds file. All others are folders of Google ADK
        agents.
        """
        return list_agents(self._folder, read_project_config(self._folder, self._thresholds))

    def begin(self, choice: str) -> None:
        """Stop the current agent, and begin a new conversation with the agent `choice`.

        `choice` is the folder of a Google ADK agent, or `PROJECT_AGENT`. The old conversation is lost.

        Raises:
            InvalidInputError: there is no such agent, or the current agent does not stop within 20 seconds.
        """
        if choice != PROJECT_AGENT and choice not in list_adk_agents(self._folder):
            raise InvalidInputError(f"there is no agent `{choice}` in the project")
        with self._lock:
            self._call(self._begin(choice))

    def send(self, text: str) -> None:
        """Send a message to the agent and return at once; the agent works on it in the background.

        Raises:
            InvalidInputError: the message is blank, a turn is in progress, or the agent's settings are wrong.
        """
        if not text.strip():
            raise InvalidInputError("the message is empty")
        with self._lock:
            self._send(text)

    def _send(self, text: str) -> None:
        if self._message:
            raise InvalidInputError("the agent works on a message: wait for its reply, or stop it first")
        if self._setup is None:
            choice = self.list_choices()[0] if self._choice is None else self._choice
            self._setup = resolve_agent_setup(
                Overrides(agent=f"adk:{choice}" if choice else None),
                thresholds_file=self._thresholds,
                folder=self._folder,
                environ=os.environ,
            )
            self._choice = choice
            self._redactor.learn_environment(self._setup.environ)
        self._message, self._events, self._failure, self._unsent = text, [], None, ""
        self._call(self._start_turn(text))

    def stop(self) -> None:
        """Stop the turn in progress; do nothing if there is none.

        Raises:
            InvalidInputError: the turn does not stop within 20 seconds.
        """
        self._call(self._stop_turn())

    def save(self, out: str, to: str | None, eval_id: str, picked: Collection[int]) -> SavedCases:
        """Save turns of the conversation as a case of a new or existing eval set.

        Args:
            out: path of a `.json` file, relative to the project's folder.
            to: the name of the format; None: the format of the file, or Google ADK's for a new file.
            eval_id: the id of the case; "" to make an id from the first message.
            picked: numbers of the turns to save, from 0.

        Raises:
            InvalidInputError: no picked turn exists, `out` is no `.json` file in the project's folder, or
                the case cannot be saved there.
        """
        if self._setup is None or self._chat is None or not self._chat.turns:
            raise InvalidInputError("there is nothing to save yet")
        turns = [turn for at, turn in enumerate(self._chat.turns) if at in picked]
        if not turns:
            raise InvalidInputError("no turn is ticked: choose at least one to save")
        path = Path(out)
        if "\0" in out:
            raise InvalidInputError(f"{out!r} is no path")
        place, folder = os.path.realpath(self._folder / path), os.path.realpath(self._folder)
        inside = Path(place).is_relative_to(folder)
        if path.is_absolute() or not inside or path.suffix != ".json":
            raise InvalidInputError(f"{out}: name a .json file in the project")
        workspace = self._setup.workspace
        question = self._redactor.redact_text(turns[0].message.text)
        name = eval_id or choose_case_id(question, list_case_ids(out, workspace))
        case = build_chat_case(name, turns, self._chat.session_input)
        return save_cases([case], out, to, workspace, self._redactor)

    def close(self) -> None:
        """Stop the turn, the agent and the thread. No method may be called afterwards.

        If the agent or the thread does not stop within 20 seconds, it is abandoned.
        """
        with self._lock, suppress(InvalidInputError):
            self._call(self._begin(PROJECT_AGENT))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_S)
        if not self._thread.is_alive():
            self._loop.close()

    # --- in the thread's event loop -------------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result(_END_S)
        except TimeoutError:
            raise InvalidInputError(
                f"the agent did not stop within {_END_S:.0f} s: try again, or end `evalgate view`"
            ) from None

    async def _begin(self, choice: str) -> None:
        await self._stop_turn()
        chat, agent = self._chat, self._agent
        self._chat = self._agent = self._setup = None
        self._choice, self._failure, self._unsent, self._events = choice, None, "", []
        if chat is not None:
            await chat.begin_again()
        if agent is not None:
            await agent.__aexit__(None, None, None)

    async def _start_turn(self, text: str) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run_turn(text))

    async def _stop_turn(self) -> None:
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])

    async def _run_turn(self, text: str) -> None:
        try:
            chat = self._chat or await self._start_agent()
            if chat.is_cut_off:
                await chat.repeat_turns()
            await chat.send_message(text, self._events.append)
        except ChatError as error:
            self._failure = error.failure
        except EvalgateError as error:
            self._failure = Failure("setup", str(error))
        except asyncio.CancelledError:
            self._failure = Failure("stopped", "the turn was stopped")
        except Exception as error:  # noqa: BLE001  the page shows what an agent's plugin raised
            self._failure = Failure.from_plugin(error)
        if self._failure is not None:
            self._unsent = text
        self._message = ""

    async def _start_agent(self) -> Chat:
        if self._setup is None:
            raise RuntimeError("an agent is resolved before its first message")
        agent = await asyncio.to_thread(self._setup.build_agent)
        await agent.__aenter__()
        self._agent = agent
        create_trace = TraceFactory(merge_own_prices(self._setup.prices))
        self._chat = Chat(agent, self._setup.session, create_trace)
        return self._chat
