"""Search, filter and sort a list of cases, as the query of a page's address says."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseMetric
from evalgate.reporting.baseline_lines import CountedChange
from evalgate.reporting.html.case_list import KINDS, CaseEntry, measure_mean_duration, sum_usage
from evalgate.reporting.html.groups import DIVERGENCE
from evalgate.viewer.opened_record import OpenedRecord

PAGE_SIZE = 100
"""Number of cases on one page of the list."""

SORTS = {"": "importance", "name": "name", "duration": "time", "cost": "cost"}
"""Maps values of `CaseQuery.sort` to their labels. A further value, `score:METRIC`, sorts by the score of a
metric, the worst first."""
SCORE = "score:"
ANY_CHANGE, UNCHANGED = "any", "unchanged"
"""Values of `CaseQuery.change` in addition to the kinds of change, of which one is `changed`.

Each of them leaves out cases that no report counts as changed or unchanged, such as quarantined cases."""

GROUPINGS = {"divergence": DIVERGENCE, "cause": "Cause"}
"""Maps a field of `CaseQuery` that names a group of cases to the title of the grouping in a record."""

_FIELDS = ("q", "kind", "set", "tag", "metric", "change", *GROUPINGS, "sort")


@frozen
class CaseQuery:
    """Search, filters and order of a list of cases. A case is listed if it matches every filter that is set.

    An empty field is no filter.
    """

    q: str = ""
    """Words that the texts of a case must all contain, in any order, ignoring case."""
    kind: str = ""
    """Kind of cases, such as `flaky`: a key of `KINDS`."""
    set: str = ""
    """Id of the eval set of the listed cases."""
    tag: str = ""
    metric: str = ""
    """Name of a metric that failed, or ended with an error, on every listed case."""
    change: str = ""
    """Kind of change of a case since the baseline; or `any` (a change of any kind), or `unchanged`."""
    cause: str = ""
    """Label of a group of cases that failed for the same reason."""
    divergence: str = ""
    """Label of a group of cases with the same first divergence from the expectation."""
    sort: str = ""
    page: int = 1
    """Number of the page of the list, from 1."""

    @classmethod
    def from_params(cls, params: Mapping[str, str]) -> "CaseQuery":
        """Build the query from the parameters of a URL.

        An unknown `kind` counts as empty, and an invalid `page` as 1.
        """
        page = params.get("page", "")
        kind = params.get("kind", "")
        return cls(
            **{name: params.get(name, "") for name in _FIELDS if name != "kind"},
            kind=kind if kind in KINDS else "",
            page=max(1, int(page)) if page.isascii() and page.isdecimal() and len(page) < 7 else 1,
        )

    @property
    def params(self) -> dict[str, Any]:
        """Return this query as parameters of a URL, without empty fields and without the page number."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    def change_fields(self, **fields: Any) -> dict[str, Any]:
        """Return URL parameters of this query with `fields` changed; the page number is left out."""
        return replace(self, **fields).params

    @property
    def is_filtered(self) -> bool:
        """Return True if a search or a filter may leave cases out of the list."""
        return any(name != "sort" for name in self.params)


def filter_cases(opened: OpenedRecord, query: CaseQuery) -> list[int]:
    """Return the positions in `opened.entries` of the cases that match the query, in the query's order."""
    if not query.params:
        return list(range(len(opened.entries)))
    words = query.q.casefold().split()
    groups = [
        opened.groupings[title].find_members(label)
        for name, title in GROUPINGS.items()
        if (label := getattr(query, name))
    ]
    found = [
        at
        for at, entry in enumerate(opened.entries)
        if all(id(entry) in group for group in groups)
        and _matches_filters(opened, entry, query)
        and all(word in opened.texts[at] for word in words)
    ]
    key = _build_sort_key(opened, query.sort)
    return sorted(found, key=key) if key else found


def _matches_filters(opened: OpenedRecord, entry: CaseEntry, query: CaseQuery) -> bool:
    case = entry.case
    return (
        (not query.kind or query.kind in entry.kinds)
        and (not query.set or case.eval_set_id == query.set)
        and (not query.tag or query.tag in case.tags)
        and (not query.change or _matches_change(opened.counted_changes.get(case.key), query.change))
        and (
            not query.metric
            or any(
                each.name == query.metric and each.status in {"failed", "errored"} for each in case.metrics
            )
        )
    )


def _matches_change(counted: CountedChange | None, wanted: str) -> bool:
    if wanted == ANY_CHANGE:
        return counted is not None and counted != UNCHANGED
    return counted == wanted


def _build_sort_key(opened: OpenedRecord, sort: str) -> Callable[[int], Any] | None:
    """Return a function that gets a position in `opened.entries` and returns its sort key.

    Return None if `sort` is unknown or means the order by importance, which the entries already have.
    """
    entries = opened.entries
    if sort == "name":
        return lambda at: entries[at].finding.name.casefold()
    if sort == "duration":
        return lambda at: -measure_mean_duration(entries[at].case)
    if sort == "cost":
        return lambda at: -sum_usage(entries[at].case).min_cost_usd
    if sort.startswith(SCORE):
        name = sort.removeprefix(SCORE)
        return lambda at: _rank_score(find_metric(entries[at], name))
    return None


def _rank_score(metric: CaseMetric | None) -> tuple[bool, float]:
    """Return a sort key that puts the worst score first, and cases without a score last."""
    if metric is None or metric.score is None:
        return True, 0.0
    return False, metric.range.rank(metric.score)


def find_metric(entry: CaseEntry, name: str) -> CaseMetric | None:
    """Return the metric `name` of a case; None if the case does not have it."""
    return next((each for each in entry.case.metrics if each.name == name), None)
