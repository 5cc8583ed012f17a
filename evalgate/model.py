"""All data that flows along the spine. Frozen, typed, and free of behaviour beyond small views of itself.

`EvalSet` is what was asked, `CaseRun` what the agent did, `CaseResult` what it is worth, `Record` the whole
truth of one run: `results.json` is a `Record`, field by field. Imports nothing of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

JsonObject: TypeAlias = Mapping[str, object]
"""A decoded JSON object. Numbers are finite, strings hold no lone surrogates."""

NO_JSON: JsonObject = {}

# --- what was asked -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent called a tool."""

    name: str
    args: JsonObject | None = None
    """None when the source names no arguments; an empty object is a call with none."""
    id: str | None = None
    author: str | None = None
    type: Literal["tool_call"] = "tool_call"
    other_args: object = None
    """Arguments that are no JSON object (a text, a list), where a source has such; `args` is None then."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool answered the agent."""

    name: str
    result: object = None
    id: str | None = None
    author: str | None = None
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class Message:
    """The agent said something on its way to the final response."""

    text: str
    author: str | None = None
    type: Literal["message"] = "message"
    payload: JsonObject | None = None
    """What a widget in the message holds, where it asks the user to choose or confirm."""


Event: TypeAlias = ToolCall | ToolResult | Message


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent does in one turn: the expected one and the actual one have the same shape."""

    response: str | None = None
    """Text of the final response; None when there is none."""
    events: tuple[Event, ...] = ()
    """Everything before the final response, in order."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls alone, in order."""
        return tuple(event for event in self.events if isinstance(event, ToolCall))


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says in one turn."""

    text: str
    attachments: tuple[JsonObject, ...] = ()
    """Parts of the message that are not text, as the eval set holds them."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a case: what the user says, and what the agent should do."""

    user: UserMessage
    expected: Reply = Reply()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A conversation that is not written down: a simulated user plays it from this plan."""

    starting_prompt: str
    conversation_plan: str
    user_persona: str | JsonObject | None = None


ArgMatching: TypeAlias = Literal["strict", "optional", "ignore", "fuzzy"]
"""How one argument of a goal's tool call is compared: see docs/formats-orchestrate.md."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One thing that a conversation should reach."""

    name: str
    """"" for checks, which belong to no order."""
    type: Literal["tool_call", "text", "interaction", "check", "conversational_search", "tool_response"]
    tool_name: str = ""
    args: JsonObject | None = None
    """Of a tool call; None: it must have none."""
    arg_matching: Mapping[str, ArgMatching] = field(default_factory=dict)
    """Dotted path of an argument → how it is compared; `strict` where nothing is said."""
    response: str | None = None
    """What a text should say."""
    keywords: tuple[str, ...] = ()
    """What a text must hold, all of them."""
    identifier: tuple[str, str] | None = None
    """Key and value by which an interaction's widget is known."""
    check: str = ""
    """What a judge must affirm."""
    scope: Literal["response", "conversation"] = "conversation"
    """What the judge of a check sees: the last response, or all that was said."""


@dataclass(frozen=True, slots=True)
class Journey:
    """What a whole conversation should reach, and in which order; its turns are free."""

    goals: tuple[Goal, ...]
    order: Mapping[str, tuple[str, ...]]
    """Goal → the goals that come after it. Every goal that is named here must be reached."""
    story: str = ""
    """What the user wants, for whoever plays the user."""


