"""The command `record`: send messages from a file to the agent, and save the conversations as cases."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalgate.cli.chat import add_save_options, build_printer, resolve_setup
from evalgate.cli.options import add_agent_options, in_project_directory, require_nonempty
from evalgate.cli.project_folder import FILE

if TYPE_CHECKING:
    from evalgate.cli.chat_text import ChatPrinter
    from evalgate.core.types import CaseRun, EvalCase
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.chat import AgentSetup


@click.command()
@click.option(
    "--from",
    "source",
    type=FILE,
    required=True,
    metavar="FILE",
    callback=require_nonempty,
    help="Messages: one a line, with a blank line or --- between conversations; or a list of lists in YAML "
    "or JSON. - reads standard input.",
)
@click.option(
    "--out",
    "-o",
    type=FILE,
    metavar="FILE",
    required=True,
    callback=require_nonempty,
    help="Eval set to save the conversations in.",
)
@add_save_options
@add_agent_options
@in_project_directory
def record(
    source: str,
    out: str,
    to: str | None,
    eval_id: str | None,
    state: str | None,
    working_directory: str,
    **options: Any,
) -> int:
    """Send messages from a file to the agent, and save the cases.

    Never asks anything. Ends with exit code 3 if a conversation broke off or does not fit the format.
    The others are saved.
    """
    from evalgate.core.errors import InvalidInputError, NoVerdictError
    from evalgate.redaction.live_redactor import LiveRedactor
    from evalgate.runner.message_files import expect_replies, has_all_replies, run_conversations
    from evalgate.runner.saved_cases import check_target, save_cases

    redactor, thresholds_file = (
        LiveRedactor.from_environment(os.environ, options["mask"]),
        options.pop("thresholds"),
    )
    with redactor.redact_errors():
        setup = resolve_setup(options, thresholds_file, Path(working_directory), state, redactor)
        check_target(out, to, eval_id, setup.workspace)
        cases = _read_conversations(setup, source, out, eval_id, redactor)
        printer = build_printer(redactor)
        runs = run_conversations(setup, cases)
        for case, run in zip(cases, runs, strict=True):
            _print_run(case, run, printer)
        kept = [
            expect_replies(case, run)
            for case, run in zip(cases, runs, strict=True)
            if has_all_replies(case, run)
        ]
        if not kept:
            raise NoVerdictError("no conversation came to its end, so nothing was saved")
        try:
            saved = save_cases(kept, out, to, setup.workspace, redactor)
        except InvalidInputError as error:  # exit code 2 says that nothing was sent
            raise NoVerdictError(f"nothing was saved: {error}") from None
        printer.print_saved(saved, saved.count)
    return 0 if saved.count == len(cases) else 3


def _read_conversations(
    setup: "AgentSetup", source: str, out: str, eval_id: str | None, redactor: "LiveRedactor"
) -> "list[EvalCase]":
    from evalgate.core.errors import InvalidInputError
    from evalgate.runner.message_files import build_message_cases, read_messages
    from evalgate.runner.saved_cases import list_case_ids

    found = read_messages(setup.workspace.folder / source, source)
    if eval_id is not None and len(found) > 1:
        raise InvalidInputError(f"--id names one case, and {source} holds {len(found)} conversations")
    taken = list_case_ids(out, setup.workspace)
    return build_message_cases(found, setup.session, eval_id, taken, hide=redactor.redact_text)


def _print_run(case: "EvalCase", run: "CaseRun", printer: "ChatPrinter") -> None:
    printer.print_line(f"{case.eval_id}:")
    for message, reply in zip(run.said, run.replies, strict=False):
        printer.print_message(message.text)
        if reply is not None:
            printer.print_reply(reply)
    for left in run.said[len(run.replies) :]:
        printer.print_message(left.text)
    if run.failure is not None:
        printer.print_failure(run.failure)
    elif None in run.replies:
        printer.print_line("No reply: the recording ends before this turn", err=True)
