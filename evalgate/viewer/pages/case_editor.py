"""A case of an eval set: inspect it, edit it next to what the agent did, and save a minimal change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseResult,
    EvalCase,
    Message,
    Quarantine,
    Reply,
    RunResult,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.eval_set_file import (
    EditedFile,
    EvalSetFile,
    FileChangedError,
    edit_eval_set,
)
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.viewer.case_draft import (
    GOAL_KINDS,
    CaseDraft,
    change_draft,
    draft_case,
    format_json,
    list_argument_differences,
    read_draft,
)
from evalgate.viewer.draft_builder import build_case
from evalgate.viewer.eval_sets import build_edit_address
from evalgate.viewer.forms import read_form
from evalgate.viewer.noted_cases import (
    drop_noted_case,
    find_notes_file,
    read_notes,
    rename_noted_case,
    save_tags,
)
from evalgate.viewer.quarantined_cases import find_quarantine_file, read_quarantine, save_quarantine
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import Viewer, get_viewer

Form = Mapping[str, tuple[str, ...]]
_MOST_RECORDS = 50
_Item = TypeVar("_Item")


@frozen
class ActualRuns:
    """The runs of a case in the record that the page shows next to the expectations."""

    record_id: str
    records: Sequence[tuple[str, str]]
    """Ids and titles of the records to choose from."""
    runs: Sequence[RunResult] = ()
    run: int = 0
    """Index of the run that is shown."""
    problem: str = ""

    @property
    def number(self) -> str:
        """Return the number of the run that is shown; "" if there is none."""
        return str(self.runs[self.run].run) if self.runs else ""

    @property
    def replies(self) -> list[Reply | None]:
        """Return the agent's reply of each turn."""
        return [turn.actual for turn in self.runs[self.run].turns] if self.runs else []


@frozen
class EditedCase:
    """The case page of one request."""

    file: EvalSetFile
    case: EvalCase
    actual: ActualRuns


def show_case(request: Request) -> Response:
    """Show a case in its form."""
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = _open_page(viewer, file, request.query_params)
    return _render_case(request, page, draft_case(page.case), done=request.query_params.get("done", ""))


def find_case(request: Request) -> Response:
    """Redirect from a case of a record to its page."""
    query = request.query_params
    file = get_viewer(request).eval_sets.find_set(query.get("set", ""), query.get("path", ""))
    more = {"record": query.get("record"), "run": query.get("run")}
    return RedirectResponse(link("/sets/case", more, file=file.shown_as, case=query.get("case", "")), 303)


def _open_page(viewer: Viewer, file: EvalSetFile, query: Mapping[str, str]) -> EditedCase:
    case = file.find_case(query.get("case", ""))
    record_id, run = query.get("record", ""), query.get("run", "")
    key = file.eval_set.eval_set_id, case.eval_id
    return EditedCase(file, case, _find_actual(viewer, key, record_id, run))


def _find_actual(viewer: Viewer, key: tuple[str, str], record_id: str, run: str) -> ActualRuns:
    records = [(each.record_id, each.title) for each in viewer.records.list_records()[:_MOST_RECORDS]]
    record_id = record_id or (records[0][0] if records else "")
    if not record_id:
        return ActualRuns("", records)
    try:
        opened = viewer.records.open_record(record_id)
    except InvalidInputError as error:
        return ActualRuns(record_id, records, problem=str(error))
    try:
        case = opened.find_entry(key).case
    except InvalidInputError:
        return ActualRuns(record_id, records, problem="This case is not in that record.")
    if not case.runs:
        return ActualRuns(record_id, records, problem="This case was not run.")
    numbers = [str(each.run) for each in case.runs]
    return ActualRuns(
        record_id, records, case.runs, numbers.index(run) if run in numbers else _choose_run(case)
    )


def _choose_run(case: CaseResult) -> int:
    """Return the index of the first run that a metric failed, or of the first run."""
    failed = (at for at, run in enumerate(case.runs) if any(each.status == "failed" for each in run.metrics))
    return next(failed, 0)


