"""Pages with the history: all results with their metrics, and one case in all results."""

import json
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evalgate.core.errors import InvalidInputError
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import Baseline, CaseKey, Record
from evalgate.reporting.findings import OUTCOMES, count_passed_runs
from evalgate.reporting.html.case_list import measure_mean_duration
from evalgate.reporting.summary_lines import (
    STATUSES,
    describe_run_totals,
    describe_verdict,
    format_mean,
    format_minimum,
    format_start_time,
    get_shown_status,
)
from evalgate.reporting.trace_view import format_seconds
from evalgate.viewer.compared_record import read_baseline
from evalgate.viewer.pages.overview import link_case
from evalgate.viewer.record_heads import find_case, find_earlier, find_newest, is_recording, read_head
from evalgate.viewer.records import RecordStore, StoredRecord
from evalgate.viewer.rendering import render
from evalgate.viewer.state import NavigationLink, get_viewer

_MOST_METRICS = 50
_LONGEST_OPTIONS = 500


def show_history(request: Request) -> Response:
    """Return the page with all results, their metrics and thresholds, and the runs stored in the baseline."""
    viewer = get_viewer(request)
    listed = viewer.records.list_records()
    rows = [_describe_record(viewer.records, each) for each in listed]
    newest = find_newest(listed)
    earlier = find_earlier(listed, newest) if newest else None
    return render(
        request,
        "history.html.j2",
        rows=rows,
        newest=newest,
        earlier=earlier,
        baseline=_build_baseline_rows(read_baseline(viewer)),
    )


def _describe_record(records: RecordStore, stored: StoredRecord) -> dict[str, object]:
    try:
        record = read_head(stored)
    except InvalidInputError as error:
        found = stored.path.is_file() and is_recording(records, stored)
        return {"stored": stored, "error": "" if found else str(error), "is_recording": found}
    agent = record.agent
    return {
        "stored": stored,
        "error": "",
        "is_recording": False,
        "status": {"pass": "passed", "fail": "failed", "skipped": "not_evaluated"}.get(
            record.verdict.status, "errored"
        ),
        "verdict": describe_verdict(record.verdict)[1],
        "when": format_start_time(record) if record.created_at else "",
        "facts": [*describe_run_totals(record), *([f"{agent.kind}:{agent.what}"] if agent.kind else [])],
        "metrics": list(_list_metrics(record)),
    }


def _list_metrics(record: Record) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield (name, status, score, threshold, options) of each metric, all as texts.

    For a budget (a metric for which a lower value is better), the options are "": they are its limits, which
    the text of the threshold shows already.
    """
    options: dict[str, list[str]] = {}
    for each in record.criteria:
        if each.options and not get_score_range(each.metric).lower_is_better:
            text = json.dumps(dict(each.options), ensure_ascii=False, default=str)
            options.setdefault(each.metric, []).append(text[:_LONGEST_OPTIONS])
    for metric in record.metrics[:_MOST_METRICS]:
        yield (
            metric.label,
            get_shown_status(metric, record.anchor),
            format_mean(metric),
            format_minimum(metric),
            "; ".join(options.get(metric.name, ())),
        )


def _build_baseline_rows(baseline: Baseline | None) -> list[dict[str, str]]:
    """Return the time, commit, branch and reason of acceptance of each stored run, the newest first.

    A stored run is one `evalgate run` with all its cases. Return [] without a baseline.
    """
    return [
        {
            "when": (source.created_at or "")[:16].replace("T", " "),
            "commit": (source.commit or "")[:12],
            "branch": source.branch or "",
            "accepted": source.accepted or "",
        }
        for source in reversed(baseline.sources if baseline else ())
    ]


def show_case_history(request: Request) -> Response:
    """Return the page with one case in every record that has it, and in the baseline, the newest first."""
    viewer = get_viewer(request)
    key = request.query_params.get("in", ""), request.query_params.get("id", "")
    rows = [row for each in viewer.records.list_records() for row in _find_rows(each, key)]
    rows.sort(key=lambda row: str(row["created_at"]), reverse=True)
    baseline = list(_list_baseline_runs(read_baseline(viewer), key))
    if not rows and not baseline:
        raise InvalidInputError(f"no result has a case {'/'.join(key)}")
    return render(request, "case_history.html.j2", name="/".join(key), rows=rows, baseline=baseline)


def _find_rows(stored: StoredRecord, key: CaseKey) -> Iterator[dict[str, object]]:
    try:
        head, case = find_case(stored, key)
    except InvalidInputError:
        return  # the page with all results shows the error
    if case is not None:
        passed, runs = count_passed_runs(case)
        yield {
            "created_at": head.created_at,
            "when": format_start_time(head) if head.created_at else "",
            "title": stored.title,
            "href": link_case(stored.record_id, key),
            "status": case.status.replace("_", "-"),
            "word": STATUSES[case.status],
            "passed": f"{passed} of {runs} runs passed" if runs > 1 else "",
            "time": format_seconds(measure_mean_duration(case)),
            "metrics": [
                (each.name, each.status, *each.range.format_pair(each.score, each.threshold))
                for each in case.metrics[:_MOST_METRICS]
            ],
            "version": case.fingerprint[:8],
        }


def _list_baseline_runs(baseline: Baseline | None, key: CaseKey) -> Iterator[dict[str, object]]:
    """Yield values for the template about each stored run of a case in the baseline, the newest first."""
    case = next((each for each in baseline.cases if each.key == key), None) if baseline else None
    for run in reversed(case.runs if case else ()):
        source = baseline.sources[run.source] if baseline else None
        yield {
            "when": ((source.created_at if source else "") or "")[:16].replace("T", " "),
            "commit": ((source.commit if source else "") or "")[:12],
            "outcome": OUTCOMES[run.outcome],
            "time": format_seconds(run.duration_s),
            "scores": [(name, get_score_range(name).format(score)) for name, score in run.scores.items()],
        }


routes = (Route("/history", show_history), Route("/case-history", show_case_history))
navigation = (NavigationLink("All results", "/history"),)
