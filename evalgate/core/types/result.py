"""Scores of turns, runs and cases, and the policies that apply to them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types.comparison import CaseComparison, FollowUp
from evalgate.core.types.conversation import (
    AGENT_FAULT_OUTCOMES,
    Attempt,
    CaseKey,
    Failure,
    JsonObject,
    Outcome,
    Reply,
    TraceSpan,
    Usage,
)


@frozen
class ScopedThreshold:
    """A threshold that holds for some cases only."""

    threshold: float
    scope: str
    """The cases, as reports name them: `refund_*`, `tag smoke`."""
    min_mean: float | None = None
    """Minimum of the mean of these cases. None: the minimum is that of the criterion (`Criterion.min_mean`).
    But if the criterion's `min_mean` equals its `threshold`, the minimum is the `threshold` set here."""


@frozen
class Quarantine:
    """Reason why a case does not gate for now."""

    owner: str
    """Person or team responsible for the case."""
    reason: str
    expires: str
    """The last day of the quarantine, such as 2026-12-31."""


@frozen
class CasePolicy:
    """Tags, weight, thresholds and quarantine of one case. Its thresholds replace the common thresholds."""

    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Weight of the case in the mean of each metric, above 0."""
    protected: bool = False
    """True: the gate closes when the case fails, regardless of `max_failed_cases`."""
    thresholds: Mapping[str, ScopedThreshold] = field(default_factory=dict)
    """Maps the name of a metric to its threshold for this case."""
    quarantine: Quarantine | None = None
    """Quarantine of the case, which still runs and is reported, but does not gate. None: no quarantine."""


@frozen
class ReliabilityRule:
    """Minimum of a case's estimated pass^k or pass@k, instead of a minimum of its mean."""

    kind: Literal["pass^k", "pass@k"]
    """`pass^k`: k runs all pass; `pass@k`: at least one of k does."""
    k: int
    at_least: float = 1.0
    """Minimum of the estimate."""


@frozen
class Criterion:
    """A metric with its options and the score that it must reach.

    It is an entry of `criteria` or `checks`, or of another tool's file.
    """

    metric: str
    """The name as the user wrote it."""
    threshold: float
    options: JsonObject = field(default_factory=dict)
    """The metric's own options, not yet checked."""
    evaluator: str = ""
    """Name of the metric in the registry if it differs from `metric`, else ""."""
    reliability: ReliabilityRule | None = None
    """Rule for pass^k or pass@k that decides a case. None: the mean over the case's runs decides."""
    rule: Literal["literal", "statistical"] = "literal"
    """`literal`: every mean below its minimum fails. `statistical`: a mean below its minimum fails only if it
    is significantly below."""
    max_regression: float | None = None
    """Allowed drop of this metric against the baseline; None: `gate.max_regression`."""
    range: Range = UNIT_RANGE
    """The worst and the best score that the metric can give."""
    min_mean: float | None = None
    """Minimum of the mean of all cases. None: the comparison with the baseline judges the mean; without a
    comparison, `threshold` is the minimum. In files of Google ADK or tRPC-Agent-Go: `threshold`."""
    gates: bool = True
    """False: the metric is scored and reported, and decides nothing."""

    @property
    def implementation(self) -> str:
        """Return the name of the metric in the registry or in `custom_metrics`."""
        return self.evaluator or self.metric


@frozen
class TurnScore:
    """Score of one turn by one metric."""

    score: float | None
    """Score in the metric's range; None: the metric does not judge this turn."""
    reason: str = ""
    details: JsonObject | None = None
    passed: bool | None = None
    """Decision of the tool that defines the metric, by a rule of its own; None: the threshold decides."""


@frozen
class MetricScore:
    """Score that a metric gave a run."""

    score: float
    turns: tuple[TurnScore, ...] = ()
    """Scores of the turns, one for each; empty when the metric judges the conversation as a whole."""
    reason: str = ""
    details: JsonObject | None = None
    passed: bool | None = None
    """Decision of the tool that defines the metric, by a rule of its own; None: the threshold decides."""


@frozen
class NotApplicable:
    """Result of a metric that does not apply to the case, with the reason."""

    reason: str


