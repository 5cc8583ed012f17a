"""Page that shows a case next to the agent's replies, and saves edits as minimal changes of files."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    EvalCase,
    Message,
    Reply,
    RunResult,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.edit_undo import FileChange, FileChangedError
from evalgate.datasets.eval_set_file import EvalSetFile, build_diff, edit_eval_set
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
from evalgate.viewer.check_draft import COUNTS, LINES, SINGLE, TESTS, build_checks, draft_checks
from evalgate.viewer.check_problems import (
    find_check_problems,
    list_thresholds_checks,
    read_schema_file,
)
from evalgate.viewer.draft_builder import build_drafted_case
from evalgate.viewer.forms import get_field, read_form
from evalgate.viewer.noted_cases import (
    change_noted_case,
    find_next_observed,
    find_notes_file,
    find_observed_cases,
    find_web_address,
    format_tags,
    identify_checks,
    open_notes,
)
from evalgate.viewer.quarantined_cases import (
    build_quarantine_changes,
    compute_quarantine_digest,
    find_quarantine_file,
    read_quarantine,
)
from evalgate.viewer.rendering import link, render
from evalgate.viewer.state import Viewer, get_viewer

Form = Mapping[str, tuple[str, ...]]
_MOST_RECORDS = 50
_EVENT_KINDS: Mapping[type, str] = {ToolCall: "call", ToolResult: "result", Message: "message"}
_Item = TypeVar("_Item")


@frozen
class ActualRuns:
    """Runs of a case in a record, which the page shows next to the expectations."""

    record_id: str
    records: Sequence[tuple[str, str]]
    """(id, title) of each record to choose from."""
    runs: Sequence[RunResult] = ()
    run: int = 0
    """Index in `runs` of the run that is shown."""
    problem: str = ""
    """Reason why there are no runs; "" if there are runs, or if there is no record at all."""

    @property
    def number(self) -> str:
        """Return the number of the shown run as text; "" if there are no runs."""
        return str(self.runs[self.run].run) if self.runs else ""

    @property
    def replies(self) -> list[Reply | None]:
        """Return the agent's reply to each turn of the shown run; [] if there are no runs."""
        return [turn.actual for turn in self.runs[self.run].turns] if self.runs else []


@frozen
class EditedCase:
    """Case to edit, its file, and its runs in a record, for one request of the page."""

    file: EvalSetFile
    case: EvalCase
    actual: ActualRuns


def show_case_form(request: Request) -> Response:
    """Return the page with the form of a case.

    If the parameter `do` is `forbid-call.…` or `require-call.…`, the form has one more check, which is not
    saved yet.
    """
    viewer = get_viewer(request)
    file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    page = open_page(viewer, file, request.query_params)
    draft, action = open_draft(page), request.query_params.get("do", "")
    if action.startswith(("forbid-call.", "require-call.")):
        change_draft(draft, action, page.actual.replies)
        return render_case(request, page, draft, is_draft=True)
    return render_case(request, page, draft, done=request.query_params.get("done", ""))


def redirect_to_editor(request: Request) -> Response:
    """Redirect from a case in a record to the page that edits this case."""
    query = request.query_params
    file = get_viewer(request).eval_sets.find_set(query.get("set", ""), query.get("path", ""))
    more = {"record": query.get("record"), "run": query.get("run"), "do": query.get("do")}
    where = link("/sets/case", more, file=file.shown_as, case=query.get("case", ""))
    return RedirectResponse(f"{where}#checks" if query.get("do") else where, 303)


def open_page(viewer: Viewer, file: EvalSetFile, query: Mapping[str, str]) -> EditedCase:
    """Return the case that `query` names, with its runs in the record that `query` names.

    If `query` names no record, use the first record of the viewer.

    Raises:
        InvalidInputError: the file has no such case.
    """
    case = file.find_case(query.get("case", ""))
    record_id, run = query.get("record", ""), query.get("run", "")
    key = file.eval_set.eval_set_id, case.eval_id
    return EditedCase(file, case, _find_actual(viewer, key, record_id, run))


def open_draft(page: EditedCase) -> CaseDraft:
    """Return a draft of the case in the file, with the case's checks from the case notes."""
    draft = draft_case(page.case)
    draft.checks = draft_checks(open_notes(page.file).get_note(page.case.eval_id).checks)
    return draft


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
    failed = (
        at for at, each in enumerate(case.runs) if any(part.status == "failed" for part in each.metrics)
    )
    chosen = numbers.index(run) if run in numbers else next(failed, 0)
    return ActualRuns(record_id, records, case.runs, chosen)


