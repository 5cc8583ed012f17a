"""A conversation of a person with the agent at a terminal: prompts, commands, interruptions."""

import asyncio
import json
import signal
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from evalgate.cli.chat_text import ChatPrinter
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Event
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.chat import Chat, ChatError, build_chat_case, choose_case_id, select_turns
from evalgate.runner.saved_cases import DEFAULT_OUT, list_case_ids, save_cases
from evalgate.system.signals import InterruptHandler, cancel_on_signals
from evalgate.system.workspace import Workspace

HELP = """\
/save [FILE]   save the conversation as a case of an eval set
/retry         send your last message again
/undo          take back your last message
/new           begin another conversation
/state         show the state of the session
/help          show this list
/quit          end; so does Ctrl-D
A message may have several lines: end a line with \\, or put the message between two lines of \"\"\".
Ctrl-C stops the agent's turn, or drops the line that you type. //text sends /text."""
_BLOCK = '"""'
_Result = TypeVar("_Result")


def run_cancellable(
    runner: asyncio.Runner, work: Coroutine[Any, Any, _Result], interrupts: InterruptHandler
) -> _Result:
    """Run a coroutine in the event loop and return its result. A signal such as Ctrl-C cancels the coroutine.

    The event loop waits until the cancelled coroutine has ended. Only then can the caller stop the agent.

    Raises:
        KeyboardInterrupt: a signal came. `interrupts` records any signal other than Ctrl-C.
    """

    def note_signal(number: int) -> None:
        if number != signal.SIGINT:
            interrupts.note_interrupt()

    async def run_work() -> _Result:
        with cancel_on_signals(note_signal):
            return await work

    try:
        return runner.run(run_work())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@frozen
class CaseSaveOptions:
    """Command-line options that decide how a conversation is saved."""

    out: str | None
    to: str | None
    eval_id: str | None
    workspace: Workspace
    redactor: LiveRedactor


