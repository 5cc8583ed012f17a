"""The first page: the verdict of a record, its metrics, and the cases that need a look."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.reporting.summary_lines import HEADLINES, STATUSES, describe_run_totals, summarize_record
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, get_viewer

_MOST_METRICS, _MOST_NAMES = 200, 25


def show_start(request: Request) -> Response:
    """Redirect to the first record; without one, say how to make one."""
    found = get_viewer(request).records.list_records()
    if not found:
        return render(request, "empty.html.j2")
    return RedirectResponse(link(f"/records/{found[0].record_id}"), 303)


def show_overview(request: Request) -> Response:
    """Show the summary of a record."""
    records = get_viewer(request).records
    stored = records.find_record(request.path_params["record"])
    record = records.read_record(stored.record_id)
    summary = summarize_record(record, metrics=_MOST_METRICS, names=_MOST_NAMES, exempt=_MOST_NAMES)
    return render(
        request,
        "overview.html.j2",
        stored=stored,
        status=record.verdict.status,
        title=HEADLINES[record.verdict.status][1],
        summary=summary,
        facts=list(describe_run_totals(record)),
        metrics=[(line, STATUSES[line.status]) for line in summary.metrics],
        notices=record.notices,
    )


routes = (Route("/", show_start), Route("/records/{record}", show_overview))
navigation = (NavigationLink("Results", "/"),)
