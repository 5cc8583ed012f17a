"""Pages that compare two records: their metrics and cases, and one case side by side."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evalgate.core.types import CaseMetric, MetricSummary
from evalgate.reporting.baseline_lines import (
    CHANGES,
    count_compared_cases,
    find_crash_scope,
    list_changed_cases,
)
from evalgate.reporting.findings import Finding
from evalgate.reporting.html.case_list import CaseEntry
from evalgate.reporting.html.conversation import build_case_scores
from evalgate.reporting.summary_lines import STATUSES, summarize_record
from evalgate.viewer.case_views import build_case_line, compare_run, create_budget
from evalgate.viewer.compared_record import (
    BASELINE,
    ComparedRecord,
    choose_shown_run,
    compare_records,
    find_remote_baseline,
    join_sides,
    read_baseline,
)
from evalgate.viewer.pages.overview import link_case
from evalgate.viewer.record_heads import find_earlier, find_newest
from evalgate.viewer.records import StoredRecord
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer

_MOST_ROWS = 200
_MOST_METRICS = 200
_MOST_NAMES = 25


def show_comparison(request: Request) -> Response:
    """Return the page that compares two records. Until both are chosen, it only offers the choice."""
    viewer = get_viewer(request)
    listed = viewer.records.list_records()
    choices = [(each.record_id, each.title) for each in listed]
    if read_baseline(viewer) is not None:
        choices.append((BASELINE, "the stored baseline"))
    elif where := find_remote_baseline(viewer):
        choices.append((BASELINE, f"the stored baseline in {where}"))
    newest = find_newest(listed)
    after = request.query_params.get("b", "") or (newest.record_id if newest else "")
    before = request.query_params.get("a", "")
    values = _describe_comparison(compare_records(viewer, before, after), before) if before and after else {}
    return render(
        request,
        "compare.html.j2",
        choices=choices,
        before=before or _choose_earlier(listed, after),
        after=after,
        found=bool(values),
        **values,  # type: ignore[arg-type]  # no status code is among them
    )


def _choose_earlier(listed: Sequence[StoredRecord], after: str) -> str:
    """Return the id of the newest record that is older than the record `after`; "" if there is none."""
    chosen = next((each for each in listed if each.record_id == after), None)
    found = find_earlier(listed, chosen) if chosen else None
    return found.record_id if found else ""


def _describe_comparison(compared: ComparedRecord, before: str) -> dict[str, object]:
    record = compared.opened.record
    summary = summarize_record(record, metrics=_MOST_METRICS, names=_MOST_NAMES, exempt=_MOST_NAMES)
    entries = sorted(compared.opened.entries, key=lambda entry: _rank_change(compared, entry))
    removed = next(
        (each for each in list_changed_cases(record, _MOST_NAMES) if each.description == CHANGES["removed"]),
        None,
    )
    return {
        "summary": summary,
        "status": record.verdict.status,
        "before_title": compared.before_title,
        "after_title": compared.opened.title,
        "metrics": [
            (line, STATUSES[line.status], *_format_sides(metric))
            for line, metric in zip(summary.metrics, record.metrics, strict=False)
        ],
        "compared": count_compared_cases(record),
        "crash_scope": find_crash_scope(record),
        "rows": [_build_row(compared, before, entry) for entry in entries[:_MOST_ROWS]],
        "more": max(0, len(entries) - _MOST_ROWS),
        "removed": removed,
    }


def _format_sides(metric: MetricSummary) -> tuple[str, str]:
    """Return two means of a metric as texts, both over the compared cases: the earlier, then the current."""
    then, now = metric.baseline, metric.compared_score
    beside = (now, then) if metric.delta else (None, None)
    return metric.range.format(then, beside=beside[0]), metric.range.format(now, beside=beside[1])


def _rank_change(compared: ComparedRecord, entry: CaseEntry) -> tuple[int, float]:
    """Return a key that sorts cases by their kind of change, in the order of `CHANGES`; unchanged cases last.

    Within a kind, the case with the largest change of a score, up or down, comes first.
    """
    change = compared.opened.changes.get(entry.case.key)
    order = list(CHANGES).index(change) if change else len(CHANGES)
    changes = (abs(metric.decline) for metric in entry.case.metrics if metric.decline is not None)
    return order, -max(changes, default=0.0)


def _build_row(compared: ComparedRecord, before: str, entry: CaseEntry) -> dict[str, object]:
    case = entry.case
    change = compared.opened.changes.get(case.key)
    return {
        "line": build_case_line(entry),
        "change": CHANGES[change] if change else "",
        "href": link(
            "/compare/case",
            {"a": before, "b": compared.opened.record_id, "in": case.eval_set_id, "id": case.eval_id},
        ),
        "scores": [_format_change(metric) for metric in case.metrics if metric.standing is not None],
    }


def _format_change(metric: CaseMetric) -> tuple[str, str, str, str]:
    """Return (name, earlier score, current score, direction) of a metric of a case.

    The direction is `worse`, `better` or `same`; the template uses it as a CSS class.
    """
    standing = metric.standing
    then = standing.baseline_mean if standing else None
    now = standing.mean if standing else metric.score
    decline = metric.decline
    direction = "same" if not decline else "worse" if decline > 0 else "better"
    return (
        metric.name,
        metric.range.format(then, beside=now),
        metric.range.format(now, beside=then),
        direction,
    )


def show_compared_case(request: Request) -> Response:
    """Return the page with one case in two records, side by side."""
    viewer: Viewer = get_viewer(request)
    params = request.query_params
    before, after = params.get("a", ""), params.get("b", "")
    compared = compare_records(viewer, before, after)
    entry = compared.opened.find_entry((params.get("in", ""), params.get("id", "")))
    original = viewer.records.open_record(after).find_entry(entry.case.key)
    run = choose_shown_run(original.case)
    replies = compared.get_earlier_replies(entry.case.key)
    budget = create_budget()
    change = compared.opened.changes.get(entry.case.key)
    scores = list(build_case_scores(entry.case, budget))
    return render(
        request,
        "compare_case.html.j2",
        line=build_case_line(entry),
        change=CHANGES[change] if change else "unchanged",
        before_title=compared.before_title,
        after_title=compared.opened.title,
        back=link("/compare", a=before, b=after),
        sides=_link_sides(before, after, compared, entry),
        scores=scores,
        has_baseline=any(score.baseline != "–" for score in scores),
        run=compare_run(join_sides(run, replies), Finding(entry.case), budget) if run else None,
        has_replies=bool(replies),
    )


def _link_sides(
    before: str, after: str, compared: ComparedRecord, entry: CaseEntry
) -> Sequence[tuple[str, str]]:
    sides = [(compared.opened.title, link_case(after, entry.case.key))]
    if entry.case.key in compared.before:
        sides.insert(0, (compared.before_title, link_case(before, entry.case.key)))
    return sides


routes = (Route("/compare", show_comparison), Route("/compare/case", show_compared_case))
navigation = (NavigationLink("Compare", "/compare"),)
