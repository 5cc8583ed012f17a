"""Case notes: facts about the cases of an eval set in a file of their own; the eval set's file is unchanged.

The notes of `refunds.evalset.json` are in `refunds.cases.yaml` in the same folder.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evalgate.config.schema.field_types import CheckName
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.types import CaseChecks, EvalCase, EvalSet, Event, Reply, ToolCall, ToolMock, ToolResult
from evalgate.datasets.cases import map_cases
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.documents.config_file import ConfigDocument, parse_yaml, read_config_document
from evalgate.documents.validation_errors import Id, validate_model

CaseStatus = Literal["expected", "observed"]


class NotedMock(BaseModel):
    """A fixed result that replaces a call of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: Id
    args: dict[str, Any] | None = None
    """Arguments that the call must have; None: any arguments."""
    turn: int | None = Field(default=None, ge=0)
    """0-based index of the only turn in which the mock applies; None: all turns."""
    result: Any = None


class NotedCall(BaseModel):
    """An expected call of a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Id
    args: dict[str, Any] | None = None
    result: Any = None
    """The expected result. If the key is absent, the result is not compared."""


class NotedTurn(BaseModel):
    """New expectations of one turn; a field that is None keeps the expectation of the case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[NotedCall, ...] | None = None
    response: str | None = None


class NotedAlternative(BaseModel):
    """Alternative expectations for a whole case: another right way through the conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: tuple[NotedTurn, ...] = Field(min_length=1)
    """New expectations, one item for each turn of the case."""


class NotedAcceptance(BaseModel):
    """Record of `evalgate accept`: why and when the agent's behaviour in a run became the expectation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    when: date
    commit: str = ""
    """Commit that was checked out; "" outside of git."""
    run: str = ""
    """Time of the run in UTC, as in the `results.json` of the run."""


class CaseNote(BaseModel):
    """Notes about one case."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: CaseStatus = "expected"
    tags: tuple[Id, ...] = ()
    source: str = ""
    """Link to the recorded trace that the case was made from."""
    imported: date | None = None
    """Day on which the case was imported."""
    tool_mocks: tuple[NotedMock, ...] = ()
    """Fixed results of tools. A call that matches a mock gets its result, and the tool is not called."""
    alternatives: tuple[NotedAlternative, ...] = Field(default=(), min_length=1)
    """Alternative expectations: the case passes with its own expectations or with one of these."""
    accepted: NotedAcceptance | None = None
    """The last use of `evalgate accept` for this case; None: never."""
    checks: Mapping[CheckName, dict[str, Any]] = {}
    """Conditions of this case's own checks, by the check's name; validated when the metrics are built."""


class CaseNotes(BaseModel):
    """Content of a file of case notes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cases: dict[str, CaseNote] = {}
    """Notes about each case, by the id of the case."""
    dropped: tuple[str, ...] = ()
    """Sources of the cases that a review dropped (ids of cases without a source); later imports skip them."""

    @field_validator("cases", mode="before")
    @classmethod
    def _replace_null(cls, value: object) -> object:
        """Return {} for None, the value of `cases:` without any case; return other values unchanged."""
        return {} if value is None else value


def read_case_notes(path: Path, shown_as: str) -> tuple[CaseNotes, ConfigDocument]:
    """Return the notes in a file, and the file's document, which has the positions of values.

    Raises:
        InvalidInputError: the file cannot be read, or has unknown keys or values.
    """
    document = read_config_document(path, shown_as)
    return _validate_notes(document), document


def parse_case_notes(text: str, shown_as: str) -> CaseNotes:
    """Return the notes in the text of a file; raise InvalidInputError if they are invalid."""
    return _validate_notes(parse_yaml(text, shown_as))


def _validate_notes(document: ConfigDocument) -> CaseNotes:
    problems: list[Problem] = []
    value = {} if document.value is None else document.value
    notes = validate_model(CaseNotes, value, problems, file=document.path, position=document.find_position)
    if notes is None:
        raise InvalidInputError(problems)
    return notes


