"""The sentence: load, run, score, compare, gate, report. The composition root."""

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from evalgate import __version__, plugins
from evalgate.compare import add_deltas, compare
from evalgate.gate import decide
from evalgate.load import fingerprint
from evalgate.model import (
    AgentInfo,
    Baseline,
    CaseResult,
    CaseRun,
    Evidence,
    Record,
    RunResult,
)
from evalgate.plan import Plan, Suite
from evalgate.protocols import Agent, Progress
from evalgate.run import RunRequest, run_cases
from evalgate.score import repeated_unequally, score_case, score_run, summarise, total


def run_gate(plan: Plan, progress: Progress) -> Record:
    """Run every case of the plan and judge it: the whole record, verdict included.

    Raises:
        EvalgateError: the input is wrong, or what the agent needs cannot be installed.
    """
    created_at, clock = datetime.now(UTC), time.monotonic()
    baseline = plan.baseline.read() if plan.baseline else None
    agent = plugins.build_agent(plan.agent, plan.workspace, plan.environ)
    cases, interrupted = _evaluated(plan, agent, progress)
    metrics, comparison = summarise(cases), None
    if baseline is not None:
        metrics, comparison = add_deltas(metrics, cases, baseline), compare(cases, baseline)
    evidence = Evidence(metrics, cases, total(cases), comparison, interrupted, _unreachable(cases))
    return Record(
        evalgate_version=__version__,
        created_at=created_at.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - clock, 3),
        agent=AgentInfo(plan.agent.kind, plan.agent.what),
        runs=plan.runs,
        verdict=decide(evidence, plan.policy),
        metrics=metrics,
        cases=cases,
        totals=evidence.totals,
        comparison=comparison,
        notices=tuple(_notices(plan, cases, baseline)),
    )


def _notices(plan: Plan, cases: Sequence[CaseResult], baseline: Baseline | None) -> Iterator[str]:
    if plan.policy.baseline and baseline is None:
        yield (
            f"There is no baseline at {plan.policy.baseline} yet: absolute thresholds only. Save one with "
            "`evalgate baseline save`."
        )
    if flipping := repeated_unequally(cases):
        yield flipping


def _unreachable(cases: Sequence[CaseResult]) -> str:
    failures = (run.failure for case in cases for run in case.runs)
    return next((failure.message for failure in failures if failure and failure.kind == "unreachable"), "")
