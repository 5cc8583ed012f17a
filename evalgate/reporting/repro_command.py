"""Build the shell commands that repeat failing cases."""

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePosixPath

from evalgate.core.sanitize import strip_invisible
from evalgate.core.types import EVAL_SET_TRACES, CaseResult, Record

_UNTYPEABLE = re.compile(r"[\n\t]")
_LONGEST_COMMAND = 2_000
_MOST_CASES = 100
_AGENT_OPTIONS = frozenset({"--env", "--python", "--setup", "--simulated-user", "--timeout"})
"""Options that a replay of recorded runs does not need."""


ACCEPT = "If the new behaviour is right, make it the expectation"
"""Description of the command that `build_accept_command` returns."""
_PROJECT_OPTIONS = frozenset({"-C", "--working-directory", "-c", "--thresholds"})
"""Options of a run that `evalgate accept` has as well."""
_DEFAULT_RECORD = "evalgate-report/results.json"
_WITHOUT_COMMAND = "in_process"
"""Kind of agents that are objects of a Python program, which no command line can name."""


def build_repro_command(record: Record, case: CaseResult) -> str:
    """Return a one-line `evalgate run` command for one case; "" if no command can name the case or agent."""
    if record.agent.kind == _WITHOUT_COMMAND:
        return ""
    return _build_command(case, [*_build_agent_option(record), *record.options])


def _build_agent_option(record: Record) -> tuple[str, ...]:
    """Return `--agent` and its value; () if the run scored the replies stored in the eval sets."""
    agent = record.agent
    return () if agent.what == EVAL_SET_TRACES else ("--agent", f"{agent.kind}:{agent.what}")


def build_group_command(record: Record, cases: Sequence[CaseResult]) -> tuple[str, str]:
    """Return a command that runs all of `cases`, and a label for them, such as `all 3 cases`.

    The command is one line of about 2,000 characters at most, with at most 100 cases. Cases with a name that
    no command line can hold are left out. If cases are left out, the label is, for example, `3 of the 5
    cases`. Return ("", "") if fewer than two cases remain, or if no command line can name the agent.
    """
    rest = shlex.join((*_build_agent_option(record), *record.options))
    named: list[str] = []
    left = _LONGEST_COMMAND - len(rest)
    for case in cases[:_MOST_CASES]:
        # One word for each case: ids joined by commas could be the id of another case.
        word = shlex.join([f"{case.path}:{case.eval_id}"])
        left -= len(word) + 1
        if left < 0:
            break
        if build_repro_command(record, case):
            named.append(word)
    if len(named) <= 1:
        return "", ""
    every = f"all {len(named):,}" if len(named) == len(cases) else f"{len(named):,} of the {len(cases):,}"
    return " ".join(filter(None, ("evalgate run", *named, rest))), f"{every} cases"


def build_replay_command(record: Record, case: CaseResult) -> str:
    """Return the command that scores the recorded runs of a case again, without running the agent.

    Return "" if no run of the case has an answer, if the agent was a recording or an object of a Python
    program, or if a name or option cannot be typed in a shell.
    """
    answered = any(run.outcome == "answered" for run in case.runs)
    if not answered or record.agent.kind in {"replay", _WITHOUT_COMMAND}:
        return ""
    pairs = (pair for pair in iter_option_pairs(record.options) if pair[0] not in _AGENT_OPTIONS)
    agent = f"replay:{resolve_record_path(record)}"
    return _build_command(case, ["--agent", agent, *chain.from_iterable(pairs)])


def build_accept_command(record: Record, case: CaseResult) -> str:
    """Return the `evalgate accept` command that makes the agent's behaviour in a case the new expectation.

    The user replaces `…` in the command by a reason. Return "" if the case is protected, if its failure
    cannot be accepted, or if a name or option cannot be typed in a shell.
    """
    from evalgate.datasets.acceptance import is_acceptable

    if case.protected or not is_acceptable(case):
        return ""
    pairs = [pair for pair in iter_option_pairs(record.options) if pair[0] in _PROJECT_OPTIONS]
    path = resolve_record_path(record)
    if path not in {"results.json", _DEFAULT_RECORD}:
        pairs.append(("--from", path))
    words = [f"{case.path}:{case.eval_id}", *chain.from_iterable(pairs)]
    return f'evalgate accept {shlex.join(words)} --reason "…"' if _can_be_typed(case, words) else ""


def resolve_record_path(record: Record) -> str:
    """Return the path of `results.json`, relative to the folder in which the commands are run.

    The path is derived from `record.options`, the options of commands that repeat cases. In these options,
    `--out` is a subfolder of the report folder, so that a repeated run keeps the old `results.json`.
    """
    return _resolve_record_path(record.options)


@lru_cache(maxsize=8)  # the options of all commands of a record are the same
def _resolve_record_path(options: tuple[str, ...]) -> str:
    again = dict(iter_option_pairs(options)).get("--out", "results.json")
    return str(PurePosixPath(again).parent / "results.json")


def iter_option_pairs(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each option, from a list of alternating names and values."""
    return zip(options[::2], options[1::2], strict=False)


def _build_command(case: CaseResult, options: Sequence[str]) -> str:
    words = [f"{case.path}:{case.eval_id}", *options]
    return f"evalgate run {shlex.join(words)}" if _can_be_typed(case, words) else ""


def _can_be_typed(case: CaseResult, words: Sequence[str]) -> bool:
    # The command line strips blanks around a name, and takes a path with a leading `-` for an option.
    is_named = case.path and case.eval_id and case.eval_id == case.eval_id.strip()
    if not is_named or case.path[0] == "-":
        return False
    # A shell takes a tab for completion and a line end for the end of the command.
    text = "".join(words)
    return not _UNTYPEABLE.search(text) and strip_invisible(text) == text
