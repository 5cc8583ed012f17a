"""Buttons of the case editor for the whole case: duplicate, move, delete and drop.

The button `drop` deletes a case during a review, without a page on which the user must confirm it.
"""

from collections.abc import Sequence
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.types import EvalCase
from evalgate.datasets.edit_undo import FileChange
from evalgate.datasets.eval_set_file import compute_digest, edit_eval_set
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.noted_cases import copy_noted_case, drop_noted_case
from evalgate.viewer.pages.case_editor import (
    EditedCase,
    Form,
    go_on_reviewing,
    list_diffs,
    open_draft,
    open_page,
    render_case,
    replace_case,
    split_diff,
)
from evalgate.viewer.quarantined_cases import build_quarantine_changes
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import get_viewer


async def apply_case_action(request: Request) -> Response:
    """Duplicate, move, delete or drop a case, depending on the button, and redirect to the next page.

    The user must confirm a deletion on a page of its own. If the change cannot be saved, the editor is shown
    again with the reason.
    """
    return await run_in_threadpool(_apply_case_action, request, await read_form(request))


def _apply_case_action(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = open_page(viewer, file, request.query_params)
    action, old = get_field(form, "do"), list(file.eval_set.cases)
    at = next(number for number, case in enumerate(old) if case is page.case)
    target = page.case.eval_id
    try:
        also: list[FileChange] = []
        if action in {"delete", "drop"}:
            also = drop_noted_case(file, page.case.eval_id)
            also += build_quarantine_changes(viewer, file, page.case.eval_id)
        digest = compute_digest(b"".join([file.data, *(change.before or b"" for change in also)]))
        if action == "delete" and get_field(form, "sure") != digest:
            return _ask_to_delete(request, page, also, digest, is_changed=bool(get_field(form, "sure")))
        if action in {"delete", "drop"}:
            cases = replace_case(file, page.case)
        elif action == "duplicate":
            target = _find_free_id(page.case.eval_id, old)
            cases = replace_case(file, page.case, page.case, replace(page.case, eval_id=target))
        elif action in {"up", "down"}:
            rest = [case for case in old if case is not page.case]
            to = max(at - 1, 0) if action == "up" else at + 1
            cases = [*rest[:to], page.case, *rest[to:]]
        else:
            raise InvalidInputError(f"there is no button {action!r} on this page")
        if action == "duplicate":
            also = copy_noted_case(file, page.case.eval_id, target)
        viewer.edits.save(edit_eval_set(file, cases), *also)
    except (EvalgateError, OSError) as error:
        return render_case(request, page, open_draft(page), status_code=422, error=str(error))
    viewer.eval_sets.forget(file.path)
    if action == "drop":
        return go_on_reviewing(file, page.case.eval_id, "dropped")
    if action == "delete":
        return RedirectResponse(link("/sets/view", file=file.shown_as, done="deleted"), 303)
    return RedirectResponse(link("/sets/case", file=file.shown_as, case=target, done=action), 303)


def _ask_to_delete(
    request: Request, page: EditedCase, also: Sequence[FileChange], digest: str, *, is_changed: bool
) -> Response:
    """Return a page that shows the changes of a deletion, and asks the user to confirm them.

    `also` are the changes of the case notes and the quarantine file. `digest` is a hash of all files that
    change; the form sends it back with the confirmation. `is_changed` is True if the user has confirmed
    already, but the files have changed meanwhile.
    """
    edited = edit_eval_set(page.file, replace_case(page.file, page.case))
    return render(
        request,
        "delete_case.html.j2",
        status_code=409 if is_changed else 200,
        file=page.file,
        case=page.case,
        diff=[*split_diff(edited.diff), *list_diffs(also)],
        sure=digest,
        is_changed=is_changed,
    )


def _find_free_id(eval_id: str, cases: Sequence[EvalCase]) -> str:
    taken = {case.eval_id for case in cases}
    names = (f"{eval_id}_copy{number or ''}" for number in [0, *range(2, 10**6)])
    return next(name for name in names if name not in taken)


routes = (Route("/sets/case/move", apply_case_action, methods=["POST"]),)
navigation = ()
