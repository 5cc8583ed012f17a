"""The steps "run" and "score", interleaved: a case is scored while others still run."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Protocol, TypeAlias

from evalgate.config.schema.budget import Spent
from evalgate.core.errors import InvalidInput
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Agent, ChecksEntry, HoldsOpen, Progress
from evalgate.core.types import NOT_THE_AGENTS_FAULT, Baseline, CaseResult, CaseRun, JudgeTotals, RunResult
from evalgate.llm.usage import Spending, Used, was_refused
from evalgate.metrics.scoring import score_case, score_run
from evalgate.runner.plan import Plan
from evalgate.runner.scheduler import RunRequest, run_cases
from evalgate.runner.suites import Places
from evalgate.system.signals import cancelled_by_signals
from evalgate.throttling.throttle import Pace, PaceSettings

if TYPE_CHECKING:
    from evalgate.gating.sampling import Sampling
    from evalgate.llm.judge_health import AnchorVerdict

Wanted: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case → numbers (1-based) of runs to make."""


_KEPT_AT_ONCE = 64
"""Runs that are lost at most when the gate is killed in the moment in which they finish."""


class Sampler(Protocol):
    """Says which runs are made."""

    def first(self, cases: int) -> Wanted:
        """What is run in any event, of so many cases."""
        ...

    def next(self, results: Callable[[], Sequence[CaseResult]]) -> Wanted:
        """What is run after what was run so far, which `results` sums up; empty when enough is known."""
        ...


class _All(Mapping[int, Sequence[int]]):
    """The same runs of so many cases."""

    def __init__(self, cases: int, numbers: range) -> None:
        self._cases, self._numbers = range(cases), numbers

    def __getitem__(self, index: int) -> range:
        if index not in self._cases:
            raise KeyError(index)
        return self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)


class FixedRuns:
    """Every case so many times."""

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def first(self, cases: int) -> Wanted:
        """All of them."""
        return _All(cases, range(1, self._runs + 1))

    def next(self, results: Callable[[], Sequence[CaseResult]]) -> Wanted:
        """Nothing more."""
        del results
        return {}


def sampling_of(plan: Plan, baseline: Baseline | None) -> "Sampling | None":
    """Who says which runs are made and what they tell; None where plain means say it all."""
    criteria = [bound.criterion for suite in plan.suites for bound in suite.metrics]
    statistical = any(criterion.rule == "statistical" for criterion in criteria)
    if baseline is None and not statistical and plan.runs != "auto":
        return None
    from evalgate.gating.sampling import Sampling
    from evalgate.gating.score_tables import statistical_policy

    repeatable = plan.agent.settings.kind != "replay"  # a recording says the same each time
    return Sampling(statistical_policy(plan.policy, plan.runs, criteria, repeatable=repeatable), baseline)


