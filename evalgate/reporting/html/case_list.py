"""The cases of the page, the worst first, within its size budget."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, Record
from evalgate.datasets.results_encoder import replace_unserializable
from evalgate.reporting.findings import Finding, find_flaky_cases, group_findings, list_findings

_MARKUP = 120  # characters that a thing takes beside its text, about
_ONE_LINE = 72
_LONG, _LONG_LINES = 1500, 15


@frozen
class ClippedText:
    """A text, or the part of it that there is room for."""

    text: str
    left_out: str = ""
    """How much is missing, in words; "" when nothing is."""
    is_end: bool = False
    """Whether `text` is the end of the whole, else its start."""

    @property
    def is_long(self) -> bool:
        """Whether a reader rather scrolls in it than past it."""
        return len(self.text) > _LONG or self.text.count("\n") > _LONG_LINES


@dataclass(slots=True)
class SizeBudget:
    """Characters that a case may take. Each thing that is shown leaves less for those after it."""

    left: int
    longest: int
    """Characters of one text at most."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be begun."""
        return self.left <= 0

    def text(self, text: str, *, is_end: bool = False) -> ClippedText:
        """The text, its start, or its end."""
        size = max(0, min(self.longest, self.left))
        self.left -= min(len(text), size) + _MARKUP
        if len(text) <= size:
            return ClippedText(text)
        more = f"{pluralize(len(text) - size, 'more character')}: see results.json"
        return ClippedText(text[len(text) - size :] if is_end else text[:size], more, is_end)

    def take_json(self, value: object) -> ClippedText:
        """A text as it is; anything else as JSON, on several lines unless it is short."""
        if isinstance(value, str):
            return self.text(value)
        mend = replace_unserializable(value)
        line = json.dumps(mend, ensure_ascii=False)
        return self.text(line if len(line) <= _ONE_LINE else json.dumps(mend, ensure_ascii=False, indent=2))


CaseKind: TypeAlias = Literal[
    "new", "failed", "crashed", "errored", "flaky", "resting", "not_evaluated", "passed"
]

KINDS: dict[CaseKind, str] = {
    "new": "Newly failing",
    "failed": "Failed",
    "crashed": "Crashed",
    "errored": "Errored",
    "flaky": "Flaky",
    "resting": "Quarantined",
    "not_evaluated": "Not evaluated",
    "passed": "Passed",
}
"""What the list can be filtered by. A case is of one or more kinds."""

_NOT_IN_ANCHOR = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_ANCHOR = 60


@frozen
class CaseEntry:
    """One case in the list."""

    finding: Finding
    kinds: tuple[CaseKind, ...]
    passed: int = 0
    """Runs that passed, where they disagree."""
    alike: tuple[CaseResult, ...] = ()
    """All cases that failed for one reason; of the first of them alone."""

    @property
    def case(self) -> CaseResult:
        """The case itself."""
        return self.finding.case

    @property
    def is_bad(self) -> bool:
        """Whether it counts against the agent."""
        return not {"failed", "crashed", "errored"}.isdisjoint(self.kinds)


def name_anchors(entries: Sequence[CaseEntry]) -> list[str]:
    """Return the anchor of each entry: the same for the same case in every run, whatever its place.

    It has a readable part and a digest, which tells names apart that read alike. Further cases of the same
    name are numbered.
    """
    seen: Counter[str] = Counter()
    anchors = []
    for entry in entries:
        name = entry.finding.name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        words = _NOT_IN_ANCHOR.sub("-", name)[:_LONGEST_ANCHOR].strip("-")
        anchor = f"case-{words}-{digest}" if words else f"case-{digest}"
        seen[anchor] += 1
        anchors.append(anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}")
    return anchors


def rank_cases(record: Record) -> list[CaseEntry]:
    """Every case: what fails in the order of every report; then quarantined, flaky, unjudged, passed."""
    bad = list_findings(record)
    flipping = {id(case): passed for case, passed, _ in find_flaky_cases(record)}
    told = {id(finding.case) for finding in bad}
    alike = {id(group.first.case): group.cases for group in group_findings(bad)}
    rest = [Finding(case) for case in record.cases if id(case) not in told]
    entries = [
        CaseEntry(
            finding,
            tuple(_list_kinds(finding, id(finding.case) in flipping)),
            flipping.get(id(finding.case), 0),
            alike.get(id(finding.case), ()),
        )
        for finding in (*bad, *rest)
    ]
    return sorted(entries, key=_compute_rank)


def count_kinds(entries: list[CaseEntry]) -> dict[CaseKind, int]:
    """How many cases there are of each kind that there is."""
    found = dict.fromkeys(KINDS, 0)
    for entry in entries:
        for kind in entry.kinds:
            found[kind] += 1
    return {kind: number for kind, number in found.items() if number}


def _list_kinds(finding: Finding, is_flaky: bool) -> Iterator[CaseKind]:
    case = finding.case
    if case.quarantine is not None:
        yield "resting"
    elif case.status == "errored":
        yield "crashed" if case.agent_failed else "errored"
    else:
        yield case.status
    if finding.is_new:
        yield "new"
    if is_flaky:
        yield "flaky"


def _compute_rank(entry: CaseEntry) -> int:
    if entry.is_bad:
        return 0
    return next(at for at, kind in enumerate(_AFTER_BAD, 1) if kind in entry.kinds)


_AFTER_BAD: tuple[CaseKind, ...] = ("resting", "flaky", "not_evaluated", "passed")
