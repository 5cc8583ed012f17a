"""The record of one run: settings, results, verdict."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types.baseline import TrackedFiles
from evalgate.core.types.comparison import (
    AnchorComparison,
    ControlComparison,
    Margin,
    MetricComparison,
    SamplingCost,
)
from evalgate.core.types.conversation import CaseKey, Reply
from evalgate.core.types.result import CaseResult, Criterion, ModelUsage, RecordedCriterion, Status

_ROUNDING = 1e-9  # largest rounding error of a sum of means

REPORT_ONLY = "report only"
"""Mark of a metric that does not gate, in reports."""
SCHEMA_VERSION = 1
# 1: the first.


EVAL_SET_TRACES = "the traces of the eval sets"
"""`AgentInfo.what` if no agent was named, because every case of the eval sets is a recorded conversation."""


@frozen
class AgentInfo:
    """Kind and name of the gated agent."""

    kind: str
    what: str
    """Value that names the agent, such as its entry point, command or address."""

    @property
    def app_name(self) -> str:
        """Return a name for the agent, for file formats that require an app name.

        It is derived from the module, file or folder at the start of `what`; "agent" if no character of it is
        usable.
        """
        last = re.split(r"[/\\]", self.what.partition(":")[0].rstrip("/\\"))[-1]
        stem = last.removesuffix(".agent").removesuffix(".py").rpartition(".")[2]
        return re.sub(r"[^\w-]+", "_", stem).strip("_") or "agent"


@frozen
class MetricSummary:
    """Result of one metric over all cases that it was evaluated on."""

    name: str
    score: float | None
    """Mean of the case scores, weighted by the cases' weights; None if no case has a score."""
    threshold: float
    status: Status
    baseline: float | None
    """Mean of the baseline's case scores over the cases that can be compared."""
    delta: float | None
    """Change of the mean over the comparable cases: the mean now minus the mean of the baseline. A crash or
    timeout counts as the worst score. For a budget, only runs count that passed all other metrics."""
    n: int
    """Number of cases that the metric was evaluated on, crashed cases included."""
    errors: int
    """Number of the `n` cases without a score, because the agent crashed or timed out, or the metric
    broke."""
    compared: int = 0
    """Number of cases that `baseline` and `delta` are computed from."""
    eval_sets: tuple[str, ...] = ()
    """The eval sets to which this threshold applies; empty if it applies to all."""
    scope: str = ""
    """The cases to which `threshold` applies, as the thresholds file names them; "" if it applies to all."""
    regressed: bool = False
    """True if the mean is worse than the baseline by more than the gate allows, or if a case broke."""
    judgement: MetricComparison | None = None
    """Result of the statistics; None if they do not judge this metric, for example because there is neither a
    baseline nor a statistical rule, or because scores are out of range."""
    agreement: float | None = None
    """Agreement of a judge with itself, 0 to 1: it was asked the same question several times, and this is the
    share of pairs of its answers that agree. None: no question was asked twice."""
    flip: Margin | None = None
    """Distance of the mean from its minimum, where the status changes between passed and failed. None: there
    is no mean or no minimum, or scores are out of range."""
    trend: tuple[float, ...] = ()
    """One mean for each gate run in the baseline, the oldest first, over the cases that can be compared."""
    range: Range = UNIT_RANGE
    """The worst and the best score that the metric can give."""
    min_mean: float | None = None
    """Lowest mean that passes, if this limit differs from `threshold`; else None."""
    corrected_score: float | None = None
    """`score` without the bias of `runs: auto`, which stops when an average looks good and makes further runs
    when it looks bad. None: `score` needs no correction. `delta` and the verdict are never corrected."""
    mean_judged_by: Literal["minimum", "baseline"] = "minimum"
    """`minimum`: the mean must reach `minimum`. `baseline`: no minimum of the mean is set, so the comparison
    with the baseline judges the mean; `threshold` then applies to single cases only."""
    gates: bool = True
    """False: the metric is only reported. The verdict depends neither on `status` nor on `delta`."""

    @property
    def minimum(self) -> float | None:
        """Return the minimum for the mean; None if the mean is compared with the baseline instead."""
        if self.mean_judged_by == "baseline":
            return None
        return self.threshold if self.min_mean is None else self.min_mean

    @property
    def compared_score(self) -> float | None:
        """Return the mean of this run over the cases that can be compared with the baseline.

        If no case can be compared, return `score`. A crash counts as the worst score, as in `delta`.
        """
        if self.baseline is None or self.delta is None:
            return self.score
        found = self.baseline + self.delta
        return self.score if self.score is not None and abs(found - self.score) < _ROUNDING else found

    @property
    def label(self) -> str:
        """Return the metric's name, followed in brackets by the scope and eval sets of this summary.

        For a metric that does not gate, the brackets also hold `report only`.
        """
        where = ", ".join(filter(None, (self.scope, *self.eval_sets, "" if self.gates else REPORT_ONLY)))
        return f"{self.name} ({where})" if where else self.name

    def iter_sentences(self) -> Iterator[tuple[str, str]]:
        """Yield (name, sentence) for each sentence of the statistics; reports print the name first.

        Sentences about this summary come first, with `label` as the name. Sentences about the whole metric
        follow, with the metric's `name`. If a metric has several summaries, for example because thresholds
        differ, only one of the summaries holds the sentences about the whole metric.
        """
        if self.judgement is not None:
            yield from ((self.label, sentence) for sentence in self.judgement.sentences)
            yield from ((self.name, sentence) for sentence in self.judgement.shared)


