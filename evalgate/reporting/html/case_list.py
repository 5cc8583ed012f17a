"""The cases of `report.html` in the order of the page, and the size budget of each case."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseKey, CaseResult, Record, Reply, Usage
from evalgate.datasets.results_encoder import replace_unserializable
from evalgate.reporting.findings import Finding, find_flaky_cases, group_findings, list_findings

NO_REPLIES: Mapping[CaseKey, tuple[Reply | None, ...]] = {}

_MARKUP = 120  # characters of markup around a text, about
_ONE_LINE = 72
_LONG, _LONG_LINES = 1500, 15
_encode_on_one_line = json.JSONEncoder(ensure_ascii=False).encode
_encode_indented = json.JSONEncoder(ensure_ascii=False, indent=2).encode


@frozen
class ClippedText:
    """A text, or the part of it that the size budget allows."""

    text: str
    left_out: str = ""
    """The size of the missing part, in words; "" if the text is complete."""
    is_end: bool = False
    """True if `text` is the end of a longer text, False if it is the start or the whole text."""

    @property
    def is_long(self) -> bool:
        """Return True if the text is shown in a box that scrolls."""
        return len(self.text) > _LONG or self.text.count("\n") > _LONG_LINES


@dataclass(slots=True)
class SizeBudget:
    """The number of characters that one case may still take on the page. Each shown text reduces `left`."""

    left: int
    longest: int
    """Maximum number of characters of one text."""

    @property
    def is_full(self) -> bool:
        """Return True if the budget is spent."""
        return self.left <= 0

    def take_text(self, text: str, *, is_end: bool = False) -> ClippedText:
        """Return as much of the text as the budget allows, and reduce `left` by the size of this part.

        The size includes markup. If the text is too long, return its end with `is_end`, else its start.
        """
        size = max(0, min(self.longest, self.left))
        self.left -= min(len(text), size) + _MARKUP
        if len(text) <= size:
            return ClippedText(text)
        more = f"{pluralize(len(text) - size, 'more character')}: see results.json"
        return ClippedText(text[len(text) - size :] if is_end else text[:size], more, is_end)

    def take_json(self, value: object) -> ClippedText:
        """Return as much of a value as the budget allows, and reduce `left` by the size of this part.

        The size includes markup. A string is shown as it is, any other value as JSON. If the text is too
        long, return its start.
        """
        if isinstance(value, str):
            return self.take_text(value)
        clean = replace_unserializable(value)
        line = _encode_on_one_line(clean)
        return self.take_text(line if len(line) <= _ONE_LINE else _encode_indented(clean))


CaseKind: TypeAlias = Literal[
    "new", "failed", "crashed", "errored", "flaky", "quarantined", "observed", "not_evaluated", "passed"
]

KINDS: dict[CaseKind, str] = {
    "new": "Newly failing",
    "failed": "Failed",
    "crashed": "Crashed",
    "errored": "Errored",
    "flaky": "Flaky",
    "quarantined": "Quarantined",
    "observed": "Observed",
    "not_evaluated": "Not evaluated",
    "passed": "Passed",
}
"""Label of each kind of case in the page's filter. A case is of one or more kinds."""

_BAD: frozenset[CaseKind] = frozenset({"failed", "crashed", "errored"})
_AFTER_BAD: tuple[CaseKind, ...] = ("quarantined", "observed", "flaky", "not_evaluated", "passed", "new")
_RANKS = {**dict.fromkeys(_BAD, 0), **{kind: at for at, kind in enumerate(_AFTER_BAD, 1)}}
"""Sort key of each kind in the list. A case of several kinds has the lowest of their keys."""
_NOT_IN_ANCHOR = re.compile(r"[^A-Za-z0-9_]+")
_LONGEST_ANCHOR = 60


@frozen
class CaseEntry:
    """A case in the list of a page, with its kinds, such as flaky."""

    finding: Finding
    kinds: tuple[CaseKind, ...]
    passed_if_flaky: int = 0
    """The number of passed runs if the runs disagree, else 0."""
    alike: tuple[CaseResult, ...] = ()
    """If this case is the first of several that failed for the same reason: all these cases. Else ()."""

    @property
    def case(self) -> CaseResult:
        """Return the result of the case."""
        return self.finding.case

    @property
    def is_bad(self) -> bool:
        """Return True if the case failed, crashed or errored, and is neither quarantined nor observed."""
        return not _BAD.isdisjoint(self.kinds)

    @property
    def rank(self) -> int:
        """Return the sort key in the list: 0 for failing cases, higher numbers for later cases."""
        return min([_RANKS[kind] for kind in self.kinds])


def measure_mean_duration(case: CaseResult) -> float:
    """Return the mean duration of the runs of a case, in seconds; 0 if the case was not run."""
    return sum(run.duration_s for run in case.runs) / max(1, len(case.runs))


def sum_usage(case: CaseResult) -> Usage:
    """Return the usage of agent and simulated user in all runs of a case and in earlier attempts at them."""
    return sum((usage for run in case.runs for usage in run.usages), Usage())


def iter_anchors(entries: Iterable[CaseEntry]) -> Iterator[str]:
    """Yield the HTML id of each case. The id does not depend on the place of the case in the list.

    An id has a readable part and a digest of the case's name. The ids of further cases with the same name end
    in `-2`, `-3` and so on.
    """
    seen: Counter[str] = Counter()
    for entry in entries:
        name = entry.finding.name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        words = _NOT_IN_ANCHOR.sub("-", name)[:_LONGEST_ANCHOR].strip("-")
        anchor = f"case-{words}-{digest}" if words else f"case-{digest}"
        seen[anchor] += 1
        yield anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}"


def rank_cases(
    record: Record, earlier: Mapping[CaseKey, tuple[Reply | None, ...]] = NO_REPLIES
) -> list[CaseEntry]:
    """Return all cases: failing, quarantined, observed, flaky, not evaluated, and then passed cases.

    `earlier` has the replies of an earlier run by case. A case takes them as its baseline replies if the
    record has none.
    """
    bad = list_findings(record)
    # By identity, because two eval sets may contain equal cases.
    flaky = {id(case): passed for case, passed, _ in find_flaky_cases(record)}
    listed = {id(finding.case) for finding in bad}
    alike = {id(group.first.case): group.cases for group in group_findings(bad)}
    rest = [Finding(case) for case in record.cases if id(case) not in listed]
    findings = [*bad, *rest]
    if earlier:
        findings = [
            replace(each, baseline_replies=each.baseline_replies or earlier.get(each.case.key, ()))
            for each in findings
        ]
    entries = [
        CaseEntry(
            finding,
            tuple(_list_kinds(finding, id(finding.case) in flaky)),
            flaky.get(id(finding.case), 0),
            alike.get(id(finding.case), ()),
        )
        for finding in findings
    ]
    return sorted(entries, key=lambda entry: entry.rank)


def count_kinds(entries: list[CaseEntry]) -> dict[CaseKind, int]:
    """Return the number of cases of each kind. A kind without cases is left out."""
    counts = dict.fromkeys(KINDS, 0)
    for entry in entries:
        for kind in entry.kinds:
            counts[kind] += 1
    return {kind: count for kind, count in counts.items() if count}


def _list_kinds(finding: Finding, is_flaky: bool) -> Iterator[CaseKind]:
    case = finding.case
    if case.quarantine is not None:
        yield "quarantined"
    elif case.observed:
        yield "observed"
    elif case.status == "errored":
        yield "crashed" if case.agent_failed else "errored"
    else:
        yield case.status
    if finding.is_new:
        yield "new"
    if is_flaky:
        yield "flaky"
