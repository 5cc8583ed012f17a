"""The results of tRPC-Agent-Go as objects, from `AgentEvaluator` or in an `.evalset_result.json`."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, get_args

from pydantic import Field
from typing_extensions import override

from evalgate.api.trpc.criteria import Criterion
from evalgate.api.trpc.datasets import Invocation
from evalgate.api.trpc.wire import WireModel

EvalStatus: TypeAlias = Literal["passed", "failed", "not_evaluated", "unknown", ""]
"""Status of a run, a case or a metric; "" if it has not been set."""


def parse_status(status: object) -> EvalStatus:
    """Return a status in lower case. Return "" for "", which means that no status is set.

    Raises:
        ValueError: `status` is no text, or is an unknown status.
    """
    for known in get_args(EvalStatus):
        if isinstance(status, str) and status.lower() == known:
            return cast("EvalStatus", known)
    names = ", ".join(filter(None, get_args(EvalStatus)))
    raise ValueError(f"the status {status!r}: it must be one of {names}")


class RubricScore(WireModel):
    """The judge model's score of one rubric, with its reason.

    >>> RubricScore(id="1", score=1.0).to_wire()
    {'id': '1', 'score': 1.0}
    """

    id: str = ""
    reason: str = ""
    score: float = 0.0


class EvalMetricResultDetails(WireModel):
    """A score with its reason and the scores of its rubrics.

    >>> EvalMetricResultDetails(reason="tool trajectory mismatch").to_wire()
    {'reason': 'tool trajectory mismatch'}
    """

    reason: str = ""
    score: float = 0.0
    value: dict[str, Any] | None = None
    """In the results of a turn, the score again, as `{"kind": "numeric", "numeric": SCORE}`; else None."""
    rubric_scores: list[RubricScore] = Field(default_factory=list)


class EvalMetricResult(WireModel):
    """The score of one metric, with its status, threshold and criterion.

    >>> EvalMetricResult(metric_name="a", score=1.0, eval_status="passed", threshold=1.0).eval_status
    'passed'
    """

    metric_name: str = ""
    score: float = 0.0
    eval_status: EvalStatus = ""
    threshold: float = 0.0
    criterion: Criterion | None = None
    details: EvalMetricResultDetails | None = None


class EvalMetricResultPerInvocation(WireModel):
    """One turn, actual and expected, with the score of each metric.

    >>> EvalMetricResultPerInvocation(actual_invocation=Invocation(invocation_id="1")).to_wire()
    {'actualInvocation': {'invocationId': '1'}}
    """

    actual_invocation: Invocation | None = None
    expected_invocation: Invocation | None = None
    eval_metric_results: list[EvalMetricResult] = Field(default_factory=list)


class EvalCaseResult(WireModel):
    """The result of one run of one case: status, error message and scores.

    >>> EvalCaseResult(eval_id="calc_add", run_id=1, final_eval_status="passed").to_wire()
    {'evalId': 'calc_add', 'runId': 1, 'finalEvalStatus': 'passed'}
    """

    eval_set_id: str = ""
    eval_id: str = ""
    run_id: int = 0
    """Number of the run, from 1; 0 in files that older releases wrote without this number."""
    score: float = 0.0
    """1.0 if the case passed, else 0.0."""
    final_eval_status: EvalStatus = ""
    error_message: str = ""
    overall_eval_metric_results: list[EvalMetricResult] = Field(default_factory=list)
    eval_metric_result_per_invocation: list[EvalMetricResultPerInvocation] = Field(default_factory=list)
    session_id: str = ""
    user_id: str = ""


class StatusCounts(WireModel):
    """The number of runs or cases with each status.

    >>> StatusCounts(passed=2, failed=1).to_wire()
    {'passed': 2, 'failed': 1}
    """

    passed: int = 0
    failed: int = 0
    not_evaluated: int = 0


class MetricSummary(WireModel):
    """The mean of one metric over runs or cases, with its status.

    >>> MetricSummary(metric_name="a", average_score=0.5, eval_status="failed", threshold=1.0).average_score
    0.5
    """

    metric_name: str = ""
    average_score: float = 0.0
    eval_status: EvalStatus = ""
    threshold: float = 0.0
    status_counts: StatusCounts | None = None


class RunSummary(WireModel):
    """Summary of one run over all cases.

    >>> RunSummary(run_id=1, overall_status="passed").to_wire()
    {'runId': 1, 'overallStatus': 'passed'}
    """

    run_id: int = 0
    overall_status: EvalStatus = ""
    case_status_counts: StatusCounts | None = None
    metric_summaries: list[MetricSummary] = Field(default_factory=list)


class CaseRunSummary(WireModel):
    """Summary of one run of one case.

    >>> CaseRunSummary(run_id=1, final_eval_status="passed").to_wire()
    {'runId': 1, 'finalEvalStatus': 'passed'}
    """

    run_id: int = 0
    final_eval_status: EvalStatus = ""
    error_message: str = ""
    metric_results: list[EvalMetricResult] = Field(default_factory=list)


class EvalCaseSummary(WireModel):
    """Summary of one case over all its runs.

    >>> EvalCaseSummary(eval_id="calc_add", overall_status="passed").to_wire()
    {'evalId': 'calc_add', 'overallStatus': 'passed'}
    """

    eval_id: str = ""
    overall_status: EvalStatus = ""
    run_status_counts: StatusCounts | None = None
    metric_summaries: list[MetricSummary] = Field(default_factory=list)
    run_summaries: list[CaseRunSummary] = Field(default_factory=list)


class EvalSetResultSummary(WireModel):
    """Summary of an evaluation, by runs and by cases.

    >>> EvalSetResultSummary(overall_status="passed", num_runs=1).to_wire()
    {'overallStatus': 'passed', 'numRuns': 1}
    """

    overall_status: EvalStatus = ""
    num_runs: int = 0
    run_status_counts: StatusCounts | None = None
    run_summaries: list[RunSummary] = Field(default_factory=list)
    eval_case_summaries: list[EvalCaseSummary] = Field(default_factory=list)


class EvalSetResult(WireModel):
    """The result of one evaluation: the content of an `.evalset_result.json`.

    >>> EvalSetResult(eval_set_id="math-basic").to_wire()
    {'evalSetId': 'math-basic'}
    """

    eval_set_result_id: str = ""
    """Id of the result. If it is "", the manager sets it to `<app>_<eval set>_<UUID>` when it saves it."""
    eval_set_result_name: str = ""
    eval_set_id: str = ""
    eval_case_results: list[EvalCaseResult] = Field(default_factory=list)
    """One result for each case and run."""
    summary: EvalSetResultSummary | None = None
    creation_timestamp: float | None = None
    """Unix seconds."""

    @override
    def __repr__(self) -> str:
        """Return a short text with the id and the number of results."""
        name = self.eval_set_result_id or self.eval_set_id
        return f"<EvalSetResult {name}: {len(self.eval_case_results)} results>"


class EvaluationCaseResult(WireModel):
    """The result of one case over all its runs, together with the result of each run.

    >>> EvaluationCaseResult(eval_case_id="calc_add", overall_status="passed").overall_status
    'passed'
    """

    eval_case_id: Annotated[str, Field(alias="evalId")] = ""
    overall_status: EvalStatus = ""
    eval_case_results: list[EvalCaseResult] = Field(default_factory=list)
    """One result for each run."""
    metric_results: list[EvalMetricResult] = Field(default_factory=list)
    """Each metric's mean over the runs in which it was evaluated."""


class EvaluationResult(WireModel):
    """The result of one evaluation of an eval set: its status, the cases, and the result that was saved.

    >>> EvaluationResult(app_name="math", eval_set_id="basic", overall_status="passed").overall_status
    'passed'
    """

    always_written: ClassVar[frozenset[str]] = frozenset(
        {"app_name", "eval_set_id", "overall_status", "execution_time", "eval_cases"}
    )

    app_name: str = ""
    eval_set_id: str = ""
    overall_status: EvalStatus = ""
    execution_time: int = 0
    """Nanoseconds, as in Go."""
    eval_cases: list[EvaluationCaseResult] = Field(default_factory=list)
    eval_set_result: EvalSetResult | None = None
    """The result of every run, as the result manager saved it."""

    @override
    def __repr__(self) -> str:
        """Return a short text with the status and the number of cases."""
        return f"<EvaluationResult {self.eval_set_id} {self.overall_status}: {len(self.eval_cases)} cases>"