@dataclass(frozen=True, slots=True)
class SessionInput:
    """What the agent's session starts with."""

    app_name: str = ""
    user_id: str = ""
    state: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One conversation to hold with the agent."""

    eval_id: str
    """Unique within its eval set."""
    turns: tuple[Turn, ...] = ()
    scenario: Scenario | None = None
    """Given instead of `turns`."""
    session: SessionInput = SessionInput()
    final_state: JsonObject | None = None
    """The session state that the eval set expects after the last turn."""
    line: int = 0
    """1-based line of the eval-set file where the case starts; 0 when unknown."""
    journey: Journey | None = None
    """What the conversation as a whole should reach, where the source says that instead of turn by turn."""
    eval_set_id: str = ""
    """The eval set that it is loaded with."""
    context_messages: tuple[JsonObject, ...] = ()
    """What the conversation is preceded by, as the eval set holds it: the agent gets it with the session."""
    recorded: tuple[Reply, ...] | None = None
    """What the agent did, where the eval set itself has it: then no agent is asked."""


@dataclass(frozen=True, slots=True)
class EvalSet:
    """The cases of one file."""

    eval_set_id: str
    cases: tuple[EvalCase, ...]
    path: str = ""
    """The file, as the user wrote it or relative to the working folder."""
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Reliability:
    """How often the runs of a case must pass, where their mean is not what decides."""

    kind: Literal["pass^k", "pass@k"]
    """That k runs all pass, or that at least one of k does."""
    k: int
    at_least: float = 1.0
    """What the estimate must reach."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of a thresholds file: a metric, its options, and the score it must reach."""

    metric: str
    """The name as the user wrote it."""
    threshold: float
    options: JsonObject = field(default_factory=dict)
    """The metric's own options, not yet checked."""
    evaluator: str = ""
    """What the catalogue calls the metric, where that is not `metric`."""
    reliability: Reliability | None = None
    """None: the mean over the runs decides a case."""


# --- what the agent did -------------------------------------------------------------------------------------

Outcome: TypeAlias = Literal["answered", "crashed", "timed_out", "not_run"]
"""How one run of one case ended. `not_run`: interrupted, or the agent could not be reached at all."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run consumed, as far as the agent reports it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run has no answer. Never a score."""

    kind: str
    """A stable word: exception, exited, killed, protocol, timeout, import, interrupted, unsupported, …"""
    message: str
    """One sentence that a user understands."""
    detail: str = ""
    """Traceback or the tail of the agent's stderr, bounded."""


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run of one case, as it happened."""

    run: int
    """1-based."""
    outcome: Outcome
    replies: tuple[Reply | None, ...] = ()
    """One per turn that was played; None where a recording has none. May be longer than the case."""
    duration_s: float = 0.0
    usage: Usage | None = None
    failure: Failure | None = None
    """Set exactly when `outcome` is not `answered`."""
    final_state: JsonObject | None = None
    attempts: int = 1
    """How often the case was started: more than once when a neighbour took the worker down."""


# --- what it is worth ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnScore:
    """What a metric says of one turn."""

    score: float | None
    """None: the metric does not judge this turn."""
    reason: str = ""
    details: JsonObject | None = None
    passed: bool | None = None
    """As in `Scored`."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The metric has nothing to say about this case, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class MetricFailed:
    """The metric itself broke: its judge is down, its code raised. Says nothing about the agent."""

    reason: str


MetricResult: TypeAlias = Scored | NotApplicable | MetricFailed

Status: TypeAlias = Literal["passed", "failed", "errored", "not_evaluated"]
"""Of a case or metric. `errored`: a crash, timeout or broken metric; `not_evaluated`: nothing applied."""


@dataclass(frozen=True, slots=True)
class TurnMetric:
    """One metric of one turn, in the record."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """One turn of one run: asked, expected, got."""

    user: str
    expected: Reply | None
    """None: the case has no such turn (a recording was longer)."""
    actual: Reply | None
    """None: the agent gave no such turn."""
    metrics: tuple[TurnMetric, ...] = ()


@dataclass(frozen=True, slots=True)
class RunMetric:
    """One metric of one run."""

    name: str
    score: float | None
    status: Status
    reason: str = ""
    details: JsonObject | None = None
    literal: bool = True
    """Whether the threshold alone decided `status`; else the metric's owner did."""


@dataclass(frozen=True, slots=True)
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
    attempts: int = 1


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


