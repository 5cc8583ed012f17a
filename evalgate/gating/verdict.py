"""The step "gate": evidence and policy in, verdict out. One pure function; no clock, no file, no rounding."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from evalgate.config.schema.gate import GateConfig
from evalgate.core.formatting import counted, shown, shown_delta
from evalgate.core.sanitize import shortened
from evalgate.core.score_ranges import Range
from evalgate.core.types import (
    MEASURED,
    CaseResult,
    Change,
    Evidence,
    FollowUp,
    MetricSummary,
    Record,
    Status,
    Verdict,
    VerdictStatus,
)
from evalgate.core.types.record import judgement_sentences, metric_label

OPEN, CLOSED, NO_VERDICT, INTERRUPTED = 0, 1, 3, 130

_UNDECIDED: Mapping[str, int] = {"warn": OPEN, "fail": CLOSED, "distinguish": 4}

_EPSILON = 1e-9  # a drop is a difference of two means: its last bits are noise

_NAMED = 3  # cases that a reason names

_QUOTED = 300  # characters of an agent's or a metric's own sentence; the record holds all of it


_CODES: Mapping[VerdictStatus, Collection[int]] = {
    "pass": {OPEN},
    "fail": {CLOSED},
    "inconclusive": {OPEN, CLOSED, 4},
    "error": {2, NO_VERDICT, INTERRUPTED},
}


def contradictions(record: Record) -> Iterator[str]:
    """What in a stored record cannot have been decided here: somebody edited it."""
    verdict, totals = record.verdict, record.totals
    if verdict.exit_code not in _CODES[verdict.status]:
        yield f"the verdict `{verdict.status}` does not go with exit code {verdict.exit_code}"
    counted_cases = Counter(case.status for case in record.cases)
    if totals.cases != len(record.cases) or any(
        getattr(totals, status) != counted_cases[status] for status in get_args(Status)
    ):
        yield "the totals are not those of the cases"
    if verdict.status == "pass" and any(metric.status == "failed" for metric in record.metrics):
        yield "the verdict is `pass` although a metric failed"


def decide(evidence: Evidence, policy: GateConfig) -> Verdict:
    """The verdict and its reasons, the weightiest first.

    An untrustworthy run is never called better or worse; a certain failure outweighs a metric that could not
    be evaluated beside it; nothing at all is never green.
    """
    evidence = _gating(evidence)
    if evidence.interrupted:
        done = evidence.totals.cases - evidence.totals.not_evaluated
        return Verdict("error", INTERRUPTED, (f"Interrupted after {done} of {_cases(evidence)}.",))
    untrustworthy = tuple(_untrustworthy(evidence, policy))
    failures = (*_failures(evidence, policy), *_regressions(evidence, policy))
    missing = tuple(_missing(evidence, policy))
    if untrustworthy:
        return Verdict("error", NO_VERDICT, (*untrustworthy, *failures))
    if failures:
        return Verdict("fail", CLOSED, (*failures, *missing))
    if missing:
        return Verdict("error", NO_VERDICT, missing)
    untold = _untold(evidence) if policy.max_failed_cases is None else ()
    if undecided := (*_undecided(evidence), *untold):
        return Verdict("inconclusive", _UNDECIDED[policy.on_inconclusive], undecided)
    return Verdict("pass", OPEN, (_all_good(evidence, policy),))


def _gating(evidence: Evidence) -> Evidence:
    """The evidence without the cases that are quarantined."""
    cases = tuple(case for case in evidence.cases if case.quarantine is None)
    if len(cases) == len(evidence.cases):
        return evidence
    found = Counter(case.status for case in cases)
    totals = replace(
        evidence.totals, cases=len(cases), **{status: found[status] for status in get_args(Status)}
    )
    return replace(evidence, cases=cases, totals=totals, quarantined=len(evidence.cases) - len(cases))


def _undecided(evidence: Evidence) -> Iterator[str]:
    """What the runs cannot tell. That there is no baseline yet is a notice, and no doubt about the agent."""
    for metric in evidence.metrics:
        judgement = metric.judgement
        if judgement is None or judgement.verdict != "inconclusive":
            continue
        if judgement.reason != "no_baseline" or evidence.comparison is not None:
            yield from (f"{label}: {sentence}" for label, sentence in judgement_sentences(metric))


def _untrustworthy(evidence: Evidence, policy: GateConfig) -> Iterator[str]:
    totals = evidence.totals
    if evidence.unreachable:
        yield f"The agent could not be reached: {shortened(evidence.unreachable, _QUOTED)}"
        return
    if evidence.doubts:
        yield from evidence.doubts
        return
    if totals.cases == 0:
        if policy.min_cases > 0:
            why = "all of them are quarantined" if evidence.quarantined else "the eval sets are empty"
            yield f"No case was evaluated: {why}."
        return
    if not any(metric.score is not None for metric in evidence.metrics):
        yield f"Nothing was evaluated: none of {_cases(evidence)} has a score{_first_fault(evidence.cases)}"
        return
    without_score = [case for case in evidence.cases if _without_score(case)]
    if len(without_score) / totals.cases > policy.max_error_rate:
        yield (
            f"Too many errors: {len(without_score)} of {_cases(evidence)} ended without a score, more than "
            f"the allowed {policy.max_error_rate:.0%}{_first_fault(without_score)}"
        )
    evaluated = totals.cases - totals.not_evaluated
    if evaluated < policy.min_cases:
        yield f"Only {counted(evaluated, 'case')} evaluated; min_cases asks for {policy.min_cases}."


def _without_score(case: CaseResult) -> bool:
    return not any(metric.score is not None for metric in case.metrics)


def _first_fault(cases: Sequence[CaseResult]) -> str:
    """Quote the first reason why one of `cases` has no score; errors go before metrics that do not apply.

    A metric that has a score may give a reason as well; it explains that score, and nothing that is missing.
    """
    missing = [each for case in cases for each in case.metrics if each.score is None and each.reason]
    missing.sort(key=lambda each: each.status != "errored")
    first = missing[0].reason if missing else ""
    return f". The first reason: {shortened(first, _QUOTED)}" if first else "."


def _failures(evidence: Evidence, policy: GateConfig) -> Iterator[str]:
    for metric in evidence.metrics:
        if metric.status == "failed" and _is_literal(metric):
            score = shown(metric.score, beside=metric.minimum)
            name = "threshold" if metric.min_mean is None else "min_mean"
            yield f"{metric_label(metric)} is {score}, below its {name} {shown(metric.minimum)}."
    protected = [case for case in evidence.cases if case.protected and case.status in {"failed", "errored"}]
    if protected:
        yield f"Protected and not passed: {_share(protected, evidence)}."
    failed = [case for case in evidence.cases if case.status == "failed"]
    crashed = [case for case in evidence.cases if case.agent_failed]
    if policy.max_failed_cases is None:
        yield from (_broke(case, evidence) for case in evidence.cases if _is_broken(case))
        failed = [case for case in failed if case.follow_up is None]
        crashed = [case for case in crashed if case.follow_up is None]
    if len(failed) + len(crashed) <= (policy.max_failed_cases or 0):
        return
    if crashed:
        yield f"The agent crashed or timed out in {_share(crashed, evidence)}."
    if failed:
        yield f"{_share(failed, evidence)} missed a threshold."


def _is_literal(metric: MetricSummary) -> bool:
    """Return True if the mean was compared with its minimum as it stands."""
    judgement = metric.judgement
    return judgement is None or not (judgement.minimum or judgement.reliability)


def _is_broken(case: CaseResult) -> bool:
    """Return whether its failed runs alone say so; what the exact test confirms says so itself."""
    if case.follow_up is None or case.follow_up.outcome != "broke":
        return False
    return not any(
        metric.standing is not None and metric.standing.status == "broken" for metric in case.metrics
    )


def _broke(case: CaseResult, evidence: Evidence) -> str:
    found = case.follow_up
    if found is None:
        return f"{case.eval_id} broke."
    how = "crashed or timed out in" if found.crashed else "failed"
    return f"{case.eval_id} broke: {how} {_of_runs(found.failed, found.runs)}; {_before(found, evidence)}."


def _of_runs(some: int, runs: int) -> str:
    """Return `its only run`, `all 4 runs` or `3 of 4 runs`."""
    if some == runs:
        return "its only run" if runs == 1 else f"all {runs} runs"
    return f"{some} of {counted(runs, 'run')}"


def _before(found: FollowUp, evidence: Evidence) -> str:
    """Return `passed 20 of 20 on main`."""
    base = (evidence.comparison.branch if evidence.comparison else None) or "the baseline"
    return f"passed {found.baseline_runs - found.baseline_failed} of {found.baseline_runs} on {base}"


def _untold(evidence: Evidence) -> Iterator[str]:
    """Cases that fail as their baseline never did, and that could not be run often enough to tell."""
    for case in evidence.cases:
        found = case.follow_up
        if found is not None and found.outcome == "open":
            runs = "One run cannot" if found.runs == 1 else f"{found.runs} runs cannot"
            yield (
                f"{case.eval_id} failed {_of_runs(found.failed, found.runs)}; {_before(found, evidence)}. "
                f"{runs} tell: {found.need} failures in a row would."
            )


def _is_starved(metric: MetricSummary) -> bool:
    """So many runs lack a score that the statistics say nothing."""
    return metric.judgement is not None and metric.judgement.reason == "missing_runs"


def _is_measured(case: CaseResult, starved: Collection[str]) -> bool:
    """Some runs lack a score through no fault of the agent, and the statistics judged it by the others."""
    missing = [metric for metric in case.metrics if metric.score is None]
    return bool(missing) and all(
        metric.standing is not None and metric.standing.status in MEASURED and metric.name not in starved
        for metric in missing
    )


def _share(cases: Sequence[CaseResult], evidence: Evidence) -> str:
    return f"{len(cases):,} of {_cases(evidence)} ({_named(cases)})"


def mark_regressions(metrics: Sequence[MetricSummary], policy: GateConfig) -> tuple[MetricSummary, ...]:
    """The summaries, each told whether it regressed by its plain means: reports know no policy."""
    return tuple(replace(metric, regressed=_drop(metric, policy) is not None) for metric in metrics)


def _regressions(evidence: Evidence, policy: GateConfig) -> Iterator[str]:
    for metric in evidence.metrics:
        judgement = metric.judgement
        if judgement is not None:
            if judgement.verdict == "fail":
                yield from (f"{label}: {sentence}" for label, sentence in judgement_sentences(metric))
        elif (drop := _drop(metric, policy)) is not None:
            limit = _limit(metric, policy)
            yield (
                f"{metric_label(metric)} regressed by {shown(drop, beside=limit)} "
                f"({shown(metric.baseline)} → {_now(metric)}); allowed is less than {shown(limit)}."
            )


def _drop(metric: MetricSummary, policy: GateConfig) -> float | None:
    """By how much the metric fell, when that is more than the policy allows."""
    limit = _limit(metric, policy)
    if metric.delta is None or -metric.delta < max(limit - _EPSILON, _EPSILON):
        return None
    return -metric.delta


def _limit(metric: MetricSummary, policy: GateConfig) -> float:
    """The drop from which on it is a regression, in the metric's own numbers."""
    return policy.max_regression * Range(*metric.range).width


