"""Page with the list of a record's cases. Search, filters and order are in the page's address."""

from collections.abc import Iterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evalgate.core.formatting import format_usd, pluralize
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import CaseMetric
from evalgate.reporting.baseline_lines import CHANGES
from evalgate.reporting.html.case_list import KINDS, CaseEntry, measure_mean_duration, sum_usage
from evalgate.reporting.trace_view import format_seconds
from evalgate.viewer.case_filters import (
    ANY_CHANGE,
    GROUPINGS,
    PAGE_SIZE,
    SCORE,
    SORTS,
    UNCHANGED,
    CaseQuery,
    filter_cases,
)
from evalgate.viewer.case_views import build_case_line
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.pages.overview import link_case
from evalgate.viewer.pages.run import link_run_of_list
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, get_viewer

_MOST_CHOICES = 200
_MOST_SCORES = 4


def show_cases(request: Request) -> Response:
    """Return a page with up to 100 cases of a record, and with the filters to choose from."""
    opened = get_viewer(request).records.open_record(request.path_params["record"])
    query = CaseQuery.from_params(request.query_params)
    found = filter_cases(opened, query)
    last = max(1, -(-len(found) // PAGE_SIZE))
    page = min(query.page, last)
    shown = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    path = link_list(opened.record_id)
    every = pluralize(len(opened.entries), "case")
    sorts = SORTS | {f"{SCORE}{name}": f"score of {name}" for name in opened.metrics[:_MOST_CHOICES]}
    return render(
        request,
        "cases.html.j2",
        opened=opened,
        tab="cases",
        query=query,
        here=path,
        kinds=[
            (
                kind,
                words,
                opened.kinds[kind],
                link(path, query.change_fields(kind="" if kind == query.kind else kind)),
            )
            for kind, words in KINDS.items()
            if kind in opened.kinds
        ],
        total=len(opened.entries),
        rerun="" if opened.is_recording else link_run_of_list(opened.record_id, query),
        all_kinds=link(path, query.change_fields(kind="")),
        choices=list(_list_choices(opened, query)),
        sorts=[(name, words, name == query.sort) for name, words in sorts.items()],
        rows=[_build_row(opened, opened.entries[at], query) for at in shown],
        metrics=_choose_columns(opened),
        count=every if len(found) == len(opened.entries) else f"{len(found):,} of {every}",
        pages=_link_pages(path, query, page, last),
    )


def link_list(record_id: str) -> str:
    """Return the address of a record's list of cases, without a query."""
    return f"/records/{record_id}/cases"


def _list_choices(
    opened: OpenedRecord, query: CaseQuery
) -> Iterator[tuple[str, str, str, list[tuple[str, str, bool]]]]:
    """Yield (field name, label, word for "no filter", values) for each filter with values to choose from.

    Each item of values is (value, text to show, is chosen).
    """
    changes = [
        name
        for name in (ANY_CHANGE, *CHANGES, UNCHANGED)
        if name != "removed" and opened.record.comparison is not None
    ]
    change_words = {ANY_CHANGE: "any change"} | {str(kind): words for kind, words in CHANGES.items()}
    groups = {
        name: {group.label: f"{group.label} ({group.size:,})" for group in opened.groupings[title].groups}
        for name, title in GROUPINGS.items()
    }
    for name, label, every, values in (
        ("set", "Eval set", "all", opened.eval_sets if len(opened.eval_sets) > 1 else ()),
        ("tag", "Tag", "any", opened.tags),
        ("metric", "Fell short of", "–", opened.metrics),
        ("change", "Since the baseline", "any", changes),
        *((name, title, "any", list(groups[name])) for name, title in GROUPINGS.items()),
    ):
        chosen: str = getattr(query, name)
        words: Mapping[str, str] = change_words if name == "change" else groups.get(name, {})
        if values or chosen:
            listed = [*values[:_MOST_CHOICES], *([chosen] if chosen and chosen not in values else [])]
            yield name, label, every, [(each, words.get(each, each), each == chosen) for each in listed]


def _build_row(opened: OpenedRecord, entry: CaseEntry, query: CaseQuery) -> dict[str, object]:
    case = entry.case
    scores = {metric.name: metric for metric in case.metrics}
    usage = sum_usage(case)
    known = format_usd(usage.min_cost_usd).removesuffix(" USD") if usage.min_cost_usd else ""
    return {
        "line": build_case_line(entry),
        "href": link_case(opened.record_id, case.key, **query.params),
        "scores": [_format_score(name, scores.get(name)) for name in _choose_columns(opened)],
        "time": format_seconds(measure_mean_duration(case)),
        "cost": known if usage.cost_usd is not None else f"≥ {known}" if known else "unknown",
    }


def _choose_columns(opened: OpenedRecord) -> list[str]:
    """Return the names of at most four metrics, each for a column of the list.

    Budgets (metrics for which a lower value is better) come after all others.
    """
    return sorted(opened.metrics, key=lambda name: get_score_range(name).lower_is_better)[:_MOST_SCORES]


def _format_score(name: str, metric: CaseMetric | None) -> tuple[str, str, str]:
    if metric is None:
        return name, "", "–"
    status = metric.status.replace("_", "-")
    return name, status, metric.range.format_pair(metric.score, metric.threshold)[0]


def _link_pages(path: str, query: CaseQuery, page: int, last: int) -> Mapping[str, object]:
    """Return values for the template: links to other pages of the list at `path`.

    `page` is the number of the current page and `last` that of the last page, both from 1. The values
    `previous` and `next` are "" if there is no such page. `numbers` has (number, link, is current) for the
    first, the last and neighbouring pages.
    """

    def turn(number: int) -> str:
        return link(path, query.params, page=number if number > 1 else None)

    near: Sequence[int] = sorted({1, last, *range(max(1, page - 2), min(last, page + 2) + 1)})
    return {
        "previous": turn(page - 1) if page > 1 else "",
        "next": turn(page + 1) if page < last else "",
        "numbers": [(number, turn(number), number == page) for number in near],
        "last": last,
    }


routes = (Route("/records/{record}/cases", show_cases),)
navigation: tuple[NavigationLink, ...] = ()
