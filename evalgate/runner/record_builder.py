"""From runs to the record: what they are worth, beside the baseline, and the verdict."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evalgate import __version__
from evalgate.core.formatting import sentence
from evalgate.core.frozen import frozen
from evalgate.core.protocols import absence_of
from evalgate.core.types import AgentInfo, Baseline, CaseResult, Comparison, Evidence, Record
from evalgate.gating.assessment import Worth, worth
from evalgate.gating.verdict import decide
from evalgate.llm.usage import left_undone
from evalgate.metrics.aggregation import repeated_unequally, total
from evalgate.reporting.findings import passed_runs
from evalgate.runner.eval_runner import Evaluation
from evalgate.runner.plan import Plan
from evalgate.system.workspace import environment_notices, withheld_variables

if TYPE_CHECKING:
    from evalgate.gating.sampling import Sampling


@frozen
class Made:
    """When runs were made."""

    created_at: str
    """ISO 8601, UTC."""
    duration_s: float


def conclude(
    plan: Plan, evaluation: Evaluation, sampling: "Sampling | None", baseline: Baseline | None, made: Made
) -> Record:
    """The record of runs that were made, here or elsewhere."""
    found = worth(plan.policy, plan.runs, evaluation.results, sampling)
    evidence = _evidence(plan, evaluation, found, baseline)
    return Record(
        evalgate_version=__version__,
        created_at=made.created_at,
        duration_s=made.duration_s,
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.what),
        runs=found.rounds,
        verdict=decide(evidence, plan.policy),
        metrics=found.metrics,
        cases=found.cases,
        totals=evidence.totals,
        comparison=evidence.comparison,
        notices=(
            *_diagnoses(plan, evidence),
            *found.notices,
            *_notices(plan, evidence, baseline),
            *_asides(plan, evaluation),
        ),
        effort=found.effort,
        judge=evaluation.judged,
    )


def _evidence(plan: Plan, evaluation: Evaluation, found: Worth, baseline: Baseline | None) -> Evidence:
    return Evidence(
        found.metrics,
        found.cases,
        total(found.cases),
        _comparison(plan, found, baseline) if baseline else None,
        evaluation.interrupted,
        evaluation.unreachable,
        tuple(_doubts(evaluation, found.cases)),
    )


def _comparison(plan: Plan, found: Worth, baseline: Baseline) -> Comparison:
    from evalgate.gating.comparison import compare

    return compare(found.cases, baseline, whole_sets=plan.whole_sets)


def _asides(plan: Plan, evaluation: Evaluation) -> Iterator[str]:
    """What is to be said of the judges and of the budget."""
    yield from map(sentence, plan.bench.judges.use.notices)
    if evaluation.judge_health is not None and evaluation.judge_health.is_reliable:
        yield sentence(evaluation.judge_health.sentence)
    yield from evaluation.spending.notices()


def _doubts(evaluation: Evaluation, cases: Sequence[CaseResult]) -> Iterator[str]:
    health = evaluation.judge_health
    if health is not None and not health.is_reliable:
        yield f"{sentence(health.sentence)} Missed: {', '.join(health.missed)}. No case was run."
    spent = evaluation.spending.why
    yield from left_undone(cases, more_wanted=evaluation.more_wanted, why=spent)


def _diagnoses(plan: Plan, evidence: Evidence) -> Iterator[str]:
    """Yield likely causes that are not the agent's fault."""
    from evalgate.reporting.diagnoses import (
        tell_missing_variables,
        tell_no_tool_calls,
        tell_unrecorded_results,
    )

    agent, cases = plan.agent, evidence.cases
    withheld = withheld_variables(plan.environ, agent.settings.env)
    yield from tell_missing_variables(cases, withheld, evidence.unreachable)
    if silent := tell_no_tool_calls(cases, agent.settings.kind, agent.options):
        yield silent
    if getattr(agent.options, "dialect", "") == "openai":
        from evalgate.agents.http.tool_stubs import NOT_RECORDED

        if unrecorded := tell_unrecorded_results(cases, NOT_RECORDED):
            yield unrecorded


def _notices(
    plan: Plan,
    evidence: Evidence,
    baseline: Baseline | None,
) -> Iterator[str]:
    if plan.policy.baseline and baseline is None:
        why = absence_of(plan.baseline) if plan.baseline else ""
        where = plan.policy.baseline
        yield f"There is no baseline at {where} yet{why}. {_next_step(evidence)}"
    yield from plan.notices
    if baseline is not None and evidence.comparison is not None:
        yield from _beside(baseline, evidence, evidence.comparison)
    yield from environment_notices(plan.environ, plan.agent.settings.env)
    if flipping := repeated_unequally(evidence.cases):
        yield flipping


def _next_step(evidence: Evidence) -> str:
    """Return how to store a first baseline from a run like this."""
    if not evidence.totals.failed and not evidence.totals.errored:
        return "Save one with `evalgate baseline save`."
    bad = (case for case in evidence.cases if case.status in {"failed", "errored"})
    flips = any(0 < passed < told for passed, told in map(passed_runs, bad))
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


def _beside(baseline: Baseline, evidence: Evidence, comparison: Comparison) -> Iterator[str]:
    """What is to be said of the baseline, and of what cannot be held against it."""
    from evalgate.baselines.breaks import already_failing
    from evalgate.baselines.history import remarks
    from evalgate.gating.comparison import nothing_compared
    from evalgate.gating.quarantine import healed

    yield from already_failing(evidence.cases, baseline)
    yield from remarks(baseline, datetime.now(UTC))
    yield from healed(evidence.cases, baseline)
    nothing = nothing_compared(evidence.metrics, comparison)
    if nothing:
        yield nothing
    for name in comparison.other_judges:
        yield f"{name} is not comparable: the judge, or what it is asked, changed since the baseline."
    for name in comparison.other_metrics if not nothing else ():
        yield f"{name} is not compared on every case: its options or its code changed, or it was absent then."
