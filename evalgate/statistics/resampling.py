"""The gate against itself: what its parameters would do on a team's own suite, from stored runs.

Both sides are drawn with replacement from the stored runs of each case, so nothing differs but luck, and the
whole procedure is run on them. A drop of known size is put in by replacing scores with 0. No agent is called;
the same seed gives the same figures.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from evalgate.frozen import frozen
from evalgate.statistics.auto import NextRuns, next_step
from evalgate.statistics.fixed import decide
from evalgate.statistics.minimum import Verdict
from evalgate.statistics.pairing import CaseScores, GatingMetric
from evalgate.statistics.parameters import Parameters, Rule
from evalgate.statistics.results import Decision
from evalgate.statistics.scores import Score

StoredRun: TypeAlias = Mapping[str, Score]
"""Metric → score of one run of a case."""

_CAUGHT = 0.80  # a drop caught less often is not detected reliably
_FINEST = 0.01  # one point


@frozen
class Trials:
    """What many repetitions of one situation ended with; shares between 0 and 1."""

    repeats: int
    failed: float
    inconclusive: float
    runs_per_case: float
    """Mean over the repetitions."""


@frozen
class SelfTest:
    """What the gate does to an agent that did not change, and the smallest change that it catches."""

    unchanged: Trials
    """`failed` is the measured false-alarm rate."""
    smallest_drop: float | None
    """Fewest whole points, as 0.01 each, that every metric must fall to fail in 80 % of the trials."""


def play(
    metrics: Sequence[str],
    rules: Mapping[str, Rule],
    baseline: Mapping[str, Sequence[StoredRun]],
    answer: Callable[[str], StoredRun],
    parameters: Parameters,
) -> Decision:
    """Run the whole procedure with an agent that is a function from a case id to one run's scores."""
    made: dict[str, list[StoredRun]] = {case: [] for case in baseline}
    while True:
        tables = {name: _table(name, rules.get(name, Rule()), baseline, made) for name in metrics}
        step = _step(tables, made, parameters)
        if isinstance(step, Decision):
            return step
        for case, numbers in step.runs.items():
            made[case].extend(answer(case) for _ in numbers)


def self_test(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, Rule],
    parameters: Parameters,
    *,
    repeats: int = 400,
    seed: int = 0,
) -> SelfTest:
    """Measure false alarms and the smallest drop that is caught, on the stored runs of at least one case.

    Cases without a stored run are left out. Every case gets as many baseline runs as it has stored.
    """
    stored = {case: tuple(runs) for case, runs in history.items() if runs}
    unchanged = trials(stored, rules, parameters, repeats=repeats, seed=seed)
    return SelfTest(unchanged, _smallest(stored, rules, parameters, repeats=repeats, seed=seed))


def trials(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, Rule],
    parameters: Parameters,
    *,
    drop: float = 0.0,
    repeats: int = 400,
    seed: int = 0,
) -> Trials:
    """Play the agent against itself, its scores lowered so that every metric's average falls by `drop`."""
    verdicts: list[Verdict] = []
    runs = 0
    for repeat in range(repeats):
        dice = random.Random(f"{seed}/{repeat}")  # noqa: S311 - reproducible, and guards no secret
        outcome = _trial(history, rules, parameters, dice, drop)
        verdicts.append(outcome.verdict)
        runs += outcome.runs.spent
    return Trials(
        repeats,
        verdicts.count("fail") / repeats,
        verdicts.count("inconclusive") / repeats,
        runs / repeats / len(history),
    )


def _trial(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, Rule],
    parameters: Parameters,
    dice: random.Random,
    drop: float,
) -> Decision:
    baseline = {case: dice.choices(runs, k=len(runs)) for case, runs in history.items()}
    metrics = tuple(dict.fromkeys(name for runs in history.values() for run in runs for name in run))
    means = {name: _mean(history, name) for name in metrics}

    def answer(case: str) -> StoredRun:
        run, luck = dice.choice(history[case]), dice.random()
        return {name: _lowered(score, luck, drop, means[name]) for name, score in run.items()}

    return play(metrics, rules, baseline, answer, parameters)


def _lowered(score: Score, luck: float, drop: float, mean: float) -> Score:
    """0 with the chance that lowers an average of `mean` by `drop`."""
    return 0.0 if score is not None and luck * mean < drop else score


def _mean(history: Mapping[str, Sequence[StoredRun]], metric: str) -> float:
    cases = [[score for run in runs if (score := run.get(metric)) is not None] for runs in history.values()]
    means = [sum(scores) / len(scores) for scores in cases if scores]
    return sum(means) / len(means) if means else 0.0


def _smallest(
    history: Mapping[str, Sequence[StoredRun]],
    rules: Mapping[str, Rule],
    parameters: Parameters,
    *,
    repeats: int,
    seed: int,
) -> float | None:
    """Bisection over whole points: a larger drop is never caught less often, luck aside."""
    missed, caught = 0, round(1 / _FINEST) + 1
    while caught - missed > 1:
        points = (missed + caught) // 2
        found = trials(history, rules, parameters, drop=points * _FINEST, repeats=repeats, seed=seed)
        missed, caught = (missed, points) if found.failed >= _CAUGHT else (points, caught)
    return caught * _FINEST if caught * _FINEST <= 1 else None


def _table(
    metric: str,
    rule: Rule,
    baseline: Mapping[str, Sequence[StoredRun]],
    made: Mapping[str, Sequence[StoredRun]],
) -> GatingMetric:
    cases = {
        case: CaseScores([run.get(metric) for run in runs], [run.get(metric) for run in made[case]])
        for case, runs in baseline.items()
    }
    return GatingMetric(cases, rule)


def _step(
    tables: Mapping[str, GatingMetric], made: Mapping[str, Sequence[StoredRun]], parameters: Parameters
) -> NextRuns | Decision:
    if parameters.runs is None:
        return next_step(tables, parameters)
    if any(len(runs) < parameters.runs for runs in made.values()):
        numbers = tuple(range(1, parameters.runs + 1))
        return NextRuns(dict.fromkeys(made, numbers), "round")
    return decide(tables, parameters)
