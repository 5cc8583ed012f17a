"""The command `chat`: talk with the agent at a terminal, and save the conversation as a case."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from evalgate.cli.options import (
    add_agent_options,
    build_overrides,
    in_project_directory,
    new_file_format,
    require_nonempty,
)
from evalgate.cli.project_folder import FILE
from evalgate.system.signals import InterruptHandler

if TYPE_CHECKING:
    from evalgate.cli.chat_text import ChatPrinter
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.chat import AgentSetup

_Command = TypeVar("_Command", bound=Callable[..., object])

_state = click.option(
    "--state",
    type=FILE,
    metavar="FILE",
    callback=require_nonempty,
    help="JSON file with the state that each session begins with.",
)
_eval_id = click.option(
    "--id",
    "eval_id",
    metavar="ID",
    callback=require_nonempty,
    help="Id of the saved case.  [default: made of the first message]",
)


def add_save_options(command: _Command) -> _Command:
    """Add `--state`, `--id` and `--to` to a command that saves conversations as cases."""
    return new_file_format(_eval_id(_state(command)))


@click.command()
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="FILE",
    callback=require_nonempty,
    help="Eval set to save the conversation in when it ends.",
)
@add_save_options
@click.option(
    "--trace",
    is_flag=True,
    help="Show after each turn its calls of models and tools, with times and tokens.",
)
@add_agent_options
@in_project_directory
@click.make_pass_decorator(InterruptHandler, ensure=True)
def chat(
    interrupts: InterruptHandler,
    /,
    out: str | None,
    to: str | None,
    eval_id: str | None,
    state: str | None,
    working_directory: str,
    **options: Any,
) -> int:
    """Talk with the agent, and save the conversation as a case.

    Shows tool calls with their results as they are known. /help lists the commands of the conversation.
    """
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.saved_cases import check_target

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("chat needs a terminal; `evalgate record --from -` reads messages from a pipe")
    redactor, thresholds_file = (
        LiveRedactor.from_environment(os.environ, options["mask"]),
        options.pop("thresholds"),
    )
    with redactor.redact_errors():
        setup = resolve_setup(options, thresholds_file, Path(working_directory), state, redactor)
        if out is not None:
            check_target(out, to, eval_id, setup.workspace)
        _talk(setup, (out, to, eval_id), redactor, interrupts)
    return 0


def _talk(
    setup: "AgentSetup",
    saving: tuple[str | None, str | None, str | None],
    redactor: "LiveRedactor",
    interrupts: InterruptHandler,
) -> None:
    import asyncio

    from evalgate.agents.tracing.span_prices import TraceFactory
    from evalgate.cli.chat_commands import CaseSaveOptions, ChatTerminal, run_cancellable
    from evalgate.config.token_prices import merge_own_prices
    from evalgate.core.protocols import ChecksEntry
    from evalgate.runner.chat import Chat

    _prepare_input()
    agent, printer = setup.build_agent(), build_printer(redactor)
    printer.print_line(
        f"Agent {setup.spec.settings.kind}:{setup.spec.name}. /help lists commands, Ctrl-D ends."
    )
    with asyncio.Runner() as runner:
        create_trace = TraceFactory(merge_own_prices(setup.prices)) if setup.keeps_trace else None
        chat = Chat(agent, setup.session, create_trace)
        run_cancellable(runner, agent.__aenter__(), interrupts)
        try:
            if isinstance(agent, ChecksEntry):
                run_cancellable(runner, agent.check_entry(), interrupts)
            with _raise_keyboard_interrupts():
                options = CaseSaveOptions(*saving, setup.workspace, redactor)
                ChatTerminal(runner, chat, printer, options, interrupts).talk()
        finally:
            runner.run(chat.begin_again())
            runner.run(agent.__aexit__(None, None, None))


def resolve_setup(
    options: dict[str, Any],
    thresholds_file: str | None,
    folder: Path,
    state: str | None,
    redactor: "LiveRedactor",
) -> "AgentSetup":
    """Resolve the agent that the options of a command select, and the state that its sessions begin with.

    `state` names a JSON file with this state. `redactor` learns the secrets in the agent's environment, env
    files included, and hides them from now on.

    Raises:
        InvalidInputError: an option or a file is invalid, or no agent is named.
    """
    from evalgate.runner.chat import read_state, resolve_agent_setup

    setup = resolve_agent_setup(
        build_overrides((), options),
        thresholds_file=thresholds_file,
        folder=folder,
        environ=os.environ,
        state=None if state is None else read_state(folder / state, state),
    )
    redactor.learn_environment(setup.environ)
    return setup


def build_printer(redactor: "LiveRedactor") -> "ChatPrinter":
    """Build the printer of a conversation.

    The printer uses colours only on a terminal, and not if `NO_COLOR` is set or `TERM` is `dumb`.
    """
    from evalgate.cli.chat_text import ChatPrinter

    # https://no-color.org
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return ChatPrinter(redactor, color=sys.stdout.isatty() and not is_plain)


def _prepare_input() -> None:
    """Let `input` edit lines and recall earlier ones, if Python was built with readline.

    Typed bytes that are invalid in the terminal's encoding become U+FFFD, because neither an agent nor a file
    accepts such bytes.
    """
    import io
    from contextlib import suppress

    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    with suppress(ImportError):
        import readline  # noqa: F401


@contextmanager
def _raise_keyboard_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within the `with` block."""
    # With Python's own handler, an event loop cancels its work at Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
