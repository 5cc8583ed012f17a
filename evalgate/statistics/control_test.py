"""Distinguish a change of the agent from a drift of its provider, by fresh runs of two commits.

The stored runs of the baseline are older than the change and the drift, so a comparison with the baseline
does not show which of the two caused a fall. It only finds suspects: cases and averages that seem to have
fallen. For the control comparison, two agents run on the suspects in turn: the base commit's agent (the
control) and the changed agent (the head). Only these fresh runs are compared, because the head's earlier runs
were selected for failures. Only the answer `drifted` uses the stored runs, too.

The gate closes only if both comparisons find a drop or a broken case. If the control comparison has too few
results, the comparison with the baseline alone decides. So if nothing changed, the control comparison causes
no further false alarms. A drift, however, affects head and control alike, and can make suspects in every run.
Then only the control comparison limits the false alarms: to `case_alpha` for all cases together, and to
`alpha * averages_share` for all averages together.

- A case is broken if the head fails more often than the control. The test is
  `paired_failures.compute_sequential_p`, with Holm's procedure over the suspects.
- An average fell if its drop is at least `max_drop`, and is larger than luck explains. The test is the
  permutation test of `mean_difference.py`.

In a round, both agents run every case once. Averages are compared after 1, 2, 4 … rounds, and after the last
round. Each of these comparisons is called a look.
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
    LEAST_PAIRS,
    MOST_PAIRS,
    compute_sequential_p,
    count_first_pairs,
    get_max_pairs,
    has_drifted,
)
from evalgate.statistics.parameters import EPSILON, Parameters, is_within_level
from evalgate.statistics.score_pairs import Pair, Score, count_missing, normalize_scores
from evalgate.statistics.threshold_test import compute_normal_quantile

_LEAST_VARYING_CASES = 10
"""Fewest cases with differing scores that show how large luck is before `LEAST_PAIRS` rounds were made."""


@frozen
class CaseSuspect:
    """Case that the comparison with the baseline called broken or left open, with its fresh runs.

    A case is left open if it needed follow-up runs, but a failure elsewhere had already closed the gate. If a
    drift explains that failure, the open case may still have broken.
    """

    name: str
    """Name of the case, unique among the suspects."""
    stored: StoredOutcomes
    """Number of stored runs, and of stored runs that failed in the way that made the case a suspect."""
    head: Sequence[bool | None] = ()
    """Fresh runs of the changed agent, in order. True: the run failed in the way that made the case a
    suspect. None: the run has no result through no fault of the agent."""
    control: Sequence[bool | None] = ()
    """Fresh runs of the base commit's agent, in order; True and None mean the same as in `head`."""


@frozen
class FreshScores:
    """Scores (0 to 1) of one metric on one case, in stored runs and in fresh runs of both agents."""

    stored: Sequence[Score]
    """Scores of the stored runs that the comparison with the baseline used."""
    head: Sequence[Score] = ()
    """Scores of the changed agent's fresh runs, in order; 0 for a crash, None for a run without a score
    through no fault of the agent."""
    control: Sequence[Score] = ()
    """Scores of the fresh runs of the base commit's agent, in order, with the same meaning of 0 and None."""
    weight: float = 1.0


@frozen
class AverageSuspect:
    """Metric with an average that, by the comparison with the baseline, may have fallen.

    Usually a drop of half of `max_drop` or more makes an average a suspect. The true drop may be larger:
    `runs: auto` stops at the first broken case, so some rounds of the average may be missing.
    """

    name: str
    """Name of the metric."""
    max_drop: float
    """A drop of the suite's average of this size or more closes the gate."""
    cases: Mapping[str, FreshScores]
    """Scores of all cases that were compared with the baseline, at least one.

    To rerun only the cases that fell or varied would be cheaper, but misleading, because luck selects such
    cases. If all cases fell a little, most of the drop is in the cases that were not selected.
    """
    total_weight: float
    """Sum of the weights of all cases that were compared. A case without fresh runs counts as unchanged."""
    drops: Mapping[str, float] = field(default_factory=dict)
    """Maps a case to its drop from the baseline: stored mean minus the changed agent's mean.

    If the drop of the average without drifted cases is less than half of `max_drop`, drift explains the drop,
    and the average needs no fresh runs. If `drops` is empty, this is not checked.
    """


@frozen
class CaseControl:
    """Answer of the fresh runs about one case, with the counts and the p value that led to the answer."""

    answer: ControlAnswer
    head_runs: int
    """Number of the changed agent's fresh runs that have a result."""
    head_failed: int
    control_runs: int
    control_failed: int
    p: float
    """Sequential p value, valid after any number of pairs of runs; 1 without a pair. If both agents fail
    equally often, this is the chance that the changed agent looks this much worse after some pair."""
    level: float
    """Level that p was compared with: the case's share of `case_alpha` by Holm's procedure."""
    is_measured: bool
    """False: too few runs have a result, so the comparison with the baseline alone decides."""


