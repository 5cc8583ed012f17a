"""Distinguish a change of the agent from a drift of its provider, by fresh runs of two commits.

The baseline comparison cannot distinguish the two, because the stored runs were made before both. The control
comparison takes the suspects of the baseline comparison, and runs the base commit's agent (the control) and
the changed agent (the head) on them in turn. It compares these fresh runs alone: the head's earlier runs were
selected for failures, because they made the cases suspects. Only the answer `drifted` uses the stored runs.

The gate closes only if both comparisons find a drop or a broken case. If the control comparison has too few
results, the baseline comparison alone decides. If nothing changed, false alarms are at most as frequent as
with the baseline comparison alone. If a drift affects head and control alike, the baseline comparison may
raise a false alarm every time. So the control comparison must keep the levels by itself: `case_alpha` over
all suspects, and the averages' share of `alpha`.

A case is broken if the head fails more often than the control, by `paired_failures.compute_sequential_p` and
Holm's procedure over the suspects. An average fell if its drop is at least `max_drop`, and larger than luck
explains by the permutation test of `mean_difference.py`. Averages are compared after 1, 2, 4 … rounds of
pairs, and after the last round. Each of these comparisons is a look.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from evalgate.core.frozen import frozen
from evalgate.core.types import ControlAnswer
from evalgate.statistics.case_regression import StoredOutcomes
from evalgate.statistics.mean_difference import MeanDifference, compare_means
from evalgate.statistics.metric_assessment import INTERIM_DIVISOR
from evalgate.statistics.multiple_testing import compute_holm_levels
from evalgate.statistics.paired_failures import (
    DRIFT_LEVEL,
    compute_pairs_p,
    compute_repeated_p,
    compute_sequential_p,
    has_drifted,
)
from evalgate.statistics.parameters import EPSILON, Parameters, is_within_level
from evalgate.statistics.score_pairs import Pair, Score, count_missing, normalize_scores
from evalgate.statistics.threshold_test import compute_normal_quantile

_LEAST_VARYING_CASES = 10
"""Fewest cases with differing scores from which the size of luck is estimated before `LEAST_PAIRS` rounds."""

LEAST_PAIRS = 4
"""Fewest pairs of runs that count for a suspect case: a short outage can cause three failures."""

MOST_PAIRS = 20
"""Most pairs of runs of a case: further pairs decide little, and computing their p takes seconds."""


@frozen
class CaseSuspect:
    """One case that the comparison with the baseline called broken or left open, with its fresh runs.

    A case is left open if it needed follow-up runs, but a failure elsewhere had already closed the gate. If a
    drift explains that failure, the open case may still have broken.
    """

    name: str
    """Unique among the suspects."""
    stored: StoredOutcomes
    """Number of stored runs, and of stored runs that failed in the way that made the case a suspect."""
    head: Sequence[bool | None] = ()
    """Fresh runs of the head, in order: True if the run failed in the way that made the case a suspect, None
    if it has no result through no fault of the agent."""
    control: Sequence[bool | None] = ()
    """Fresh runs of the control, as `head`."""


@frozen
class FreshScores:
    """Scores of one metric on one case, 0 to 1: of stored runs, and of fresh runs of head and control."""

    stored: Sequence[Score]
    """Scores of the stored runs that the baseline comparison used."""
    head: Sequence[Score] = ()
    """Scores of the head's fresh runs, in order; 0 for a crash, None for a run without a score through no
    fault of the agent."""
    control: Sequence[Score] = ()
    """Scores of the control's fresh runs, as `head`."""
    weight: float = 1.0


@frozen
class AverageSuspect:
    """One metric with an average that may have fallen in the baseline comparison.

    Usually a drop of half of `max_drop` or more makes an average a suspect. The true drop may be larger: AUTO
    stops at the first broken case, so some rounds of the average may be missing.
    """

    name: str
    """Name of the metric."""
    max_drop: float
    """A drop of the suite's average of this size or more closes the gate."""
    cases: Mapping[str, FreshScores]
    """All cases that the baseline comparison compared, at least one.

    Control runs of only the cases that fell or varied would be cheaper, but misleading: luck selects them. If
    all cases fell, most of the drop is in the others; a simulation took half of such drops for luck.
    """
    total_weight: float
    """Weight of all cases that were compared. A case without control runs counts as unchanged."""
    drops: Mapping[str, float] = field(default_factory=dict)
    """Case to its drop in the baseline comparison: stored mean minus the head's mean.

    If the drop of the average without drifted cases is less than half of `max_drop`, the average needs no
    runs. Empty: this is not checked.
    """


