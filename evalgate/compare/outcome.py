"""What runs are worth, beside the baseline where there is one: plain means, and what the statistics say."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from evalgate.config import GateConfig
from evalgate.frozen import frozen
from evalgate.gate import mark_regressions
from evalgate.model import CaseResult, Effort, MetricSummary
from evalgate.scoring.closeness import flip
from evalgate.scoring.ranges import Range
from evalgate.summary import grouped, summarise

if TYPE_CHECKING:
    from evalgate.compare.sampling import Sampling

Results: TypeAlias = Callable[[int | None], tuple[CaseResult, ...]]
"""Every case in file order. Runs beyond so many rounds only confirm; None: all of them count."""


@frozen
class Worth:
    """What the runs are worth."""

    metrics: tuple[MetricSummary, ...]
    cases: tuple[CaseResult, ...]
    rounds: int
    """Runs of every case that the means rest on."""
    effort: Effort | None = None
    notices: tuple[str, ...] = ()


def worth(
    policy: GateConfig, runs: int | Literal["auto"], results: Results, sampling: "Sampling | None"
) -> Worth:
    """All that can be said of the results before the verdict."""
    cases = results(None)
    decision = sampling.decision(cases) if sampling else None
    if sampling is None or decision is None:
        rounds = min((len(case.runs) for case in cases), default=0) if runs == "auto" else runs
        cases = _counting(sampling, results, rounds)
        beyond = sampling.scores_beyond_range(cases) if sampling else ()
        return Worth(_beside(policy, cases, sampling), cases, rounds, notices=tuple(beyond))
    from evalgate.compare.earlystop import corrections_told, with_corrections
    from evalgate.compare.judging import effort_of, judged, means_below_thresholds, notices_of, words_for

    rounds = max(metric.rounds for metric in decision.metrics.values())
    changes, excesses = sampling.line_changes(cases, decision), sampling.excesses(cases, decision)
    cases = _counting(sampling, results, rounds)
    blocking = policy.on_inconclusive == "fail"
    words = words_for(sampling.baseline, cases, sampling.policy.parameters, blocking=blocking)
    found = judged(_beside(policy, cases, sampling), cases, decision, words, changes)
    metrics = with_corrections(grouped(cases), found.metrics, excesses)
    effort = effort_of(decision) if sampling.is_auto else None
    notices = (
        *sampling.scores_beyond_range(cases),
        *notices_of(decision, sampling.policy.parameters),
        *means_below_thresholds(metrics),
        *corrections_told(metrics),
    )
    return Worth(metrics, found.cases, rounds, effort, notices)


def _counting(sampling: "Sampling | None", results: Results, rounds: int) -> tuple[CaseResult, ...]:
    """Return the cases with their means over so many rounds; runs beyond them only follow up."""
    if sampling is None or not sampling.follows_up:
        return results(None) if sampling is None else sampling.classified(results(None))
    return sampling.classified(results(rounds))


def _beside(
    policy: GateConfig, cases: tuple[CaseResult, ...], sampling: "Sampling | None"
) -> tuple[MetricSummary, ...]:
    """The summaries with plain differences: all that can be said of scores beyond 0 to 1."""
    metrics = tuple(
        replace(summary, flip=flip(summary.score, summary.minimum or 0.0, members, Range(*summary.range)))
        for summary, members in zip(summarise(cases), grouped(cases).values(), strict=True)
    )
    baseline = sampling.baseline if sampling else None
    if baseline is None:
        return metrics
    from evalgate.compare.changes import add_deltas

    return mark_regressions(add_deltas(metrics, cases, baseline), policy)