def _now(metric: MetricSummary) -> str:
    if metric.baseline is None or metric.delta is None:
        return shown_delta(metric.delta)
    return shown(metric.baseline + metric.delta, beside=metric.baseline)


def _missing(evidence: Evidence, policy: GateConfig) -> Iterator[str]:
    """Metrics and cases that say nothing: no reason to close the gate, and none to open it."""
    if policy.min_cases == 0 and evidence.totals.cases == 0:
        return
    for metric in evidence.metrics:
        if metric.score is None:
            yield f"{metric_label(metric)} was not evaluated on any case."
        elif _is_starved(metric) and metric.judgement:
            yield from (f"{label}: {sentence}" for label, sentence in judgement_sentences(metric))
    starved = {metric.name for metric in evidence.metrics if _is_starved(metric)}
    unclear = [case for case in evidence.cases if not _is_measured(case, starved)]
    broken = [case for case in unclear if case.status == "errored" and not case.agent_failed]
    if broken:
        yield f"A metric broke in {_share(broken, evidence)}{_first_fault(broken)}"
    skipped = [case for case in unclear if case.status == "not_evaluated"]
    if skipped:
        yield f"Not evaluated: {_share(skipped, evidence)}{_first_fault(skipped)}"


def _all_good(evidence: Evidence, policy: GateConfig) -> str:
    totals = evidence.totals
    if totals.cases == 0:
        return "No case was evaluated, as min_cases: 0 allows."
    bad = totals.cases - totals.passed
    passed = f"{totals.passed} of {_cases(evidence)} passed" if bad else f"{_cases(evidence)} passed"
    resting = f"; {evidence.quarantined:,} quarantined" if evidence.quarantined else ""
    below = any(each.score is not None and each.score < each.threshold for each in evidence.metrics)
    met = "every minimum is met" if below else "every metric meets its threshold"
    return f"{passed} and {met}{_beside_baseline(evidence, policy)}{resting}."


