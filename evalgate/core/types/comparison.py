"""Results of comparing metrics and cases with a baseline, and with runs of the base commit (control runs).

The statistics return these types with scores as shares of a metric's range: 0 is the worst score, 1 the best.
`to_scores` converts the shares to the metric's own scores. A record holds these scores, not shares.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range
from evalgate.core.types.conversation import CaseKey, Outcome

MetricVerdict: TypeAlias = Literal["pass", "fail", "inconclusive"]


@frozen
class ThresholdEstimate:
    """Estimate of a mean, a pass^k or a percentile, with its confidence interval, compared with a limit."""

    value: float
    minimum: float
    low: float
    high: float
    verdict: MetricVerdict

    def to_scores(self, score_range: Range) -> "ThresholdEstimate":
        """Return a copy with the figures converted from shares of the range to scores."""
        value, minimum, low, high = map(score_range.to_score, (self.value, self.minimum, self.low, self.high))
        return ThresholdEstimate(value, minimum, low, high, self.verdict)


@frozen
class Margin:
    """Distance of a metric's average from the limit at which the metric's verdict changes."""

    limit: float
    """The average at which the verdict changes."""
    distance: float
    """Absolute difference of the average and `limit`."""
    runs: int | None = None
    """Smallest number of runs that could turn the verdict, if they had the worst score instead of theirs
    (after a pass), or the best score (after any other verdict). None: no number of runs turns it, `distance`
    is 0, or the average is a pass^k or pass@k."""

    def to_scores(self, score_range: Range) -> "Margin":
        """Return a copy with the figures converted from shares of the range to scores."""
        return Margin(score_range.to_score(self.limit), self.distance * score_range.width, self.runs)


@frozen
class RatioEstimate:
    """Ratio of a budget's figures (such as costs) now to those in the baseline, with its confidence interval.

    It is the geometric mean over the cases. Each case counts with the mean of the logarithms of its runs'
    figures. Numbers of calls and turns may be 0, so 1 is added to them before the logarithm is taken.
    """

    value: float
    """The ratio, now to then. If it is above 1, the figures (such as costs) grew."""
    low: float
    high: float
    notice: float
    """Ratio that the test detects with a power of about 80 %; larger ratios are detected more often."""
    max: float
    """Limit of the ratio, as the settings define it: a ratio of this size or more is too large."""
    cases: int
    """Number of cases with a passed run now and in the baseline."""


@frozen
class MetricComparison:
    """Comparison of a metric with its baseline. Figures are in points of its scores."""

    verdict: MetricVerdict
    reason: str
    """Reason for `verdict`, as a word that stays the same in later versions: no_sign, average_fell, …"""
    sentences: tuple[str, ...]
    """The reasons as sentences for people."""
    max_drop: float | None
    """Limit of the drop of the mean, as the settings define it: a drop of this size or more is too large.
    None: the mean is not compared with the baseline."""
    require: Literal["guard", "proof"] = "guard"
    rounds: int = 0
    """Number of runs per case that the mean is computed from."""
    missing: int = 0
    """Number of the `planned` runs that have no score."""
    planned: int = 0
    drop: float | None = None
    """Mean of the baseline minus the mean now, so that above 0 is worse. None: nothing was compared."""
    noise: float | None = None
    """Largest change of the mean that luck alone explains. None: not measured, for example because each case
    was run only once now and in the baseline."""
    p: float | None = None
    """Probability that luck alone causes a drop as large as `drop`."""
    level: float | None = None
    """Significance level that `p` is compared with."""
    low: float | None = None
    high: float | None = None
    """Upper end of the confidence interval of the drop; `low` is the lower end."""
    notice: float | None = None
    """Drop that the test detects with a power of about 80 %; larger drops are detected more often. None: no
    drop is detected that often, or no estimate was made."""
    minimum: ThresholdEstimate | None = None
    reliability: ThresholdEstimate | None = None
    flip: Margin | None = None
    shared: tuple[str, ...] = ()
    """Sentences about the whole metric. If thresholds differ between cases, a record has several summaries
    (`MetricSummary`) of one metric. Then only one of them has these sentences. `verdict`, `p` and `level`
    belong to the whole metric, `drop` and `noise` only to the cases of the summary."""
    ratio: RatioEstimate | None = None
    """For a budget: ratio of its figures now to those in the baseline; `p` and `level` belong to its test."""
    percentile: ThresholdEstimate | None = None
    """95th percentile of a budget over all answered runs. Its field `minimum` holds the upper limit."""


CaseStatus: TypeAlias = Literal["ok", "suspect", "broken", "rerun", "new", "removed", "changed", "no_score"]
"""Status of one case compared with its baseline. `rerun` means that the case needs further runs; no case has
this status in a final decision."""

MEASURED_STATUSES: frozenset[str] = frozenset({"ok", "suspect", "broken"})
"""Statuses of cases that the statistics could judge."""


@frozen
class CaseComparison:
    """One metric of one case compared with its baseline."""

    status: CaseStatus
    baseline_runs: int
    """Number of stored runs that have a score."""
    baseline_passed: int
    baseline_mean: float | None
    runs: int
    """Number of runs that have a score, follow-up runs included."""
    passed: int
    mean: float | None
    p: float | None = None
    """Probability that luck alone causes a fall of this size; None if the case did not fall far enough to be
    tested."""
    need: int | None = None
    """Number of runs that would confirm that the case broke, if all of them had the worst score. None: with
    the stored runs of this case, no break can be confirmed."""

    @property
    def drop(self) -> float | None:
        """Return the baseline's mean minus this run's mean; None if the means cannot be compared.

        Above 0 is worse; for a budget, above 0 is better.
        """
        if self.baseline_mean is None or self.mean is None or self.status in {"changed", "no_score"}:
            return None
        return self.baseline_mean - self.mean

    def to_scores(self, score_range: Range) -> "CaseComparison":
        """Return a copy with the means converted from shares of the range to scores."""
        then, now = self.baseline_mean, self.mean
        return replace(
            self,
            baseline_mean=None if then is None else score_range.to_score(then),
            mean=None if now is None else score_range.to_score(now),
        )


@frozen
class FollowUp:
    """Conclusion whether a failing case broke (fails by more than luck) or is flaky.

    It is drawn from the planned runs of the case and from follow-up runs, which are made for this purpose.
    """

    outcome: Literal["broke", "flake", "excused", "open"]
    """`broke`: the first `need` runs all failed, or all but one failed in a longer series that begins with
    the first run. `flake`: too many of these runs passed. `excused`: runs of the baseline failed in the same
    way. `open`: there are too few runs to decide. A run counts as failed only if it failed in a new way."""
    runs: int
    """Number of runs that ended in a pass or a failure, follow-up runs included."""
    failed: int
    """Number of the `runs` that failed in a new way, in which no stored run failed."""
    need: int
    """Number of failures in a row, from the first run on, that luck does not explain; 0 if `excused`."""
    baseline_runs: int
    """Number of stored runs that the case is compared with."""
    baseline_failed: int
    """Number of the `baseline_runs` that failed as the case did: by a crash, or by missing the threshold of
    the same metric."""
    crashed: bool = False
    """True: the agent crashed or timed out in a run that is not a follow-up run."""
    baseline_otherwise: int = 0
    """Number of the `baseline_runs` that failed in other ways only."""
    baseline_unscored: int = 0
    """Number of stored runs that cannot be compared, because they lack a score of the metric that failed.
    They are not among the `baseline_runs`."""


@frozen
class SamplingCost:
    """Numbers of runs that `runs: auto` made and saved."""

    spent: int
    """Number of runs that were made."""
    fixed: int
    """Number of runs that would be made if each case got the most runs that `runs: auto` allows."""
    saved: int


AnchorOutcome: TypeAlias = Literal["held", "fell", "fell_before", "doubtful"]
"""Outcome of comparing a mean with that of the anchor, an older baseline.