@frozen
class MetricFailure:
    """Failure of the metric itself, such as a judge that is down. Says nothing about the agent."""

    reason: str
    kind: str = "metric"
    """Kind, as a word that stays the same in later versions. If the judge failed: outage, unparsable, …"""


MetricResult: TypeAlias = MetricScore | NotApplicable | MetricFailure

Status: TypeAlias = Literal["passed", "failed", "errored", "not_evaluated"]
"""Status of a case or metric. `errored`: crash, timeout, broken metric; `not_evaluated`: nothing applied."""


@frozen
class TurnMetric:
    """Result of one metric in one turn."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None


@frozen
class TurnResult:
    """One turn of one run: the message, the expected reply, and the actual one."""

    user: str
    expected: Reply | None
    """The expected reply. None: the case does not have this turn, because a simulated user made up the
    messages, or because a recording is longer than the case."""
    actual: Reply | None
    """The agent's reply; None: there was no reply in this turn."""
    metrics: tuple[TurnMetric, ...] = ()


@frozen
class RunMetric:
    """Result of one metric in one run."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None
    literal: bool = True
    """True: the threshold alone decided `status`; False: a rule of the tool that defines the metric did."""
    failure: str = ""
    """If `status` is `errored`: `MetricFailure.kind`. Otherwise ""."""
    gates: bool = True
    """False: the metric is only reported. `status` then counts for no run, case or verdict."""

    @property
    def gating_status(self) -> Status:
        """Return the status that counts for the verdict: `not_evaluated` if the metric is only reported."""
        return self.status if self.gates else "not_evaluated"


NO_USAGE = Usage()


@frozen
class ModelUsage:
    """Calls, tokens and cost of the models that judge, separate from the agent's."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """Cost in US dollars of the calls with a known cost."""
    unpriced: int = 0
    """Number of calls with an unknown cost. If it is above 0, `cost_usd` is only a lower bound."""
    spared: int = 0
    """Number of calls that were answered from the cache."""
    spared_usage: Usage = NO_USAGE
    """Tokens and cost of the spared calls when they were first made."""

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        return ModelUsage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.unpriced + other.unpriced,
            self.spared + other.spared,
            self.spared_usage + other.spared_usage,
        )

    @property
    def usage(self) -> Usage:
        """Return the tokens and the cost of the calls that were made; answers from the cache do not count."""
        if self.unpriced:
            return Usage(self.input_tokens, self.output_tokens, None, known_usd=self.cost_usd)
        return Usage(self.input_tokens, self.output_tokens, self.cost_usd)


@frozen
class RunResult:
    """Result of one run of one case: replies, scores and outcome."""

    run: int
    outcome: Outcome
    duration_s: float
    turns: tuple[TurnResult, ...]
    metrics: tuple[RunMetric, ...] = ()
    usage: Usage | None = None
    failure: Failure | None = None
    final_state: JsonObject | None = None
    earlier_attempts: tuple[Attempt, ...] = ()
    confirms: bool = False
    """True for a follow-up run, which only helps to decide whether a failing case broke. It is part of no
    mean, and never of a baseline."""
    user_usage: Usage | None = None
    """Tokens and cost of the simulated user."""
    judge: ModelUsage | None = None
    """Tokens and cost of judging this run; None: no model was asked."""
    session_id: str = ""
    """Id under which the agent's framework or server keeps the conversation; "" if it has none."""
    user_id: str = ""
    """Id of the user that the agent was called for; "" if the case and the agent name none."""
    trace: tuple[TraceSpan, ...] = ()
    """Timed steps of the run, in the order of their beginning; empty unless a trace was asked for."""

    @property
    def usages(self) -> tuple[Usage, ...]:
        """Return the known usages of the agent, the simulated user, and the earlier attempts at this run."""
        usages = (self.usage, self.user_usage, *[attempt.usage for attempt in self.earlier_attempts])
        return tuple([usage for usage in usages if usage is not None])


@frozen
class RecordedCriterion:
    """A metric with the options that its scores depend on."""

    metric: str
    """The name as the user wrote it."""
    fingerprint: str
    """Hash of the metric and its options; equal to `CaseMetric.fingerprint` of the metric's results."""
    options: JsonObject = field(default_factory=dict)
    """The metric's own options, as the user wrote them."""
    evaluator: str = ""
    """Name of the metric in the registry if it differs from `metric`, else ""."""


