"""Simulate control runs: how often a drift of the model provider closes the gate, and how many broken cases are found.

The comparison with the baseline is the whole gate on simulated outcomes, as in `falsealarms`. If it closes the gate,
new runs of the head and of the base commit's agent are simulated, and `evalgate.statistics.control_test` plans and
decides. A drift changes the chances of both agents after the baseline was stored. A change affects only the head's
chances.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

from benchmarks.falsealarms import BROKEN, as_share, list_chances, open_chain
from benchmarks.gatechain import Dice, Outcome, Setup
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, Record
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.runner.run_strategy import choose_statistics
from evalgate.statistics.case_regression import StoredOutcomes
from evalgate.statistics.control_test import (
    AverageSuspect,
    CaseControl,
    CaseSuspect,
    ControlDecision,
    FreshScores,
    PairsWanted,
    plan_control_runs,
)
from evalgate.statistics.parameters import Parameters

DRIFTS = ("none", "-3 points", "-10 points", "1 dead")
CHANGES = ("none", "1 broken", "2 broken", "-10 points")


@frozen
class Cell:
    """One combination of suite, drift, change and settings."""

    suite: str
    drift: str
    change: str
    cases: int
    runs: int | str
    stored: int


@frozen
class Found:
    """Results of both comparisons in one cell, counted over all repetitions."""

    cell: Cell
    repeats: int
    red: int
    """Repetitions in which the comparison with the baseline closed the gate."""
    closed: int
    """Repetitions of these in which the comparison with control runs closed the gate, too."""
    answers: dict[str, int]
    """Count of each answer of the control runs, in the `red` repetitions."""
    undecided: int
    """Repetitions that ended inconclusive."""
    pairs: int
    """Pairs of a control run and a further head run, over all repetitions."""


def play(cell: Cell, repeats: int, seed: int = 0) -> Found:
    """Let the gate decide `repeats` simulated changes, and count the results. Equal seeds give equal results."""
    chain = open_chain(Setup(cell.cases, cell.runs, 1, False))
    answers: Counter[str] = Counter()
    red = undecided = pairs = 0
    for repeat in range(repeats):
        # One seed for all drifts and changes of a suite, so that cells differ only by drift and change.
        dice = Dice(f"{seed}/{cell.suite}/{cell.cases}/{cell.runs}/{cell.stored}/{repeat}", chain.metrics)
        before = list_chances(cell.suite, cell.cases, dice.random)
        stored = [[dice.draw(chance) for _ in range(cell.stored)] for chance in before]
        control = _drifted(before, cell.drift)
        head = _changed(control, cell.change)
        baseline = chain.store_runs(stored)
        record = chain.run(
            baseline, lambda index, run, dice=dice, head=head: (run, dice.draw(head[index]))[1]
        )
        if record.verdict.status != "fail":
            undecided += record.verdict.status == "inconclusive"
            continue
        red += 1
        policy = choose_statistics(chain.plan, baseline)
        decision, made = _control(record, policy, stored, head, control, dice.random)
        pairs += made
        answers[decision.answer] += 1
    undecided += answers["open"]
    return Found(cell, repeats, red, answers["broke"], dict(answers), undecided, pairs)


def _drifted(before: Sequence[float], drift: str) -> list[float]:
    """Return the chances of the unchanged agent after a drift. A drift and a change break different cases."""
    if drift == "1 dead":
        return [BROKEN if index == 2 else chance for index, chance in enumerate(before)]
    return _lowered(before, 0 if drift == "none" else int(drift.split(maxsplit=1)[0]))


def _changed(control: Sequence[float], change: str) -> list[float]:
    if change.endswith("broken"):
        return [BROKEN if index < int(change[0]) else chance for index, chance in enumerate(control)]
    return _lowered(control, 0 if change == "none" else int(change.split(maxsplit=1)[0]))


def _lowered(chances: Sequence[float], points: int) -> list[float]:
    mean = sum(chances) / len(chances)
    return [chance * (1 + points / 100 / mean) for chance in chances]


def _control(
    record: Record,
    statistics: StatisticalPolicy,
    stored: Sequence[Sequence[Outcome]],
    head: Sequence[float],
    control: Sequence[float],
    dice: random.Random,
) -> tuple[ControlDecision, int]:
    """Simulate pairs of runs until the control comparison decides. Return the decision and the number of pairs."""
    index = {case.eval_id: at for at, case in enumerate(record.cases)}
    history = [[float(outcome == frozenset()) for outcome in runs] for runs in stored]
    fresh: dict[str, list[tuple[bool, bool]]] = {name: [] for name in index}
    while True:
        cases = [
            CaseSuspect(
                name,
                StoredOutcomes(len(history[index[name]]), history[index[name]].count(0.0)),
                [not passed for passed, _ in fresh[name]],
                [not passed for _, passed in fresh[name]],
            )
            for name in _find_suspects(record.cases)
        ]
        averages = _list_averages(record, statistics, history, fresh)
        step = plan_control_runs(cases, averages, statistics.parameters)
        if isinstance(step, ControlDecision):
            return step, sum(map(len, fresh.values()))
        for name, wanted in step.pairs.items():
            at = index[name]
            fresh[name] += [(dice.random() < head[at], dice.random() < control[at]) for _ in range(wanted)]


def _find_suspects(cases: Iterable[CaseResult]) -> Iterator[str]:
    for case in cases:
        is_repeated = case.follow_up is not None and case.follow_up.outcome in {"broke", "open"}
        fell = any(each.standing is not None and each.standing.status == "broken" for each in case.metrics)
        if is_repeated or fell:
            yield case.eval_id


def _list_averages(
    record: Record,
    statistics: StatisticalPolicy,
    history: Sequence[Sequence[float]],
    fresh: dict[str, list[tuple[bool, bool]]],
) -> list[AverageSuspect]:
    (metric,) = record.metrics
    drop = metric.judgement.drop if metric.judgement else None
    if drop is None or drop < statistics.max_drop / 2:
        return []
    first = {case.eval_id: [run.metrics[0].score for run in case.runs] for case in record.cases}
    rounds = metric.judgement.rounds
    drops = {
        name: sum(history[at]) / len(history[at]) - sum(scores[:rounds]) / len(scores[:rounds])
        for at, (name, scores) in enumerate(first.items())
    }
    scores = {
        name: FreshScores(
            history[at],
            [float(passed) for passed, _ in fresh[name]],
            [float(passed) for _, passed in fresh[name]],
        )
        for at, name in enumerate(first)
    }
    return [AverageSuspect(metric.name, statistics.max_drop, scores, len(first), drops)]


def measure(cells: Iterable[Cell], repeats: int, processes: int, out: Path | None) -> Iterator[Found]:
    """Yield the results of cells. Read those that the file `out` has; measure the others and append them to `out`."""
    known = {found.cell: found for found in read(out)} if out and out.exists() else {}
    wanted = list(cells)
    yield from (known[cell] for cell in wanted if cell in known)
    with ProcessPoolExecutor(processes) as pool:
        open_ = [pool.submit(play, cell, repeats) for cell in wanted if cell not in known]
        for each in as_completed(open_):
            found = each.result()
            if out:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
            yield found


def read(file: Path) -> Iterator[Found]:
    """Yield the results that an earlier call of `measure` wrote to a file."""
    for line in file.read_text("utf-8").splitlines():
        value = json.loads(line)
        yield Found(**{**value, "cell": Cell(**value["cell"])})


def list_cells(args) -> Iterator[Cell]:
    """Yield every combination of the values in the options as a cell."""
    for cases, suite, runs, stored, change, drift in product(
        args.cases, args.suites, args.runs, args.stored, args.control_changes, args.drifts
    ):
        yield Cell(suite, drift, change, cases, runs, stored)


def format_line(found: Found) -> str:
    """Format the results of a cell as one line of output."""
    cell = found.cell
    why = ", ".join(f"{times} {answer}" for answer, times in sorted(found.answers.items()))
    return (
        f"{cell.suite:9} {cell.cases:3} cases  runs {cell.runs!s:4}  stored {cell.stored:2}  "
        f"drift {cell.drift:10} change {cell.change:10}  baseline {as_share(found.red, found.repeats):16}"
        f"closed {as_share(found.closed, found.repeats):16}can't tell {as_share(found.undecided, found.repeats):16}"
        f"pairs a closed gate {found.pairs / max(1, found.red):6.1f}  {why}"
    )


RATES = (
    (0.98, 0.005),
    (0.8, 0.005),
    (0.5, 0.005),
    (0.98, 0.3),
    (0.98, 0.98),
    (0.5, 0.5),
    (0.1, 0.1),
    (0.005, 0.005),
)
"""Shares of failing runs of head and control, for a single suspect case."""


def list_rows(repeats: int) -> Iterator[str]:
    """Yield the lines of a Markdown table for a single suspect case: share of each answer, and mean pairs.

    The case has ten stored runs that all passed.
    """
    yield "| head fails | control fails | broke | drifted | recovered | open | pairs |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    for head, control in RATES:
        dice = random.Random(f"{head}/{control}")
        done = [_play_suspect(head, control, dice) for _ in range(repeats)]
        shares = (
            100 * sum(found.answer == answer for found in done) / repeats
            for answer in ("broke", "drifted", "recovered", "open")
        )
        pairs = sum(found.head_runs for found in done) / repeats
        listed = " | ".join(f"{share:.1f}" for share in shares)
        yield f"| {100 * head:g} % | {100 * control:g} % | {listed} | {pairs:.1f} |"


def _play_suspect(head: float, control: float, dice: random.Random) -> CaseControl:
    suspect = CaseSuspect("case", StoredOutcomes(10, 0))
    while isinstance(step := plan_control_runs([suspect], (), Parameters()), PairsWanted):
        more = range(step.pairs["case"])
        suspect = replace(
            suspect,
            head=[*suspect.head, *(dice.random() < head for _ in more)],
            control=[*suspect.control, *(dice.random() < control for _ in more)],
        )
    return step.cases["case"]


def table(founds: Iterable[Found]) -> Iterator[str]:
    """Yield the lines of the Markdown table in docs/statistics.md, by suite, change and drift.

    Results that differ only in other fields are added up.
    """
    groups: dict[tuple[str, str, str], list[Found]] = {}
    for found in founds:
        cell = found.cell
        groups.setdefault((cell.suite, cell.change, cell.drift), []).append(found)
    yield "| suite | change | drift | history alone | with control | can't tell | pairs |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for names, group in sorted(groups.items()):
        repeats, red = sum(each.repeats for each in group), sum(each.red for each in group)
        shares = (
            as_share(sum(count), repeats)
            for count in (
                [each.red for each in group],
                [each.closed for each in group],
                [each.undecided for each in group],
            )
        )
        pairs = sum(each.pairs for each in group) / max(1, red)
        yield f"| {' | '.join((*names, *shares))} | {pairs:.0f} |"