@frozen
class AverageControl:
    """Answer of the fresh runs about one average; means are taken over the cases with fresh runs."""

    answer: ControlAnswer
    rounds: int
    """Number of fresh runs of each case and agent that the figures use. It is 0 if no runs were made, or if
    drifted cases explain the drop."""
    stored: float | None
    """Mean of the stored runs; None if no case with fresh runs has stored scores, or `head` is None."""
    head: float | None
    """Mean of the changed agent's fresh runs. It is None if `rounds` is 0 or no case has scores of both
    agents. Then `control`, `drop` and `p` are None, too."""
    control: float | None
    drop: float | None
    """Drop of the whole suite's mean, `control` minus `head`. Cases without fresh runs count as unchanged."""
    p: float | None
    level: float | None
    """Level that p was compared with, after the division of `alpha` among looks and averages; None if
    `rounds` is 0."""
    is_measured: bool
    """False: too many runs lack a score, or no run was made, so the comparison with the baseline decides."""


@frozen
class PairsWanted:
    """Pairs of runs that are needed before a decision."""

    pairs: Mapping[str, int]
    """Maps a case to the number of further pairs, which are one run with each agent; never empty."""


@frozen
class ControlDecision:
    """The result of the control comparison: one answer about each suspected case and each suspected average.

    The control comparison runs two agents on the suspects today: the changed one and the base commit's. The
    answer about a suspect is a `ControlAnswer`: `broke`, `drifted`, `recovered` or `open` (undecided).
    """

    cases: Mapping[str, CaseControl]
    averages: Mapping[str, AverageControl]

    @property
    def answer(self) -> ControlAnswer:
        """Return the most serious answer about any suspect: `broke`, then `open`, `drifted`, `recovered`.

        Return `open` if there is no suspect.
        """
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
    """Return the pairs of runs to make next, or the decision if no further pairs are needed.

    A pair is one run of a case with the changed agent, and one with the base commit's agent. The caller makes
    the pairs, appends the results of a case to every suspect that uses this case, and calls again. Pairs of
    averages are wanted only when no case suspect needs pairs. If several averages need pairs of the same
    case, the largest number is returned.

    Args:
        cases: case suspects. A case that broke in several ways is one suspect; its runs fail if they fail
            in any of these ways.
        averages: average suspects, one for each metric. An average uses the same number of pairs of every
            case. Further pairs, which a case got because it is a case suspect, do not count.
        parameters: parameters of the gate. `confirm_runs`, raised to at least 4 and lowered to at most 20,
            limits the pairs of a case. For case suspects the limit rises further, up to 20, until it can
            confirm a total break (all runs of the changed agent fail, and all others pass).

    Raises:
        InvalidInputError: for a score of an average outside 0 to 1.
    """
    decision = decide_control_runs(cases, averages, parameters)
    if decision.answer == "broke" and parameters.fail_fast:
        return decision
    most = get_max_pairs(len(cases), parameters)
    wanted: dict[str, int] = {}
    open_cases = [each for each in cases if decision.cases[each.name].answer == "open"]
    first = count_first_pairs(len(cases), most, parameters)
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
    """Return the answer about each suspect from the fresh runs so far; `open` if they are not conclusive.

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
    """Comparisons of one average after `rounds` rounds of fresh runs."""

    rounds: int
    stored: MeanDifference | None
    """Mean of the base commit's agent in fresh runs, compared with its stored runs; None without scores."""
    change: MeanDifference | None
    """Mean of the changed agent compared with the base commit's agent, both in fresh runs; None without
    scores."""
    share: float
    """Weight of the cases with scores in fresh runs of both agents, as a share of the suite's weight."""

    @property
    def p(self) -> float:
        return self.change.p if self.change else 1.0


def _is_explained(average: AverageSuspect, drifted: Collection[str]) -> bool:
    """Return True if the drop of an average is below half of `max_drop` without its drifted cases.

    Then drift explains the drop. Return False if the drops of the cases are unknown.
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
        compare_means(stored, alpha=alpha) if stored else None,
        compare_means(fresh, alpha=alpha) if fresh else None,
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
    """Return True if the chance that the drop reaches `limit` by round `last` is `futility` or less.

    Before round `LEAST_PAIRS`, return False if fewer than `_LEAST_VARYING_CASES` cases have differing scores:
    so few cases do not show how much averages vary by luck.
    """
    # In few rounds, few cases with differing scores do not show the size of luck.
    if look.rounds < LEAST_PAIRS and change.informative < _LEAST_VARYING_CASES:
        return False
    left = 1 / look.rounds - 1 / last
    # Factor 2: the averages of both sides vary, each by the deviation of one round.
    reach = change.run_deviation * look.share * math.sqrt(2 * left)
    quantile = compute_normal_quantile(parameters.futility) if parameters.futility else math.inf
    return change.drop * look.share + quantile * reach <= limit - EPSILON if reach else True
