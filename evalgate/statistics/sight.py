"""What a gate could see with a baseline, before anything is run."""

from collections.abc import Mapping, Sequence

from evalgate.frozen import frozen
from evalgate.statistics.broken import Cell, confirmation_plan
from evalgate.statistics.change import suite_change
from evalgate.statistics.pairing import Pair
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.scores import UNIT, Score, Thousandths, average, cleaned

_MOST_RUNS = 50


@frozen
class Sight:
    """One metric over the cases of a baseline that have a score."""

    cases: int
    average: float
    runs: tuple[int, int]
    """Fewest and most runs of a case."""
    notice: float
    """Drops of the average of this size or more are caught about four times in five; above 1: none is."""
    unconfirmable: Mapping[str, int | None]
    """Case that fails now and then and could break unnoticed → stored runs that would mend that; None: very
    many. A case that always passed is followed up at any depth of the baseline."""


def sight(
    history: Mapping[str, Mapping[str, Sequence[Score]]], parameters: Parameters, *, max_drop: float = 0.05
) -> dict[str, Sight]:
    """Metric → what can be seen of it; `history` is metric → case → scores, the oldest first."""
    cells = {
        (metric, case): found
        for metric, cases in history.items()
        for case, scores in cases.items()
        if (found := cleaned(scores[-parameters.baseline_keep :], case))
    }
    lacking = _lacking(cells, parameters)
    metrics = dict.fromkeys(metric for metric, _ in cells)
    return {
        metric: _sight(
            {case: scores for (name, case), scores in cells.items() if name == metric},
            {case: runs for (name, case), runs in lacking.items() if name == metric},
            parameters,
            max_drop,
        )
        for metric in metrics
    }


def _sight(
    cases: Mapping[str, Thousandths],
    lacking: Mapping[str, int | None],
    parameters: Parameters,
    max_drop: float,
) -> Sight:
    # The candidate is taken to be like the baseline: that is the question when nothing changed.
    pairs = [Pair(case, scores, scores) for case, scores in cases.items()]
    planned = parameters.runs or parameters.max_runs
    change = suite_change(pairs, alpha=parameters.alpha, max_drop=max_drop, planned_runs=planned)
    counts = [len(scores) for scores in cases.values()]
    means = [average(scores) for scores in cases.values()]
    return Sight(len(cases), sum(means) / len(means), (min(counts), max(counts)), change.notice, lacking)


def _lacking(cells: Mapping[Cell, Thousandths], parameters: Parameters) -> dict[Cell, int | None]:
    most = parameters.confirm_runs
    if parameters.runs:
        most = max(parameters.runs, most) if parameters.follow_up else parameters.runs
    plan = confirmation_plan(
        cells, case_alpha=parameters.case_alpha, case_drop=parameters.case_drop, confirm_runs=most
    )
    low = [cell for cell, scores in cells.items() if average(scores) >= parameters.case_drop]
    full = round(parameters.pass_score * UNIT)
    return {
        cell: _runs_needed(cells[cell], len(low), parameters, most)
        for cell in low
        if cell not in plan.need and min(cells[cell]) < full
    }


def _runs_needed(scores: Thousandths, sharers: int, parameters: Parameters, most: int) -> int | None:
    """Baseline runs with which the case can be confirmed for certain, when the further ones pass."""
    for more in range(1, _MOST_RUNS):
        plan = confirmation_plan(
            {("", ""): (*scores, *(UNIT,) * more)},
            case_alpha=parameters.case_alpha / sharers,
            case_drop=parameters.case_drop,
            confirm_runs=most,
        )
        if plan.need:
            return len(scores) + more
    return None
