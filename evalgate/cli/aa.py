"""`evalgate aa`: compare an agent with itself to count false alarms.

Both sides are drawn with replacement from stored runs, and the whole gate is run on them: thresholds,
baseline, rounds and all. The smallest drop is what the comparison with the baseline catches in 80 % of such
trials.
"""

import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from evalgate.baselines.history import baseline_of
from evalgate.cli.baseline import find_baseline
from evalgate.cli.compare import NOTHING, result_in, stored_in, thresholds_in
from evalgate.cli.rejudge import Rules, record_of, rescored
from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInput, NoVerdict
from evalgate.core.formatting import counted
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import log_line
from evalgate.core.score_ranges import Range, range_of
from evalgate.core.types import (
    NOT_THE_AGENTS_FAULT,
    THE_AGENTS_FAULT,
    Baseline,
    BaselineCase,
    BaselineSource,
    CaseResult,
    Evidence,
    Record,
    RunResult,
    Verdict,
)
from evalgate.gating.assessment import worth
from evalgate.gating.comparison import compare
from evalgate.gating.sampling import Sampling
from evalgate.gating.score_tables import statistical_policy
from evalgate.gating.verdict import decide
from evalgate.metrics.aggregation import total
from evalgate.runner.plan import workspace_at
from evalgate.statistics.parameters import Rule
from evalgate.statistics.power import StoredRun, self_test
from evalgate.statistics.threshold_test import wilson_interval

REPEATS = 200

FEWEST_RUNS = 3
"""Of one stored run both sides are the same run, of two nearly so: such a case could never raise an alarm."""


@frozen
class Against:
    """What the gate did to an agent that did not change."""

    repeats: int
    cases: int
    runs: tuple[int, int]
    """Fewest and most stored runs of a case."""
    closed: Mapping[str, int]
    """Why the gate closed or gave no verdict, as the first words of its reason → how often."""
    inconclusive: int
    runs_per_case: float
    smallest_drop: float | None
    """Of every metric at once, in whole points of 1; None: not even a collapse is caught reliably."""
    left_out: int = 0
    """Cases with too few stored runs to draw from."""
    setting: str = ""
    """What limits the runs of a case; "" where more runs would change nothing."""
    planned: str = ""
    """How many runs of a case the gate makes, in words."""

    @property
    def false_alarms(self) -> float:
        """Share of the trials that closed the gate, or had no verdict."""
        return sum(self.closed.values()) / self.repeats

    @property
    def false_alarm_bounds(self) -> tuple[float, float]:
        """Lowest and highest share of false alarms that the trials allow, with 95 % confidence."""
        return wilson_interval(sum(self.closed.values()), self.repeats)

    @property
    def unseen_failures(self) -> float:
        """How often a case may fail that passed each of its stored runs: the upper 95 % bound."""
        return 1 - math.pow(0.05, 1 / self.runs[0])


def against_itself(
    cases: Sequence[CaseResult], stored: Baseline, rules: Rules, *, repeats: int = REPEATS, seed: int = 0
) -> Against:
    """Play the gate on stored runs; the same seed gives the same figures.

    `cases` say what each is held to and hold its runs, which `stored` has as raw scores. Cases with fewer
    than `FEWEST_RUNS` stored runs are left out and counted.

    Raises:
        InvalidInput: no case has enough stored runs.
    """
    found_pairs = _pairs(cases, stored)
    pairs = [pair for pair in found_pairs if _count_runs(pair) >= FEWEST_RUNS]
    if not pairs:
        raise InvalidInput(_too_few(max(map(_count_runs, found_pairs), default=0)))
    trial = _Trial(pairs, stored.sources, rules)
    closed: Counter[str] = Counter()
    inconclusive = made = 0
    for repeat in range(repeats):
        found = trial.play(random.Random(f"{seed}/{repeat}"))  # noqa: S311 - reproducible, guards no secret
        made += found.runs
        inconclusive += found.verdict.status == "inconclusive"
        if found.verdict.status in {"fail", "error"}:
            closed[_kind(found.verdict)] += 1
    counts = [_count_runs(pair) for pair in pairs]
    return Against(
        repeats,
        len(pairs),
        (min(counts), max(counts)),
        dict(closed.most_common()),
        inconclusive,
        made / repeats / len(pairs),
        _smallest_drop([before for _, before in pairs], rules, repeats, seed),
        len(found_pairs) - len(pairs),
        "" if rules.gate.deterministic else "max_runs" if rules.runs == "auto" else "runs",
        planned_runs(rules.runs, rules.gate.max_runs),
    )


