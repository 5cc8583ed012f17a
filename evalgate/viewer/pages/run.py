"""Pages on which the user chooses cases, metrics and thresholds, runs them, and watches the run."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import parse_qsl, quote, unquote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.score_ranges import UNLIMITED
from evalgate.core.types import CaseKey
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.plan import Plan
from evalgate.viewer.background_runs import (
    BackgroundRuns,
    apply_choices,
    build_project_plan,
    list_run_agents,
)
from evalgate.viewer.case_filters import CaseQuery, filter_cases
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.project_agents import describe_agent
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, Viewer, get_viewer

_MOST_SHOWN = 500
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)


def get_runs(viewer: Viewer) -> BackgroundRuns:
    """Return the runs that were started from pages of a viewer. Closing the viewer stops them."""
    return viewer.get_service(BackgroundRuns, BackgroundRuns)


def show_form(request: Request) -> Response:
    """Return the page with the form in which the user chooses cases and metrics for a run.

    Parameters of the URL:

    - `case` ticks a case.
    - `q` has the words of a search for cases.
    - `record` limits the form to cases of a record, and ticks them. `list` has the search and filters that
      select these cases.
    """
    viewer = get_viewer(request)
    try:
        plan = _build_plan(viewer, request.query_params.get("agent", ""))
    except EvalgateError as error:
        return render(request, "error.html.j2", title="Nothing can be run here yet", message=str(error))
    return _render_form(request, plan)


def _build_plan(viewer: Viewer, choice: str) -> Plan:
    agents = list_run_agents(viewer.folder, viewer.thresholds)
    if choice and choice not in agents:
        raise InvalidInputError(f"there is no agent `{choice}` in the project: load the page again")
    return build_project_plan(viewer.folder, viewer.thresholds, choice or agents[0])


def _render_form(
    request: Request,
    plan: Plan,
    *,
    problem: str = "",
    given: Mapping[str, tuple[str, ...]] | None = None,
    status_code: int = 200,
) -> Response:
    query_params = request.query_params
    asked = given if given is not None else {name: tuple(query_params.getlist(name)) for name in query_params}
    query = asked.get("q", ("",))[0]
    viewer = get_viewer(request)
    agents = list_run_agents(viewer.folder, viewer.thresholds)
    agent = f"{plan.agent.settings.kind}:{plan.agent.name}"
    recorded = _find_recorded(viewer, asked)
    ticked = set(asked.get("case", ())) if given is not None or recorded is None else recorded
    found = list(_list_cases(plan, query.casefold().split(), ticked if recorded is None else set()))
    if recorded is not None:
        found = [{**row, "is_ticked": row["value"] in ticked} for row in found if row["value"] in recorded]
    return render(
        request,
        "run.html.j2",
        status_code=status_code,
        problem=problem,
        agent=agent,
        agents=[(each, describe_agent(each), agent == f"adk:{each}") for each in agents],
        has_thresholds=any(suite.thresholds.file for suite in plan.suites),
        query=query,
        record=asked.get("record", ("",))[0],
        list_query=asked.get("list", ("",))[0],
        gone=len(recorded) - len(found) if recorded else 0,
        is_all="all" in asked.get("which", ()) or (recorded is not None and len(found) > _MOST_SHOWN),
        rows=found[:_MOST_SHOWN],
        count=pluralize(len(found), "case"),
        left_out=max(0, len(found) - _MOST_SHOWN),
        metrics=list(_list_metrics(plan, given)),
        runs=get_runs(viewer).list_progress()[:10],
    )


def _find_recorded(viewer: Viewer, asked: Mapping[str, tuple[str, ...]]) -> set[str] | None:
    """Return the selected cases of a record as texts `EVAL_SET/CASE`; None if `asked` names no record.

    `asked` has the parameters of the page: `record` is the id of the record, and `list` has the search and
    the filters that select the cases. Ids in the texts are percent-encoded.
    """
    record_id = asked.get("record", ("",))[0]
    if not record_id:
        return None
    opened = viewer.records.open_record(record_id)
    query = CaseQuery.from_params(dict(parse_qsl(asked.get("list", ("",))[0])))
    return {_format_key(opened.entries[at].case.key) for at in filter_cases(opened, query)}


def _list_cases(plan: Plan, words: list[str], ticked: set[str]) -> Iterator[Mapping[str, object]]:
    """Yield values for the template about each case that is ticked or that matches the search.

    A case matches if its ids, tags and first message together contain every word of `words`. `ticked` has
    the ticked cases as texts `EVAL_SET/CASE` with percent-encoded ids.
    """
    for suite in plan.suites:
        for case in suite.eval_set.cases:
            set_id, message = suite.eval_set.eval_set_id, case.turns[0].user.text if case.turns else ""
            value = _format_key((set_id, case.eval_id))
            tags = suite.get_case_policy(case).tags
            text = " ".join((set_id, case.eval_id, message, *tags)).casefold()
            if value in ticked or all(word in text for word in words):
                name = f"{set_id} · {case.eval_id}" if len(plan.suites) > 1 else case.eval_id
                yield {
                    "value": value,
                    "name": name,
                    "message": message,
                    "tags": tags,
                    "is_ticked": value in ticked,
                }


def _list_metrics(plan: Plan, given: Mapping[str, tuple[str, ...]] | None) -> Iterator[Mapping[str, object]]:
    for bound in _collect_metrics(plan).values():
        range_, typed = bound.criterion.range, (given or {}).get(f"threshold:{bound.name}", ("",))[0]
        defaults = _list_thresholds(plan, bound.name)
        yield {
            "name": bound.name,
            "value": typed or (defaults[0] if len(defaults) == 1 else ""),
            "defaults": defaults,
            "word": "at most" if range_.lower_is_better else "at least",
            "low": f"{min(range_):g}",
            "high": f"{max(range_):g}",
            "step": "" if range_.lower_is_better else f"{range_.width / 100:g}",  # "": without a slider
            "is_ticked": given is None or bound.name in given.get("metric", ()),
        }


def _collect_metrics(plan: Plan) -> Mapping[str, BoundMetric]:
    found: dict[str, BoundMetric] = {}
    for suite in plan.suites:
        for bound in suite.metrics:
            found.setdefault(bound.name, bound)
    return found


def _list_thresholds(plan: Plan, name: str) -> list[str]:
    """Return the different thresholds that the eval sets have for a metric, as texts for the form.

    "" stands for no limit.
    """
    found = [
        bound.criterion.threshold for suite in plan.suites for bound in suite.metrics if bound.name == name
    ]
    return ["" if threshold == UNLIMITED else f"{threshold:.12g}" for threshold in dict.fromkeys(found)]


async def start_run(request: Request) -> Response:
    """Start a run of the chosen cases, and redirect to its page.

    If the form has mistakes, or another run is in progress, the form is shown again with the reason.
    """
    form = await read_form(request)
    return await run_in_threadpool(partial(_start_run, request, form))


def _start_run(request: Request, form: Mapping[str, tuple[str, ...]]) -> Response:
    viewer = get_viewer(request)
    plan = _build_plan(viewer, get_field(form, "agent"))
    try:
        cases = _read_cases(plan, form, _find_recorded(viewer, form))
        chosen = apply_choices(plan, cases, _read_thresholds(plan, form))
        options = ("-c", viewer.thresholds) if viewer.thresholds else ()
        number = get_runs(viewer).start_run(chosen, options)
    except InvalidInputError as error:
        return _render_form(request, plan, problem=str(error), given=form, status_code=422)
    return RedirectResponse(f"/runs/{number}", 303)


def _read_cases(plan: Plan, form: Mapping[str, tuple[str, ...]], recorded: set[str] | None) -> set[CaseKey]:
    keys = {
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    }
    if "all" in form.get("which", ()):
        words = get_field(form, "q").casefold().split()
        listed = [str(row["value"]) for row in _list_cases(plan, words, set())]
        listed = listed if recorded is None else [each for each in listed if each in recorded]
    else:
        listed = list(form.get("case", ()))
    parts = (each.partition("/") for each in listed)
    found = {(unquote(set_id), unquote(eval_id)) for set_id, _, eval_id in parts}
    if unknown := found - keys:
        raise InvalidInputError(f"there is no case `{min(unknown)[1]}` any more: load the page again")
    if not found:
        raise InvalidInputError("no case was chosen: tick at least one")
    return found


def _read_thresholds(plan: Plan, form: Mapping[str, tuple[str, ...]]) -> Mapping[str, float | None]:
    """Return the threshold of each ticked metric; None keeps the thresholds of the files.

    Raises:
        InvalidInputError: a threshold is not a number, or out of the metric's range.
    """
    found: dict[str, float | None] = {}
    for name, bound in _collect_metrics(plan).items():
        if name not in form.get("metric", ()):
            continue
        text, range_ = get_field(form, f"threshold:{name}"), bound.criterion.range
        defaults = _list_thresholds(plan, name)
        if [text] == defaults or (not text and len(defaults) > 1):
            found[name] = None
            continue
        if not _NUMBER.fullmatch(text.strip()):  # float() also reads digits of other scripts, and `1_0`
            raise InvalidInputError(f"the threshold of {name} is no number: {text!r}")
        found[name] = threshold = float(text)
        if not min(range_) <= threshold <= max(range_):
            raise InvalidInputError(f"the threshold of {name} must be between {range_}")
    return found


def show_run(request: Request) -> Response:
    """Return the page with the progress of a run, or with its result."""
    run = get_runs(get_viewer(request)).find_run(_read_number(request))
    return render(request, "run_progress.html.j2", run=run.get_progress())


async def cancel_run(request: Request) -> Response:
    """Ask a run to stop, and redirect to its page."""
    number = _read_number(request)
    get_runs(get_viewer(request)).find_run(number).cancel()
    return RedirectResponse(f"/runs/{number}", 303)


def _read_number(request: Request) -> int:
    text = request.path_params["number"]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0


def link_run_form(eval_set_id: str, eval_id: str) -> str:
    """Return the address of the run form with one case ticked."""
    return link("/run", case=_format_key((eval_set_id, eval_id)), q=eval_id)


def link_run_of_list(record_id: str, query: CaseQuery) -> str:
    """Return the address of the run form with the cases that `query` selects in a record's list."""
    return link("/run", record=record_id, list=urlencode(query.params))


def _format_key(key: CaseKey) -> str:
    return "/".join(quote(each, safe="") for each in key)


routes = (
    Route("/run", show_form),
    Route("/run", start_run, methods=["POST"]),
    Route("/runs/{number}", show_run),
    Route("/runs/{number}/cancel", cancel_run, methods=["POST"]),
)
navigation = (NavigationLink("Run", "/run"),)
