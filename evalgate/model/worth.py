"""What it is worth: scores of turns, runs and cases."""

from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.model.done import THE_AGENTS_FAULT, Attempt, Failure, Outcome, Usage
from evalgate.model.held import UNIT_RANGE, Quarantine
from evalgate.model.judgement import FollowUp, Standing
from evalgate.model.said import JsonObject, Reply


@frozen
class TurnScore:
    """What a metric says of one turn."""

    score: float | None
    """None: the metric does not judge this turn."""
    reason: str = ""
    details: JsonObject | None = None
    passed: bool | None = None
    """As in `Scored`."""


@frozen
class Scored:
    """The metric gave the run a score."""

    score: float
    turns: tuple[TurnScore, ...] = ()
    """One per turn, or empty when the metric judges the conversation as a whole."""
    reason: str = ""
    details: JsonObject | None = None
    passed: bool | None = None
    """None: the literal rule, a score at or above its threshold passes. Set where the metric's owner has
    another rule."""


@frozen
class NotApplicable:
    """The metric has nothing to say about this case, for this reason."""

    reason: str


@frozen
class MetricFailed:
    """The metric itself broke: its judge is down, its code raised. Says nothing about the agent."""

    reason: str
    kind: str = "metric"
    """A stable word: of a judge's failure its kind (outage, unparsable, budget_spent, …)."""


MetricResult: TypeAlias = Scored | NotApplicable | MetricFailed

Status: TypeAlias = Literal["passed", "failed", "errored", "not_evaluated"]
"""Of a case or metric. `errored`: a crash, timeout or broken metric; `not_evaluated`: nothing applied."""


@frozen
class TurnMetric:
    """One metric of one turn, in the record."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None


@frozen
class TurnResult:
    """One turn of one run: asked, expected, got."""

    user: str
    expected: Reply | None
    """None: the case has no such turn (a recording was longer)."""
    actual: Reply | None
    """None: the agent gave no such turn."""
    metrics: tuple[TurnMetric, ...] = ()


@frozen
class RunMetric:
    """One metric of one run."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None
    literal: bool = True
    """Whether the threshold alone decided `status`; else the metric's owner did."""
    failure: str = ""
    """The kind of failure, in a stable word, where `status` is `errored`."""


NO_USAGE = Usage()


@frozen
class JudgeTotals:
    """What judging models used, beside what the agent did."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    """Of the calls whose cost is known."""
    unpriced: int = 0
    """Calls whose cost is not known; more than 0 makes `cost_usd` a lower bound."""
    spared: int = 0
    """Calls that the cache of answers spared."""
    spared_usage: Usage = NO_USAGE
    """What these used when they were made."""

    def __add__(self, other: "JudgeTotals") -> "JudgeTotals":
        return JudgeTotals(
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
        """What the calls used that were made."""
        if self.unpriced:
            return Usage(self.input_tokens, self.output_tokens, None, known_usd=self.cost_usd)
        return Usage(self.input_tokens, self.output_tokens, self.cost_usd)


@frozen
class RunResult:
    """One run of one case, scored."""

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
    """Made to follow up a suspicion: no part of any mean, and never of a baseline."""
    user_usage: Usage | None = None
    """What the simulated user consumed."""
    judge: JudgeTotals | None = None
    """What judging this run used; None: no model was asked."""


@frozen
class CaseMetric:
    """One metric of one case, over all its runs."""

    name: str
    score: float | None
    """Mean over the runs; None unless every run has a score."""
    threshold: float
    status: Status
    reason: str = ""
    fingerprint: str = ""
    """Hash of the metric and its options: two scores compare only when it is equal."""
    scope: str = ""
    """For which cases `threshold` holds; "" when for all."""
    standing: Standing | None = None
    """How it stands beside its baseline; None where there is none."""
    range: tuple[float, float] = UNIT_RANGE
    """The metric's lowest and highest score; a rare one lies beyond all the same."""
    min_mean: float | None = None
    """What the mean over the cases must reach; None: `threshold`, unless a baseline judges the mean."""


@frozen
class CaseResult:
    """One case, over all its runs."""

    eval_set_id: str
    eval_id: str
    status: Status
    metrics: tuple[CaseMetric, ...]
    runs: tuple[RunResult, ...]
    fingerprint: str = ""
    """Hash of what the case asks and expects: two results compare only when it is equal."""
    path: str = ""
    line: int = 0
    tags: tuple[str, ...] = ()
    weight: float = 1.0
    """Share in the mean of each metric."""
    protected: bool = False
    """The gate closes when it fails, whatever else is allowed."""
    quarantine: Quarantine | None = None
    """Why it does not gate: it is part of no mean, no verdict and no statistics; None: it gates."""
    follow_up: FollowUp | None = None
    """Why it failed, as far as its baseline and further runs tell; None: it passed, or has no baseline."""

    @property
    def agent_failed(self) -> bool:
        """Whether the agent crashed or timed out in a run that does more than to confirm."""
        return any(run.outcome in THE_AGENTS_FAULT for run in self.runs if not run.confirms)

    @property
    def is_told(self) -> bool:
        """Whether the runs say what the agent is like here; not so where only a judge or a service failed."""
        return self.status in {"passed", "failed"} or self.agent_failed