@frozen
class CaseMetric:
    """Result of one metric for one case, over all its runs."""

    name: str
    score: float | None
    """Mean over the runs to which the metric applies, without follow-up runs. None if the metric applies to
    no run or failed on a run, if a run has no answer, or if there are too few runs for pass^k or pass@k."""
    threshold: float
    status: Status
    reason: str = ""
    fingerprint: str = ""
    """Hash of the metric and its options; only scores with equal fingerprints can be compared."""
    scope: str = ""
    """The cases that `threshold` applies to; "" for all."""
    standing: CaseComparison | None = None
    """Comparison with the stored runs; None if the statistics did not compare this metric of the case, for
    example without a baseline."""
    range: Range = UNIT_RANGE
    """The worst and the best possible score; in rare cases a score lies outside of this range."""
    min_mean: float | None = None
    """Minimum of the mean over the cases. None: the comparison with the baseline judges the mean; without a
    comparison, `threshold` is the minimum."""
    gates: bool = True
    """False: the metric is only reported. `status` then counts for no case and no verdict."""

    @property
    def decline(self) -> float | None:
        """Return how far the case declined from its baseline; None if it is not known. Above 0 is worse.

        The decline is a drop in points of the score. For a budget, it is the increase as a share of the
        baseline's figure, or the increase itself if the baseline's figure is 0.
        """
        drop = self.standing.drop if self.standing else None
        if drop is None or not self.range.lower_is_better:
            return drop
        before = self.standing.baseline_mean if self.standing else None
        return -drop / before if before else -drop

    @property
    def gating_status(self) -> Status:
        """Return the status that counts for the verdict: `not_evaluated` if the metric is only reported."""
        return self.status if self.gates else "not_evaluated"


@frozen
class CaseResult:
    """Result of one case, over all its runs.

    >>> from evalgate import evaluate
    >>> case, criteria = {"query": "Hi", "reference": "Hello"}, {"response_match_score": 1.0}
    >>> record = evaluate([case], lambda text: "Hello", criteria=criteria, runs=3)
    >>> record.cases[0].status, len(record.cases[0].runs)
    ('passed', 3)
    """

    eval_set_id: str
    eval_id: str
    status: Status
    metrics: tuple[CaseMetric, ...]
    runs: tuple[RunResult, ...]
    fingerprint: str = ""
    """Hash of the case's messages and expectations; only results with equal fingerprints can be compared."""
    path: str = ""
    line: int = 0
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Weight of the case in the mean of each metric, above 0."""
    protected: bool = False
    """True: the gate closes when the case fails, regardless of `max_failed_cases`."""
    quarantine: Quarantine | None = None
    """Reason why the case does not gate, and is in no mean, verdict or statistics; None: no quarantine."""
    follow_up: FollowUp | None = None
    """Conclusion whether a failing case broke or is flaky. None: the case passed, its failure cannot be
    compared with stored runs, or `max_failed_cases` decides."""
    observed: bool = False
    """True: the case was imported and not reviewed yet. Like a quarantined case, it does not gate."""
    source: str = ""
    """Link to the recorded trace that the case was made from; "" if it has none."""

    @property
    def gates(self) -> bool:
        """Return True if the case counts for the verdict: it is neither quarantined nor `observed`."""
        return self.quarantine is None and not self.observed

    @property
    def key(self) -> CaseKey:
        """Return (eval set id, case id), which identifies the case among the cases of all eval sets."""
        return self.eval_set_id, self.eval_id

    @property
    def agent_failed(self) -> bool:
        """Return True if the agent crashed or timed out in a run of the case; follow-up runs do not count."""
        return any(run.outcome in AGENT_FAULT_OUTCOMES for run in self.runs if not run.confirms)

    @property
    def is_conclusive(self) -> bool:
        """Return True if the case passed or failed, or if the agent crashed or timed out.

        If False, the result shows nothing about the agent: a judge or a service failed, for example.
        """
        return self.status in {"passed", "failed"} or self.agent_failed
