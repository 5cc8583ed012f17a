"""Pages with the project's eval sets, the cases of one eval set, and the form for a new eval set."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.plugin_registry import WRITERS
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, Reply, SessionInput, UserMessage
from evalgate.datasets.eval_set_file import EvalSetFile, edit_eval_set
from evalgate.viewer.eval_sets import NEW_ENDING, describe_first_message
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.noted_cases import OpenedNotes, find_observed_cases, find_web_address, open_notes
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import NavigationLink, get_viewer

_PER_PAGE = 200

Form = Mapping[str, tuple[str, ...]]


def show_sets(request: Request) -> Response:
    """Return the page with all eval sets, and with the number of cases to review in each."""
    listed = get_viewer(request).eval_sets.list_sets()
    observed = {each.shown_as: len(find_observed_cases(each.file)) for each in listed if each.file}
    return render(request, "eval_sets.html.j2", listed=listed, observed=observed)


def show_set(request: Request) -> Response:
    """Return a page with the cases of one eval set that match the search and filter in the address."""
    return _render_set(request, _open_set(request))


def _render_set(request: Request, file: EvalSetFile, *, status_code: int = 200, **values: object) -> Response:
    viewer, notes, observed = get_viewer(request), open_notes(file), find_observed_cases(file)
    words, status = request.query_params.get("q", "").lower(), request.query_params.get("status", "")
    among = observed if status == "observed" else file.eval_set.cases
    found = [case for case in among if words in _describe_for_search(case, notes)]
    asked = request.query_params.get("page", "")
    is_number = asked.isascii() and asked.isdecimal() and len(asked) < 7
    page = max(int(asked), 1) if is_number else 1
    return render(
        request,
        "eval_set.html.j2",
        status_code=status_code,
        file=file,
        cases=[
            (case, describe_first_message(case), notes.get_note(case.eval_id))
            for case in found[(page - 1) * _PER_PAGE : page * _PER_PAGE]
        ],
        observed=len(observed),
        first_observed=observed[0].eval_id if observed else "",
        notes_problem=notes.problem,
        find_web_address=find_web_address,
        status=status,
        was=request.query_params.get("was", ""),
        found=len(found),
        page=page,
        pages=max(-(-len(found) // _PER_PAGE), 1),
        words=request.query_params.get("q", ""),
        done=request.query_params.get("done", ""),
        can_undo=viewer.edits.can_undo(file.path),
        can_redo=viewer.edits.can_redo(file.path),
        **{"error": "", "typed": {}, **values},
    )


def _describe_for_search(case: EvalCase, notes: OpenedNotes) -> str:
    said = (text for turn in case.turns for text in (turn.user.text, turn.expected.response or ""))
    tools = (call.name for turn in case.turns for call in turn.expected.tool_calls)
    tags = (*case.tags, *notes.get_note(case.eval_id).tags)
    return "\n".join([case.eval_id, *said, *tools, *tags]).lower()


def _open_set(request: Request) -> EvalSetFile:
    return get_viewer(request).eval_sets.open_set(request.query_params.get("file", ""))


async def add_case(request: Request) -> Response:
    """Add a case with the typed id, message and response, and redirect to its page.

    If the case cannot be added, the page of the eval set is shown with the reason.
    """
    return await run_in_threadpool(_add_case, request, await read_form(request))


def _add_case(request: Request, form: Form) -> Response:
    viewer, file = get_viewer(request), _open_set(request)
    typed = {name: get_field(form, name) for name in ("id", "message", "response")}
    case = _build_first_case(typed, file.eval_set.cases)
    try:
        if any(each.eval_id == case.eval_id for each in file.eval_set.cases):
            raise InvalidInputError(f"there is a case {case.eval_id!r} already")
        edited = edit_eval_set(file, [*file.eval_set.cases, case])
        viewer.edits.save(edited)
    except (EvalgateError, OSError) as error:
        return _render_set(request, file, status_code=422, error=str(error), typed=typed)
    viewer.eval_sets.forget(file.path)
    return RedirectResponse(link("/sets/case", file=file.shown_as, case=case.eval_id, done="added"), 303)


def _build_first_case(typed: Mapping[str, str], others: Sequence[EvalCase] = ()) -> EvalCase:
    message = typed["message"].replace("\r\n", "\n")
    response = typed["response"].replace("\r\n", "\n") or None
    session = SessionInput()
    if others:
        # Some formats require that all cases of a set name the same app.
        session = replace(others[-1].session, state={}, session_id="")
    return EvalCase(typed["id"].strip(), (CaseTurn(UserMessage(message), Reply(response)),), session=session)


async def undo_edit(request: Request) -> Response:
    """Undo the last edit of an eval set file that this viewer made."""
    return await run_in_threadpool(_undo_or_redo, request, "undo")


async def redo_edit(request: Request) -> Response:
    """Repeat the edit of an eval set file that was undone last."""
    return await run_in_threadpool(_undo_or_redo, request, "redo")


def _undo_or_redo(request: Request, verb: str) -> Response:
    viewer, file = get_viewer(request), _open_set(request)
    try:
        change = viewer.edits.undo if verb == "undo" else viewer.edits.redo
        change(file.path, file.shown_as)
    except (EvalgateError, OSError) as error:
        return _render_set(request, file, status_code=409, error=str(error))
    viewer.eval_sets.forget(file.path)
    return RedirectResponse(link("/sets/view", file=file.shown_as, done=verb), 303)


def show_new_set(request: Request) -> Response:
    """Return the page with the form for a new eval set."""
    return _render_new_set(request, {"name": f"evals/new{NEW_ENDING}", "format": "adk"})


def _render_new_set(request: Request, typed: Mapping[str, str], error: str = "") -> Response:
    return render(
        request,
        "new_eval_set.html.j2",
        status_code=422 if error else 200,
        typed=typed,
        error=error,
        formats=list(WRITERS),
    )


async def create_set(request: Request) -> Response:
    """Write a new eval set with the typed values, and redirect to its page.

    If it cannot be written, the form is shown again with the reason.
    """
    return await run_in_threadpool(_create_set, request, await read_form(request))


def _create_set(request: Request, form: Form) -> Response:
    typed = {name: get_field(form, name) for name in ("name", "format", "set", "id", "message", "response")}
    try:
        if typed["format"] not in WRITERS:
            raise InvalidInputError(f"{typed['format']!r} is no format that evalgate writes")
        name = typed["name"].strip()
        eval_set_id = typed["set"].strip() or name.rpartition("/")[2].removesuffix(NEW_ENDING)
        cases = [_build_first_case(typed)] if typed["id"].strip() or typed["message"].strip() else []
        file = get_viewer(request).eval_sets.create_set(name, typed["format"], EvalSet(eval_set_id, cases))
    except (EvalgateError, OSError) as error:
        return _render_new_set(request, typed, str(error))
    return RedirectResponse(link("/sets/view", file=file.shown_as, done="created"), 303)


routes = (
    Route("/sets", show_sets),
    Route("/sets/new", show_new_set),
    Route("/sets/new", create_set, methods=["POST"]),
    Route("/sets/view", show_set),
    Route("/sets/view", add_case, methods=["POST"]),
    Route("/sets/undo", undo_edit, methods=["POST"]),
    Route("/sets/redo", redo_edit, methods=["POST"]),
)
navigation = (NavigationLink("Eval sets", "/sets"),)