class KeepsRuns(Protocol):
    """A place that keeps finished runs."""

    def begin(self) -> None:
        """Take the place of what an earlier run kept. Must not raise."""
        ...

    def add(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Keep runs, each of the case that stands at that index among all. Must not raise."""
        ...

    def use(self, used: Used) -> None:
        """Keep what was used until now. Must not raise."""
        ...


@frozen
class Scope:
    """Which part of a plan is run here."""

    finished: Mapping[int, Sequence[RunResult]] = field(default_factory=dict)
    """Runs that are there already, by the index of their case."""
    share: frozenset[int] | None = None
    """Indices of the cases that are run here; None: all."""
    journal: KeepsRuns | None = None
    used: Used = field(default_factory=Used)
    """Already, here or elsewhere."""


class Evaluation:
    """One run of a plan."""

    def __init__(self, plan: Plan, progress: Progress, scope: Scope) -> None:
        self._plan = plan
        self._progress = progress
        self._scope = scope
        self._places = Places(plan.suites)
        self._results = [tuple(scope.finished.get(index, ())) for index in range(len(self._places))]
        """Of each case, in the order in which they were made."""
        self._unkept: list[tuple[int, RunResult]] = []
        """Finished in this round of the event loop, and not in the journal yet."""
        self._known: dict[int | None, tuple[CaseResult, ...]] = {}
        """What `results` said since the last run: it is asked for several times."""
        self.interrupted = False
        self.unreachable = ""
        """Why the agent could not be reached; "" when it could."""
        self.more_wanted = False
        """Whether the budget was spent before everything that was wanted was begun."""
        plan.bench.judges.meter.add(scope.used.spent)
        plan.bench.judges.meter.on_call = self._keep_use
        self.spending = Spending(plan.bench.judges.meter)
        self.judge_health: AnchorVerdict | None = None
        """What the anchors say of the judge; None without any."""
        self._pace = Pace(_pace_settings(plan))

    def planned(self, sampler: Sampler) -> Mapping[tuple[str, str], int]:
        """Eval set and case → runs of it that will be made in any event."""
        wanted = self._missing(sampler.first(len(self._places)))
        named = ((suite.eval_set.eval_set_id, head.eval_id) for suite, head in self._places.heads())
        return {name: len(wanted[index]) for index, name in enumerate(named) if index in wanted}

    async def run(
        self,
        agent: Agent,
        sampler: Sampler,
        while_starting: Callable[[], None],
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Make every run that the sampler wants, unless somebody interrupts.

        `begin` is called once it is certain that there is such an agent, before its first turn.

        Raises:
            InvalidInput: there is none. Then nothing has begun.
        """
        wanted = self._missing(sampler.first(len(self._places))) or self._further(sampler)
        try:
            with cancelled_by_signals():
                async with agent, self._plan.bench.judges, _closing(self._plan):
                    await asyncio.sleep(0)  # the agent's processes start
                    while_starting()
                    await _check_entry(agent, partial(self._begin, begin))
                    if wanted and not await self._judge_is_reliable():
                        return
                    while wanted and not self.unreachable and not self.more_wanted:
                        await self._play(agent, wanted)
                        wanted = self._further(sampler)
                        self.more_wanted = bool(wanted) and self.spending.refusal() is not None
        except asyncio.CancelledError:
            self.interrupted = True
        finally:
            self._keep()

    def _begin(self, begin: Callable[[], None]) -> None:
        # The journal first: until this run has its own, nothing of an earlier one may be touched.
        if self._scope.journal is not None:
            self._scope.journal.begin()
        begin()

    @property
    def judged(self) -> JudgeTotals | None:
        """What judges used, here and before; None: none was asked."""
        whole = self._scope.used.judged + self._plan.bench.judges.use.totals
        return whole if whole.calls or whole.spared else None

    async def _judge_is_reliable(self) -> bool:
        if self._plan.anchors is None:
            return True
        self.judge_health = await self._plan.anchors.judged()
        return self.judge_health.is_reliable

    def complete(self, sampler: Sampler) -> bool:
        """Whether every run that the sampler wants is there, and came to its own end."""
        if not all(_is_final(run) for runs in self._results for run in runs):
            return False
        wanted = sampler.first(len(self._places))
        while wanted:
            if self._missing(wanted):
                return False
            wanted = sampler.next(self.results)
        return True

    def _further(self, sampler: Sampler) -> Wanted:
        return self._missing(sampler.next(self.results))

    def _missing(self, wanted: Wanted) -> Wanted:
        """What is wanted here and not there yet."""
        if self._scope.share is None and not any(self._results):
            return wanted
        missing = {}
        for index, numbers in wanted.items():
            there = {run.run for run in self._results[index]}
            open_ = [number for number in numbers if number not in there] if there else numbers
            if open_ and (self._scope.share is None or index in self._scope.share):
                missing[index] = open_
        return missing

    async def _play(self, agent: Agent, wanted: Wanted) -> None:
        self._progress.planned(sum(map(len, wanted.values())))
        refusal = await run_cases(
            agent,
            self._requests(wanted),
            concurrency=self._plan.agent.settings.concurrency,
            on_finished=self._finished,
            user_of=self._plan.users,
            refusal=self.spending.refusal,
            time_limit=self.spending.time_limit(),
            pace=self._pace,
        )
        self.unreachable = refusal.message if refusal else ""

    def _requests(self, wanted: Wanted) -> Iterator[RunRequest]:
        """Run by run, so that each case is played once before any is played again."""
        last = max((number for numbers in wanted.values() for number in numbers), default=0)
        for number in range(1, last + 1):
            for index, numbers in wanted.items():
                if number in numbers:
                    yield RunRequest(self._places.case(index), number, index)

    async def _finished(self, request: RunRequest, run: CaseRun) -> None:
        suite, case = self._places.suite(request.index), request.case
        self.spending.count(run)
        result = await score_run(case, run, suite.metrics_of(case))
        earlier = self._results[request.index]
        if earlier:
            result = _sharing(result, earlier[0])
        self._results[request.index] = (*earlier, result)
        self._known.clear()
        if self._scope.journal is not None and _is_final(result):
            self._keep_soon(request.index, result)
        self._progress.finished(suite.eval_set.eval_set_id, case.eval_id, result)

    def _keep_soon(self, index: int, result: RunResult) -> None:
        """Put a run into the journal, with all others of this round of the event loop."""
        if not self._unkept:
            asyncio.get_running_loop().call_soon(self._keep)
        self._unkept.append((index, result))
        if len(self._unkept) >= _KEPT_AT_ONCE:
            self._keep()

    def _keep(self) -> None:
        self._keep_use()
        unkept, self._unkept = self._unkept, []
        if unkept and self._scope.journal is not None:
            self._scope.journal.add(unkept)

    def _keep_use(self) -> None:
        """Put what was used into the journal: before the runs that used it, and even if these never end.

        What is under way counts at a cost that is not known. The next line takes the place of this one; if
        there is none, because the gate is killed, the provider may have charged for it all the same.
        """
        if self._scope.journal is not None:
            judges = self._plan.bench.judges
            judged, all_ = judges.under_way["judge"], sum(judges.under_way.values())
            self._scope.journal.use(
                Used(
                    (self.judged or JudgeTotals()) + JudgeTotals(calls=judged, unpriced=judged),
                    judges.meter.spent + Spent(calls=all_, unpriced=all_, unmetered=all_),
                )
            )

    def results(self, rounds: int | None = None) -> tuple[CaseResult, ...]:
        """Every case in file order. Runs beyond so many `rounds` only confirm; None: all of them count."""
        known = self._known.get(rounds)
        if known is None:
            known = self._known[rounds] = tuple(self._case_results(rounds))
        return known

    def _case_results(self, rounds: int | None) -> Iterator[CaseResult]:
        prints = chain.from_iterable(suite.fingerprints for suite in self._plan.suites)
        for (suite, case), runs, print_ in zip(self._places.heads(), self._results, prints, strict=True):
            yield score_case(
                suite.eval_set.eval_set_id,
                case,
                _counting(_sorted(runs), rounds),
                suite.metrics_of(case),
                path=suite.eval_set.path,
                fingerprint=print_,
                policy=suite.policy(case),
            )


async def _check_entry(agent: Agent, begin: Callable[[], None]) -> None:
    try:
        if isinstance(agent, ChecksEntry):
            await agent.check_entry()
    except InvalidInput:
        raise
    except BaseException:  # a run that is interrupted has a record, too
        begin()
        raise
    begin()


def _is_final(run: RunResult) -> bool:
    """Whether a run that is resumed need not make it again."""
    return run.outcome not in NOT_THE_AGENTS_FAULT and not was_refused(run)


def _sharing(run: RunResult, earlier: RunResult) -> RunResult:
    """The run, with what was expected of an earlier one, where that is the same.

    A case that stays in its file is made anew for each run; the record need not hold it as often.
    """
    if all(turn.expected is old.expected for turn, old in zip(run.turns, earlier.turns, strict=False)):
        return run
    expected = [turn.expected for turn in earlier.turns]
    turns = [
        replace(turn, expected=expected[index]) if turn.expected in expected[index : index + 1] else turn
        for index, turn in enumerate(run.turns)
    ]
    return replace(run, turns=tuple(turns))


def _pace_settings(plan: Plan) -> PaceSettings:
    agent = plan.agent.settings
    return PaceSettings(agent.concurrency, agent.requests_per_minute, agent.retries, agent.ramp_up)


def _sorted(runs: tuple[RunResult, ...]) -> tuple[RunResult, ...]:
    """By number; the same tuple where that is its order, so that the record and we hold one."""
    if all(one.run < other.run for one, other in pairwise(runs)):
        return runs
    return tuple(sorted(runs, key=lambda run: run.run))


def _counting(runs: tuple[RunResult, ...], rounds: int | None) -> tuple[RunResult, ...]:
    if rounds is None or all(run.run <= rounds for run in runs):
        return runs
    return tuple(run if run.run <= rounds else replace(run, confirms=True) for run in runs)


@asynccontextmanager
async def _closing(plan: Plan) -> AsyncIterator[None]:
    """Metrics that hold something open let go of it in the end."""
    metrics = {id(bound.metric): bound.metric for suite in plan.suites for bound in suite.metrics}
    async with AsyncExitStack() as stack:
        for metric in metrics.values():
            if isinstance(metric, HoldsOpen):
                stack.push_async_callback(metric.aclose)
        yield