`held`: the mean did not fall too far. In all other outcomes it did. `fell`: the drop closes the gate.
`fell_before`: the gate stays open, because the mean fell before the tested change, which is not merged and
is not shown to add to the drop. `doubtful`: luck alone may cause the drop.
"""


@frozen
class AnchorMetric:
    """Mean of one gating metric compared with that of the anchor, the older baseline of `gate.anchor`."""

    name: str
    outcome: AnchorOutcome
    score: float
    """Mean now; a run that crashed counts as the lowest score."""
    baseline: float
    """Mean of the anchor."""
    max_drop: float
    """Limit of the drop since the anchor, in points of the scores: a drop of this size or more is too large.
    """
    cases: int
    """Number of cases that can be compared with the anchor."""
    of: int
    """Number of all cases of this run that have the metric; `cases` of them can be compared."""
    sentence: str
    p: float | None = None
    """Probability that luck alone causes a drop as large as this one; None if the agent is deterministic."""
    level: float | None = None
    """Significance level that `p` is compared with."""


@frozen
class AnchorComparison:
    """Comparison of the run with an older baseline that stays fixed (`gate.anchor`)."""

    source: str
    """Address of the anchor, as the thresholds file has it."""
    name: str
    """Short name of the anchor in sentences: its tag, commit, date or file."""
    metrics: tuple[AnchorMetric, ...]
    created_at: str | None = None
    """Time of the newest gate run in the anchor, ISO 8601."""
    commit: str | None = None
    """Commit of the newest gate run in the anchor."""
    gate_runs: int = 1
    """Number of gate runs in the anchor."""
    not_compared: tuple[str, ...] = ()
    """Gating metrics without a case that can be compared."""


ControlAnswer: TypeAlias = Literal["broke", "drifted", "recovered", "open"]
"""Answer of the control runs, which compare the agent of the change (head) with the agent of the base commit
(control), both run today.