def render_case(
    request: Request, page: EditedCase, draft: CaseDraft, *, status_code: int = 200, **values: object
) -> Response:
    """Return the page of a case with a draft in its form.

    `values` are values for the template, which replace the default values.
    """
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
        # With several turns, goals belong to the whole conversation, so no turn has an expected reply to
        # edit.
        "has_own_reply": base.journey is None or len(base.turns) == 1,
        "digest": page.file.digest,
        "fingerprint": _identify(base),
        "can_undo": viewer.edits.can_undo(page.file.path),
        "was": request.query_params.get("was", ""),
        "checks_digest": identify_checks(page.file, base.eval_id),
        **_describe_notes(page),
        "quarantine": read_quarantine(viewer, base.eval_id),
        "quarantine_file": find_quarantine_file(viewer),
        "quarantine_digest": compute_quarantine_digest(viewer),
        "has_state": page.file.eval_set.format_name == "adk",
        "has_metric": page.file.eval_set.format_name == "trpc",
        "has_rubrics": page.file.eval_set.format_name in {"adk", "trpc"},
    }
    return render(request, "case_editor.html.j2", status_code=status_code, **{**_DEFAULTS, **own, **values})


def _describe_notes(page: EditedCase) -> dict[str, object]:
    """Return values for the template from the case notes, such as the tags of the case."""
    opened = open_notes(page.file)
    note = opened.get_note(page.case.eval_id)
    return {
        "note": note,
        "notes_file": find_notes_file(page.file).name,
        "notes_problem": opened.problem,
        "tags": format_tags(note.tags),
        "known_tags": format_tags(note.tags),
        "trace_address": find_web_address(note.source),
        "observed": len(find_observed_cases(page.file)),
        "next_observed": find_next_observed(page.file, page.case.eval_id),
    }


def _get_item(items: Sequence[_Item], at: int | None) -> _Item | None:
    return items[at] if at is not None and at < len(items) else None


def _identify(case: EvalCase) -> str:
    return f"{case.eval_id} {compute_case_fingerprint(case)}"


_DEFAULTS: Mapping[str, object] = {
    "errors": {},
    "error": "",
    "diff": [],
    "done": "",
    "is_draft": False,
    "conflict": "",
    "goal_kinds": GOAL_KINDS,
    "format_json": format_json,
    "get_kind": lambda event: _EVENT_KINDS.get(type(event), ""),
    "list_differences": list_argument_differences,
    "check_lines": LINES,
    "check_counts": COUNTS,
    "check_single": SINGLE,
    "check_tests": TESTS,
}
"""Default values for the template; a request may replace them."""


# --- changes ------------------------------------------------------------------------------------------------


async def edit_case(request: Request) -> Response:
    """Change the draft in the form, preview the change of the file, or save it, depending on the button."""
    return await run_in_threadpool(_edit_case, request, await read_form(request))


def _edit_case(request: Request, form: Form) -> Response:
    viewer = get_viewer(request)
    try:
        file = viewer.eval_sets.open_set(request.query_params.get("file", ""))
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}. Nothing was saved; the page before holds what you typed") from None
    draft, action = read_draft(form), get_field(form, "do")
    known = {case.eval_id for case in file.eval_set.cases}
    if request.query_params.get("case", "") not in known:
        return _render_gone(request, file, draft)
    page = open_page(viewer, file, {**request.query_params, **{name: get_field(form, name) for name in form}})
    if action not in {"preview", "save", "accept"}:
        change_draft(draft, action, page.actual.replies)
        return _render_draft(request, page, draft)
    return _save_case(request, page, draft, form)


def _save_case(request: Request, page: EditedCase, draft: CaseDraft, form: Form) -> Response:
    """Save the draft and redirect, or show a preview of the change, depending on the button.

    If the draft cannot be saved, return the form again with the reason: a field is wrong, or the file was
    changed by another program.
    """
    viewer, file, action = get_viewer(request), page.file, get_field(form, "do")
    case, errors = build_drafted_case(draft, page.case)
    checks, problems = _build_checks(viewer, page, draft)
    if errors := {**errors, **problems}:
        sentence = "Nothing was saved: correct the fields that are marked."
        return _render_draft(request, page, draft, 422, errors=errors, error=sentence)
    try:
        edited = edit_eval_set(file, replace_case(file, page.case, case))
        names = page.case.eval_id, case.eval_id
        also = change_noted_case(file, *names, is_accepted=action == "accept", checks=checks)
        also += build_quarantine_changes(viewer, file, *names)
        diff = [*split_diff(edited.diff), *list_diffs(also)]
        if action == "preview":
            return _render_draft(request, page, draft, diff=diff, done="previewed")
        if conflict := _find_conflict(page, form):
            return _render_draft(request, page, draft, 409, conflict=conflict, diff=diff)
        viewer.edits.save(edited, *also)
    except FileChangedError:
        viewer.eval_sets.forget(file.path)
        return _edit_case(request, {**form, "digest": ("",)})
    except (EvalgateError, OSError) as error:
        fields = {"eval_id": str(error)} if case.eval_id != page.case.eval_id else {}
        return _render_draft(request, page, draft, 422, errors=fields, error=str(error))
    viewer.eval_sets.forget(file.path)
    done = "saved" if diff else "unchanged"
    return _show_saved(page, case.eval_id, "accepted" if action == "accept" else done)


