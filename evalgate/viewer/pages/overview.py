"""First page of a record: its verdict, its metrics, and the cases to look at."""

from collections.abc import Iterable, Iterator

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.types import CaseKey, Record
from evalgate.reporting.baseline_lines import CHANGES
from evalgate.reporting.failure_lines import FailureLine, summarize_failure_groups
from evalgate.reporting.findings import (
    FindingGroup,
    NamedCases,
    describe_faults,
    group_findings,
    list_findings,
)
from evalgate.reporting.html.case_list import KINDS
from evalgate.reporting.html.groups import CHANGE, DIVERGENCE
from evalgate.reporting.summary_lines import (
    STATUSES,
    describe_run_totals,
    describe_verdict,
    format_judge_usage,
    format_start_time,
    summarize_record,
)
from evalgate.viewer.case_filters import GROUPINGS
from evalgate.viewer.compared_record import BASELINE, has_baseline
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer

_GROUPINGS = {
    **{title: name for name, title in GROUPINGS.items()},
    "Tag": "tag",
    "Eval set": "set",
    CHANGE: "change",
}
"""Maps the title of a grouping to the field of `CaseQuery` that selects one of its groups."""

_MOST_METRICS, _MOST_NAMES, _MOST_GROUPS = 200, 25, 50


def show_start(request: Request) -> Response:
    """Redirect to the first record. If there is no record, return a page that explains how to make one."""
    found = get_viewer(request).records.list_records()
    if not found:
        return render(request, "empty.html.j2")
    return RedirectResponse(link(f"/records/{found[0].record_id}"), 303)


def show_overview(request: Request) -> Response:
    """Return the page with the summary of a record.

    A recording has no summary. For a recording, redirect to the list of its cases; if it has only one case,
    to the trace of this case.
    """
    viewer = get_viewer(request)
    opened = viewer.records.open_record(request.path_params["record"])
    record = opened.record
    if opened.is_recording:  # there is no verdict to show
        target = f"/records/{opened.record_id}/cases"
        if len(opened.entries) == 1:
            target = link_case(opened.record_id, opened.entries[0].case.key, view="trace")
        return RedirectResponse(target, 303)
    summary = summarize_record(record, metrics=_MOST_METRICS, names=_MOST_NAMES, exempt=_MOST_NAMES)
    groups = group_findings(list_findings(record))
    overview = summarize_failure_groups(record, lines=_MOST_GROUPS, names=1)
    names = {f"{case.eval_set_id}/{case.eval_id}": case.key for case in record.cases}
    return render(
        request,
        "overview.html.j2",
        opened=opened,
        tab="overview",
        status=record.verdict.status,
        title=describe_verdict(record.verdict)[1],
        summary=summary,
        facts=list(_list_facts(record)),
        metrics=[(line, STATUSES[line.status]) for line in summary.metrics],
        failures=[(line, _link_failure_group(opened, names, line)) for line in overview.lines],
        more_failures=overview.rest,
        groups=[_describe_group(opened, group) for group in groups[:_MOST_GROUPS]],
        more_groups=max(0, len(groups) - _MOST_GROUPS),
        lists=list(_list_cases(opened, names, summary.changes, summary.unjudged)),
        flaky=[_link_case(opened, names, name, words) for name, words in summary.flaky],
        exempt=[
            _link_case(opened, names, each.name, f"{each.status}, {each.reason}") for each in summary.exempt
        ],
        kinds=[(kind, KINDS[kind], number) for kind, number in opened.kinds.items()],
        actions=list(_list_actions(viewer, opened)),
        groupings=list(_link_groups(opened)),
    )


def _list_facts(record: Record) -> Iterable[str]:
    yield from describe_run_totals(record)
    if record.judge:
        yield format_judge_usage(record.judge)
    if record.agent.kind:
        yield f"agent {record.agent.kind}:{record.agent.what}"
    yield format_start_time(record)
    yield f"evalgate {record.evalgate_version}"


def _describe_group(opened: OpenedRecord, group: FindingGroup) -> dict[str, object]:
    case = group.first.case
    return {
        "size": group.size,
        "is_new": group.first.is_new,
        "status": case.status,
        "reasons": list(describe_faults(case))[:3],
        "cases": [
            (f"{each.eval_set_id}/{each.eval_id}", link_case(opened.record_id, each.key))
            for each in group.cases[:_MOST_NAMES]
        ],
        "more": max(0, group.size - _MOST_NAMES),
    }


def _link_failure_group(opened: OpenedRecord, names: dict[str, CaseKey], line: FailureLine) -> str:
    """Return the address of a page with the group's cases: a list, or the page of the only case.

    `line` describes the group, and names cases as `EVAL_SET/CASE`. `names` maps such a name to the key of the
    case.
    """
    if line.size == 1 and (key := names.get(line.names[0])):
        return link_case(opened.record_id, key)
    return link(f"/records/{opened.record_id}/cases", divergence=line.label)


def _list_actions(viewer: Viewer, opened: OpenedRecord) -> Iterator[tuple[str, str]]:
    """Yield (label, address) of each action for a record: run it again, compare it, edit its eval sets."""
    record_id = opened.record_id
    yield "Run these cases again", link("/run", record=record_id)
    if previous := viewer.records.find_previous(opened.record.created_at):
        yield "Compare with the previous result", link("/compare", a=previous, b=record_id)
    if has_baseline(viewer):
        yield "Compare with the baseline", link("/compare", a=BASELINE, b=record_id)
    listed = {file.shown_as for file in viewer.eval_sets.list_files()}
    for path in dict.fromkeys(case.path for case in opened.record.cases):
        if path in listed:
            yield f"Edit {path}", link("/sets/view", file=path)


def _link_groups(opened: OpenedRecord) -> Iterator[tuple[str, list[tuple[str, int, str]]]]:
    """Yield (title, groups) of each grouping that has groups. A group is (label, size, address of its cases).

    The grouping by first divergence is left out, because the page shows it elsewhere.
    """
    changes = {words: kind for kind, words in CHANGES.items()}
    for title, field in _GROUPINGS.items():
        if title == DIVERGENCE:
            continue  # the page lists these groups as failures
        found = [
            (
                group.label,
                group.size,
                changes.get(group.label, group.label) if field == "change" else group.label,
            )
            for group in opened.groupings[title].groups
        ]
        if found:
            path = f"/records/{opened.record_id}/cases"
            yield title, [(label, size, link(path, {field: value})) for label, size, value in found]


def _list_cases(
    opened: OpenedRecord, names: dict[str, CaseKey], *lists: Iterable[NamedCases]
) -> Iterable[dict[str, object]]:
    for found in lists:
        for each in found:
            cases = [_link_case(opened, names, name, "") for name in each.names]
            yield {"description": each.description, "cases": cases, "left_out": each.left_out}


def _link_case(
    opened: OpenedRecord, names: dict[str, CaseKey], name: str, words: str
) -> tuple[str, str, str]:
    """Return (name, words, address) of a case. The address is "" if the record does not have the case.

    `name` is `EVAL_SET/CASE`, and `names` maps such a name to the key of the case. `words` is a text about
    the case.
    """
    key = names.get(name)
    return name, words, link_case(opened.record_id, key) if key else ""


def link_case(record_id: str, key: CaseKey, **more: object) -> str:
    """Return the address of a case's page; `more` are further parameters of the query."""
    return link(f"/records/{record_id}/case", {"in": key[0], "id": key[1]}, **more)


routes = (Route("/", show_start), Route("/records/{record}", show_overview))
navigation = (NavigationLink("Result", "/"),)