Change: TypeAlias = Literal["newly_failing", "flaky", "newly_passing", "new", "removed", "changed"]


@frozen
class CaseChange:
    """Difference of one case from the baseline."""

    eval_set_id: str
    eval_id: str
    change: Change
    before: Status | None = None
    after: Status | None = None
    then: tuple[Reply | None, ...] = ()
    """For a newly failing case, the agent's replies in the baseline, turn by turn. Empty if the baseline does
    not store them, and for other changes."""

    @property
    def key(self) -> CaseKey:
        """Return (eval set id, case id), which identifies the case among the cases of all eval sets."""
        return self.eval_set_id, self.eval_id


@frozen
class AverageRunUsage:
    """Average duration, tokens and cost of one run of a case, over the comparable cases."""

    cases: int
    duration_s: float
    input_tokens: float
    output_tokens: float
    cost_usd: float | None
    """Average cost in US dollars; None: the cost of some run is not known."""


@frozen
class Comparison:
    """Comparison of the run with its baseline."""

    source: str
    """Path or address of the baseline."""
    created_at: str | None = None
    commit: str | None = None
    changes: tuple[CaseChange, ...] = ()
    """Changed cases in the order of the files, then removed cases. Unchanged cases are not listed."""
    unchanged: int = 0
    other_metrics: tuple[str, ...] = ()
    """Metrics that are not compared on some case because they, or their options, have changed."""
    then: AverageRunUsage | None = None
    """Average usage of a run in the baseline, over the cases with an answer both now and in the baseline.
    None if there is no such case."""
    now: AverageRunUsage | None = None
    other_judges: tuple[str, ...] = ()
    """Metrics that are not compared on some case because the judge, or its prompt, has changed."""
    version: str = ""
    """Version of the source that was read, in words; "" if its path says enough."""
    branch: str | None = None
    """Branch of the newest gate run in the baseline."""
    gate_runs: int = 1
    """Number of gate runs in the baseline."""
    left_out: int = 0
    """Number of cases of the baseline that the user did not select for this run."""


VerdictStatus: TypeAlias = Literal["pass", "fail", "inconclusive", "error", "skipped"]


