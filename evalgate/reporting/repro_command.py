"""The commands that repeat a case: what a reader of a report types."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from evalgate.core.sanitize import strip_invisible
from evalgate.core.types import CaseResult, Record

_UNTYPEABLE = re.compile(r"[\n\t]")
_LONGEST_COMMAND = 2_000
_MOST_CASES = 100
_OF_AN_AGENT = frozenset({"--env", "--python", "--setup", "--simulated-user", "--timeout"})


def build_repro_command(record: Record, case: CaseResult) -> str:
    """The shell command that runs the case alone, on one line; "" when no command line can hold its names."""
    return _build_command(case, f"{record.agent.kind}:{record.agent.what}", record.options)


def build_group_command(record: Record, cases: Sequence[CaseResult]) -> tuple[str, str]:
    """Return the shell command that runs all of the cases, on one line, and the words that say so.

    Cases that no command line can hold are left out, and those that would make the line longer than a reader
    pastes: the words count those that are run. Both are "" for fewer than two cases.
    """
    rest = shlex.join(("--agent", f"{record.agent.kind}:{record.agent.what}", *record.options))
    named: list[str] = []
    left = _LONGEST_COMMAND - len(rest)
    for case in cases[:_MOST_CASES]:
        # A word for each: ids joined by commas could be the id of another case.
        word = shlex.join([f"{case.path}:{case.eval_id}"])
        left -= len(word) + 1
        if left < 0:
            break
        if build_repro_command(record, case):
            named.append(word)
    if len(named) <= 1:
        return "", ""
    every = f"all {len(named):,}" if len(named) == len(cases) else f"{len(named):,} of the {len(cases):,}"
    return f"evalgate run {' '.join(named)} {rest}", f"{every} cases"


def build_replay_command(record: Record, case: CaseResult) -> str:
    """The command that scores what the agent did again, without an agent, from the kept `results.json`.

    As `build_repro_command`; "" as well where there is nothing to replay, or the agent was a recording
    itself.
    """
    answered = any(run.outcome == "answered" for run in case.runs)
    if not answered or record.agent.kind == "replay":
        return ""
    return _build_command(
        case, f"replay:{resolve_record_path(record)}", tuple(_drop_agent_options(record.options))
    )


def resolve_record_path(record: Record) -> str:
    """Return where the record of the run is, in the folder that its commands work in.

    Whoever repeats a case writes to a folder in that of the reports, so the record is in the one around it.
    """
    again = dict(_iter_option_pairs(record.options)).get("--out", "results.json")
    return str(PurePosixPath(again).parent / "results.json")


def _drop_agent_options(options: Sequence[str]) -> Iterator[str]:
    """The options but those that only an agent needs."""
    for name, value in _iter_option_pairs(options):
        if name not in _OF_AN_AGENT:
            yield from (name, value)


def _iter_option_pairs(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options, each a name and a value."""
    return zip(options[::2], options[1::2], strict=False)


def _build_command(case: CaseResult, agent: str, options: Sequence[str]) -> str:
    words = [f"{case.path}:{case.eval_id}", "--agent", agent, *options]
    is_named = case.path and case.eval_id and case.eval_id == case.eval_id.strip()
    if not is_named or case.path[0] == "-" or any(map(_is_untypeable, words)):
        return ""
    return f"evalgate run {shlex.join(words)}"


def _is_untypeable(word: str) -> bool:
    return _UNTYPEABLE.search(word) is not None or strip_invisible(word) != word