@frozen
class CaseControl:
    """Answer of the control runs about one case, with the counts and the p value that it is based on."""

    answer: ControlAnswer
    head_runs: int
    """Fresh runs of the head that have a result."""
    head_failed: int
    control_runs: int
    control_failed: int
    p: float
    """Sequential p value, valid after any number of pairs; 1 without a pair. If both agents fail equally
    often, this is the chance that the head looks this much worse after any of the planned pairs."""
    level: float
    """Level that p was compared with: the case's share of `case_alpha` by Holm's procedure."""
    is_measured: bool
    """False: too few runs have a result, so the baseline comparison alone decides."""


@frozen
class AverageControl:
    """Answer of the control runs about one average, with means over the cases with control runs."""

    answer: ControlAnswer
    rounds: int
    """Fresh runs of every case and side that the figures use; 0: no runs were made, or drifted cases explain
    the drop."""
    stored: float | None
    """Mean of the stored runs; None if no case with control runs has stored scores, or `head` is None."""
    head: float | None
    """Mean of the head's fresh runs. None if `rounds` is 0 or no case has scores of both head and control;
    then `control`, `drop` and `p` are None, too."""
    control: float | None
    drop: float | None
    """Drop of the whole suite's mean, control minus head; cases without control runs count as unchanged."""
    p: float | None
    level: float | None
    """Level that p was compared with: the share of the look's `alpha` by Holm's procedure; None if `rounds`
    is 0."""
    is_measured: bool
    """False: too many runs lack a score, or no run was made, so the baseline comparison alone decides."""


@frozen
class PairsWanted:
    """Pairs of runs that are needed before a decision."""

    pairs: Mapping[str, int]
    """Case to the number of further pairs, each a run of the head and one of the control; never empty."""


@frozen
class ControlDecision:
    """Answers of the control runs about all suspects, by case and by metric."""

    cases: Mapping[str, CaseControl]
    averages: Mapping[str, AverageControl]

    @property
    def answer(self) -> ControlAnswer:
        """Return the first of `broke`, `open`, `drifted`, `recovered` that any suspect has; else `open`."""
        found = {each.answer for each in self._list_answers()}
        order: tuple[ControlAnswer, ...] = ("broke", "open", "drifted", "recovered")
        return next((answer for answer in order if answer in found), "open")

    @property
    def is_measured(self) -> bool:
        """Return True if every suspect has enough fresh results; if False, the stored runs alone decide."""
        return all(each.is_measured for each in self._list_answers())

    def _list_answers(self) -> "tuple[CaseControl | AverageControl, ...]":
        return (*self.cases.values(), *self.averages.values())


def plan_control_runs(
    cases: Sequence[CaseSuspect], averages: Sequence[AverageSuspect], parameters: Parameters
) -> PairsWanted | ControlDecision:
    """Return the pairs of runs to make next, or the decision if none are needed.

    A pair is one run of a case with the head, and one with the control. Append the two results to each
    suspect with this case, and call again. If several suspects have the same case, the largest number of
    pairs that one of them needs is returned.

    Args:
        cases: case suspects. A case that broke in several ways is one suspect; its runs fail if they fail
            in any of these ways.
        averages: average suspects, one for each metric. An average uses equally many pairs of each case:
            the extra pairs of case suspects do not count.
        parameters: parameters of the gate. `confirm_runs`, clamped to 4 to 20, is the most pairs of a case.
            If this number of pairs cannot confirm a total break, up to 20 pairs are made.

    Raises:
        InvalidInputError: for a score of an average outside 0 to 1.
    """
    decision = decide_control_runs(cases, averages, parameters)
    if decision.answer == "broke" and parameters.fail_fast:
        return decision
    most = get_max_pairs(len(cases), parameters)
    wanted: dict[str, int] = {}
    open_cases = [each for each in cases if decision.cases[each.name].answer == "open"]
    first = _count_first_pairs(len(cases), most, parameters)
    for suspect in open_cases:
        made = min(len(suspect.head), len(suspect.control))
        if made < most:
            wanted[suspect.name] = max(1, first - made)
    if wanted:  # cases go first: if one broke, the gate closes, and the averages need no runs
        return PairsWanted(wanted)
    for average in averages:
        if decision.averages[average.name].answer != "open":
            continue
        made = _count_rounds_made(average)
        target = next((look for look in list_looks(parameters) if look > made), 0)
        for case, scores in average.cases.items():
            missing = target - min(len(scores.head), len(scores.control))
            if missing > 0:
                wanted[case] = max(wanted.get(case, 0), missing)
    return PairsWanted(wanted) if wanted else decision


