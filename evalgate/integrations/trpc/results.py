"""Results of tRPC-Agent-Go (`.evalset_result.json`), read for what the agent did, not for their scores."""

import json
from collections.abc import Iterable

from pydantic import Field, ValidationError

from evalgate.core.errors import InvalidInput
from evalgate.core.protocols import Document
from evalgate.core.types import AgentInfo, CaseResult, Failure, Record, RunResult, Totals, TurnResult, Verdict
from evalgate.documents.validation import Id, problems_of
from evalgate.integrations.trpc.file_models import Wire, WireInvocation
from evalgate.integrations.trpc.keys import member, spelled_position


class TrpcResults:
    """Reads recorded conversations."""

    def recognises(self, document: Document) -> bool:
        """An object with the results of cases; the first release wrote it as one JSON text."""
        return isinstance(member(_unwrapped(document.value), "evalCaseResults"), list)

    def read(self, document: Document) -> Record:
        """The conversations, the runs of a case in order. A run that failed before it was scored crashed.

        Raises:
            InvalidInput: with every problem of the file.
        """
        value = _unwrapped(document.value)
        try:
            wire = _Results.model_validate(value)
        except ValidationError as error:
            raise InvalidInput(
                problems_of(
                    error,
                    file=document.path,
                    position=lambda location: document.position(spelled_position(value, location)),
                )
            ) from None
        runs: dict[str, list[_CaseResult]] = {}
        for result in wire.results:
            runs.setdefault(result.eval_id, []).append(result)
        cases = tuple(_case(wire.eval_set_id, eval_id, own) for eval_id, own in runs.items())
        return Record(
            evalgate_version="",
            created_at="",
            duration_s=0.0,
            agent=AgentInfo("replay", document.path),
            runs=max(map(len, runs.values()), default=0),
            verdict=Verdict("error", 3, ("This is a recording, not a run.",)),
            metrics=(),
            cases=cases,
            totals=Totals(cases=len(cases), not_evaluated=len(cases)),
        )


def _unwrapped(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


class _Scored(Wire):
    actual: WireInvocation | None = Field(default=None, alias="actualInvocation")


class _CaseResult(Wire):
    eval_id: Id = Field(alias="evalId")
    run_id: int = Field(default=0, alias="runId")
    error: str = Field(default="", alias="errorMessage")
    turns: list[_Scored] = Field(default_factory=list, alias="evalMetricResultPerInvocation")


class _Results(Wire):
    eval_set_id: Id = Field(alias="evalSetId")
    results: list[_CaseResult] = Field(default_factory=list, alias="evalCaseResults")


def _case(eval_set_id: str, eval_id: str, results: Iterable[_CaseResult]) -> CaseResult:
    ordered = sorted(results, key=lambda result: result.run_id)
    runs = tuple(_run(number, result) for number, result in enumerate(ordered, start=1))
    return CaseResult(eval_set_id, eval_id, "not_evaluated", (), runs)


def _run(number: int, result: _CaseResult) -> RunResult:
    turns = tuple(_turn(each.actual) for each in result.turns if each.actual is not None)
    if turns:
        return RunResult(number, "answered", 0.0, turns)
    message = result.error or "the results hold no conversation of this case"
    return RunResult(number, "crashed", 0.0, (), failure=Failure("recorded", message))


def _turn(actual: WireInvocation) -> TurnResult:
    user = actual.user_content.content if actual.user_content else ""
    return TurnResult(user, None, actual.reply())
