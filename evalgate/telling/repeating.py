"""The commands that repeat a case: what a reader of a report types."""

import re
import shlex
from collections.abc import Iterator, Sequence

from evalgate.hostile import visible
from evalgate.model import CaseResult, Record

_UNTYPEABLE = re.compile(r"[\n\t]")


def reproduction(record: Record, case: CaseResult) -> str:
    """The shell command that runs the case alone, on one line; "" when no command line can hold its names."""
    return _command_for(case, f"{record.agent.kind}:{record.agent.what}", record.options)


def replay(record: Record, case: CaseResult) -> str:
    """The command that scores what the agent did again, without an agent, from the kept `results.json`.

    As `reproduction`; "" as well where there is nothing to replay, or the agent was a recording itself.
    """
    answered = any(run.outcome == "answered" for run in case.runs)
    if not answered or record.agent.kind == "replay":
        return ""
    return _command_for(case, "replay:results.json", tuple(_without_agent(record.options)))


def _without_agent(options: Sequence[str]) -> Iterator[str]:
    """The options but those that only an agent needs; each is a name and a value."""
    for name, value in zip(options[::2], options[1::2], strict=False):
        if name not in {"--env", "--python"}:
            yield from (name, value)


def _command_for(case: CaseResult, agent: str, options: Sequence[str]) -> str:
    words = [f"{case.path}:{case.eval_id}", "--agent", agent, *options]
    is_named = case.path and case.eval_id and case.eval_id == case.eval_id.strip()
    if not is_named or case.path[0] == "-" or any(map(_is_untypeable, words)):
        return ""
    return f"evalgate run {shlex.join(words)}"


def _is_untypeable(word: str) -> bool:
    return _UNTYPEABLE.search(word) is not None or visible(word) != word