`broke`: the head is worse than the control, which closes the gate. `drifted`: the control is worse today than
in the stored runs, and the head is not shown to be worse than the control. `recovered`: neither head nor
control fails any more, so that the failure was luck, or an outage that is over. `open`: too close to tell.
"""


@frozen
class ControlRun:
    """One run made only to compare the change with the base commit. It is in no score and no baseline."""

    side: Literal["head", "control"]
    """`head`: the agent of the change; `control`: the agent of the base commit."""
    run: int
    """Number of the run, from 1, in the order in which the runs of both sides began."""
    outcome: Outcome
    duration_s: float
    scores: Mapping[str, float | None] = field(default_factory=dict)
    """Maps the name of a metric to the score of this run; None: the metric has no score."""
    failed: bool | None = None
    """True: the run failed in the way in which earlier runs of the case failed, so that the case became a
    suspect (it may close the gate). False: the run passed, or failed in another way. None: not known, for
    example because a judge failed."""


@frozen
class ControlCase:
    """One case, with the runs that were made to compare the change with the base commit."""

    eval_set_id: str
    eval_id: str
    runs: tuple[ControlRun, ...]
    answer: ControlAnswer | None = None
    """Answer about the case, such as `broke`. None: the comparison with the baseline decides about the case.
    This is so if the case was run only for the average of a metric, or if too few runs have a result."""
    head_runs: int = 0
    """Number of runs of the change that have a result."""
    head_failed: int = 0
    """Number of the `head_runs` for which `ControlRun.failed` is True."""
    head_otherwise: int = 0
    """Number of the `head_runs` that failed in other ways only."""
    control_runs: int = 0
    """Number of runs of the base commit that have a result."""
    control_failed: int = 0
    control_otherwise: int = 0
    p: float | None = None
    """Probability that two equally good agents differ by luck at least as much as head and control do."""
    level: float | None = None
    """Significance level that `p` is compared with."""
    sentence: str = ""
    """The answer as a sentence for people."""

    @property
    def key(self) -> CaseKey:
        """Return (eval set id, case id), which identifies the case among the cases of all eval sets."""
        return self.eval_set_id, self.eval_id

    @property
    def head_passed(self) -> int:
        """Return how many of the `head_runs`, the runs of the change that have a result, passed."""
        return self.head_runs - self.head_failed - self.head_otherwise

    @property
    def control_passed(self) -> int:
        """Return how many of the `control_runs`, the runs of the base commit that have a result, passed."""
        return self.control_runs - self.control_failed - self.control_otherwise


@frozen
class ControlMetric:
    """Comparison by one metric: means over the cases with control runs, in points of the metric's scores."""

    name: str
    fingerprint: str
    """Hash of the metric and its options, as `CaseMetric.fingerprint`."""
    answer: ControlAnswer | None
    """Answer about the metric. None: too few runs have a score; the comparison with the baseline decides."""
    stored: float | None = None
    """Mean of the stored runs."""
    head: float | None = None
    control: float | None = None
    drop: float | None = None
    """Mean of the base commit minus mean of the change, over all cases of the metric. For cases without
    control runs, the difference counts as 0."""
    p: float | None = None
    level: float | None = None
    sentence: str = ""
    """The answer as a sentence for people."""


@frozen
class ControlComparison:
    """Comparison of the change with the base commit, both run today."""

    commit: str
    """Full hash of the base commit."""
    answer: ControlAnswer
    """The most serious of the answers about cases and metrics. The order is `broke`, `open`, `drifted`,
    `recovered`. `open` if there is no answer. An answer from too few control runs counts here, although it is
    None in `cases` and `metrics`."""
    cases: tuple[ControlCase, ...]
    """Cases with control runs, in the order of the files."""
    metrics: tuple[ControlMetric, ...] = ()
    runs: int = 0
    """Number of runs that were made of the change and of the base commit together."""
    cost_usd: float | None = 0.0
    """Cost of the control runs in US dollars, without judges; None: the cost of some runs is not known."""
    url: str = ""
    """Address of the deployed agent of the base commit; "" if evalgate started the control itself."""

    def iter_sentences(self, *answers: ControlAnswer | None) -> Iterator[str]:
        """Yield the sentences of all cases, then of all metrics, with an answer in `answers`.

        None in `answers` selects cases and metrics without an answer.
        """
        items: tuple[ControlCase | ControlMetric, ...] = (*self.cases, *self.metrics)
        yield from (each.sentence for each in items if each.answer in answers and each.sentence)

    @property
    def settled(self) -> frozenset[CaseKey]:
        """Return the keys of the cases for which the control runs gave an answer.

        For these cases, the answer replaces the result of the comparison with the baseline.
        """
        return frozenset(each.key for each in self.cases if each.answer is not None)
