"""Decide the verdict from the results of a run and the section `gate`, without reading a clock or a file.

A reason decides: the functions that find reasons return sentences, and the gate closes if there is one.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from evalgate.config.schema.gate import GateConfig
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import (
    build_case_quote,
    format_delta,
    format_drop_pair,
    format_score,
    join_first,
    pluralize,
)
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import (
    MEASURED_STATUSES,
    CaseResult,
    Change,
    FollowUp,
    GateInput,
    MetricSummary,
    Status,
    Verdict,
)
from evalgate.gating.comparison import compute_drop_limit, has_dropped
from evalgate.metrics.metric_summaries import compute_lost_share

UNDECIDED_CODES: Mapping[str, ExitCode] = {
    "warn": ExitCode.OPEN,
    "fail": ExitCode.CLOSED,
    "distinguish": ExitCode.INCONCLUSIVE,
}
"""Exit code of an inconclusive verdict, by the setting `gate.on_inconclusive`."""

_NAMED = 3  # cases that a reason names

_QUOTED = 300  # characters of an agent's or a metric's own sentence; the record holds all of it


def decide_verdict(evidence: GateInput, gate: GateConfig) -> Verdict:
    """Return the verdict and its reasons, the most important first.

    - With `report_only`, every verdict except `error` leaves the gate open.
    - A run that cannot be trusted, for example because of too many errors, always gets the verdict `error`.
    - If a failure is certain, the verdict is `fail` even if a metric could not be evaluated.
    - A run without any score never passes. A run without any case passes only with `min_cases: 0`.
    """
    verdict = _decide_gating_verdict(evidence, gate)
    if not gate.report_only or verdict.status == "error":
        return verdict
    return replace(verdict, exit_code=ExitCode.OPEN, gating_exit_code=verdict.exit_code)


def _decide_gating_verdict(evidence: GateInput, gate: GateConfig) -> Verdict:
    # First of all, because cases that do not gate must not even count for an interruption or an error rate.
    evidence = _exclude_reported_metrics(_exclude_exempt(evidence))
    if evidence.interrupted:
        done = evidence.totals.cases - evidence.totals.not_evaluated
        return Verdict(
            "error", ExitCode.INTERRUPTED, (f"Interrupted after {done} of {_format_case_count(evidence)}.",)
        )
    untrustworthy = tuple(_find_reasons_for_distrust(evidence, gate))
    control = evidence.control
    since_anchor = evidence.anchor.metrics if evidence.anchor else ()
    failures = (
        *(control.iter_sentences("broke") if control else ()),
        *_find_failures(evidence, gate),
        *_find_regressions(evidence, gate),
        *(each.sentence for each in since_anchor if each.outcome == "fell"),
    ) or tuple(_name_failed_metrics(evidence))
    missing = tuple(_find_missing_results(evidence, gate))
    explained = tuple(control.iter_sentences("drifted", "recovered")) if control else ()
    # Before the failures: if half of the cases are missing, the failures may be misleading. They are still
    # listed, because they are true of the cases that ran.
    if untrustworthy:
        return Verdict("error", ExitCode.NO_VERDICT, (*untrustworthy, *failures))
    if failures:
        return Verdict("fail", ExitCode.CLOSED, (*failures, *missing, *explained))
    # After the failures: a metric that could not be evaluated does not make a failed case pass.
    if missing:
        return Verdict("error", ExitCode.NO_VERDICT, missing)
    # With `max_failed_cases` the user counts failures literally; nothing is left open then.
    open_cases = _find_open_cases(evidence) if gate.max_failed_cases is None else ()
    open_sentences = control.iter_sentences("open") if control else ()
    if undecided := (*open_sentences, *_find_undecided_metrics(evidence), *open_cases):
        return Verdict("inconclusive", UNDECIDED_CODES[gate.on_inconclusive], (*undecided, *explained))
    return Verdict("pass", ExitCode.OPEN, (*explained, _describe_pass(evidence, gate)))


def _exclude_exempt(evidence: GateInput) -> GateInput:
    """Return the evidence without the cases that are quarantined, or observed (imported, not reviewed)."""
    cases = tuple(case for case in evidence.cases if case.gates)
    if len(cases) == len(evidence.cases):
        return evidence
    found = Counter(case.status for case in cases)
    totals = replace(
        evidence.totals, cases=len(cases), **{status: found[status] for status in get_args(Status)}
    )
    quarantined = sum(case.quarantine is not None for case in evidence.cases)
    observed = len(evidence.cases) - len(cases) - quarantined
    return replace(evidence, cases=cases, totals=totals, quarantined=quarantined, observed=observed)


def _exclude_reported_metrics(evidence: GateInput) -> GateInput:
    gating = tuple(metric for metric in evidence.metrics if metric.gates)
    if len(gating) == len(evidence.metrics):
        return evidence
    cases = tuple(
        replace(case, metrics=tuple(metric for metric in case.metrics if metric.gates))
        for case in evidence.cases
    )
    return replace(evidence, metrics=gating, cases=cases)


def _find_undecided_metrics(evidence: GateInput) -> Iterator[str]:
    """Yield the sentences of inconclusive metrics.

    If the whole run has no baseline, metrics that are inconclusive for lack of a baseline are skipped.
    """
    for metric in evidence.metrics:
        judgement = metric.judgement
        if judgement is None or judgement.verdict != "inconclusive":
            continue
        if judgement.reason != "no_baseline" or evidence.comparison is not None:
            yield from (f"{label}: {sentence}" for label, sentence in metric.iter_sentences())


def _explain_no_cases(evidence: GateInput) -> str:
    if evidence.observed and evidence.quarantined:
        return "all of them are quarantined, or observed and not reviewed yet"
    if evidence.observed:
        return "all of them are observed and not reviewed yet. `evalgate review` makes them gate"
    return "all of them are quarantined" if evidence.quarantined else "the eval sets are empty"


def _find_reasons_for_distrust(evidence: GateInput, gate: GateConfig) -> Iterator[str]:
    """Yield a sentence for each reason why the run, as a whole, must not give a verdict."""
    totals = evidence.totals
    if evidence.unreachable:
        yield f"The agent could not be reached: {shorten_text(evidence.unreachable, _QUOTED)}"
        return
    # A doubt, such as a spent budget, explains the missing scores, so no further sentence is needed.
    if evidence.doubts:
        yield from evidence.doubts
        return
    if totals.cases == 0:
        if gate.min_cases > 0:
            yield f"No case was evaluated: {_explain_no_cases(evidence)}."
        return
    # Also with `min_cases: 0`: a run of cases without any score must never open the gate.
    if not any(metric.score is not None for metric in evidence.metrics):
        yield (
            f"Nothing was evaluated: none of {_format_case_count(evidence)} has a "
            f"score{_quote_first_fault(evidence.cases)}"
        )
        return
    without_score = [case for case in evidence.cases if all(metric.score is None for metric in case.metrics)]
    lost = sum(map(compute_lost_share, without_score))
    if lost / totals.cases > gate.max_error_rate:
        is_whole = lost == len(without_score)
        share = f"{len(without_score)}" if is_whole else f"{lost / totals.cases:.0%} of the runs"
        yield (
            f"Too many errors: {share} of {_format_case_count(evidence)} ended without a score, more than "
            f"the allowed {gate.max_error_rate:.0%}{_quote_first_fault(without_score)}"
        )
    evaluated = totals.cases - totals.not_evaluated
    if evaluated < gate.min_cases:
        yield f"Only {pluralize(evaluated, 'case')} evaluated; min_cases asks for {gate.min_cases}."


def _quote_first_fault(cases: Sequence[CaseResult]) -> str:
    """Return the first reason why a case lacks a score, as the end of a sentence; `.` without a reason.

    Reasons of errors come first, then reasons why a metric does not apply.
    """
    # The reason of a metric with a score explains the score, so it does not count.
    missing = [each for case in cases for each in case.metrics if each.score is None and each.reason]
    missing.sort(key=lambda each: each.status != "errored")
    first = missing[0].reason if missing else ""
    return f". The first reason: {shorten_text(first, _QUOTED)}" if first else "."


def _find_failures(evidence: GateInput, gate: GateConfig) -> Iterator[str]:
    """Yield sentences about metrics that miss their minimum, and about failed cases that are not allowed.

    Minima that the statistics judged are left out: `_find_regressions` reports them. A protected case must
    never fail. Of the other cases, `gate.max_failed_cases` may fail. Without this setting, a failed case is
    allowed only if its follow-up found a flake, too few runs to decide, or the same failure in the
    baseline.
    """
    for metric in evidence.metrics:
        # If the statistics judged the minimum, `_find_regressions` reports it.
        if metric.status == "failed" and not _has_statistical_minimum(metric):
            score, minimum = metric.range.format_pair(metric.score, metric.minimum)
            name = "threshold" if metric.min_mean is None else "min_mean"
            missed = "above its max" if metric.range.lower_is_better else f"below its {name}"
            yield f"{metric.label} is {score}, {missed} {minimum}."
    protected = [case for case in evidence.cases if case.protected and case.status in {"failed", "errored"}]
    if protected:
        yield f"Protected and not passed: {_format_case_share(protected, evidence)}."
    failed = [case for case in evidence.cases if case.status == "failed"]
    crashed = [case for case in evidence.cases if case.agent_failed]
    if gate.max_failed_cases is None:
        settled = evidence.control.settled if evidence.control else ()
        incomplete = {metric.name for metric in evidence.metrics if _is_missing_runs(metric)}
        broken = [
            case
            for case in evidence.cases
            if _has_only_follow_up_break(case, incomplete) and case.key not in settled
        ]
        quote = build_case_quote(case.key for case in evidence.cases)
        yield from (_describe_break(case, quote(case.key), evidence) for case in broken)
        # Cases with a follow-up were run again, or are excused by the baseline. Of these only a break counts.
        failed = [case for case in failed if case.follow_up is None]
        crashed = [case for case in crashed if case.follow_up is None]
    if len(failed) + len(crashed) <= (gate.max_failed_cases or 0):
        return
    if crashed:
        yield f"The agent crashed or timed out in {_format_case_share(crashed, evidence)}."
    if failed:
        yield f"{_format_case_share(failed, evidence)} missed a threshold."


def _has_only_follow_up_break(case: CaseResult, incomplete: Collection[str]) -> bool:
    """Return True if the follow-up runs show that the case broke, and no exact test of its scores shows it.

    `incomplete` are the metrics with too few scores for a verdict. Tests of these metrics do not count.
    """
    if case.follow_up is None or case.follow_up.outcome != "broke":
        return False
    return not any(
        metric.standing is not None and metric.standing.status == "broken" and metric.name not in incomplete
        for metric in case.metrics
    )


def _describe_break(case: CaseResult, name: str, evidence: GateInput) -> str:
    found = case.follow_up
    if found is None:
        return f"{name} broke."
    how = "crashed or timed out in" if found.crashed else "failed"
    return (
        f"{name} broke: {how} {_format_run_share(found.failed, found.runs)}; "
        f"{_format_baseline_runs(found, evidence)}."
    )


def _format_run_share(some: int, runs: int) -> str:
    """Return the share of runs in words: `its only run`, `all 4 runs` or `3 of 4 runs`."""
    if some == runs:
        return "its only run" if runs == 1 else f"all {runs} runs"
    return f"{some} of {pluralize(runs, 'run')}"


def _format_baseline_runs(found: FollowUp, evidence: GateInput) -> str:
    """Return the passed stored runs as text: `passed 1 of 1 on main (19 more without a score)`."""
    base_branch = (evidence.comparison.branch if evidence.comparison else None) or "the baseline"
    passed = found.baseline_runs - found.baseline_failed - found.baseline_otherwise
    others = (
        f"{found.baseline_otherwise} failed in another way" if found.baseline_otherwise else "",
        f"{found.baseline_unscored} more without a score" if found.baseline_unscored else "",
    )
    remark = "; ".join(filter(None, others))
    return f"passed {passed} of {found.baseline_runs} on {base_branch}{remark and f' ({remark})'}"


def _find_open_cases(evidence: GateInput) -> Iterator[str]:
    """Yield a sentence for each case that failed in a new way, but has too few runs to decide.

    Cases about which control runs have an answer are left out.
    """
    settled = evidence.control.settled if evidence.control else ()
    quote = build_case_quote(case.key for case in evidence.cases)
    for case in evidence.cases:
        found = case.follow_up
        if found is not None and found.outcome == "open" and case.key not in settled:
            runs = "One run cannot" if found.runs == 1 else f"{found.runs} runs cannot"
            yield (
                f"{quote(case.key)} failed {_format_run_share(found.failed, found.runs)}; "
                f"{_format_baseline_runs(found, evidence)}. "
                f"{runs} tell: {found.need} failures in a row would."
            )


def _has_statistical_minimum(metric: MetricSummary) -> bool:
    """Return True if the statistics judged a minimum or pass^k of the metric by a confidence interval."""
    judgement = metric.judgement
    return judgement is not None and bool(judgement.minimum or judgement.reliability)


def _is_missing_runs(metric: MetricSummary) -> bool:
    """Return True if the statistics gave no verdict because too many runs lack a score of the metric."""
    return metric.judgement is not None and metric.judgement.reason == "missing_runs"


def _is_measured(case: CaseResult, incomplete: Collection[str]) -> bool:
    """Return True if metrics of the case lack a score, but the statistics judged each of these metrics.

    Such a case is not reported as a missing result. `incomplete` are the names of metrics for which too many
    runs lack a score. These metrics do not count as judged.
    """
    missing = [metric for metric in case.metrics if metric.score is None]
    return bool(missing) and all(
        metric.standing is not None
        and metric.standing.status in MEASURED_STATUSES
        and metric.name not in incomplete
        for metric in missing
    )


def _format_case_share(cases: Sequence[CaseResult], evidence: GateInput) -> str:
    return f"{len(cases):,} of {_format_case_count(evidence)} ({_format_case_names(cases, evidence)})"


def _find_regressions(evidence: GateInput, gate: GateConfig) -> Iterator[str]:
    """Yield the sentences about each metric that failed by statistics, or has regressed by its plain mean.

    The plain mean counts only for metrics that the statistics did not judge.
    """
    for metric in evidence.metrics:
        judgement = metric.judgement
        if judgement is not None:
            if judgement.verdict == "fail":
                yield from (f"{label}: {sentence}" for label, sentence in metric.iter_sentences())
        elif metric.regressed and metric.delta is not None:
            limit, before = compute_drop_limit(metric, gate, evidence.criteria), metric.baseline
            drop, allowed = format_drop_pair(-metric.delta, limit)
            after = None if before is None else before + metric.delta
            then = format_score(before, beside=after)
            now = format_delta(metric.delta) if after is None else format_score(after, beside=before)
            # The limit of this section may differ from the limit with which the comparison was made.
            exceeds = has_dropped(metric, gate, evidence.criteria)
            rule = f"; allowed is less than {allowed}" if exceeds else ""
            yield f"{metric.label} regressed by {drop} ({then} → {now}){rule}."


def _name_failed_metrics(evidence: GateInput) -> Iterator[str]:
    """Yield a sentence for each metric that failed by statistics, for a run without any better reason.

    The statistics explain each failure. This holds even if they did not: a failure must never pass.
    """
    for metric in evidence.metrics:
        if metric.judgement is not None and metric.judgement.verdict == "fail":
            yield f"{metric.label} failed."


def _find_missing_results(evidence: GateInput, gate: GateConfig) -> Iterator[str]:
    """Yield sentences about metrics and cases without a result, for which the gate has no verdict."""
    if gate.min_cases == 0 and evidence.totals.cases == 0:
        return
    for metric in evidence.metrics:
        # If one of several runs crashed, the case has no score, but the statistics count its runs. So a line
        # in which every case had a crash has no score, but is judged; follow-up runs find cases that broke.
        is_judged = metric.mean_judged_by == "baseline" or _has_statistical_minimum(metric)
        if metric.score is None and not is_judged:
            why = _quote_missing_figure(metric, evidence.cases)
            yield f"{metric.label} was not evaluated on any case{why}."
        elif _is_missing_runs(metric) and metric.judgement:
            yield from (f"{label}: {sentence}" for label, sentence in metric.iter_sentences())
    incomplete = {metric.name for metric in evidence.metrics if _is_missing_runs(metric)}
    unclear = [case for case in evidence.cases if not _is_measured(case, incomplete)]
    unscored = [case for case in unclear if case.status == "errored" and not case.agent_failed]
    if unscored:
        yield f"A metric broke in {_format_case_share(unscored, evidence)}{_quote_first_fault(unscored)}"
    skipped = [case for case in unclear if case.status == "not_evaluated"]
    if skipped:
        yield f"Not evaluated: {_format_case_share(skipped, evidence)}{_quote_first_fault(skipped)}"


def _quote_missing_figure(metric: MetricSummary, cases: Sequence[CaseResult]) -> str:
    """Return a colon and the first reason why a budget has no figure.

    Return "" if the metric is not a budget, or if there is no reason.
    """
    if not metric.range.lower_is_better:
        return ""
    own = (each for case in cases for each in case.metrics if each.name == metric.name)
    first = next((each.reason for each in own if each.score is None and each.reason), "")
    return f": {shorten_text(first, _QUOTED)}" if first else ""


def _describe_pass(evidence: GateInput, gate: GateConfig) -> str:
    totals = evidence.totals
    if totals.cases == 0:
        return "No case was evaluated, as min_cases: 0 allows."
    bad = totals.cases - totals.passed
    passed = (
        f"{totals.passed} of {_format_case_count(evidence)} passed"
        if bad
        else f"{_format_case_count(evidence)} passed"
    )
    exempt = "".join(
        f"; {count:,} {what}"
        for count, what in (
            (evidence.quarantined, "quarantined"),
            (evidence.observed, "observed"),
            (evidence.not_selected, "not selected"),
        )
        if count
    )
    # A mean that is compared with the baseline alone may pass below the threshold of single cases, or without
    # a score.
    below = any(
        each.score is None or not each.range.is_met(each.score, each.threshold) for each in evidence.metrics
    )
    met = "every minimum is met" if below else "every metric meets its threshold"
    return f"{passed} and {met}{_describe_comparison(evidence, gate)}{exempt}."


def _describe_comparison(evidence: GateInput, gate: GateConfig) -> str:
    newly = _list_changed_cases(evidence, "newly_failing")
    if newly and gate.max_failed_cases is not None:
        return f"; {pluralize(len(newly), 'case')} newly failing, allowed by max_failed_cases"
    compared = any(metric.delta is not None for metric in evidence.metrics)
    is_steady = compared and not _list_changed_cases(evidence, "newly_failing", "flaky")
    clauses = ("nothing regressed",) if is_steady else ()
    return "".join(f"; {clause}" for clause in (*clauses, *_describe_excuses(evidence)))


def _list_changed_cases(evidence: GateInput, *kinds: Change) -> list[CaseResult]:
    changes = evidence.comparison.changes if evidence.comparison else ()
    newly = {each.key for each in changes if each.change in kinds}
    return [case for case in evidence.cases if case.key in newly]


def _describe_excuses(evidence: GateInput) -> Iterator[str]:
    """Yield clauses about cases that did not pass and do not close the gate: flakes and known failures."""
    missed = [case for case in evidence.cases if case.status != "passed"]
    for outcome, how in (
        ("flake", "failed in one run and not in another"),
        ("excused", "failed as in earlier runs of the baseline"),
    ):
        if cases := [case for case in missed if case.follow_up and case.follow_up.outcome == outcome]:
            yield f"{pluralize(len(cases), 'case')} {how} ({_format_case_names(cases, evidence)})"


def _format_case_names(cases: Sequence[CaseResult], evidence: GateInput) -> str:
    quote = build_case_quote(case.key for case in evidence.cases)
    return join_first([quote(case.key) for case in cases], _NAMED)


def _format_case_count(evidence: GateInput) -> str:
    return pluralize(evidence.totals.cases, "case")
