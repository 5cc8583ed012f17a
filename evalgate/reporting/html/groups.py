"""Groups of cases in `report.html`: by first divergence, cause, tag, eval set and change."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from evalgate.core.frozen import frozen
from evalgate.core.types import Record
from evalgate.reporting.baseline_lines import CHANGES, map_counted_changes
from evalgate.reporting.failure_lines import UNPRECEDENTED
from evalgate.reporting.findings import describe_faults
from evalgate.reporting.html.case_list import CaseEntry, measure_mean_duration, sum_usage

CHANGE = "Change"
"""Title of the grouping by change since the baseline."""

DIVERGENCE = "First divergence"
"""Title of the grouping of failing cases by their first divergence, the first unexpected behaviour."""

_MOST_GROUPS = 30
_MOST_EXAMPLES = 3
_MOST_TAGS = 20
_LONGEST_LABEL = 240


@frozen
class CaseGroup:
    """Cases that have something in common, such as a tag."""

    label: str
    size: int
    examples: tuple[str, ...]
    """Names of the group's first cases."""
    novelty: str = ""
    """`UNPRECEDENTED` if no stored run failed in the way of this group, else ""."""


@frozen
class Grouping:
    """One way to group the cases of a page, such as by tag."""

    title: str
    groups: tuple[CaseGroup, ...]
    """At most 30 groups. The largest comes first or, if cases are grouped by first divergence, the group with
    the most newly failing cases."""
    members: Mapping[int, str]
    """By `id()` of the `CaseEntry`: the 1-based numbers of the groups with this case, separated by blanks."""

    def find_members(self, label: str) -> frozenset[int]:
        """Return Python's `id()` of each `CaseEntry` in the group `label`; empty without such a group."""
        number = next((str(at) for at, group in enumerate(self.groups, 1) if group.label == label), None)
        return frozenset(key for key, numbers in self.members.items() if number in numbers.split())


@frozen
class CaseMarks:
    """Sort keys and group numbers of a case, for the page's script."""

    keys: str
    """`1.2;0.01;0.5,,1`: mean seconds of a run, US dollars of all runs, and the score of each metric.

    Unknown numbers are empty. The score of a budget is negative, so that a smaller score is worse for every
    metric."""
    groups: str
    """`1;;2;1 3`: for each grouping, the 1-based numbers of the groups to which the case belongs."""


def build_marks(entry: CaseEntry, metrics: Sequence[str], groupings: Sequence[Grouping]) -> CaseMarks:
    """Return the sort keys and group numbers of a case; `metrics` names the metrics with a sort key."""
    case = entry.case
    scores = {
        metric.name: None if metric.score is None else metric.range.rank(metric.score)
        for metric in case.metrics
    }
    seconds, cost = measure_mean_duration(case), sum_usage(case).min_cost_usd
    listed = ",".join([_format_key(scores.get(name)) for name in metrics])
    numbers = ";".join([grouping.members.get(id(entry), "") for grouping in groupings])
    return CaseMarks(f"{_format_key(seconds)};{_format_key(cost or None)};{listed}", numbers)


def _format_key(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def group_cases(entries: Sequence[CaseEntry], record: Record) -> tuple[Grouping, ...]:
    """Return five groupings of the cases: by first divergence, cause, tag, eval set and change.

    In the groupings by first divergence and cause, groups of a single case are left out. The groupings by
    tag, eval set and change have no groups if there would be only one.
    """
    return (
        _group_by_divergence(entries, record),
        _build_grouping("Cause", _find_causes(entries), 2, 1),
        _build_grouping(
            "Tag", [(each, tags[:_MOST_TAGS]) for each in entries if (tags := each.case.tags)], 1, 2
        ),
        _build_grouping("Eval set", _list_eval_sets(entries), 1, 2),
        _build_grouping(CHANGE, _list_changes(entries, record), 1, 2),
    )


def _list_eval_sets(entries: Sequence[CaseEntry]) -> list[tuple[CaseEntry, tuple[str, ...]]]:
    """Return (entry, (id of its eval set,)) for each entry; [] if there is only one eval set."""
    first = entries[0].case.eval_set_id if entries else ""
    if all(each.case.eval_set_id == first for each in entries):
        return []
    return [(each, (each.case.eval_set_id,)) for each in entries]


def _list_changes(entries: Sequence[CaseEntry], record: Record) -> list[tuple[CaseEntry, tuple[str, ...]]]:
    """Return a pair (entry, labels) for each gating case that changed since the baseline.

    The labels are a tuple with one text, the kind of the change. Return [] if there is no baseline, or if
    there are fewer than two kinds of changes: a grouping by one kind would distinguish nothing.
    """
    kinds = {
        key: CHANGES[change] for key, change in map_counted_changes(record).items() if change != "unchanged"
    }
    if len(set(kinds.values())) < 2:
        return []
    return [(each, (kinds[each.case.key],)) for each in entries if each.case.key in kinds]


def _find_causes(entries: Sequence[CaseEntry]) -> Iterable[tuple[CaseEntry, tuple[str, ...]]]:
    causes: dict[int, tuple[str, ...]] = {}
    for entry in entries:
        if len(entry.alike) > 1:
            label = (next(describe_faults(entry.case), "")[:_LONGEST_LABEL],)
            causes |= {id(case): label for case in entry.alike}
    return [(entry, causes[id(entry.case)]) for entry in entries if id(entry.case) in causes]


def _group_by_divergence(entries: Sequence[CaseEntry], record: Record) -> Grouping:
    """Return the groups of two or more failing cases with the same first difference from the expectation."""
    if not any(entry.is_bad for entry in entries):
        return Grouping(DIVERGENCE, (), {})
    from evalgate.gating.failure_groups import list_failure_groups

    groups = [group for group in list_failure_groups(record) if len(group.cases) > 1][:_MOST_GROUPS]
    numbers = {key: str(at) for at, group in enumerate(groups, 1) for key in group.cases}
    return Grouping(
        DIVERGENCE,
        tuple(
            CaseGroup(
                group.label,
                len(group.cases),
                tuple(map("/".join, group.cases[:_MOST_EXAMPLES])),
                UNPRECEDENTED if group.unprecedented else "",
            )
            for group in groups
        ),
        {
            id(entry): numbers[entry.case.key]
            for entry in entries
            if entry.is_bad and entry.case.key in numbers
        },
    )


def _build_grouping(
    title: str, members: Iterable[tuple[CaseEntry, tuple[str, ...]]], least: int, groups: int
) -> Grouping:
    """Return the entries grouped by label.

    `members` are pairs (entry, labels of its groups). Groups with fewer than `least` cases are left out, and
    so are all but the 30 largest groups. If fewer than `groups` groups remain, the result has no groups.
    """
    sizes: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    listed: list[tuple[int, tuple[str, ...]]] = []
    for entry, labels in members:
        for label in labels:
            sizes[label] += 1
            if sizes[label] <= _MOST_EXAMPLES:
                examples[label].append(entry.finding.name)
        if labels:
            listed.append((id(entry), labels))
    largest = [label for label, size in sizes.most_common(_MOST_GROUPS) if size >= least]
    if len(largest) < groups:
        return Grouping(title, (), {})
    numbers = {label: str(number) for number, label in enumerate(largest, 1)}
    return Grouping(
        title,
        tuple(CaseGroup(label[:_LONGEST_LABEL], sizes[label], tuple(examples[label])) for label in largest),
        {key: " ".join(numbers[label] for label in labels if label in numbers) for key, labels in listed},
    )
