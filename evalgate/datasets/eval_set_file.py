"""Edit the text of an eval set's file with minimal changes, and verify the new text before it is saved.

To verify it, the format's reader reads the cases from the new text. If they differ from the intended cases,
InvalidInputError is raised.
"""

import codecs
import difflib
import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import EvalSetEditor
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    Rubric,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.loading import LARGE_FILE, read_document
from evalgate.datasets.raw_edits import is_same_data
from evalgate.documents.json_edits import align_items, update_json
from evalgate.documents.strict_json import parse_json
from evalgate.system.files import read_input_file, write_atomically


@frozen
class EvalSetFile:
    """An eval set with the content of its file."""

    path: Path
    shown_as: str
    """Path that messages show."""
    data: bytes
    value: object
    """The decoded JSON."""
    eval_set: EvalSet
    """The eval set in the file, without case notes."""

    @property
    def digest(self) -> str:
        """Return the hash of the content, to notice later changes of the file."""
        return compute_digest(self.data)

    def find_case(self, eval_id: str) -> EvalCase:
        """Return the case with the id `eval_id`.

        Raises:
            InvalidInputError: there is no such case.
        """
        for case in self.eval_set.cases:
            if case.eval_id == eval_id:
                return case
        raise InvalidInputError([Problem(self.shown_as, 0, 0, f"there is no case {eval_id!r}")])


@frozen
class EditedFile:
    """The content of a file after an edit that is not saved yet."""

    before: EvalSetFile
    data: bytes
    eval_set: EvalSet
    lost: tuple[str, ...] = ()
    """Sentences `case id: data` about the data of added cases that the format cannot hold."""

    @property
    def diff(self) -> str:
        """Return the difference of the file, as `diff -u` prints it; "" if nothing changed."""
        return build_diff(self.before.data, self.data, self.before.shown_as)


def compute_digest(data: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def open_eval_set(path: Path, shown_as: str) -> EvalSetFile:
    """Read an eval set to inspect or edit it.

    Raises:
        InvalidInputError: the file cannot be read, is no valid eval set, or is too large to be edited.
    """
    try:
        data = read_input_file(path, shown_as)
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    return _parse_file(path, shown_as, data)


def _parse_file(path: Path, shown_as: str, data: bytes) -> EvalSetFile:
    if len(data) >= LARGE_FILE:
        most = LARGE_FILE // 2**20
        message = f"has more than {most} MiB: split it, or edit it with another program"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])
    document = parse_json(data, shown_as)
    return EvalSetFile(
        path, shown_as, data, document.value, read_document(document, plugin_registry.get_formats())
    )


def edit_eval_set(file: EvalSetFile, cases: Sequence[EvalCase]) -> EditedFile:
    """Return the file's content with `cases` in place of its present cases. Nothing is written.

    Cases may be changed, moved, added or deleted. A part of a case keeps its text if it is the same object
    (`is`) as in `file.eval_set`. A changed case is found in the file by its id. A renamed case is found by
    its neighbours.

    Raises:
        InvalidInputError: files of the format cannot be edited, or the format cannot hold the change.
    """
    editor = get_editor(file)
    old, raw = list(file.eval_set.cases), list(editor.get_cases(file.value))
    sources = align_items(old, list(cases), lambda one, other: one.eval_id == other.eval_id)
    edited = list[JsonObject]()
    expected = list[tuple[EvalCase, EvalCase]]()
    lost = list[str]()
    for case, source in zip(cases, sources, strict=True):
        if source is None:
            built, read, losses = _build_case(file, editor, case)
            edited.append(built)
            expected.append((read, read))
            lost += losses
        else:
            is_same = case is old[source]
            edited.append(raw[source] if is_same else editor.edit_case(raw[source], old[source], case))
            expected.append((case, old[source]))
    value = editor.replace_cases(file.value, edited)
    mark = codecs.BOM_UTF8 if file.data.startswith(codecs.BOM_UTF8) else b""
    text = file.data.removeprefix(mark).decode()
    data = mark + update_json(text, file.value, value).encode()
    found = _parse_file(file.path, file.shown_as, data)
    _check_result(file, found, expected)
    return EditedFile(file, data, found.eval_set, tuple(lost))


def get_editor(file: EvalSetFile) -> EvalSetEditor:
    """Return the editor of a file's format.

    Raises:
        InvalidInputError: files of the format cannot be edited.
    """
    name = file.eval_set.format_name
    editor = plugin_registry.get_editor(name)
    if editor is None:
        path = shlex.quote(file.shown_as)
        advice = (
            f"convert it first: `evalgate convert {path} --to adk --out NEW.evalset.json`"
            if name == "adk-legacy"
            else "evalgate cannot change it"
        )
        raise InvalidInputError([Problem(file.shown_as, 0, 0, f"has the format {name}: {advice}")])
    return editor