@dataclass
class ChatTerminal:
    """A conversation with the agent at a terminal.

    The event loop of `runner` runs only while the agent works.
    """

    runner: asyncio.Runner
    chat: Chat
    printer: ChatPrinter
    options: CaseSaveOptions
    interrupts: InterruptHandler
    """Handler that records a signal, other than Ctrl-C, that asks the command to end."""
    read_line: Callable[[str], str] = input
    """Function that shows a prompt and returns the typed line. It raises EOFError for Ctrl-D."""
    _unsent: str = ""
    """The last message, if the agent has not replied to it; else "". `/retry` sends it again."""
    _saved_turns: int = 0
    _has_failed_to_save: bool = False

    def talk(self) -> None:
        """Read messages and commands until the person ends the conversation.

        Raises:
            InvalidInputError: the person ended the conversation twice, and both times it could not be saved
                in the file that the command line names.
            KeyboardInterrupt: a signal other than Ctrl-C asked the command to end.
        """
        self._read_until_end()
        while not self._end():
            self._read_until_end()

    def _read_until_end(self) -> None:
        while (text := self._read_message()) is not None and text != "/quit":
            try:
                self._process_input(text)
            except (EOFError, KeyboardInterrupt):  # the person did not answer a question of the command
                self._check_end()
                self.printer.print_line("")

    def _process_input(self, text: str) -> None:
        if text.startswith("//") or not text.startswith("/"):
            self._send(text.removeprefix("/") if text.startswith("//") else text)
            return
        commands = self._list_commands()
        name, _, rest = text[1:].partition(" ")
        if command := commands.get(name):
            command(rest.strip())
        else:
            hint = did_you_mean(name, [*commands, "quit"]).replace("`", "/", 1).replace("`", "")
            self.printer.print_line(f"There is no command /{name}.{hint} /help lists them.")

    def _check_end(self) -> None:
        """Raise KeyboardInterrupt if a signal asked the command to end."""
        if self.interrupts.has_interrupted:
            raise KeyboardInterrupt

    def _list_commands(self) -> Mapping[str, Callable[[str], None]]:
        return {
            "help": lambda _: self.printer.print_line(HELP),
            "save": self._save,
            "retry": self._retry,
            "undo": self._undo,
            "new": self._begin_again,
            "state": self._show_state,
        }

    # --- messages -------------------------------------------------------------------------------------------

    def _read_message(self) -> str | None:
        """Return the next message that is not blank; None at the end of the input."""
        while True:
            try:
                text = self._read_lines().strip()
            except EOFError:
                self.printer.print_line("")
                return None
            except KeyboardInterrupt:
                self._check_end()
                self.printer.print_line("")
                continue
            if text:
                return text

    def _read_lines(self) -> str:
        line = self.read_line("You    > ")
        if line.strip() == _BLOCK:
            return "\n".join(iter(lambda: self.read_line("       . "), _BLOCK))
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self.read_line("       . "))
        return "\n".join(lines)

    def _send(self, text: str) -> None:
        if self.chat.is_cut_off:
            again = f"your {pluralize(len(self.chat.turns), 'earlier message')}"
            if not self._confirm(
                f"The agent's conversation has ended. Send {again} again first? [Y/n] ", "y"
            ):
                self.printer.print_line("Not sent. /new begins another conversation.")
                return
            if not self._replay(len(self.chat.turns)):
                return
        self._run_turn(text)

    def _run_turn(self, text: str) -> bool:
        """Send a message and print the reply. Return True if there is a reply.

        Return False if the turn fails, or if the person stops it with Ctrl-C.
        """
        shown: list[Event] = []

        def show_event(event: Event) -> None:
            shown.append(event)
            self.printer.print_event(event)

        self._unsent = text
        try:
            turn = run_cancellable(self.runner, self.chat.send_message(text, show_event), self.interrupts)
        except ChatError as error:
            self.printer.print_failure(error.failure)
            self.printer.print_trace(self.chat.failed_trace)
        except KeyboardInterrupt:
            self._check_end()
            self.printer.print_line("\nStopped. /retry sends your message again.")
            self.printer.print_trace(self.chat.failed_trace)
        else:
            self._unsent = ""
            self.printer.print_reply(turn.reply, shown)
            self.printer.print_turn_end(turn)
            self.printer.print_trace(turn.trace)
            return True
        return False

    def _replay(self, count: int) -> bool:
        """Begin a new conversation and send the first `count` messages again.

        If a message gets no reply, send no further message and return False. Otherwise return True.
        """
        messages = [turn.message.text for turn in self.chat.turns[:count]]
        self._forget_turns()
        for sent, text in enumerate(messages, 1):
            self.printer.print_message(text)
            if not self._run_turn(text):
                if left := count - sent:
                    self.printer.print_line(f"{pluralize(left, 'later message')} not sent again.")
                return False
        return True

    def _forget_turns(self) -> None:
        self.runner.run(self.chat.begin_again())
        self._saved_turns = 0

    # --- commands -------------------------------------------------------------------------------------------

    def _retry(self, _: str) -> None:
        """Send the last message again, in a new conversation with all earlier messages.

        A new conversation is necessary because an agent cannot take a turn back.
        """
        turns = len(self.chat.turns)
        text, kept = self._unsent, turns
        if not text and turns:
            text, kept = self.chat.turns[-1].message.text, turns - 1
        if not text:
            self.printer.print_line("There is no message to send again.")
        elif self._replay(kept):
            self.printer.print_message(text)
            self._run_turn(text)

    def _undo(self, _: str) -> None:
        if self._unsent and self.chat.turns:
            self._unsent = ""
            self._replay(len(self.chat.turns))
        elif self.chat.turns:
            if self._replay(len(self.chat.turns) - 1):
                self.printer.print_line("Your last message was taken back.")
        else:
            self.printer.print_line("There is no message to take back.")

    def _begin_again(self, _: str) -> None:
        if self._has_unsaved and self._confirm("Save this conversation first? [y/N] ", "n"):
            self._save("")
        self._forget_turns()
        self._unsent = ""
        self.printer.print_line("Another conversation begins.")

    def _show_state(self, _: str) -> None:
        state = self.options.redactor.redact_tree(self.chat.state)
        if state is None:
            self.printer.print_line("The agent has not reported a state yet.")
        else:
            self.printer.print_line(json.dumps(state, indent=2, ensure_ascii=False, default=str))

    def _save(self, out: str) -> None:
        """Ask for an id of the case and for the turns to save. Then save the case.

        The file is `out` or, if `out` is "", the file that the command line names. If neither is given, ask
        for a file, too. An error is printed, not raised.
        """
        if not self.chat.turns:
            self.printer.print_line("There is nothing to save yet.")
            return
        count = len(self.chat.turns)
        try:
            out = out or self.options.out or self._ask(f"File [{DEFAULT_OUT}]: ") or DEFAULT_OUT
            proposed = self._propose_id(out)
            eval_id = self._ask(f"Id of the case [{proposed}]: ") or proposed
            picked = select_turns(self._ask(f"Turns, as 1-2,4 [1-{count}]: ") if count > 1 else "", count)
            self._write_case(out, eval_id, picked)
        except (ValueError, InvalidInputError) as error:
            self.printer.print_line(f"Not saved: {error}", err=True)

    def _propose_id(self, out: str) -> str:
        if self.options.eval_id is not None:
            return self.options.eval_id
        question = self.options.redactor.redact_text(self.chat.turns[0].message.text)
        return choose_case_id(question, list_case_ids(out, self.options.workspace))

    def _write_case(self, out: str, eval_id: str, picked: tuple[int, ...]) -> None:
        case = build_chat_case(eval_id, [self.chat.turns[at] for at in picked], self.chat.session_input)
        saved = save_cases([case], out, self.options.to, self.options.workspace, self.options.redactor)
        self._saved_turns = len(self.chat.turns)
        self.printer.print_saved(saved, 1)

    @property
    def _has_unsaved(self) -> bool:
        return len(self.chat.turns) > self._saved_turns

    def _end(self) -> bool:
        """Save the conversation if the command line names a file. Return True if the command may end.

        After the first failure to save it, return False: the conversation then goes on.

        Raises:
            InvalidInputError: the conversation could not be saved, for the second time.
        """
        if not self._has_unsaved:
            return True
        if self.options.out is None:
            self.printer.print_line("The conversation was not saved: /save makes a case of one.")
            return True
        out = self.options.out
        try:
            self._write_case(out, self._propose_id(out), tuple(range(len(self.chat.turns))))
        except InvalidInputError as error:
            # At the first failure the conversation goes on, so that nothing is lost.
            if self._has_failed_to_save:
                raise
            self._has_failed_to_save = True
            self.printer.print_line(f"Not saved: {error}", err=True)
            self.printer.print_line("/save FILE saves it elsewhere. Ctrl-D ends without it.")
            return False
        return True

    def _ask(self, question: str) -> str:
        """Return the person's answer; raise EOFError for Ctrl-D, and KeyboardInterrupt for Ctrl-C."""
        return self.read_line(question).strip()

    def _confirm(self, question: str, default: str) -> bool:
        """Ask until the answer is yes or no. Return True for yes.

        An empty answer means `default`, which is `y` or `n`.
        """
        while (answer := (self._ask(question).lower() or default)[0]) not in "yn":
            pass
        return answer == "y"