def _show_saved(page: EditedCase, eval_id: str, done: str) -> Response:
    if done == "accepted":
        return go_on_reviewing(page.file, page.case.eval_id, done)
    more = {"record": page.actual.record_id, "run": page.actual.number}
    return RedirectResponse(link("/sets/case", more, file=page.file.shown_as, case=eval_id, done=done), 303)


def _render_draft(
    request: Request, page: EditedCase, draft: CaseDraft, status_code: int = 200, **values: object
) -> Response:
    return render_case(request, page, draft, status_code=status_code, is_draft=True, **values)


def replace_case(file: EvalSetFile, old: EvalCase, *new: EvalCase) -> list[EvalCase]:
    """Return the cases of an eval set with `new` in place of `old`. Without `new`, `old` is left out."""
    cases: list[EvalCase] = []
    for case in file.eval_set.cases:
        cases += new if case is old else [case]
    return cases


def _build_checks(
    viewer: Viewer, page: EditedCase, draft: CaseDraft
) -> tuple[Mapping[str, Mapping[str, Any]] | None, dict[str, str]]:
    """Return the checks of a draft by name, and a message for each wrong field by the name of the field.

    The checks are None if the draft does not change any check.
    """
    stored_checks = open_notes(page.file).get_note(page.case.eval_id).checks
    if draft.checks == draft_checks(stored_checks):
        return None, {}
    checks, errors = build_checks(draft.checks, stored_checks)
    if not errors:
        folder = page.file.path.parent
        names = list_thresholds_checks(viewer.folder, viewer.thresholds)
        errors = find_check_problems(draft.checks, checks, partial(read_schema_file, folder), names)
    return checks, errors


def list_diffs(changes: Sequence[FileChange]) -> Iterator[tuple[str, str]]:
    """Yield (kind, line) for each line of a page that shows the changes of several files.

    For each changed file, the name of the file comes first, then the lines of its diff. The kind is `minus`,
    `plus`, `place` (the name of a file, or a line that begins with `@`) or "".
    """
    for change in changes:
        found = build_diff(change.before or b"", change.after or b"", change.shown_as)
        if found:
            yield "place", change.shown_as
            yield from split_diff(found)


def _find_conflict(page: EditedCase, form: Form) -> str:
    """Return a sentence if the eval set or the checks have changed since the page was opened; else ""."""
    if get_field(form, "checks_digest") != identify_checks(page.file, page.case.eval_id):
        return "The checks of this case were changed in its notes: saving again replaces them by those below."
    if get_field(form, "digest") == page.file.digest:
        return ""
    if get_field(form, "fingerprint") == _identify(page.case):
        return "This case is the same in it, so saving again changes nothing else."
    return "This case was changed in it, too: saving again replaces that by what is below."


def _render_gone(request: Request, file: EvalSetFile, draft: CaseDraft) -> Response:
    base = EvalCase(request.query_params.get("case", ""))
    page = EditedCase(file, base, ActualRuns("", ()))
    message = "This case is not in the file any more. Nothing was saved; what you typed is below."
    return render_case(request, page, draft, status_code=409, error=message, is_draft=True)


def go_on_reviewing(file: EvalSetFile, eval_id: str, done: str) -> Response:
    """Redirect to the next case to review after `eval_id`; if no case is left, to the eval set.

    `done` is `accepted` or `dropped`: it selects the message about `eval_id` on the next page.
    """
    following = find_next_observed(file, eval_id)
    if not following:
        return RedirectResponse(link("/sets/view", file=file.shown_as, done=done, was=eval_id), 303)
    return RedirectResponse(
        link("/sets/case", file=file.shown_as, case=following, done=done, was=eval_id), 303
    )


def split_diff(diff: str) -> list[tuple[str, str]]:
    """Return (kind, line) of each line of a unified diff, without the two header lines.

    The kind is `minus`, `plus`, `place` (a line that begins with `@`) or "".
    """
    kinds = {"-": "minus", "+": "plus", "@": "place"}
    return [(kinds.get(line[:1], ""), line) for line in diff.split("\n")[2:] if line]


routes = (
    Route("/edit", redirect_to_editor),
    Route("/sets/case", show_case_form),
    Route("/sets/case", edit_case, methods=["POST"]),
)
navigation = ()
