"""Read the agent's replies from results of tRPC-Agent-Go (`.evalset_result.json`); scores are ignored."""

import json
from collections.abc import Iterable, Iterator

from pydantic import Field, ValidationError

from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.protocols import Document
from evalgate.core.types import AgentInfo, CaseResult, Failure, Record, RunResult, Totals, TurnResult, Verdict
from evalgate.documents.key_spelling import get_member, match_spelling
from evalgate.documents.validation_errors import Id, translate_validation_error
from evalgate.integrations.trpc.file_models import TrpcInvocation, TrpcModel


class TrpcResultsFormat:
    """Format of tRPC-Agent-Go's results, with the recorded conversations."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with the results of cases.

        The first release of tRPC-Agent-Go wrote the object as one JSON text, which is accepted, too.
        """
        return isinstance(get_member(_decode_nested(document.value), "evalCaseResults"), list)

    def read_results(self, document: Document) -> Record:
        """Read the recorded conversations as a record without scores.

        The runs of a case are numbered from 1, in the order of their ids. A run without a recorded turn
        counts as crashed.

        Raises:
            InvalidInputError: the file is invalid. The error lists every problem.
        """
        value = _decode_nested(document.value)
        try:
            wire = _Results.model_validate(value)
        except ValidationError as error:
            raise InvalidInputError(
                translate_validation_error(
                    error,
                    file=document.path,
                    position=lambda location: document.find_position(match_spelling(value, location)),
                )
            ) from None
        runs: dict[str, list[_CaseResult]] = {}
        for result in wire.results:
            runs.setdefault(result.eval_id, []).append(result)
        cases = tuple(
            CaseResult(wire.eval_set_id, eval_id, "not_evaluated", (), tuple(_iter_run_results(own)))
            for eval_id, own in runs.items()
        )
        return Record(
            evalgate_version="",
            created_at="",
            duration_s=0.0,
            agent=AgentInfo("replay", document.path),
            runs=max(map(len, runs.values()), default=0),
            verdict=Verdict("error", ExitCode.NO_VERDICT, ("This is a recording, not a run.",)),
            metrics=(),
            cases=cases,
            totals=Totals(cases=len(cases), not_evaluated=len(cases)),
        )


def _decode_nested(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


class _InvocationResult(TrpcModel):
    actual: TrpcInvocation | None = Field(default=None, alias="actualInvocation")


class _CaseResult(TrpcModel):
    eval_id: Id = Field(alias="evalId")
    run_id: int = Field(default=0, alias="runId")
    error: str = Field(default="", alias="errorMessage")
    turns: list[_InvocationResult] = Field(default_factory=list, alias="evalMetricResultPerInvocation")


class _Results(TrpcModel):
    eval_set_id: Id = Field(alias="evalSetId")
    results: list[_CaseResult] = Field(default_factory=list, alias="evalCaseResults")


def _iter_run_results(results: Iterable[_CaseResult]) -> Iterator[RunResult]:
    """Yield the runs of one case in their order, numbered from 1."""
    # Sorting is stable: older result files have no `runId`, and keep their order.
    for number, result in enumerate(sorted(results, key=lambda each: each.run_id), start=1):
        turns = []
        for actual in (each.actual for each in result.turns):
            if actual is not None:
                user = actual.user_content.content if actual.user_content else ""
                turns.append(TurnResult(user, None, actual.to_reply()))
        if turns:
            yield RunResult(number, "answered", 0.0, tuple(turns))
        else:
            message = result.error or "the results hold no conversation of this case"
            yield RunResult(number, "crashed", 0.0, (), failure=Failure("recorded", message))