def decide_control_runs(
    cases: Sequence[CaseSuspect], averages: Sequence[AverageSuspect], parameters: Parameters
) -> ControlDecision:
    """Return the answer about each suspect from the runs made so far; `open` if the runs are not conclusive.

    Raises:
        InvalidInputError: for a score of an average outside 0 to 1.
    """
    found = _decide_cases(cases, parameters)
    drifted = {name for name, case in found.items() if case.answer == "drifted"}
    explained = {each.name for each in averages if drifted and _is_explained(each, drifted)}
    answer = AverageControl("drifted", 0, None, None, None, None, None, None, is_measured=True)
    measured = _decide_averages([each for each in averages if each.name not in explained], parameters)
    return ControlDecision(
        found, {each.name: answer if each.name in explained else measured[each.name] for each in averages}
    )


def get_max_pairs(suspects: int, parameters: Parameters) -> int:
    """Return the most pairs of runs of each case, 4 to 20, if `suspects` cases share `case_alpha`."""
    most = min(max(LEAST_PAIRS, parameters.confirm_runs), MOST_PAIRS)
    level = parameters.case_alpha / max(1, suspects)
    while most < MOST_PAIRS and not is_within_level(_compute_total_break_p(most, most), level):
        most += 1
    return most


def _count_first_pairs(suspects: int, most: int, parameters: Parameters) -> int:
    """Return the fewest pairs that confirm a total break of all suspects at once, from 4 to `most`."""
    # If all suspects broke, Holm's procedure compares the smallest p with this share of the level.
    level = parameters.case_alpha / max(1, suspects)
    return next(
        (
            pairs
            for pairs in range(LEAST_PAIRS, most)
            if is_within_level(_compute_total_break_p(pairs, most), level)
        ),
        most,
    )


def _compute_total_break_p(pairs: int, most: int) -> float:
    return compute_repeated_p(compute_pairs_p(pairs, pairs, 0), most)


def _decide_cases(cases: Sequence[CaseSuspect], parameters: Parameters) -> dict[str, CaseControl]:
    most = get_max_pairs(len(cases), parameters)
    results = {each.name: (_drop_missing(each.head), _drop_missing(each.control)) for each in cases}
    p_values = {name: compute_sequential_p(*sides, most) for name, sides in results.items()}
    levels = compute_holm_levels(p_values, parameters.case_alpha)
    broken = {name for name, p in p_values.items() if is_within_level(p, levels[name])}
    left = {each.name: max(0, most - min(len(each.head), len(each.control))) for each in cases}
    # The p if all further runs of the head fail and all further runs of the control pass.
    best = {
        name: compute_sequential_p((*head, *[True] * left[name]), (*control, *[False] * left[name]), most)
        for name, (head, control) in results.items()
    }
    best_levels = compute_holm_levels(best, parameters.case_alpha)
    hopeless = {name for name, p in best.items() if not is_within_level(p, best_levels[name])}
    found = {}
    for each in cases:
        head, control = results[each.name]
        pairs = min(len(head), len(control))
        answer: ControlAnswer = "open"
        if each.name in broken:
            answer = "broke"
        elif pairs >= LEAST_PAIRS:
            failed = sum(control[:pairs])
            if (sum(head[:pairs]) - failed) / pairs >= parameters.case_drop - EPSILON:
                answer = "open"
            elif has_drifted(each.stored, StoredOutcomes(pairs, failed)):
                answer = "drifted"
            elif each.name in hopeless and sum(head[:pairs]) / pairs < parameters.case_drop - EPSILON:
                answer = "recovered"
        found[each.name] = CaseControl(
            answer,
            len(head),
            sum(head),
            len(control),
            sum(control),
            p_values[each.name],
            levels[each.name],
            pairs >= LEAST_PAIRS,
        )
    return found


def _drop_missing(outcomes: Iterable[bool | None]) -> tuple[bool, ...]:
    return tuple(each for each in outcomes if each is not None)


def list_looks(parameters: Parameters) -> tuple[int, ...]:
    """Return the numbers of rounds after which averages are compared: powers of two, and the last round."""
    most = min(max(LEAST_PAIRS, parameters.confirm_runs), MOST_PAIRS)
    powers = (1 << power for power in range(most.bit_length()))
    return (*(look for look in powers if look < most), most)


def _count_rounds_made(average: AverageSuspect) -> int:
    return min(min(len(scores.head), len(scores.control)) for scores in average.cases.values())


@frozen
class _AverageLook:
    """Comparisons of one average after `rounds` rounds: head with control, and control with stored runs."""

    rounds: int
    stored: MeanDifference | None
    """Change from the stored runs to the control; None without scores."""
    change: MeanDifference | None
    """Change from the control to the head; None without scores."""
    share: float
    """Weight of the cases with control runs, as a share of the suite's weight."""

    @property
    def p(self) -> float:
        return self.change.p if self.change else 1.0


