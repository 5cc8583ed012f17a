"""Send the messages of a file to the agent, and make cases of the conversations."""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, SessionInput, UserMessage
from evalgate.documents.config_file import read_config_document
from evalgate.runner.chat import AgentSetup, choose_case_id
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.system.files import decode_text, read_input_text
from evalgate.system.signals import cancel_on_signals
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

_LINE_END = re.compile(r"\r\n|[\r\n]")  # `str.splitlines` would also split within messages, as at U+2028
_NO_CONVERSATION = "a conversation must be a list of texts, of which none is empty"
_SEPARATOR = re.compile(r"\s*(?:-{3,}\s*)?")


def build_message_cases(
    conversations: Sequence[Sequence[str]],
    session: SessionInput,
    eval_id: str | None = None,
    taken: Sequence[str] = (),
    *,
    hide: Callable[[str], str] = str,
) -> list[EvalCase]:
    """Return one case for each conversation, with its messages and without expectations.

    A conversation is a list of at least one message. If there is only one conversation, `eval_id` may be the
    id of its case. If `eval_id` is None, the id of a case is made from its first message, redacted by `hide`.
    These ids differ from each other and from the ids in `taken`.
    """
    cases: list[EvalCase] = []
    for messages in conversations:
        used = (*taken, *(case.eval_id for case in cases))
        turns = tuple(CaseTurn(UserMessage(text)) for text in messages)
        cases.append(EvalCase(eval_id or choose_case_id(hide(messages[0]), used), turns, session=session))
    return cases


def run_conversations(setup: AgentSetup, cases: Sequence[EvalCase]) -> list[CaseRun]:
    """Set up the agent, run each case once, and return the runs in the order of the cases.

    The agent's setting `concurrency` limits the number of cases at the same time. Do not call this within an
    event loop.

    Raises:
        EvalgateError: the agent cannot be set up.
        asyncio.CancelledError: a signal interrupted the runs.
    """
    return asyncio.run(_run_conversations(setup, cases))


async def _run_conversations(setup: AgentSetup, cases: Sequence[EvalCase]) -> list[CaseRun]:
    found: dict[int, CaseRun] = {}

    async def store_run(request: RunRequest, run: CaseRun) -> None:
        found[request.index] = run

    settings = setup.spec.settings
    throttle = Throttle(
        ThrottleSettings(
            settings.concurrency, settings.requests_per_minute, settings.retries, settings.ramp_up
        )
    )
    requests = [RunRequest(case, 1, index) for index, case in enumerate(cases)]
    with cancel_on_signals():
        async with setup.build_agent() as agent:
            await run_requests(
                agent, requests, concurrency=settings.concurrency, on_finished=store_run, throttle=throttle
            )
    return [found[index] for index in range(len(cases))]


def has_all_replies(case: EvalCase, run: CaseRun) -> bool:
    """Return True if the run has no failure and the agent replied to every message of the case."""
    return run.failure is None and len(run.replies) == len(case.turns) and None not in run.replies


def expect_replies(case: EvalCase, run: CaseRun) -> EvalCase:
    """Return the case with the agent's replies as expectations; turns without a reply are left out."""
    turns = (
        CaseTurn(message, reply)
        for message, reply in zip(run.said, run.replies, strict=False)
        if reply is not None
    )
    return EvalCase(case.eval_id, tuple(turns), session=case.session)


# --- the file of messages -----------------------------------------------------------------------------------


def read_messages(path: Path, shown_as: str) -> tuple[tuple[str, ...], ...]:
    """Return the conversations in a file (at least one), each as a tuple of its messages.

    - A file `.yaml`, `.yml` or `.json` holds a list of conversations; a conversation is a list of messages.
      A single list of messages is one conversation.
    - Any other file has a message on each line, and a blank line or `---` between conversations.
    - For the name `-`, standard input is read, in the same form as any other file.

    Raises:
        InvalidInputError: the file cannot be read, has another form, or holds no message.
    """
    if path.suffix.lower() in {".yaml", ".yml", ".json"}:
        found = _read_lists(path, shown_as)
    else:
        # Only the last part of the path is compared, because the path begins with the project's folder.
        is_stream = path.name == "-"
        text = (
            decode_text(sys.stdin.buffer.read(), shown_as) if is_stream else read_input_text(path, shown_as)
        )
        found = _split_lines(text)
    if not found:
        raise InvalidInputError([Problem(shown_as, 1, 1, "the file holds no message")])
    return found


def _split_lines(text: str) -> tuple[tuple[str, ...], ...]:
    conversations: list[list[str]] = [[]]
    for line in _LINE_END.split(text):
        if not _SEPARATOR.fullmatch(line):
            conversations[-1].append(line.strip())
        elif conversations[-1]:
            conversations.append([])
    return tuple(tuple(each) for each in conversations if each)


def _read_lists(path: Path, shown_as: str) -> tuple[tuple[str, ...], ...]:
    document = read_config_document(path, shown_as)
    value = document.value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        value = [value]
    if not isinstance(value, list):
        raise InvalidInputError([Problem(shown_as, 1, 1, "must be a list of conversations")])
    wrong = [
        Problem(shown_as, *document.find_position((at,)), _NO_CONVERSATION)
        for at, each in enumerate(value)
        if not (isinstance(each, list) and each and all(isinstance(text, str) and text for text in each))
    ]
    if wrong:
        raise InvalidInputError(wrong)
    return tuple(tuple(each) for each in value)