def _beside_baseline(evidence: Evidence, policy: GateConfig) -> str:
    newly = _changed(evidence, "newly_failing")
    if newly and policy.max_failed_cases is not None:
        return f"; {counted(len(newly), 'case')} newly failing, allowed by max_failed_cases"
    if newly := _changed(evidence, "newly_failing", "flaky"):
        return "".join(f"; {sentence}" for sentence in _excuses(newly))
    compared = any(metric.delta is not None for metric in evidence.metrics)
    return "; nothing regressed" if compared else ""


def _changed(evidence: Evidence, *kinds: Change) -> list[CaseResult]:
    changes = evidence.comparison.changes if evidence.comparison else ()
    newly = {(each.eval_set_id, each.eval_id) for each in changes if each.change in kinds}
    return [case for case in evidence.cases if (case.eval_set_id, case.eval_id) in newly]


def _excuses(newly: Sequence[CaseResult]) -> Iterator[str]:
    """Why cases that fail now and did not in the newest gate run of the baseline keep the gate open."""
    flakes = [case for case in newly if case.follow_up is not None and case.follow_up.outcome == "flake"]
    if flakes:
        yield f"{counted(len(flakes), 'case')} failed in one run and not in another ({_named(flakes)})"
    known = [case for case in newly if case.follow_up is not None and case.follow_up.outcome == "excused"]
    if known:
        yield f"{counted(len(known), 'case')} failed as in earlier runs of the baseline ({_named(known)})"


def _named(cases: Sequence[CaseResult]) -> str:
    more = f" and {len(cases) - _NAMED:,} more" if len(cases) > _NAMED else ""
    return ", ".join(case.eval_id for case in cases[:_NAMED]) + more


def _cases(evidence: Evidence) -> str:
    return counted(evidence.totals.cases, "case")