@frozen
class Verdict:
    """Decision of the gate, with its reasons.

    >>> from evalgate import evaluate
    >>> case, criteria = {"query": "Hi", "reference": "Hello"}, {"response_match_score": 1.0}
    >>> evaluate([case], lambda text: "Bye", criteria=criteria).verdict.reasons[0]
    'response_match_score is 0.00, below its threshold 1.00.'
    """

    status: VerdictStatus
    exit_code: int
    """0 open, 1 closed, 2 a report could not be written, 3 no trustworthy verdict, 4 inconclusive, 130
    interrupted."""
    reasons: tuple[str, ...] = ()
    """Reasons for the verdict as whole sentences, the weightiest first."""
    gating_exit_code: int | None = None
    """Exit code that the gate would have without `report_only`; None: the same as `exit_code`."""

    @property
    def would_close(self) -> bool:
        """Return True if only `report_only` kept the gate from ending with exit code 1 or 4."""
        return bool(self.gating_exit_code)


@frozen
class CaseSelection:
    """Options that limited a run to some cases of its eval sets."""

    options: tuple[str, ...]
    """Words of the command line, as `--tag` and `smoke`."""
    cases: int
    """Number of selected cases."""
    of: int
    """Number of cases in the eval sets."""
    is_sample: bool = False
    """True: the cases were sampled at random (`--sample`), so the run has no verdict."""


@frozen
class Totals:
    """Counts over the whole run. The four case counts add up to `cases`."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    not_evaluated: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost of the runs with known usage; None: the cost of some of them is not known."""
    known_usd: float = 0.0
    """If `cost_usd` is None: the known part of the cost, which is a lower bound."""


@frozen
class PlanId:
    """Identity of a run: runs can be merged only if all three hashes are equal."""

    eval_sets: str
    """Hash of the cases, and of how often they are run."""
    thresholds: str
    agent: str
    """Hash of the agent and of the code that is checked out."""


@frozen
class Shard:
    """The part of a run that one of several machines made."""

    index: int
    """Number of the shard, from 1."""
    count: int
    cases: tuple[int, ...]
    """Indices of the shard's cases among all cases of the run."""
    of: int
    """Number of cases in the whole run."""
    plan: PlanId


@frozen
class FailureGroup:
    """Failing cases with the same first difference from the expectation, such as the same missing call."""

    label: str
    """First divergence of the group's runs from the expectation, in words, with names in backticks."""
    kind: str
    """Kind of the difference, as a word that stays the same in later versions: missing_call, extra_call,
    other_tool, order, argument, missing_argument, extra_argument, response, missing_turn, extra_turn, check,
    rubric, budget, metric, crash, timeout, not_run, not_scored or unknown.
    """
    newly_failing: int
    """Number of the group's cases that passed in the baseline."""
    cases: tuple[CaseKey, ...]
    """(eval set id, case id) of each case of the group; at least one. Newly failing cases come first."""
    tool: str = ""
    """The tool that was called, or was expected and not called; "" if no tool is concerned."""
    detail: str = ""
    """Second name in `label`, which depends on `kind`: the name of the other tool, of a check, rubric, budget
    or metric, or of an exception, or the path of an argument. "" if the kind has no second name."""
    unprecedented: bool = False
    """True: no run of the baseline failed in this way. This needs a baseline that stores the way of failing
    for all of its failed runs. It also needs a case of the group that can be compared with stored runs, is
    not excused by them, and was not broken in the baseline already. Otherwise False."""


