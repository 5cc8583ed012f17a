"""Page of one case: expected and actual turns side by side, a table of its runs, and the trace of a run."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record, RunResult
from evalgate.reporting.baseline_lines import CHANGES
from evalgate.reporting.findings import describe_faults
from evalgate.reporting.html.case import classify_run
from evalgate.reporting.html.case_list import CaseEntry
from evalgate.reporting.html.conversation import build_case_scores
from evalgate.reporting.repro_command import (
    ACCEPT,
    build_accept_command,
    build_replay_command,
    build_repro_command,
)
from evalgate.viewer.case_filters import CaseQuery, filter_cases
from evalgate.viewer.case_views import (
    build_case_line,
    build_run_columns,
    compare_run,
    create_budget,
    list_case_facts,
)
from evalgate.viewer.eval_sets import build_edit_address
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.pages.cases import link_list
from evalgate.viewer.pages.overview import link_case
from evalgate.viewer.pages.run import link_run_form
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer
from evalgate.viewer.trace_page import build_trace_page, find_current_entry

VIEWS = {"": "Conversation", "runs": "All runs", "trace": "Trace"}
"""Labels of the tabs on a case's page, by the value of the parameter `view`."""

_LONGEST_COMMAND = 4_000
_MOST_RUNS = 50


def show_case(request: Request) -> Response:
    """Return the page of one case of a record: its conversation, all its runs, or the trace of a run."""
    params = request.query_params
    viewer = get_viewer(request)
    opened = viewer.records.open_record(request.path_params["record"])
    entry = opened.find_entry((params.get("in", ""), params.get("id", "")))
    query = CaseQuery.from_params(params)
    run = _choose_run(entry, params.get("run", ""))
    view = params.get("view", "")
    view = view if view in VIEWS else ""
    values = _build_trace(opened, entry, run, query, params) if view == "trace" and run else {}
    budget = create_budget()
    return render(
        request,
        "case_trace.html.j2" if values else "case_runs.html.j2" if view == "runs" else "case.html.j2",
        opened=opened,
        tab="cases",
        line=build_case_line(entry),
        facts=list(list_case_facts(entry.case)),
        change=CHANGES.get(opened.changes.get(entry.case.key), ""),  # type: ignore[arg-type]
        reasons=list(describe_faults(entry.case)) if entry.is_bad or len(entry.case.runs) > 1 else [],
        scores=(scores := list(build_case_scores(entry.case, budget))),
        has_baseline=any(score.baseline != "–" for score in scores),
        run=compare_run(run, entry.finding, budget) if run and not view else None,
        columns=list(build_run_columns(entry.case, _MOST_RUNS)) if view == "runs" else [],
        around=_link_neighbours(opened, entry, query),
        views=_link_views(opened, entry, query, run, view),
        runs=_link_runs(opened, entry, query, run, view),
        history=link("/case-history", {"in": entry.case.eval_set_id, "id": entry.case.eval_id}),
        rerun="" if opened.is_recording else link_run_form(*entry.case.key),
        edit=_link_editor(viewer, opened, entry, run),
        commands=[] if opened.is_recording else _list_commands(opened.record, entry),
        **values,  # type: ignore[arg-type]  # no status code is among them
    )


def _link_editor(viewer: Viewer, opened: OpenedRecord, entry: CaseEntry, run: RunResult | None) -> str:
    """Return the address of the page that edits the case; "" if the project does not have its eval set.

    Return "" also if the record was made from a recording, such as a session.
    """
    case = entry.case
    if opened.is_recording or not viewer.eval_sets.has_set(case.eval_set_id, case.path):
        return ""
    return build_edit_address(case, opened.record_id, run)


def _choose_run(entry: CaseEntry, number: str) -> RunResult | None:
    """Return the run with the number `number` of a case.

    If `number` is "", return the run that explains the failure best; None if the case has no runs.

    Raises:
        InvalidInputError: the case has no run of this number.
    """
    if not number:
        return entry.finding.run
    found = next((run for run in entry.case.runs if str(run.run) == number), None)
    if found is None:
        raise InvalidInputError(f"{entry.finding.name} has no run {number}")
    return found


def _build_trace(
    opened: OpenedRecord, entry: CaseEntry, run: RunResult, query: CaseQuery, params: Mapping[str, str]
) -> dict[str, object]:
    budget = create_budget()
    address = link_case(opened.record_id, entry.case.key, view="trace", run=run.run, **query.params)
    replies = [turn.actual for turn in run.turns]
    trace = build_trace_page(
        run.trace,
        replies,
        selected=params.get("span", ""),
        panel=params.get("panel", ""),
        address=address,
        budget=budget,
    )
    turns = compare_run(run, entry.finding, budget).turns
    current = [find_current_entry(turn.entries, trace.event, turn.number - 1) for turn in turns]
    return {"trace": trace, "turns": list(zip(turns, current, strict=True)), "has_trace": bool(run.trace)}


def _link_neighbours(opened: OpenedRecord, entry: CaseEntry, query: CaseQuery) -> dict[str, object]:
    """Return template values about the place of a case in the list of cases that `query` selects and sorts.

    The values are the links to the list and to the previous and the next case ("" if there is none), the
    number of the case, from 1 (None if it is not in the list), and the length of the list.
    """
    found = filter_cases(opened, query)
    position = opened.find_position(entry.case.key)
    at = found.index(position) if position in found else None

    def link_at(index: int) -> str:
        if at is None or not 0 <= index < len(found):
            return ""
        return link_case(opened.record_id, opened.entries[found[index]].case.key, **query.params)

    return {
        "list": link(link_list(opened.record_id), query.params),
        "previous": link_at(at - 1) if at is not None else "",
        "next": link_at(at + 1) if at is not None else "",
        "number": None if at is None else at + 1,
        "of": len(found),
    }


def _link_views(
    opened: OpenedRecord, entry: CaseEntry, query: CaseQuery, run: RunResult | None, view: str
) -> list[tuple[str, str, bool]]:
    number = run.run if run else None
    return [
        (
            words,
            link_case(opened.record_id, entry.case.key, view=name, run=number, **query.params),
            name == view,
        )
        for name, words in VIEWS.items()
        if name != "runs" or len(entry.case.runs) > 1
    ]


def _link_runs(
    opened: OpenedRecord, entry: CaseEntry, query: CaseQuery, run: RunResult | None, view: str
) -> list[tuple[int, str, str, bool]]:
    """Return (number, status, address, is shown) of each run of the case.

    Return [] if the case has fewer than two runs, or if `view` is `runs`: this tab shows all runs at once.
    """
    if len(entry.case.runs) < 2 or view == "runs":
        return []
    return [
        (
            each.run,
            classify_run(each).replace("_", "-"),
            link_case(opened.record_id, entry.case.key, view=view, run=each.run, **query.params),
            each is run,
        )
        for each in entry.case.runs
    ]


def _list_commands(record: Record, entry: CaseEntry) -> list[tuple[str, str]]:
    commands = (
        ("Run this case alone", build_repro_command(record, entry.case)),
        ("Reproduce it offline, with this run's record", build_replay_command(record, entry.case)),
        (ACCEPT, build_accept_command(record, entry.case)),
    )
    return [(words, command) for words, command in commands if 0 < len(command) < _LONGEST_COMMAND]


routes = (Route("/records/{record}/case", show_case),)
navigation: tuple[NavigationLink, ...] = ()