# --- the record ---------------------------------------------------------------------------------------------

SCHEMA_VERSION = 1
# 1: the first.


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """Which agent was gated."""

    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """One metric over all cases that it was asked of."""

    name: str
    score: float | None
    """Mean of the case scores; None when no case has one."""
    threshold: float
    status: Status
    baseline: float | None
    """Mean of the baseline's case scores over the comparable cases."""
    delta: float | None
    """Mean over the comparable cases, now minus then."""
    n: int
    """Cases that the metric was asked of, crashed ones included."""
    errors: int
    """Cases of `n` that have no score because the agent crashed, timed out, or the metric broke."""
    compared: int = 0
    """Cases that `baseline` and `delta` speak of."""
    eval_sets: tuple[str, ...] = ()
    """The eval sets that share this threshold; empty when all do."""
    regressed: bool = False
    """It fell against the baseline by more than the gate allows."""


Change: TypeAlias = Literal["newly_failing", "newly_passing", "new", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """How one case differs from the baseline."""

    eval_set_id: str
    eval_id: str
    change: Change
    before: Status | None = None
    after: Status | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The run beside its baseline."""

    source: str
    """Where the baseline was read from."""
    created_at: str | None = None
    commit: str | None = None
    changes: tuple[CaseChange, ...] = ()
    """In file order; removed cases last. Cases that did not change are not listed."""
    unchanged: int = 0
    other_metrics: tuple[str, ...] = ()
    """Metrics that are not compared on some case because they, or their options, were others then."""


VerdictStatus: TypeAlias = Literal["pass", "fail", "inconclusive", "error"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided, and why."""

    status: VerdictStatus
    exit_code: int
    """0 open, 1 closed, 3 no trustworthy verdict, 4 inconclusive, 130 interrupted."""
    reasons: tuple[str, ...] = ()
    """Whole sentences, the weightiest first."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over the whole run. The four case counts add up to `cases`."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    not_evaluated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


# A field that is renamed or removed here breaks every program that reads results.json: raise SCHEMA_VERSION.
@dataclass(frozen=True, slots=True)
class Record:
    """The whole truth of one run. Every report renders from it alone."""

    evalgate_version: str
    created_at: str
    """ISO 8601, UTC."""
    duration_s: float
    agent: AgentInfo
    runs: int
    verdict: Verdict
    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    totals: Totals
    comparison: Comparison | None = None
    notices: tuple[str, ...] = ()
    """What a reader should know although it did not change the verdict."""
    schema_version: int = SCHEMA_VERSION
    options: tuple[str, ...] = ()
    """Words of the command line, beside eval sets and agent, that a run of one case needs as well. No value
    of a variable and no absolute path is among them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the gate decides on: the record before its verdict."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    totals: Totals
    comparison: Comparison | None = None
    interrupted: bool = False
    unreachable: str = ""
    """Why the agent could not be reached at all; "" when it could."""


@dataclass(frozen=True, slots=True)
class BaselineSource:
    """A gate run that runs of a baseline come from."""

    created_at: str | None = None
    """ISO 8601."""
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """One run of a case: raw scores, never means, and how it ended, so that a crash stays a crash."""

    source: int
    """Index of its `BaselineSource`."""
    outcome: Outcome
    scores: Mapping[str, float | None]
    """Metric name → score; None where the metric itself failed or did not apply."""
    duration_s: float = 0.0
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class BaselineCase:
    """One case of a baseline."""

    eval_set_id: str
    eval_id: str
    status: Status
    fingerprint: str
    metric_fingerprints: Mapping[str, str]
    """Metric name → what it was; scores compare only when it is equal."""
    runs: tuple[BaselineRun, ...]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a later run is compared with."""

    cases: tuple[BaselineCase, ...]
    sources: tuple[BaselineSource, ...]
    """The newest last; at least one."""
    path: str = ""
    """Where it was read from, as reports name it."""