# A field that is renamed or removed here breaks every program that reads results.json: raise SCHEMA_VERSION.
@frozen
class Record:
    """Settings, results and verdict of one run. Every report is rendered from it alone."""

    evalgate_version: str
    created_at: str
    """Time of the run in UTC, as ISO 8601."""
    duration_s: float
    agent: AgentInfo
    runs: int
    """Number of runs per case that the means are computed from."""
    verdict: Verdict
    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    totals: Totals
    comparison: Comparison | None = None
    notices: tuple[str, ...] = ()
    """Facts that did not change the verdict and that a reader should know."""
    schema_version: int = SCHEMA_VERSION
    options: tuple[str, ...] = ()
    """Words of the command line that a user needs to run a case again, without the eval sets and the agent.
    Environment variables are named without their values."""
    shard: Shard | None = None
    """The shard, if this record is of one shard of a run; it then has no verdict. None: a whole run."""
    effort: SamplingCost | None = None
    """Numbers of runs that `runs: auto` made and saved; None if the user set the number of runs."""
    judge: ModelUsage | None = None
    """Tokens and cost of judging in the whole run, including the check of the judge with its `anchors`. None:
    no model was asked to judge."""
    criteria: tuple[RecordedCriterion, ...] = ()
    """Options of the metrics. Each set of options is stored once; `CaseMetric.fingerprint` refers to it."""
    selection: CaseSelection | None = None
    """Options such as `--tag`, if they left out some cases; such a run is never stored as a baseline. None:
    they left out no case."""
    partial_sets: tuple[str, ...] = ()
    """Ids of eval sets from which the user selected only some cases, by `FILE:CASE`. Such a run is never
    stored as a baseline."""
    is_part: bool = False
    """True: the user may have left out eval sets or cases. So a case that is only in the baseline counts as
    left out, not as removed. Files of older versions do not have this field."""
    variant: Mapping[str, str] | None = None
    """Values such as `env.MODEL` that a variant of `evalgate matrix` had; such a run is never stored as a
    baseline. None: the run is no variant."""
    failure_groups: tuple[FailureGroup, ...] = ()
    """Groups of the failing cases that gate; each case is in one group. Groups with more newly failing cases
    come first, then larger groups. Empty if no case fails, and in files of older versions."""
    anchor: AnchorComparison | None = None
    """Comparison with an older, fixed baseline; None without `gate.anchor`."""
    files: tuple[TrackedFiles, ...] = ()
    """Files that the agent imported and opened, by eval set. An eval set is left out if not all of its files
    are known. Empty without `agent.track_files`."""
    control: ControlComparison | None = None
    """Comparison with the base commit's agent, which was run today, too; None: no control runs were made."""

    @property
    def timestamp(self) -> float:
        """Return `created_at` as Unix seconds; 0.0 if `created_at` is empty.

        Raises:
            ValueError: `created_at` is no time in ISO 8601.
        """
        return datetime.fromisoformat(self.created_at).timestamp() if self.created_at else 0.0

    def index_criteria(self) -> dict[tuple[str, str], RecordedCriterion]:
        """Return the recorded criteria by (metric name, metric fingerprint)."""
        return {(each.metric, each.fingerprint): each for each in self.criteria}

    def group_cases(self) -> dict[str, list[CaseResult]]:
        """Return the cases by the id of their eval set, in the order of `cases`."""
        groups: dict[str, list[CaseResult]] = {}
        for case in self.cases:
            groups.setdefault(case.eval_set_id, []).append(case)
        return groups


@frozen
class GateInput:
    """Input of the gate's decision: the parts of a record that exist before its verdict."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    totals: Totals
    comparison: Comparison | None = None
    interrupted: bool = False
    unreachable: str = ""
    """Reason why the agent could not be reached at all; "" if it could."""
    doubts: tuple[str, ...] = ()
    """Reasons why the results must not be trusted, or are incomplete, as whole sentences."""
    quarantined: int = 0
    """Number of quarantined cases, which are left out because they do not gate."""
    observed: int = 0
    """Number of observed cases, which are left out because they do not gate."""
    not_selected: int = 0
    """Number of cases that options such as `--tag` left out."""
    anchor: AnchorComparison | None = None
    """Comparison with an older, fixed baseline; None if there is none."""
    control: ControlComparison | None = None
    """Comparison with runs of the base commit's agent; None: only the baseline comparison decides."""
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    """Criterion of each metric, by metric name. Reasons of the verdict quote the drop that it allows."""