def _build_case(
    file: EvalSetFile, editor: EvalSetEditor, case: EvalCase
) -> tuple[JsonObject, EvalCase, tuple[str, ...]]:
    """Return a new case as decoded JSON, the case that the format reads from this JSON, and the losses.

    The losses are sentences about the data of the case that the format cannot hold.
    """
    name = file.eval_set.format_name
    written = plugin_registry.get_writer(name).write_eval_set(EvalSet(file.eval_set.eval_set_id, [case]))
    document = parse_json(written.text.encode(), file.shown_as)
    read = plugin_registry.get_formats()[name].read_eval_set(document).cases[0]
    own = tuple([sentence for sentence in written.lost if sentence.startswith(f"{case.eval_id}: ")])
    return editor.get_cases(document.value)[0], read, own


# --- proof --------------------------------------------------------------------------------------------------

_WORDS = {
    "eval_id": "id",
    "turns": "turns",
    "scenario": "simulated user",
    "session": "initial state",
    "final_state": "final state",
    "journey": "goals",
    "recorded": "recorded replies",
    "rubrics": "rubrics",
    "tags": "tags",
    "tool_mocks": "tool mocks",
    "context_messages": "context messages",
}


def _check_result(
    file: EvalSetFile, found: EvalSetFile, expected: Sequence[tuple[EvalCase, EvalCase]]
) -> None:
    """Raise InvalidInputError if the cases in the new file (`found`) differ from the expected cases.

    `expected` has a pair for each case: the case as it should be read, and the case before the edit. For an
    added case, both are the same object.
    """
    name, cases = file.eval_set.format_name, found.eval_set.cases
    if not expected and file.eval_set.cases:
        raise _build_error(file, "needs at least one case: delete the file instead")
    if found.eval_set.format_name != name:
        raise _build_error(file, f"then has the format {found.eval_set.format_name} and not {name} any more")
    headers = [replace(each.eval_set, cases=(), notices=()) for each in (file, found)]
    if headers[0] != headers[1] or len(cases) != len(expected):
        raise _build_error(file, "then is not the same eval set any more")
    for (wanted, before), case in zip(expected, cases, strict=True):
        if wanted is before:
            same = replace(wanted, line=0) == replace(case, line=0)
            wrong = [] if same else ["other case"]
        else:
            wrong = list(_find_differences(wanted, case, before))
        if wrong:
            message = f"the {wrong[0]} of the case {wanted.eval_id!r} cannot be written in a file of {name}"
            raise InvalidInputError([Problem(file.shown_as, case.line, 0, message)])


def _build_error(file: EvalSetFile, sentence: str) -> InvalidInputError:
    return InvalidInputError([Problem(file.shown_as, 0, 0, f"cannot be changed like this: it {sentence}")])


def _find_differences(wanted: EvalCase, found: EvalCase, before: EvalCase) -> Iterator[str]:
    kept = {id(turn) for turn in before.turns}
    turns = [
        _normalize_turn(
            wanted,
            turn,
            other,
            is_kept=id(turn) in kept,
            is_same_journey=len(before.turns) == len(wanted.turns)
            and is_same_data(wanted.journey, before.journey),
        )
        for turn, other in zip(wanted.turns, found.turns, strict=False)
    ]
    if len(wanted.turns) != len(found.turns) or not all(is_same_data(*pair) for pair in turns):
        yield _WORDS["turns"]
    for field in fields(wanted):
        if field.name in {"turns", "line", "native", "eval_set_id"}:
            continue
        one, other = getattr(wanted, field.name), getattr(found, field.name)
        if field.name == "rubrics":
            one, other = _normalize_rubrics(one), _normalize_rubrics(other)
        if not is_same_data(one, other):
            yield _WORDS.get(field.name, field.name)


_DEFAULT_ID = re.compile(r"(turn_|case_)?rubric_\d+")


def _normalize_rubrics(rubrics: Sequence[Rubric]) -> list[Rubric]:
    """Return the rubrics. An id such as `rubric_1`, which only numbers the rubrics, is replaced by ""."""
    return [
        replace(rubric, rubric_id="") if _DEFAULT_ID.fullmatch(rubric.rubric_id) else rubric
        for rubric in rubrics
    ]


def _normalize_turn(
    case: EvalCase, wanted: CaseTurn, found: CaseTurn, *, is_kept: bool, is_same_journey: bool
) -> tuple[object, object]:
    """Return the parts of a turn that must be equal after an edit: as intended, and as found in the new text.

    In a case without goals, the whole turn must be equal if the edit left it unchanged (`is_kept`). From a
    changed turn, details are removed that a format cannot hold, such as the order between calls and messages.

    In a case with goals, the user's message must be equal. The expected reply must be equal, too, if the edit
    left the goals and the number of turns unchanged (`is_same_journey`).
    """
    if case.journey is not None:
        if not is_same_journey:
            # The expected reply follows from the goals, which are compared themselves.
            return wanted.user, found.user
        return (wanted.user, wanted.expected), (found.user, found.expected)
    if is_kept:
        return wanted, found
    pair = [
        (turn.user, turn.invocation_id, turn.creation_timestamp, turn.app_details, turn.execution)
        for turn in (wanted, found)
    ]
    replies = _normalize_replies(wanted.expected, found.expected)
    rubrics = [_normalize_rubrics(turn.rubrics) for turn in (wanted, found)]
    return (pair[0], replies[0], rubrics[0]), (pair[1], replies[1], rubrics[1])


