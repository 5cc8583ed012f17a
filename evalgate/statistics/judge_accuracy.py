"""Estimate the accuracy of a judge from people's labels; standard library only.

People label a sample of the judge's answers. The sample is drawn separately from the answers that the judge
passed and from those that it failed. So two shares are unbiased: the correct verdicts among passed answers,
and the correct verdicts among failed answers. The judge's true positive and true negative rates (TPR, TNR) in
the sample are biased. They are therefore computed from the two shares and from the judge's pass rate over all
answers (Begg and Greenes 1983, "Assessment of diagnostic tests when disease verification is subject to
selection bias"). Limits are quantiles of the posterior with Jeffreys' priors, drawn with a fixed seed.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen

Figure: TypeAlias = Literal["agreement", "kappa", "tpr", "tnr"]
FloorAnswer: TypeAlias = Literal["met", "missed", "undecided"]

_FIGURES = ("agreement", "kappa", "tpr", "tnr", "pass_rate")
_DRAWS = 3_000
_TAIL = 0.025  # chance that the true value lies beyond one end of an interval
MOST_FURTHER_LABELS = 10_000
"""Limit of the search for the number of further labels that decide. The search tries 1, 2, 4 and so on, so it
finds no number above 8,192."""
ONE_SIDED = 0.05
"""Largest chance that a figure is wrongly said to reach its lowest allowed value, or to miss it."""


@frozen
class LabelCounts:
    """Counts of an agent's answers by the verdicts of a judge and of people.

    Four counts cover the answers that people labelled, two cover all answers of the judge.
    """

    passed_right: int
    """Number of labelled answers that both the judge and people pass."""
    passed_wrong: int
    """Number of labelled answers that the judge passes and people fail."""
    failed_right: int
    """Number of labelled answers that both the judge and people fail."""
    failed_wrong: int
    """Number of labelled answers that the judge fails and people pass."""
    all_passed: int
    """Number of all answers that the judge passes, labelled or not."""
    all_failed: int
    """Number of all answers that the judge fails, labelled or not."""

    @property
    def labelled(self) -> int:
        """Return the number of answers that people labelled."""
        return self.passed_right + self.passed_wrong + self.failed_right + self.failed_wrong

    def extend(self, labels: int) -> "LabelCounts":
        """Return the expected counts after `labels` further labels, in the proportions of the present labels.

        Each count is rounded. There must be at least one label already.
        """
        share = (self.labelled + labels) / self.labelled
        return LabelCounts(
            round(self.passed_right * share),
            round(self.passed_wrong * share),
            round(self.failed_right * share),
            round(self.failed_wrong * share),
            self.all_passed,
            self.all_failed,
        )


@frozen
class Estimate:
    """Estimated figure with the limits of its 95 % interval."""

    value: float | None
    """Estimate; None: the labels do not determine it."""
    low: float
    high: float


@frozen
class JudgeAccuracy:
    """Four figures of a judge's agreement with people, and the corrected pass rate, all with intervals."""

    agreement: Estimate
    """Share of answers for which the judge and people have the same verdict, 0 to 1."""
    kappa: Estimate
    """Cohen's kappa, -1 to 1: agreement beyond that of chance."""
    tpr: Estimate
    """True positive rate: the judge's share of passes among the answers that people pass, 0 to 1."""
    tnr: Estimate
    """True negative rate: the judge's share of fails among the answers that people fail, 0 to 1."""
    pass_rate: Estimate
    """Corrected pass rate: the share of answers that people would pass, 0 to 1. Its value is None if TPR and
    TNR are known, but add up to 1 or less."""

    @property
    def is_informative(self) -> bool:
        """Return True if the judge is better than chance: TPR and TNR are known and add up to more than 1."""
        rates = (self.tpr.value, self.tnr.value)
        return rates[0] is not None and rates[1] is not None and rates[0] + rates[1] > 1


@frozen
class FloorDecision:
    """Comparison of a figure, such as the TPR, with its lowest allowed value (`judge.floor`)."""

    answer: FloorAnswer
    further_labels: int | None = None
    """Number of further labels that would decide an `undecided` answer, if they have the proportions of the
    present labels. None: the answer is decided, there is no label yet, or more than 8,192 are needed."""


def compute_kappa(both_pass: float, only_first: float, only_second: float, both_fail: float) -> float | None:
    """Return Cohen's kappa of two raters from the counts or shares of a 2 × 2 table.

    Cohen (1960), "A coefficient of agreement for nominal scales". `both_pass` counts the items that both
    raters pass, `only_first` the items that only the first rater passes, and so on. Return None if the table
    is empty, or if both raters give every item the same verdict.
    """
    total = both_pass + only_first + only_second + both_fail
    if not total:
        return None
    first, second = (both_pass + only_first) / total, (both_pass + only_second) / total
    chance = first * second + (1 - first) * (1 - second)
    observed = (both_pass + both_fail) / total
    return None if chance >= 1 else (observed - chance) / (1 - chance)


def correct_pass_rate(observed: float, tpr: float, tnr: float) -> float | None:
    """Return the share of answers that people would pass, 0 to 1, from the share that the judge passes.

    Rogan and Gladen (1978), "Estimating prevalence from the results of a screening test". Return None if
    TPR + TNR is at most 1: then the judge is no better than chance.
    """
    gain = tpr + tnr - 1
    return None if gain <= 0 else min(1.0, max(0.0, (observed + tnr - 1) / gain))


