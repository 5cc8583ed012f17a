"""Build the record of a run: score the cases, compare them with the baseline, decide the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalgate import __version__
from evalgate.core.formatting import pluralize, to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.protocols import explain_missing_baseline
from evalgate.core.types import (
    AgentInfo,
    AnchorComparison,
    Baseline,
    CaseResult,
    Comparison,
    ControlComparison,
    FailureGroup,
    GateInput,
    Record,
    RecordedCriterion,
)
from evalgate.gating.comparison import ComparedRuns, ScoredRuns, compare_runs
from evalgate.gating.verdict import decide_verdict
from evalgate.llm.budget_guard import describe_budget_shortfall
from evalgate.metrics.metric_summaries import (
    compute_totals,
    describe_inconsistent_cases,
    describe_partly_scored_cases,
)
from evalgate.reporting.findings import count_passed_runs
from evalgate.runner.plan import Plan
from evalgate.runner.result_collector import ResultCollector
from evalgate.system.agent_environment import list_environment_notices, list_withheld_variables
from evalgate.system.git import count_commits_since
from evalgate.system.pull_requests import describe_unmerged_change

if TYPE_CHECKING:
    from evalgate.gating.statistical_policy import StatisticalPolicy


@frozen
class RunTiming:
    """Start and duration of a run."""

    created_at: str
    """Start of the run in UTC, in ISO 8601."""
    duration_s: float


def build_record(
    plan: Plan,
    run_results: ResultCollector,
    statistics: "StatisticalPolicy | None",
    baseline: Baseline | None,
    timing: RunTiming,
    anchor_baseline: Baseline | None = None,
    control: ControlComparison | None = None,
) -> Record:
    """Score finished runs, compare them with the baseline, decide the verdict and return the record.

    The runs may come from shards or a stored record. Without `statistics`, plain means are compared.
    `anchor_baseline` is the fixed baseline of `gate.anchor`; None without this setting. `control` is the
    result of the control runs (runs of the base commit's agent); None if they were not made or do not count.
    """
    scored = score_and_decide(plan, run_results, statistics, baseline)
    compared = compare_runs(scored, baseline, plan.gate, whole_sets=plan.whole_sets)
    anchor = compare_with_anchor_baseline(plan, scored, compared, anchor_baseline, timing.created_at, control)
    compared = correct_by_control(compared, scored, control)
    evidence = build_gate_input(plan, run_results, scored, compared, control, anchor)
    verdict = decide_verdict(evidence, plan.gate)
    criteria = _list_criteria(plan)
    return Record(
        evalgate_version=__version__,
        created_at=timing.created_at,
        duration_s=timing.duration_s,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.name),
        runs=scored.rounds,
        verdict=verdict,
        metrics=evidence.metrics,
        cases=evidence.cases,
        totals=evidence.totals,
        comparison=evidence.comparison,
        notices=tuple(_list_notices(plan, run_results, compared, evidence, baseline)),
        effort=compared.effort,
        judge=run_results.judge_usage,
        criteria=criteria,
        selection=plan.selection,
        partial_sets=_list_partial_sets(plan),
        is_part=plan.is_part,
        failure_groups=_group_failures(evidence, criteria, baseline),
        anchor=anchor,
        control=control,
    )


def correct_by_control(
    compared_runs: ComparedRuns, scored: ScoredRuns, control: ControlComparison | None
) -> ComparedRuns:
    """Correct the decisions on drops of means and on broken cases by the control runs, if any count.

    Control runs are runs of the base commit's agent.
    """
    if control is None:
        return compared_runs
    from evalgate.gating.control_comparison import apply_control  # few runs have control runs

    return apply_control(compared_runs, scored, control)


def build_gate_input(
    plan: Plan,
    run_results: ResultCollector,
    scored: ScoredRuns,
    compared_runs: ComparedRuns,
    control: ControlComparison | None,
    anchor: AnchorComparison | None,
) -> GateInput:
    """Build the evidence from which `decide_verdict` decides the verdict."""
    return GateInput(
        compared_runs.metrics,
        compared_runs.cases,
        compute_totals(compared_runs.cases),
        compared_runs.baseline_comparison,
        run_results.interrupted,
        run_results.unreachable,
        tuple(_describe_doubts(plan, run_results, compared_runs.cases)),
        not_selected=plan.selection.of - plan.selection.cases if plan.selection else 0,
        anchor=anchor,
        control=control,
        criteria=scored.statistics.criteria if scored.statistics else {},
    )


def _list_partial_sets(plan: Plan) -> tuple[str, ...]:
    """Return the ids of the eval sets from which arguments `FILE:CASE` selected only some of the cases.

    Return () if options such as `--tag` selected cases: then `Record.selection` describes what was left out.
    """
    if plan.selection is not None:
        return ()
    return tuple(suite.eval_set.eval_set_id for suite in plan.suites if not suite.eval_set.is_whole)


def compare_with_anchor_baseline(
    plan: Plan,
    scored: ScoredRuns,
    compared_runs: ComparedRuns,
    anchor_baseline: Baseline | None,
    created_at: str,
    control: ControlComparison | None,
) -> AnchorComparison | None:
    """Compare the means of a run with the fixed baseline of `gate.anchor`; return None without it.

    `created_at` is the start of the run in UTC, in ISO 8601. `control` is the result of control runs.
    """
    if anchor_baseline is None:
        return None
    from evalgate.gating.anchor import AnchorContext, compare_with_anchor
    from evalgate.gating.score_tables import build_metric_table_name
    from evalgate.runner.run_strategy import choose_statistics

    statistics = scored.statistics or choose_statistics(plan, anchor_baseline)
    commit = anchor_baseline.sources[-1].commit
    answered = control.metrics if control else ()
    comparison = compared_runs.baseline_comparison
    context = AnchorContext(
        base_branch=(comparison.branch or "the baseline") if comparison else "",
        unmerged_change=describe_unmerged_change(plan.agent_environ),
        created_at=created_at,
        commits=count_commits_since(plan.workspace.folder, commit) if commit else None,
        cleared_by_control={
            build_metric_table_name(each.name, each.fingerprint)
            for each in answered
            if each.answer not in ("broke", None)
        },
    )
    own = replace(scored, cases=compared_runs.cases, statistics=statistics)
    return compare_with_anchor(own, anchor_baseline, plan.gate, context)


def _group_failures(
    evidence: GateInput, criteria: Sequence[RecordedCriterion], baseline: Baseline | None
) -> tuple[FailureGroup, ...]:
    if not evidence.totals.failed + evidence.totals.errored:
        return ()
    from evalgate.gating.failure_groups import group_failures  # only needed if a case fails

    return group_failures(evidence.cases, evidence.comparison, criteria, baseline)


def _list_criteria(plan: Plan) -> tuple[RecordedCriterion, ...]:
    """Return the criteria of the plan's metrics: one for each pair (name of the metric, fingerprint)."""
    found = {(bound.name, bound.fingerprint): bound.criterion for bound in plan.bound_metrics}
    return tuple(
        RecordedCriterion(name, fingerprint, criterion.options, criterion.evaluator)
        for (name, fingerprint), criterion in found.items()
    )


def score_and_decide(
    plan: Plan,
    run_results: ResultCollector,
    statistics: "StatisticalPolicy | None",
    baseline: Baseline | None,
) -> ScoredRuns:
    """Decide about each metric by `statistics`, and score every case over the runs that count.

    A round is one run of every case. The decision states the number of rounds that it used. Runs in these
    rounds count. Further runs of single cases are kept, but do not count for means. Without `statistics`,
    there is no decision, and all runs count.
    """
    cases = run_results.score_cases()
    rounds = min((len(case.runs) for case in cases), default=0) if plan.runs == "auto" else plan.runs
    if statistics is None:
        return ScoredRuns(cases, rounds)
    from evalgate.gating.significance import decide_metrics

    decision = decide_metrics(cases, baseline, statistics)
    rounds = decision.rounds if decision else rounds
    # Runs beyond these rounds were made only for cases that looked bad. They would bias the means, because a
    # case that looked good by chance got no further runs. So they only confirm failures.
    cases = run_results.score_cases(rounds) if statistics.makes_more_runs else cases
    return ScoredRuns(cases, rounds, statistics, decision)


def _describe_judges_and_budget(plan: Plan, run_results: ResultCollector) -> Iterator[str]:
    yield from map(to_sentence, plan.judge_resolver.models.notices)
    if run_results.calibration_verdict is not None and run_results.calibration_verdict.is_reliable:
        yield to_sentence(run_results.calibration_verdict.sentence)
    if plan.label_check is not None:
        yield from plan.label_check.iter_notices()
    yield from run_results.spending.iter_notices()


def _describe_doubts(plan: Plan, run_results: ResultCollector, cases: Sequence[CaseResult]) -> Iterator[str]:
    if plan.selection is not None and plan.selection.is_sample:
        drawn, of = plan.selection.cases, pluralize(plan.selection.of, "case")
        yield f"This is a sample of {drawn:,} of {of}, which has no verdict."
    # Merged shards and resumed runs have runs that were made earlier.
    has_runs = any(run.outcome != "not_run" for case in cases for run in case.runs)
    ending = "" if has_runs else " No case was run."
    health = run_results.calibration_verdict
    if health is not None and not health.is_reliable:
        yield f"{to_sentence(health.sentence)} {health.shortfall}{ending}"
    if plan.label_check is not None:
        yield from (f"{to_sentence(each)}{ending}" for each in plan.label_check.unreliable)
    spent = run_results.spending.exhaustion_reason
    yield from describe_budget_shortfall(cases, more_wanted=run_results.more_wanted, why=spent)


def _describe_likely_causes(plan: Plan, evidence: GateInput) -> Iterator[str]:
    """Yield sentences about likely causes of failures that are not in the agent's code.

    Such causes are withheld environment variables, and tool calls or results that evalgate does not see.
    """
    agent, cases = plan.agent, evidence.cases
    # Loaded only if there is a cause to look for.
    if evidence.unreachable or any(run.failure is not None for case in cases for run in case.runs):
        from evalgate.reporting.likely_causes import describe_missing_variables

        withheld = list_withheld_variables(plan.agent_environ, agent.settings.env)
        yield from describe_missing_variables(cases, withheld, evidence.unreachable)
    if any(case.expects_tool_calls for suite in plan.suites for case in suite.eval_set.cases):
        from evalgate.reporting.likely_causes import describe_missing_tool_calls

        if silent := describe_missing_tool_calls(cases, agent.settings.kind, agent.options):
            yield silent
    if getattr(agent.options, "dialect", "") == "openai":
        from evalgate.agents.http.tool_stubs import NOT_RECORDED
        from evalgate.reporting.likely_causes import describe_unrecorded_results

        if unrecorded := describe_unrecorded_results(cases, NOT_RECORDED):
            yield unrecorded


def _list_notices(
    plan: Plan,
    run_results: ResultCollector,
    compared_runs: ComparedRuns,
    evidence: GateInput,
    baseline: Baseline | None,
) -> Iterator[str]:
    """Yield the notices of the record, the most important first."""
    yield from _describe_likely_causes(plan, evidence)
    yield from compared_runs.notices
    if evidence.anchor is not None:
        from evalgate.gating.anchor import describe_anchor

        yield from describe_anchor(evidence.anchor)
    if plan.gate.baseline and baseline is None:
        why = explain_missing_baseline(plan.baseline_store) if plan.baseline_store else ""
        where = plan.gate.baseline
        yield f"There is no baseline at {where} yet{why}. {_suggest_first_baseline(evidence)}"
    yield from plan.notices
    if baseline is not None and evidence.comparison is not None:
        yield from _describe_baseline(baseline, evidence, evidence.comparison)
    yield from list_environment_notices(plan.agent_environ, plan.agent.settings.env)
    if flipping := describe_inconsistent_cases(evidence.cases):
        yield flipping
    yield from describe_partly_scored_cases(evidence.cases)
    if any(run.judge is not None for case in evidence.cases for run in case.runs):
        from evalgate.metrics.judge_noise import describe_judge_noise

        yield from describe_judge_noise(evidence.cases)
    yield from _describe_judges_and_budget(plan, run_results)


def _suggest_first_baseline(evidence: GateInput) -> str:
    """Return advice on storing a first baseline: at once, or only after the failing cases are corrected."""
    bad = [case for case in evidence.cases if case.gates and case.status in {"failed", "errored"}]
    if not bad:
        return "Save one with `evalgate baseline save`."
    flips = any(0 < passed < counted for passed, counted in map(count_passed_runs, bad))
    known = (
        "Only to store a case as known failing, use `evalgate run --runs 10` and then "
        "`evalgate baseline save --allow-failing`: it closes nothing from then on."
    )
    if flips:
        return (
            "Where a case fails now and then, mend it, lower its threshold or quarantine it "
            f"(`gate.quarantine`). {known}"
        )
    return (
        "Mend the cases that fail, lower their thresholds or quarantine them (`gate.quarantine`), and save a "
        f"run with `evalgate baseline save`. {known}"
    )


def _describe_baseline(baseline: Baseline, evidence: GateInput, comparison: Comparison) -> Iterator[str]:
    """Yield notices about the baseline, and about cases and metrics that cannot be compared with it."""
    from evalgate.baselines.failing_since import describe_already_failing
    from evalgate.baselines.history import describe_staleness
    from evalgate.gating.case_changes import describe_missing_checks, explain_missing_deltas
    from evalgate.gating.quarantine import find_recovered

    yield from describe_already_failing(evidence.cases, baseline)
    yield from describe_staleness(baseline, datetime.now(UTC))
    yield from find_recovered(evidence.cases, baseline)
    if missing := describe_missing_checks(evidence.cases, baseline):
        yield missing
    nothing = explain_missing_deltas(evidence.metrics, comparison)
    if nothing:
        yield nothing
    for name in comparison.other_judges:
        yield f"{name} is not comparable: the judge, or what it is asked, changed since the baseline."
    for name in comparison.other_metrics if not nothing else ():
        yield f"{name} is not compared on every case: its options or its code changed, or it was absent then."
