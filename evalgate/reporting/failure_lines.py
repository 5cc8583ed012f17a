"""Lines about the groups of failing cases, the same in every report.

A group holds the cases that have the same first difference from the expectation (the first divergence).
Texts are returned as they are, and may hold any characters: reports have to escape them.
"""

from collections.abc import Sequence

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import FailureGroup, Record
from evalgate.gating.failure_groups import list_failure_groups

MOST_LINES = 5

UNPRECEDENTED = "new: no stored run failed so"
"""What reports say of a group that failed in a way in which no stored run of the baseline failed."""


@frozen
class FailureLine:
    """Texts about one group of failing cases, for one line of a report."""

    share: str
    """Share of the group in all failing cases, such as `9 of 12 newly failing cases, and 2 others`. The
    others are cases of the group that fail, but not newly."""
    label: str
    """The first difference from the expectation (first divergence) in words, with names in backticks."""
    novelty: str
    """`UNPRECEDENTED` if no stored run failed in this way, else ""."""
    names: tuple[str, ...]
    """Names of the group's first cases; newly failing cases come first."""
    size: int

    @property
    def sentence(self) -> str:
        """Return `9 of 12 newly failing cases: no call of …`, then `novelty`, if any, in brackets."""
        return f"{self.share}: {self.label}{f' ({self.novelty})' if self.novelty else ''}"


@frozen
class FailureOverview:
    """Lines about the largest groups of failing cases; no lines if each group has a single case."""

    lines: tuple[FailureLine, ...] = ()
    rest: str = ""
    """The numbers of cases and groups without a line, in words; "" if every group has a line."""


def summarize_failure_groups(record: Record, *, lines: int = MOST_LINES, names: int = 30) -> FailureOverview:
    """Return lines about at most `lines` groups of failing cases, with at most `names` names each.

    If every group has a single case, there are no lines. Otherwise each group of two or more cases has a
    line. A group of one case has a line only if its case is the only newly failing case of the record.
    """
    groups = list_failure_groups(record)
    if all(len(group.cases) == 1 for group in groups):
        return FailureOverview()
    total, newly = _count_cases(groups), sum(group.newly_failing for group in groups)
    shown = [group for group in groups if len(group.cases) > 1 or group.newly_failing == newly == 1][:lines]
    left, ways = total - _count_cases(shown), len(groups) - len(shown)
    return FailureOverview(
        tuple(_build_line(group, total, newly, names) for group in shown),
        f"{pluralize(left, 'more failing case')} in {pluralize(ways, 'other way')}" if left else "",
    )


def _count_cases(groups: Sequence[FailureGroup]) -> int:
    return sum(len(group.cases) for group in groups)


def _build_line(group: FailureGroup, total: int, newly: int, names: int) -> FailureLine:
    listed = tuple(f"{eval_set_id}/{eval_id}" for eval_set_id, eval_id in group.cases[:names])
    novelty = UNPRECEDENTED if group.unprecedented else ""
    size = len(group.cases)
    if not group.newly_failing:
        share = _format_share(size, total - newly, "other failing case" if newly else "failing case")
    else:
        share = _format_share(group.newly_failing, newly, "newly failing case")
        others = size - group.newly_failing
        share += f", and {pluralize(others, 'other')}" if others else ""
    return FailureLine(share, group.label, novelty, listed, size)


def _format_share(some: int, total: int, noun: str) -> str:
    """Return `9 of 12 failing cases`, `All 12 failing cases`, `Both failing cases` or `The failing case`.

    `noun` is the singular `failing case` in these examples.
    """
    if some < total:
        return f"{some:,} of {pluralize(total, noun)}"
    return f"The {noun}" if total == 1 else f"Both {noun}s" if total == 2 else f"All {pluralize(total, noun)}"