def _render_case(
    request: Request, page: EditedCase, draft: CaseDraft, *, status_code: int = 200, **values: object
) -> Response:
    viewer, replies = get_viewer(request), page.actual.replies
    base = page.case
    own = {
        "file": page.file,
        "case": base,
        "actual": page.actual,
        "draft": draft,
        "turns": [
            {
                "draft": turn,
                "base": _get_item(base.turns, turn.source),
                "actual": _get_item(replies, turn.source),
            }
            for turn in draft.turns
        ],
        "goal_kinds": GOAL_KINDS,
        "digest": page.file.digest,
        "fingerprint": _identify(base),
        "can_undo": viewer.edits.can_undo(page.file.path),
        "errors": {},
        "error": "",
        "diff": [],
        "done": "",
        "is_draft": False,
        "conflict": "",
        "format_json": format_json,
        "get_kind": _get_kind,
        "list_differences": list_argument_differences,
        "notes_file": find_notes_file(page.file).name,
        "tags": ", ".join(note.tags if (note := read_notes(page.file).cases.get(base.eval_id)) else ()),
        "quarantine": read_quarantine(viewer, base.eval_id),
        "quarantine_file": find_quarantine_file(viewer),
        "has_state": page.file.eval_set.format_name == "adk",
        "has_metric": page.file.eval_set.format_name == "trpc",
        "has_rubrics": page.file.eval_set.format_name in {"adk", "trpc"},
    }
    return render(request, "case_editor.html.j2", status_code=status_code, **{**own, **values})


def _get_item(items: Sequence[_Item], at: int | None) -> _Item | None:
    return items[at] if at is not None and at < len(items) else None


def _get_kind(event: object) -> str:
    kinds = {ToolCall: "call", ToolResult: "result", Message: "message"}
    return kinds.get(type(event), "")


def _identify(case: EvalCase) -> str:
    return f"{case.eval_id} {compute_case_fingerprint(case)}"


# --- changes ------------------------------------------------------------------------------------------------


async def change_case(request: Request) -> Response:
    """Answer a button of the form: change the draft, preview the change of the file, or save it."""
    return await run_in_threadpool(_change_case, request, await read_form(request))