def apply_case_notes(eval_set: EvalSet, file: Path, shown_as: str) -> EvalSet:
    """Return `eval_set` with the case notes from the file of notes next to `file`.

    `eval_set` was read from `file`. Case notes add facts to its cases, such as tags, tool mocks, checks and
    alternatives (other right ways through the conversation). Call this only if the file of notes exists.
    `shown_as` is the path of the eval set's file in messages.

    Raises:
        InvalidInputError: the file of notes does not exist or is invalid, or names a case that the eval set
            does not have. Also raised for an alternative with another number of turns than its case, and for
            an alternative of a case with goals.
    """
    path = file.with_name(build_notes_name(file.name))
    notes_shown_as = str(Path(shown_as).with_name(path.name))
    notes, document = read_case_notes(path, notes_shown_as)
    ids = {case.eval_id for case in eval_set.cases}
    if unknown := [name for name in notes.cases if name not in ids]:
        raise InvalidInputError(
            Problem(
                notes_shown_as,
                *document.find_position(("cases", name)),
                f"{shown_as} has no case {name!r}: move the entry to the notes of its own eval set, or "
                f"remove it.{did_you_mean(name, sorted(ids))}",
            )
            for name in unknown
        )
    if not notes.cases:
        return eval_set
    if problems := list(_find_wrong_alternatives(notes, eval_set, document)):
        raise InvalidInputError(problems)
    cases = map_cases(eval_set.cases, _build_change(notes.cases))
    sections = {name: note.checks for name, note in notes.cases.items() if note.checks}
    checks = CaseChecks(sections, notes_shown_as, document.find_position) if sections else None
    return replace(eval_set, cases=cases, checks=checks)


def _find_wrong_alternatives(
    notes: CaseNotes, eval_set: EvalSet, document: ConfigDocument
) -> Iterator[Problem]:
    """Yield a problem for each alternative that is wrong.

    An alternative must have as many turns as its case. A case with goals can have no alternatives.
    """
    if not any(note.alternatives for note in notes.cases.values()):
        return
    for case in eval_set.cases:
        note = notes.cases.get(case.eval_id)
        for at, alternative in enumerate(note.alternatives if note else ()):
            count = len(case.turns)
            if case.journey is None and len(alternative.turns) == count:
                continue
            has = "goals, which have no alternatives: write a check with `alternatives`"
            message = (
                f"must have {pluralize(count, 'turn')}, as the case"
                if case.journey is None
                else f"is of a case with {has}"
            )
            where = document.find_position(("cases", case.eval_id, "alternatives", at))
            yield Problem(document.path, *where, f"`cases.{case.eval_id}.alternatives[{at}]` {message}")


def _build_alternative(case: EvalCase, alternative: NotedAlternative) -> tuple[Reply, ...]:
    """Return the replies that an alternative expects, one for each turn of the case."""
    return tuple(
        build_noted_reply(turn.expected, noted)
        for turn, noted in zip(case.turns, alternative.turns, strict=True)
    )


def build_noted_reply(expected: Reply, noted: NotedTurn) -> Reply:
    """Return the expected reply of a turn with the parts that the notes replace.

    If `noted.tools` is not None, its calls and results replace all expected events, including messages.
    """
    response = expected.response if noted.response is None else noted.response
    if noted.tools is None:
        return replace(expected, response=response)
    events: list[Event] = []
    for number, call in enumerate(noted.tools, 1):
        has_result = "result" in call.model_fields_set
        name = str(number) if has_result else None
        events.append(ToolCall(call.name, call.args, name))
        if has_result:
            events.append(ToolResult(call.name, call.result, name))
    return Reply(response, tuple(events))


def _build_change(notes: Mapping[str, CaseNote]) -> Callable[[EvalCase], EvalCase]:
    def add_notes(case: EvalCase) -> EvalCase:
        note = notes.get(case.eval_id)
        if note is None:
            return case
        tags = tuple(dict.fromkeys((*case.tags, *note.tags)))
        mocks = [ToolMock(each.tool, each.result, each.args, turn=each.turn) for each in note.tool_mocks]
        return replace(
            case,
            status=note.status,
            source=note.source,
            tags=tags,
            tool_mocks=(*case.tool_mocks, *mocks),
            alternatives=tuple([_build_alternative(case, each) for each in note.alternatives]),
        )

    return add_notes