def planned_runs(runs: int | Literal["auto"], most: int) -> str:
    """Return `3 runs`, or `up to 5 runs` where the comparison decides how many are made."""
    return f"up to {counted(most, 'run')}" if runs == "auto" else counted(runs, "run")


_Pair: TypeAlias = tuple[CaseResult, BaselineCase]


def _pairs(cases: Sequence[CaseResult], stored: Baseline) -> list[_Pair]:
    known = {(case.eval_set_id, case.eval_id): case for case in stored.cases if case.runs}
    found = ((case, known.get((case.eval_set_id, case.eval_id))) for case in cases)
    return [(replace(case, runs=_telling(case.runs)), before) for case, before in found if before]


def _count_runs(pair: _Pair) -> int:
    case, before = pair
    return min(len(case.runs), len(before.runs))


def _too_few(most: int) -> str:
    what = f"no case has more than {counted(most, 'stored run')}" if most else "no case has a stored run"
    return (
        f"{what}, and aa draws from at least {FEWEST_RUNS}: of fewer, both sides would be nearly the same "
        "runs and no alarm could show. Store more with `evalgate run --runs 10` and then "
        "`evalgate baseline save`, or play the agent now with `evalgate aa --rounds 10`."
    )


def _telling(runs: Sequence[RunResult]) -> tuple[RunResult, ...]:
    return tuple(run for run in runs if not run.confirms and run.outcome not in NOT_THE_AGENTS_FAULT)


@frozen
class _Played:
    verdict: Verdict
    runs: int


class _Trial:
    """One situation that is repeated."""

    def __init__(self, pairs: Sequence[_Pair], sources: tuple[BaselineSource, ...], rules: Rules) -> None:
        self._pairs = pairs
        self._sources = sources
        self._rules = rules
        self._policy = statistical_policy(rules.gate, rules.runs, rules.criteria.values())

    def play(self, dice: random.Random) -> _Played:
        """Draw both sides and let the gate decide, with as many runs as it asks for."""
        baseline = self._baseline(dice)
        sampling = Sampling(self._policy, baseline)
        made: list[list[RunResult]] = [[] for _ in self._pairs]

        def results(rounds: int | None) -> tuple[CaseResult, ...]:
            return tuple(
                rescored(replace(case, runs=tuple(runs)), self._rules, rounds)
                for (case, _), runs in zip(self._pairs, made, strict=True)
            )

        wanted = sampling.first(len(self._pairs))
        while wanted:
            for index, numbers in wanted.items():
                drawn = dice.choices(self._pairs[index][0].runs, k=len(numbers))
                made[index] += [replace(run, run=at) for run, at in zip(drawn, numbers, strict=True)]
            wanted = sampling.next(lambda: results(None))
        found = worth(self._rules.gate, self._rules.runs, results, sampling)
        evidence = Evidence(found.metrics, found.cases, total(found.cases), compare(found.cases, baseline))
        return _Played(decide(evidence, self._rules.gate), sum(map(len, made)))

    def _baseline(self, dice: random.Random) -> Baseline:
        cases = (before for _, before in self._pairs)
        drawn = (replace(case, runs=tuple(dice.choices(case.runs, k=len(case.runs)))) for case in cases)
        return Baseline(tuple(drawn), self._sources, "the stored runs")


def _kind(verdict: Verdict) -> str:
    """What closed the gate, in a few words."""
    reason = verdict.reasons[0]
    words = {
        "below its threshold": "a metric below its threshold",
        "below its min_mean": "a metric below its min_mean",
        "broke:": "a case called broken",
        "Regression:": "an average called a regression",
        "crashed or timed out": "crashes",
        "missed a threshold": "cases that missed a threshold",
        "Protected": "a protected case",
    }
    return next((told for sign, told in words.items() if sign in reason), reason)


def _smallest_drop(stored: Sequence[BaselineCase], rules: Rules, repeats: int, seed: int) -> float | None:
    policy = statistical_policy(rules.gate, rules.runs, rules.criteria.values())
    history = {f"{case.eval_set_id}/{case.eval_id}": _stored_runs(case, rules) for case in stored}
    metrics = dict.fromkeys(name for runs in history.values() for run in runs for name in run)
    outside = {name for runs in history.values() for run in runs for name in run if not _is_unit(run[name])}
    held = {
        case: [{name: score for name, score in run.items() if name not in outside} for run in runs]
        for case, runs in history.items()
    }
    limits = {name: Rule(_allowance(name, rules, policy.max_drop), policy.require) for name in metrics}
    return self_test(held, limits, policy.parameters, repeats=repeats, seed=seed).smallest_drop