def estimate_accuracy(counts: LabelCounts, *, draws: int = _DRAWS) -> JudgeAccuracy:
    """Return the judge's agreement, kappa, TPR, TNR and corrected pass rate with 95 % intervals.

    `draws` is the number of draws from the posterior. Without any label, all values are None, and the
    intervals are wide.
    """
    drawn = _draw_figures(counts, draws)
    value = _compute_figures(*_compute_shares(counts))
    found = {name: _build_estimate(value[name], drawn[name]) for name in value}
    if not counts.labelled:
        found = {name: Estimate(None, each.low, each.high) for name, each in found.items()}
    return JudgeAccuracy(**found)


def decide_floor(counts: LabelCounts, figure: Figure, floor: float) -> FloorDecision:
    """Decide whether the true figure is at least `floor`: `met`, `missed` or `undecided`.

    `met` and `missed` are each wrong with a chance of at most 5 %.
    """
    answer = _compare_with_floor(counts, figure, floor)
    if answer != "undecided" or not counts.labelled:
        return FloorDecision(answer)
    low, high = 0, 1
    while _compare_with_floor(counts.extend(high), figure, floor) == "undecided":
        low, high = high, high * 2
        if high > MOST_FURTHER_LABELS:
            return FloorDecision("undecided")
    while high - low > 1:
        middle = (low + high) // 2
        undecided = _compare_with_floor(counts.extend(middle), figure, floor) == "undecided"
        low, high = (middle, high) if undecided else (low, middle)
    return FloorDecision("undecided", high)


def _compare_with_floor(counts: LabelCounts, figure: Figure, floor: float) -> FloorAnswer:
    value = _compute_figures(*_compute_shares(counts))[figure]
    if value is None:
        return "undecided"
    drawn = _draw_figures(counts, _DRAWS)[figure]
    skipped = int(ONE_SIDED * len(drawn))
    # The estimate itself must be on the same side of the floor as the limit, because with few labels the
    # limit depends mostly on the prior.
    if value >= floor:
        return "met" if drawn[skipped] >= floor else "undecided"
    return "missed" if drawn[-1 - skipped] < floor else "undecided"


def _compute_shares(counts: LabelCounts) -> tuple[float, float | None, float | None]:
    """Return three shares: the judge's pass rate, its correct passes, and its correct fails.

    The pass rate is over all answers; it is 0.0 without answers. The other shares are over the labelled
    answers that the judge passed, and that it failed. They are None if there are no such answers.
    """
    passed, failed = counts.passed_right + counts.passed_wrong, counts.failed_right + counts.failed_wrong
    answers = counts.all_passed + counts.all_failed
    return (
        counts.all_passed / answers if answers else 0.0,
        counts.passed_right / passed if passed else None,
        counts.failed_right / failed if failed else None,
    )


def _compute_figures(observed: float, ppv: float | None, npv: float | None) -> Mapping[str, float | None]:
    """Return all figures by name.

    `observed` is the judge's pass rate, `ppv` the share of its passes that are right, and `npv` the share of
    its fails that are right. All figures are None if `ppv` is None although the judge passed answers, or if
    `npv` is None although it failed answers. A single figure is None if the three shares do not determine it.
    """
    if (ppv is None and observed > 0) or (npv is None and observed < 1):
        return dict.fromkeys(_FIGURES)
    right, wrong = observed * (ppv or 0.0), observed * (1 - (ppv or 0.0))
    caught, missed = (1 - observed) * (npv or 0.0), (1 - observed) * (1 - (npv or 0.0))
    tpr = right / (right + missed) if right + missed else None
    tnr = caught / (caught + wrong) if caught + wrong else None
    known = tpr is not None and tnr is not None
    return {
        "agreement": right + caught,
        "kappa": compute_kappa(right, wrong, missed, caught),
        "tpr": tpr,
        "tnr": tnr,
        "pass_rate": correct_pass_rate(observed, tpr or 0.0, tnr or 0.0) if known else right + missed,
    }


@lru_cache(maxsize=64)
def _draw_figures(counts: LabelCounts, draws: int) -> Mapping[str, list[float]]:
    """Return `draws` values of each figure, drawn from the posterior and sorted."""
    figures: dict[str, list[float]] = {name: [] for name in _FIGURES}
    for observed, ppv, npv in _iter_posterior(counts, draws):
        found = {
            **_compute_figures(observed, ppv, npv),
            # The same rate as by Rogan and Gladen's formula, but without a division by TPR + TNR - 1 = 0.
            "pass_rate": observed * ppv + (1 - observed) * (1 - npv),
        }
        for name, value in found.items():
            if value is not None:
                figures[name].append(value)
    return {name: sorted(values) for name, values in figures.items()}


def _iter_posterior(counts: LabelCounts, draws: int) -> Iterator[tuple[float, float, float]]:
    """Yield draws of (pass rate, share of passes that are right, share of fails that are right).

    All three numbers are from 0 to 1. Calls with the same arguments yield the same draws.
    """
    draw: Callable[[float, float], float] = random.Random(0).betavariate  # noqa: S311  no secret
    for _ in range(draws):
        yield (
            draw(counts.all_passed + 0.5, counts.all_failed + 0.5),
            draw(counts.passed_right + 0.5, counts.passed_wrong + 0.5),
            draw(counts.failed_right + 0.5, counts.failed_wrong + 0.5),
        )


def _build_estimate(value: float | None, drawn: list[float]) -> Estimate:
    skipped = int(_TAIL * len(drawn))
    low, high = drawn[skipped], drawn[-1 - skipped]
    return Estimate(value, low, high) if value is None else Estimate(value, min(low, value), max(high, value))
