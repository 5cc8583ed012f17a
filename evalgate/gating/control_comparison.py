"""Correct the comparison with the baseline by control runs, made today with the base commit's agent.

If the base commit's agent shows a drop, too, the drop is drift and not an effect of the change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from evalgate.core.formatting import build_case_quote, pluralize
from evalgate.core.types import (
    CaseKey,
    CaseResult,
    ControlAnswer,
    ControlCase,
    ControlComparison,
    ControlMetric,
    ControlRun,
    MetricSummary,
    MetricVerdict,
    RunResult,
)
from evalgate.gating.comparison import ComparedRuns, ScoredRuns
from evalgate.gating.control_suspects import (
    ControlSuspects,
    FreshRuns,
    SuspectOutcomes,
)
from evalgate.gating.score_tables import (
    build_metric_table_name,
    build_row_name,
    build_row_quote,
    collect_confirmed_rows,
)
from evalgate.gating.verdict_messages import (
    REGRESSION,
    MessageContext,
    begin_broken_sentence,
    describe_suspects,
)
from evalgate.metrics.metric_summaries import group_by_metric
from evalgate.statistics.control_test import AverageControl, CaseControl, ControlDecision
from evalgate.statistics.metric_decisions import SEVERITY, MetricDecision

_VERDICTS: Mapping[ControlAnswer | None, MetricVerdict] = {
    "broke": "fail",
    None: "fail",
    "open": "inconclusive",
    "drifted": "pass",
    "recovered": "pass",
}
"""Verdict for each answer of the control runs.

