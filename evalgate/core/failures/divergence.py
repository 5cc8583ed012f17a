"""The first divergence of a failed run: the first difference from the expectation of its case.

Reports group failing cases by their divergences, and a baseline stores the divergence of each failing run.
A divergence depends only on the run and on the options of the run's metrics. It holds no value of an
argument and no text of a response.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line
from evalgate.core.types import RecordedCriterion

FailureKind: TypeAlias = Literal[
    "missing_call",
    "extra_call",
    "other_tool",
    "order",
    "argument",
    "missing_argument",
    "extra_argument",
    "response",
    "missing_turn",
    "extra_turn",
    "check",
    "rubric",
    "budget",
    "metric",
    "crash",
    "timeout",
    "not_run",
    "not_scored",
    "unknown",
]

_LABELS: Mapping[FailureKind, str] = {
    "missing_call": "no call of `{tool}`",
    "extra_call": "unexpected call of `{tool}`",
    "other_tool": "`{tool}` instead of `{detail}`",
    "order": "`{tool}` before `{detail}`",
    "argument": "`{tool}` with another `{detail}`",
    "missing_argument": "`{tool}` without `{detail}`",
    "extra_argument": "`{tool}` with an unexpected `{detail}`",
    "response": "only the response differs",
    "missing_turn": "a turn without an answer",
    "extra_turn": "a turn that the case does not have",
    "check": "the check `{detail}` does not hold",
    "rubric": "the rubric `{detail}` is not met",
    "budget": "the budget `{detail}` is exceeded",
    "metric": "`{detail}` is not met",
    "crash": "crashed: `{detail}`",
    "timeout": "timed out",
    "not_run": "could not be run: `{detail}`",
    "not_scored": "`{detail}` could not be evaluated",
    "unknown": "no run shows why",
}

NO_AGENT_KINDS: frozenset[FailureKind] = frozenset({"not_run", "not_scored", "unknown"})
"""Kinds of failures that do not show a fault of the agent."""

_LONGEST_NAME = 80


@frozen
class Divergence:
    """The first difference of a failed run from the expectation of its case."""

    kind: FailureKind
    tool: str = ""
    """The tool that was called, or was expected and not called; "" if no tool is concerned."""
    detail: str = ""
    """Second name in the label, which depends on `kind`: the name of the other tool, of a check, rubric,
    budget or metric, or of an exception, or the path of an argument. "" if the kind has no second name."""

    @property
    def label(self) -> str:
        """Return the divergence in words, with names in backticks, such as "no call of `lookup_order`"."""
        if self.kind == "argument" and not self.detail:
            return f"`{self.tool}` with other arguments"
        return _LABELS[self.kind].format(tool=self.tool, detail=self.detail)

    @property
    def signature(self) -> str:
        """Return kind, tool and detail as one text, such as `missing_call lookup_order`.

        Baselines store this text, so later versions of evalgate must return the same text.
        """
        return " ".join(filter(None, (self.kind, self.tool, self.detail)))


Criteria: TypeAlias = Mapping[tuple[str, str], RecordedCriterion]
"""Criteria by (metric name, metric fingerprint), as `Record.index_criteria` returns them."""


def clean_name(name: str) -> str:
    """Return a name for labels: on one line of at most 80 characters, with "'" for each backtick.

    If nothing visible is left, return "?".
    """
    return to_one_line(name.replace("`", "'"), _LONGEST_NAME) or "?"
