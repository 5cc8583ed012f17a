"""The sentence: load, run, score, compare, gate, report. The composition root."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from evalgate import __version__, plugins
from evalgate.compare import add_deltas, compare, nothing_compared
from evalgate.fingerprint import fingerprint
from evalgate.gate import decide, mark_regressions
from evalgate.model import (
    AgentInfo,
    Baseline,
    CaseResult,
    CaseRun,
    EvalSet,
    Evidence,
    Record,
    RunResult,
)
from evalgate.plan import Plan
from evalgate.protocols import Agent, AgentPlace, HoldsOpen, Progress
from evalgate.run import RunRequest, run_cases
from evalgate.score import repeated_unequally, score_case, score_run, summarise, total
from evalgate.system.environment import agent_environment, environment_notices
from evalgate.system.interruption import cancelled_by_signals
from evalgate.system.provision import provision


def run_gate(plan: Plan, progress: Progress, while_starting: Callable[[], None] = lambda: None) -> Record:
    """Run every case of the plan and judge it: the whole record, verdict included.

    `while_starting` is called once, between the start of the agent and its first turn: work that fits in
    there costs no time.

    Raises:
        EvalgateError: the input is wrong, or what the agent needs cannot be installed.
    """
    created_at, clock = datetime.now(UTC), time.monotonic()
    baseline = plan.baseline.read() if plan.baseline else None
    agent = _agent(plan)
    evaluation = _Evaluation(plan, progress)
    cases = asyncio.run(evaluation.run(agent, while_starting))
    metrics, comparison = summarise(cases), None
    if baseline is not None:
        metrics = mark_regressions(add_deltas(metrics, cases, baseline), plan.policy)
        comparison = compare(cases, baseline)
    evidence = Evidence(
        metrics, cases, total(cases), comparison, evaluation.interrupted, evaluation.unreachable
    )
    return Record(
        evalgate_version=__version__,
        created_at=created_at.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - clock, 3),
        agent=AgentInfo(plan.agent.settings.kind, plan.agent.what),
        runs=plan.runs,
        verdict=decide(evidence, plan.policy),
        metrics=metrics,
        cases=cases,
        totals=evidence.totals,
        comparison=comparison,
        notices=tuple(_notices(plan, evidence, baseline)),
    )


def _agent(plan: Plan) -> Agent:
    """The agent with what it needs installed, not started yet."""
    workspace, config, python = plan.workspace, plan.agent.settings, plan.agent.settings.python
    home = workspace.home(plan.environ)
    env = {**agent_environment(plan.environ, config.env), "HOME": str(home)}
    if config.setup is not None:
        installed = provision(
            config.setup,
            python=config.python,
            cwd=workspace.folder,
            env=env,
            cache=home / ".cache" / "evalgate",
            user=workspace.owner,
        )
        python, env = installed.python, dict(installed.env)
    uid, gid = workspace.owner or (None, None)

    def read_recording(path: str) -> Record | EvalSet:
        return plugins.read_recording(workspace.folder / path, path)

    place = AgentPlace(
        folder=workspace.folder,
        env=env,
        timeout=config.timeout,
        workers=config.workers,
        concurrency=config.concurrency,
        read_recording=read_recording,
        python=python,
        uid=uid,
        gid=gid,
        environ=plan.environ,
    )
    return plan.agent.options.build(place)


class _Evaluation:
    """The steps "run" and "score", interleaved: a case is scored while others still run."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._places = [(suite, case) for suite in plan.suites for case in suite.eval_set.cases]
        self._results: list[list[RunResult]] = [[] for _ in self._places]
        self.interrupted = False
        self.unreachable = ""
        """Why the agent could not be reached; "" when it could."""

    async def run(self, agent: Agent, while_starting: Callable[[], None]) -> tuple[CaseResult, ...]:
        """Every case in file order."""
        requests = [
            RunRequest(case, run, index)
            for run in range(1, self._plan.runs + 1)
            for index, (_, case) in enumerate(self._places)
        ]
        self._progress.started(len(requests))
        try:
            with cancelled_by_signals():
                async with agent, _closing(self._plan):
                    await asyncio.sleep(0)  # the agent's processes start
                    while_starting()
                    refusal = await run_cases(
                        agent,
                        requests,
                        concurrency=self._plan.agent.settings.concurrency,
                        on_finished=self._finished,
                    )
                    self.unreachable = refusal.message if refusal else ""
        except asyncio.CancelledError:
            self.interrupted = True
        return tuple(self._case_results())

    async def _finished(self, request: RunRequest, run: CaseRun) -> None:
        suite, case = self._places[request.index]
        result = await score_run(case, run, suite.metrics_of(case))
        self._results[request.index].append(result)
        self._progress.finished(suite.eval_set.eval_set_id, case.eval_id, result)

    def _case_results(self) -> Iterator[CaseResult]:
        for (suite, case), runs in zip(self._places, self._results, strict=True):
            yield score_case(
                suite.eval_set.eval_set_id,
                case,
                sorted(runs, key=lambda run: run.run),
                suite.metrics_of(case),
                path=suite.eval_set.path,
                fingerprint=fingerprint(case),
                policy=suite.policy(case),
            )


@asynccontextmanager
async def _closing(plan: Plan) -> AsyncIterator[None]:
    """Metrics that hold something open let go of it in the end."""
    metrics = {id(bound.metric): bound.metric for suite in plan.suites for bound in suite.metrics}
    async with AsyncExitStack() as stack:
        for metric in metrics.values():
            if isinstance(metric, HoldsOpen):
                stack.push_async_callback(metric.aclose)
        yield


def _notices(
    plan: Plan,
    evidence: Evidence,
    baseline: Baseline | None,
) -> Iterator[str]:
    if plan.policy.baseline and baseline is None:
        yield (f"There is no baseline at {plan.policy.baseline} yet. Save one with `evalgate baseline save`.")
    comparison = evidence.comparison
    nothing = nothing_compared(evidence.metrics, comparison) if comparison else ""
    if nothing:
        yield nothing
    for name in comparison.other_metrics if comparison and not nothing else ():
        yield f"{name} is not compared on every case: it had other options in the baseline, or was absent."
    yield from environment_notices(plan.environ, plan.agent.settings.env)
    if flipping := repeated_unequally(evidence.cases):
        yield flipping
