"""Buttons of the case editor for data outside of the eval set: tags in the case notes, and the quarantine."""

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError
from evalgate.core.types import Quarantine
from evalgate.datasets.edit_undo import FileChangedError
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.noted_cases import format_tags, open_notes, parse_tags, tag_case
from evalgate.viewer.pages.case_editor import open_draft, open_page, render_case
from evalgate.viewer.quarantined_cases import build_quarantine_change, compute_quarantine_digest
from evalgate.viewer.rendering import link
from evalgate.viewer.state import get_viewer

Form = Mapping[str, tuple[str, ...]]


async def save_tags(request: Request) -> Response:
    """Save the typed tags of a case in the case notes, and redirect to the editor of the case.

    If they cannot be saved, the editor is shown with the reason.
    """
    return await run_in_threadpool(_save_tags, request, await read_form(request))


def _save_tags(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = open_page(viewer, file, request.query_params)
    typed = get_field(form, "tags")
    try:
        known = format_tags(open_notes(file).get_note(page.case.eval_id).tags)
        if get_field(form, "known") != known:
            raise FileChangedError(f"the tags were changed to \u201c{known}\u201d meanwhile. {_AGAIN}")
        viewer.edits.save_changes(file.path, [tag_case(file, page.case.eval_id, parse_tags(typed))])
    except (EvalgateError, OSError) as error:
        status = 409 if isinstance(error, FileChangedError) else 422
        draft = open_draft(page)
        return render_case(request, page, draft, status_code=status, error=str(error), tags=typed)
    query = {"file": file.shown_as, "case": page.case.eval_id, "done": "tagged"}
    return RedirectResponse(link("/sets/case", query), 303)


async def save_quarantine(request: Request) -> Response:
    """Add, change or remove the quarantine entry of a case, and redirect to the editor of the case.

    If the entry cannot be saved, the editor is shown with the reason.
    """
    return await run_in_threadpool(_save_quarantine, request, await read_form(request))


def _save_quarantine(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = open_page(viewer, file, request.query_params)
    wanted = Quarantine(*(get_field(form, name).strip() for name in ("owner", "reason", "expires")))
    try:
        if get_field(form, "digest") != compute_quarantine_digest(viewer):
            raise FileChangedError(f"the quarantine file was changed by something else. {_AGAIN}")
        entry = None if get_field(form, "do") == "end" else wanted
        viewer.edits.save_changes(file.path, [build_quarantine_change(viewer, page.case.eval_id, entry)])
    except (EvalgateError, OSError) as error:
        status = 409 if isinstance(error, FileChangedError) else 422
        draft = open_draft(page)
        return render_case(request, page, draft, status_code=status, error=str(error), quarantine=wanted)
    query = {"file": file.shown_as, "case": page.case.eval_id, "done": "quarantine"}
    return RedirectResponse(link("/sets/case", query), 303)


_AGAIN = "Nothing was saved; what you typed is below: saving again replaces the present entry."


routes = (
    Route("/sets/case/tags", save_tags, methods=["POST"]),
    Route("/sets/case/quarantine", save_quarantine, methods=["POST"]),
)
navigation = ()