None: the control runs give no answer. Then the verdict stays `fail`, as found by the comparison with the
baseline.
"""

_DRIFT = "provider or backend drift, not your change. Refresh the baseline."
_DRIFT_OR_CHANGE = (
    "provider or backend drift, or another change since the baseline, not yours. Find out which before you "
    "refresh the baseline."
)


def build_control_comparison(
    suspects: ControlSuspects,
    fresh: Mapping[CaseKey, FreshRuns],
    decision: ControlDecision,
    *,
    commit: str,
    url: str = "",
    base_name: str = "main",
    is_base_changed: bool = False,
) -> ControlComparison:
    """Build the record of the control runs, with one answer for each suspected case and average.

    Args:
        suspects: cases and averages that may close the gate by the comparison with the baseline.
        fresh: all runs that were made for the comparison, by case.
        decision: answers of the statistics.
        commit: commit of the base branch that the control runs were made with.
        url: address at which the base commit's agent is deployed; "" if evalgate started this agent.
        base_name: name of the base branch.
        is_base_changed: True if the base commit has, or may have, other code than the commit of the newest
            stored runs.
    """
    cause = _DRIFT_OR_CHANGE if is_base_changed else _DRIFT
    quote = build_case_quote(case.key for case in suspects.cases)
    cases = tuple(
        _build_case(case, fresh[case.key], suspects, decision.cases.get(build_row_name(case)), words)
        for case in suspects.cases
        if case.key in fresh
        for words in [(quote(case.key), base_name, cause)]
    )
    made = [run for runs in fresh.values() for side in (runs.head, runs.control) for run in side.runs]
    costs = [run.usage.cost_usd if run.usage else None for run in made if run.outcome != "not_run"]
    known = [cost for cost in costs if cost is not None]
    return ControlComparison(
        commit=commit,
        answer=decision.answer,
        cases=cases,
        metrics=tuple(_iter_metrics(suspects, decision, base_name, cause)),
        runs=sum(run.outcome != "not_run" for run in made),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        url=url,
    )


def _build_case(
    case: CaseResult,
    fresh: FreshRuns,
    suspects: ControlSuspects,
    found: CaseControl | None,
    words: tuple[str, str, str],
) -> ControlCase:
    """Return the record of a case.

    `found` is the answer of the statistics; None if the case has no answer of its own. `words` are the name
    of the case, the name of the base branch and the cause of a drift, for the sentence.
    """
    outcomes = SuspectOutcomes(case, suspects.baseline, suspects.statistics)

    def convert_run(run: RunResult, side: CaseResult) -> ControlRun:
        return ControlRun(
            "head" if run.run % 2 else "control",
            run.run,
            run.outcome,
            run.duration_s,
            {metric.name: metric.score for metric in run.metrics},
            outcomes.is_failure(side, run) if found else None,
        )

    runs = [convert_run(run, side) for side in (fresh.head, fresh.control) for run in side.runs]
    runs.sort(key=lambda run: run.run)
    if found is None:
        return ControlCase(case.eval_set_id, case.eval_id, tuple(runs))
    control = ControlCase(
        case.eval_set_id,
        case.eval_id,
        tuple(runs),
        found.answer if found.is_measured else None,
        found.head_runs,
        found.head_failed,
        outcomes.count_other_failures(fresh.head),
        found.control_runs,
        found.control_failed,
        outcomes.count_other_failures(fresh.control),
        found.p,
        found.level,
    )
    return replace(control, sentence=_describe_case(control, found.answer, outcomes, *words))


def _describe_case(
    case: ControlCase, answer: ControlAnswer, outcomes: SuspectOutcomes, name: str, base_name: str, cause: str
) -> str:
    sides = (
        f"control {case.control_passed} of {case.control_runs}, head {case.head_passed} of {case.head_runs}"
    )
    others = {"of the control": case.control_otherwise, "of the head": case.head_otherwise}
    remark = _describe_other_failures(others)
    if case.answer is None:
        return (
            f"{name}: too few control runs have a result ({sides} passed{remark}), so the baseline decides."
        )
    if answer == "broke":
        return f"{name} broke: {sides} passed today{remark}."
    if answer == "drifted":
        passed, runs = outcomes.count_stored_passes()
        others["in the baseline"] = runs - passed - outcomes.stored.failed
        then = f"{passed} of {runs} in the baseline{_describe_other_failures(others)}"
        return f"{name} fails on {base_name} today as well ({sides} passed; {then}): {cause}"
    if answer == "recovered":
        return f"{name} fails no longer ({sides} passed{remark}): luck, or an outage that is over."
    further = pluralize(case.head_runs, "further run")
    return f"{name}: {further} cannot tell whether the change broke it ({sides} passed{remark})."


def _describe_other_failures(counts: Mapping[str, int]) -> str:
    """Return `; 1 of the control and 5 in the baseline failed in another way`, or "" without such runs.

    `counts` maps a phrase for some runs, such as `of the control`, to the number of them that failed in
    another way.
    """
    named = [f"{count} {where}" for where, count in counts.items() if count > 0]
    return f"; {' and '.join(named)} failed in another way" if named else ""


def _iter_metrics(
    suspects: ControlSuspects, decision: ControlDecision, base_name: str, cause: str
) -> Iterator[ControlMetric]:
    ranges = {
        build_metric_table_name(metric.name, metric.fingerprint): metric.range
        for case in suspects.cases
        for metric in case.metrics
    }
    for table, found in decision.averages.items():
        (name, _, fingerprint), score_range = table.partition("\0"), ranges[table]
        means = then, head, control = [
            None if mean is None else score_range.to_score(mean)
            for mean in (found.stored, found.head, found.control)
        ]
        drop = None if found.drop is None else found.drop * score_range.width
        shown = [score_range.format(mean, beside=means) for mean in means]
        yield ControlMetric(
            name,
            fingerprint,
            found.answer if found.is_measured else None,
            then,
            head,
            control,
            drop,
            found.p,
            found.level,
            _describe_average(name, found, shown, base_name, cause),
        )


def _describe_average(name: str, found: AverageControl, shown: list[str], base_name: str, cause: str) -> str:
    then, head, control = shown
    sides = f"control {control}, head {head} today"
    if not found.is_measured:
        why = (
            "too few control runs have a score"
            if found.rounds
            else "its average was not compared with control runs"
        )
        return f"{name}: {why}, so the baseline decides."
    if found.answer == "drifted" and not found.rounds:
        return f"{name} is lower because of the cases that fail on {base_name} today as well."
    if found.answer == "broke":
        return f"{name} fell by the change: {sides}, on the cases that were run again."
    if found.answer == "drifted":
        return f"{name} is lower on {base_name} today as well ({sides}, {then} in the baseline): {cause}"
    if found.answer == "recovered":
        return f"{name} is no longer lower ({sides}): luck, or an outage that is over."
    return f"{name}: {found.rounds} further runs a case cannot tell whether the change lowered it ({sides})."


def apply_control(
    compared_runs: ComparedRuns, scored: ScoredRuns, control: ControlComparison
) -> ComparedRuns:
    """Return the comparison with new verdicts for the metrics that the control runs clear or leave open.

    Control runs change only the verdicts on drops of averages and on broken cases. Budgets, missing runs, and
    means or pass^k below their minimum count as before.

    Sentences about cleared drops and cases are removed. A case about which the control runs have an answer is
    removed from the sentence that lists cases that scored lower, maybe by luck.
    """
    decision = scored.decision
    if decision is None:
        return compared_runs
    compared = {name: found for name, found in decision.metrics.items() if not found.rule.is_figure}
    answers = {case.key: case.answer for case in control.cases}
    cases = compared_runs.cases
    quote = build_case_quote(case.key for case in cases)
    cleared = tuple(
        begin_broken_sentence(quote(case.key)) for case in cases if _VERDICTS[answers.get(case.key)] == "pass"
    )
    settled = {build_row_name(case) for case in cases if case.key in control.settled}
    context = MessageContext(quote=build_row_quote(cases), confirmed=collect_confirmed_rows(cases))
    averages = {build_metric_table_name(each.name, each.fingerprint): each.answer for each in control.metrics}
    metrics = []
    for key, summary in zip(group_by_metric(cases), compared_runs.metrics, strict=True):
        table = build_metric_table_name(key.name, key.fingerprint)
        found = compared.get(table)
        judged = summary.judgement
        if found is None or judged is None or (table not in averages and judged.verdict != "fail"):
            metrics.append(summary)
            continue
        own = averages.get(table)
        broken = (
            answers.get(case.key)
            for case in cases
            if case.gates and _is_broken_by(case, key.name, key.fingerprint)
        )
        verdicts = _list_verdicts(found, own, broken)
        explained = cleared if own is None or _VERDICTS[own] == "fail" else (*cleared, REGRESSION)
        left = replace(found, cases={name: each for name, each in found.cases.items() if name not in settled})
        replaced = dict.fromkeys(describe_suspects(found, context), describe_suspects(left, context))
        metrics.append(_replace_verdict(_edit_sentences(summary, explained, replaced), verdicts))
    return replace(compared_runs, metrics=tuple(metrics))


def _list_verdicts(
    found: MetricDecision, own: ControlAnswer | None, broken: Iterable[ControlAnswer | None]
) -> list[MetricVerdict]:
    """Return the verdicts of a metric's checks after the control runs.

    `own` is the answer about the metric's average. `broken` has one answer for each case that broke by
    this metric. An answer is None if the control runs do not answer. Then the verdict of the comparison with
    the baseline stays.
    """
    verdicts = [check.verdict for check in found.checks if check.kind == "data"]
    averaged = [check.verdict for check in found.checks if check.kind == "average"]
    verdicts += averaged if own is None else [_VERDICTS[own]]
    if any(check.kind == "cases" and check.verdict == "fail" for check in found.checks):
        verdicts += [_VERDICTS[each] for each in broken] or ["fail"]
    return verdicts


def _is_broken_by(case: CaseResult, name: str, fingerprint: str) -> bool:
    """Return True if the metric with this name and fingerprint is broken in the case.

    A metric is broken if the exact test finds that its scores fell by more than luck explains.
    """
    return any(
        metric.name == name
        and metric.fingerprint == fingerprint
        and metric.standing is not None
        and metric.standing.status == "broken"
        for metric in case.metrics
    )


def _edit_sentences(
    summary: MetricSummary, dropped: tuple[str, ...], replaced: Mapping[str, tuple[str, ...]]
) -> MetricSummary:
    """Return the summary with some sentences of its judgement left out or replaced.

    Args:
        summary: summary of a metric.
        dropped: first words of the sentences to leave out.
        replaced: maps a sentence to the sentences that replace it; () removes it.
    """
    judgement = summary.judgement
    if judgement is None:
        return summary
    sentences, shared = (
        tuple(
            new for each in sentences if not each.startswith(dropped) for new in replaced.get(each, (each,))
        )
        for sentences in (judgement.sentences, judgement.shared)
    )
    return replace(summary, judgement=replace(judgement, sentences=sentences, shared=shared))


def _replace_verdict(summary: MetricSummary, verdicts: list[MetricVerdict]) -> MetricSummary:
    judgement = summary.judgement
    if judgement is None:
        return summary
    own = [each.verdict for each in (judgement.minimum, judgement.reliability) if each is not None]
    verdict: MetricVerdict = max((*verdicts, *own), key=lambda each: SEVERITY[each], default="fail")
    if verdict in ("fail", judgement.verdict):
        return replace(summary, regressed=summary.regressed and "fail" in verdicts)
    changed = replace(judgement, verdict=verdict, reason="control", sentences=(), shared=())
    return replace(summary, judgement=changed, regressed=False)


def build_all_drifted(suspects: ControlSuspects) -> ControlComparison:
    """Return a made-up comparison in which every suspect has `drifted`, the answer that clears the change.

    If the gate stays closed even with this comparison, control runs cannot open it, and need not be made.
    """
    return ControlComparison(
        "",
        "drifted",
        tuple(
            ControlCase(
                case.eval_set_id, case.eval_id, (), "drifted" if case.key in suspects.broken else None
            )
            for case in suspects.cases
            if case.key in suspects.keys
        ),
        tuple(
            ControlMetric(name, fingerprint, "drifted")
            for name, _, fingerprint in (table.partition("\0") for table in suspects.averages)
        ),
    )