def _allowance(metric: str, rules: Rules, of_all: float | None) -> float | None:
    """As a share of the metric's range."""
    criterion = rules.criteria.get(metric)
    if criterion is None or criterion.max_regression is None:
        return of_all
    return criterion.max_regression / Range(*criterion.range).width


def _stored_runs(case: BaselineCase, rules: Rules) -> list[StoredRun]:
    """Scores as shares of their ranges."""
    known = {name: Range(*criterion.range) for name, criterion in rules.criteria.items()}
    return [
        {
            name: 0.0 if run.outcome in THE_AGENTS_FAULT else _share(score, known.get(name, range_of(name)))
            for name, score in run.scores.items()
        }
        for run in case.runs
    ]


def _share(score: float | None, known: Range) -> float | None:
    return None if score is None else known.share(score)


def _is_unit(score: float | None) -> bool:
    return score is None or 0 <= score <= 1


def as_text(found: Against) -> str:
    """What was measured, for people."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Against) -> Iterator[str]:
    few, many = found.runs
    stored = str(few) if few == many else f"{few} to {many}"
    yield (
        f"{counted(found.repeats, 'trial')} of an agent that did not change, drawn from {stored} stored runs "
        f"of {counted(found.cases, 'case')}:"
    )
    low, high = found.false_alarm_bounds
    alarms = counted(sum(found.closed.values()), "trial")
    bounds = f"between {low:.1%} and {high:.1%}, 95 times in 100"
    yield f"  false alarms: {found.false_alarms:.1%} ({alarms}; {bounds})"
    for why, times in found.closed.items():
        yield f"    {times:,} by {log_line(why, 300)}"
    yield f"  could not tell: {found.inconclusive / found.repeats:.1%}"
    yield f"  runs per case: {found.runs_per_case:.2f}"
    if found.smallest_drop is None:
        raised = f", or raise {found.setting}" if found.setting else ""
        yield f"  No drop is caught reliably: add cases, steady the flaky ones{raised}."
    else:
        points = counted(round(found.smallest_drop * 100), "point")
        yield (
            f"  smallest drop that is caught four times in five: {points}, if every metric falls by it and "
            f"each case gets {found.planned} (tried out on the stored runs, single cases included; `baseline "
            "show` and the gate estimate it from the noise of the average alone)"
        )
    yield (
        f"  The stored runs limit these figures: a case that passed all of its {few} may still fail up to "
        f"{found.unseen_failures:.0%} of the time."
    )
    if found.left_out:
        yield f"  {counted(found.left_out, 'case')} left out: fewer than {FEWEST_RUNS} stored runs."


def checked_against_itself(
    stored: str | None, *, rounds: int | None, repeats: int, thresholds: str | None, folder: Path
) -> Against:
    """Measure the thresholds file in `folder` on stored runs, or on `rounds` fresh ones.

    Raises:
        InvalidInput: there is nothing to draw from, or a file is wrong.
        NoVerdict: the agent could not be played.
    """
    workspace = workspace_at(folder)
    rules = thresholds_in(workspace.folder, thresholds)
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    gate = rules.config.gate.model_copy(update={"baseline": "the stored runs"})
    held = Rules(gate, rules.config.runs if rules.config.runs_given else "auto", criteria)
    if rounds is not None:
        record = _played(rounds, thresholds, folder)
        return against_itself(record.cases, baseline_of(record), held, repeats=repeats)
    path = stored or rules.config.gate.baseline or find_baseline(workspace) or _missing()
    if (found := result_in(workspace, path)) is not None:
        return against_itself(found.cases, baseline_of(found), held, repeats=repeats)
    baseline = stored_in(workspace, path)
    return against_itself(record_of(baseline, criteria, NOTHING).cases, baseline, held, repeats=repeats)


def _missing() -> str:
    raise InvalidInput(
        "nothing to draw from: name a results.json or a baseline, set `gate.baseline`, or say --rounds N"
    )


class _Nobody:
    """Watches the runs in silence."""

    def planned(self, runs: int) -> None:
        """Nothing to say."""

    def finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Nothing to say."""


def _played(rounds: int, thresholds: str | None, folder: Path) -> Record:
    from evalgate.runner.pipeline import run_gate
    from evalgate.runner.plan import make_plan

    said = Overrides(runs=rounds)
    plan = make_plan(said, thresholds=thresholds, folder=folder, environ=os.environ)
    record = run_gate(replace(plan, baseline=None), _Nobody())
    if record.verdict.exit_code in {3, 130}:
        raise NoVerdict(f"the agent could not be played: {record.verdict.reasons[0]}")
    return record