def _change_case(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    draft, action = read_draft(form), _get(form, "do")
    known = {case.eval_id for case in file.eval_set.cases}
    if request.query_params.get("case", "") not in known:
        return _render_gone(request, file, draft)
    page = _open_page(viewer, file, {**request.query_params, **{name: _get(form, name) for name in form}})
    if action not in {"preview", "save"}:
        change_draft(draft, action, page.actual.replies)
        return _render_draft(request, page, draft)
    return _save_case(request, page, draft, form)


def _save_case(request: Request, page: EditedCase, draft: CaseDraft, form: Form) -> Response:
    """Save the draft, or preview its change; show the form again if that is not possible."""
    viewer, file, is_preview = get_viewer(request), page.file, _get(form, "do") == "preview"
    case, errors = build_case(draft, page.case)
    if errors:
        sentence = "Nothing was saved: correct the fields that are marked."
        return _render_draft(request, page, draft, 422, errors=errors, error=sentence)
    try:
        edited = edit_eval_set(file, _replace_case(file, page.case, case))
        if is_preview:
            return _render_draft(request, page, draft, diff=split_diff(edited.diff), done="previewed")
        if _get(form, "digest") != file.digest:
            return _render_conflict(request, page, draft, edited, _get(form, "fingerprint"))
        viewer.edits.save(edited, rename_noted_case(file, page.case.eval_id, case.eval_id))
    except FileChangedError:
        viewer.eval_sets.forget(file.path)
        return _change_case(request, {**form, "digest": ("",)})
    except EvalgateError as error:
        fields = {"eval_id": str(error)} if case.eval_id != page.case.eval_id else {}
        return _render_draft(request, page, draft, 422, errors=fields, error=str(error))
    viewer.eval_sets.forget(file.path)
    more = {"record": page.actual.record_id, "run": page.actual.number}
    done = "saved" if edited.diff else "unchanged"
    return RedirectResponse(link("/sets/case", more, file=file.shown_as, case=case.eval_id, done=done), 303)


def _render_draft(
    request: Request, page: EditedCase, draft: CaseDraft, status_code: int = 200, **values: object
) -> Response:
    return _render_case(request, page, draft, status_code=status_code, is_draft=True, **values)


def _replace_case(file: EvalSetFile, old: EvalCase, *new: EvalCase) -> list[EvalCase]:
    cases: list[EvalCase] = []
    for case in file.eval_set.cases:
        cases += new if case is old else [case]
    return cases


def _render_conflict(
    request: Request, page: EditedCase, draft: CaseDraft, edited: EditedFile, fingerprint: str
) -> Response:
    """Show what was typed again: the file has changed since the page was opened, and nothing was saved."""
    is_same = fingerprint == _identify(page.case)
    conflict = (
        "This case is the same in it, so saving again changes nothing else."
        if is_same
        else "This case was changed in it, too: saving again replaces that by what is below."
    )
    return _render_case(
        request,
        page,
        draft,
        status_code=409,
        conflict=conflict,
        diff=split_diff(edited.diff),
        is_draft=True,
    )


def _render_gone(request: Request, file: EvalSetFile, draft: CaseDraft) -> Response:
    base = EvalCase(request.query_params.get("case", ""))
    page = EditedCase(file, base, ActualRuns("", ()))
    message = "This case is not in the file any more. Nothing was saved; what you typed is below."
    return _render_case(request, page, draft, status_code=409, error=message, is_draft=True)


async def change_cases(request: Request) -> Response:
    """Duplicate, move or delete a case."""
    return await run_in_threadpool(_change_cases, request, await read_form(request))


def _change_cases(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = _open_page(viewer, file, request.query_params)
    action, old = _get(form, "do"), list(file.eval_set.cases)
    at = next(number for number, case in enumerate(old) if case is page.case)
    target = page.case.eval_id
    try:
        if action == "delete" and not _get(form, "sure"):
            edited = edit_eval_set(file, _replace_case(file, page.case))
            return render(
                request, "delete_case.html.j2", file=file, case=page.case, diff=split_diff(edited.diff)
            )
        if action == "delete":
            cases = _replace_case(file, page.case)
        elif action == "duplicate":
            target = _find_free_id(page.case.eval_id, old)
            cases = _replace_case(file, page.case, page.case, replace(page.case, eval_id=target))
        elif action in {"up", "down"}:
            rest = [case for case in old if case is not page.case]
            to = max(at - 1, 0) if action == "up" else at + 1
            cases = [*rest[:to], page.case, *rest[to:]]
        else:
            raise InvalidInputError(f"there is no button {action!r} on this page")
        also = drop_noted_case(file, page.case.eval_id) if action == "delete" else None
        viewer.edits.save(edit_eval_set(file, cases), also)
    except EvalgateError as error:
        return _render_case(request, page, draft_case(page.case), status_code=422, error=str(error))
    viewer.eval_sets.forget(file.path)
    if action == "delete":
        return RedirectResponse(link("/sets/view", file=file.shown_as, done="deleted"), 303)
    return RedirectResponse(link("/sets/case", file=file.shown_as, case=target, done=action), 303)


async def change_tags(request: Request) -> Response:
    """Save the tags of a case in the case notes."""
    return await run_in_threadpool(_change_tags, request, await read_form(request))


def _change_tags(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = _open_page(viewer, file, request.query_params)
    tags = [tag.strip() for tag in _get(form, "tags").split(",") if tag.strip()]
    try:
        save_tags(file, page.case.eval_id, tags)
    except EvalgateError as error:
        draft = draft_case(page.case)
        return _render_case(request, page, draft, status_code=422, error=str(error), tags=_get(form, "tags"))
    return RedirectResponse(
        link("/sets/case", file=file.shown_as, case=page.case.eval_id, done="tagged"), 303
    )


async def change_quarantine(request: Request) -> Response:
    """Quarantine a case, or end its quarantine."""
    return await run_in_threadpool(_change_quarantine, request, await read_form(request))


def _change_quarantine(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = _open_page(viewer, file, request.query_params)
    wanted = Quarantine(*(_get(form, name).strip() for name in ("owner", "reason", "expires")))
    try:
        save_quarantine(viewer, page.case.eval_id, None if _get(form, "do") == "end" else wanted)
    except EvalgateError as error:
        draft = draft_case(page.case)
        return _render_case(request, page, draft, status_code=422, error=str(error), quarantine=wanted)
    return RedirectResponse(
        link("/sets/case", file=file.shown_as, case=page.case.eval_id, done="quarantine"), 303
    )


def _find_free_id(eval_id: str, cases: Sequence[EvalCase]) -> str:
    taken = {case.eval_id for case in cases}
    names = (f"{eval_id}_copy{number or ''}" for number in [0, *range(2, 10**6)])
    return next(name for name in names if name not in taken)


def split_diff(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a difference with their kind: `minus`, `plus`, `place` or ""."""
    kinds = {"-": "minus", "+": "plus", "@": "place"}
    return [(kinds.get(line[:1], ""), line) for line in diff.split("\n")[2:] if line]


def _get(form: Form, name: str) -> str:
    return form.get(name, ("",))[0]


routes = (
    Route("/edit", find_case),
    Route("/sets/case", show_case),
    Route("/sets/case", change_case, methods=["POST"]),
    Route("/sets/case/tags", change_tags, methods=["POST"]),
    Route("/sets/case/quarantine", change_quarantine, methods=["POST"]),
    Route("/sets/case/move", change_cases, methods=["POST"]),
)
navigation = ()

__all__ = ["build_edit_address", "navigation", "routes", "split_diff"]