def _is_explained(average: AverageSuspect, drifted: Collection[str]) -> bool:
    """Return True if the drop of an average without its drifted cases is below half of `max_drop`.

    Return False if the drops of the cases are unknown.
    """
    left = math.fsum(
        drop * average.cases[case].weight for case, drop in average.drops.items() if case not in drifted
    )
    return bool(average.drops) and left / average.total_weight < average.max_drop / 2 - EPSILON


def _decide_averages(averages: Sequence[AverageSuspect], parameters: Parameters) -> dict[str, AverageControl]:
    looks = list_looks(parameters)
    made = {each.name: _count_rounds_made(each) for each in averages}
    answers: dict[str, AverageControl] = {}
    for at, rounds in enumerate(looks):
        reached = [each for each in averages if made[each.name] >= rounds]
        if not reached:
            break
        is_last = at == len(looks) - 1
        # All looks together keep the level: a tenth for each interim look, the rest for the last one.
        alpha = parameters.alpha * parameters.averages_share
        alpha *= 1 - (len(looks) - 1) / INTERIM_DIVISOR if is_last else 1 / INTERIM_DIVISOR
        found = {each.name: _compare_average(each, rounds, parameters) for each in reached}
        levels = compute_holm_levels({name: look.p for name, look in found.items()}, alpha)
        for each in reached:
            # The first look with an answer other than `open` decides: later runs must give no second chance.
            if each.name not in answers or answers[each.name].answer == "open":
                answers[each.name] = _answer_average(
                    each, found[each.name], levels[each.name], parameters, last=looks[-1]
                )
    nothing = AverageControl("open", 0, None, None, None, None, None, None, is_measured=False)
    return {each.name: answers.get(each.name, nothing) for each in averages}


def _compare_average(average: AverageSuspect, rounds: int, parameters: Parameters) -> _AverageLook:
    stored, fresh = [], []
    for case, scores in average.cases.items():
        before = normalize_scores(scores.stored[-parameters.baseline_keep :], case)
        head = normalize_scores(scores.head[:rounds], case)
        control = normalize_scores(scores.control[:rounds], case)
        if head and control:
            fresh.append(Pair(case, control, head, scores.weight, rounds))
            if before:
                stored.append(Pair(case, before, control, scores.weight, rounds))
    alpha = parameters.alpha * parameters.averages_share
    weight = math.fsum(pair.weight for pair in fresh)
    return _AverageLook(
        rounds,
        compare_means(stored, alpha=alpha, max_drop=average.max_drop) if stored else None,
        compare_means(fresh, alpha=alpha, max_drop=average.max_drop) if fresh else None,
        weight / average.total_weight,
    )


def _answer_average(
    average: AverageSuspect, look: _AverageLook, level: float, parameters: Parameters, *, last: int
) -> AverageControl:
    change, before = look.change, look.stored
    if change is None:
        return AverageControl("open", look.rounds, None, None, None, None, None, level, is_measured=False)
    sides = [side[: look.rounds] for each in average.cases.values() for side in (each.head, each.control)]
    missing = sum(map(count_missing, sides))
    drop, limit = change.drop * look.share, average.max_drop
    is_low = drop >= limit - EPSILON and drop > EPSILON
    answer: ControlAnswer = "open"
    if is_low and is_within_level(change.p, level):
        answer = "broke"
    elif not is_low and (look.rounds == last or _is_futile(change, look, limit, last, parameters)):
        if before is not None and before.drop > 0 and is_within_level(before.p, DRIFT_LEVEL):
            answer = "drifted"
        elif drop < limit / 2 - EPSILON:
            answer = "recovered"
    return AverageControl(
        answer,
        look.rounds,
        before.baseline if before else None,
        change.candidate,
        change.baseline,
        drop,
        change.p,
        level,
        is_measured=missing <= parameters.max_missing * look.rounds * len(sides) + EPSILON,
    )


def _is_futile(
    change: MeanDifference, look: _AverageLook, limit: float, last: int, parameters: Parameters
) -> bool:
    """Return True if the drop has at most the chance `futility` to reach `limit` by round `last`."""
    # In few rounds, few cases with differing scores do not show the size of luck.
    if look.rounds < LEAST_PAIRS and change.informative < _LEAST_VARYING_CASES:
        return False
    left = 1 / look.rounds - 1 / last
    # Factor 2: the averages of both sides vary, each by the deviation of one round.
    reach = change.run_deviation * look.share * math.sqrt(2 * left)
    quantile = compute_normal_quantile(parameters.futility) if parameters.futility else math.inf
    return change.drop * look.share + quantile * reach <= limit - EPSILON if reach else True