def _normalize_replies(wanted: Reply, found: Reply) -> tuple[object, object]:
    """Return both replies with their events sorted by kind, because most formats hold no order between kinds.

    If the replies have different numbers of events of a kind, both are returned unchanged.
    """
    values: tuple[list[object], list[object]] = [wanted.response], [found.response]
    for kind in (ToolCall, ToolResult, Message):
        events = [[event for event in reply.events if isinstance(event, kind)] for reply in (wanted, found)]
        if len(events[0]) != len(events[1]):
            return wanted, found
        for pair in zip(*events, strict=True):
            for value, event in zip(values, _normalize_events(*pair), strict=True):
                value.append(event)
    return values


def _normalize_events(wanted: Event, found: Event) -> tuple[Event, Event]:
    """Return both events, without their ids if a difference between the ids does not matter.

    The ids of tool calls and results do not matter in two cases: the wanted event has no id, or its id is a
    number and the found event has a number or no id.
    """
    if isinstance(wanted, ToolCall | ToolResult) and isinstance(found, ToolCall | ToolResult):
        has_no_id = wanted.id is None or (wanted.id.isdigit() and (found.id or "1").isdigit())
        if has_no_id:
            return replace(wanted, id=None), replace(found, id=None)
    return wanted, found


# --- differences --------------------------------------------------------------------------------------------

_CONTEXT = 3  # lines


def build_diff(before: bytes, after: bytes, name: str) -> str:
    """Return the difference of two contents of a file, as `diff -u` prints it; "" if they are the same."""
    if before == after:
        return ""
    # Bytes are split: texts would also be split at U+2028, which a JSON text may contain.
    old, new = (
        [line.decode(errors="replace") for line in data.splitlines(keepends=True)] for data in (before, after)
    )
    # The common lines at both ends are left out first: `difflib` takes seconds for 100,000 lines.
    head = _count_common(old, new)
    tail = min(_count_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    start = max(head - _CONTEXT, 0)
    inner = [lines[start : len(lines) - max(tail - _CONTEXT, 0)] for lines in (old, new)]
    found = list(difflib.unified_diff(inner[0], inner[1], name, name, n=_CONTEXT))
    shifted = [_shift_hunk(line, start) if line.startswith("@@ ") else line for line in found]
    return "".join(line if line.endswith("\n") else line + "\n" for line in shifted)


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _shift_hunk(header: str, lines: int) -> str:
    def shift(found: re.Match[str]) -> str:
        return f"{found[1]}{int(found[2]) + lines}"

    return re.sub(r"([-+])(\d+)", shift, header, count=2)


def split_writable(cases: Sequence[EvalCase], format_name: str) -> tuple[list[EvalCase], list[str]]:
    """Return the cases that a format can hold, and an error message for each case that it cannot hold."""
    writer = plugin_registry.get_writer(format_name)
    kept, refused = list[EvalCase](), list[str]()
    for case in cases:
        try:
            writer.write_eval_set(EvalSet("one", (case,)))
        except InvalidInputError as error:
            refused.append(error.problems[-1].message)
        else:
            kept.append(case)
    return kept, refused


# --- new files --------------------------------------------------------------------------------------------


def create_eval_set(path: Path, shown_as: str, format_name: str, eval_set: EvalSet) -> EvalSetFile:
    """Write a new file with an eval set, and return the file as it is read back.

    Fields of a case that the format lacks, such as tags in `adk`, are left out without an error.

    Raises:
        InvalidInputError: the file exists, evalgate does not write the format, or the format cannot hold a
            case at all.
        OSError: the file cannot be written.
    """
    if path.exists():
        raise InvalidInputError([Problem(shown_as, 0, 0, "exists already: name another file")])
    new = replace(eval_set, format_name=format_name)
    written = plugin_registry.get_writer(format_name).write_eval_set(new)
    found = _parse_file(path, shown_as, written.text.encode())
    if found.eval_set.format_name != format_name or len(found.eval_set.cases) != len(eval_set.cases):
        lost = "; ".join(written.lost) or "it needs at least one case"
        raise InvalidInputError([Problem(shown_as, 0, 0, f"no eval set of {format_name}: {lost}")])
    write_atomically(path, written.text)
    return found
