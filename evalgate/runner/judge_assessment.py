"""Compare a judge's verdicts with people's labels, and decide if the judge reaches its floors.

A floor is the minimum of a figure for the agreement between judge and people, such as kappa. The section
`judge.floor` has the floors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import cast

from evalgate.core.formatting import format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import LlmJudged
from evalgate.datasets.judge_labels import DrawnSample, LabelStore, SampledAnswer
from evalgate.metrics.scoring import BoundMetric
from evalgate.statistics.judge_accuracy import (
    Estimate,
    Figure,
    FloorDecision,
    JudgeAccuracy,
    LabelCounts,
    compute_kappa,
    decide_floor,
    estimate_accuracy,
)

_NAMES = {"agreement": "agreement", "kappa": "kappa", "tpr": "TPR", "tnr": "TNR"}


@frozen
class JudgeAssessment:
    """Agreement of one metric's judge with people's labels, and the decision on each floor (minimum)."""

    metric: str
    fingerprint: str
    counts: LabelCounts
    undecided: int
    """Number of answers with a tie: equally many people labelled them pass and fail. They do not count."""
    accuracy: JudgeAccuracy
    floors: Mapping[str, tuple[float, FloorDecision]]
    """Maps the name of a figure, such as `tpr`, to (floor from 0 to 1, decision on this floor)."""

    @property
    def missed(self) -> list[str]:
        """Return a phrase for each floor with the decision `missed`, such as `TNR 0.60, below 0.85`."""
        return [
            f"{_NAMES[name]} {_format_value(getattr(self.accuracy, name))}, below {floor:g}"
            for name, (floor, decision) in self.floors.items()
            if decision.answer == "missed"
        ]

    @property
    def is_decided(self) -> bool:
        """Return True if the labels are enough for a decision on every minimum of `judge.floor`."""
        return all(decision.answer != "undecided" for _, decision in self.floors.values())


def assess_judges(
    store: LabelStore, floors: Mapping[str, float], used: Mapping[str, Sequence[str]] | None = None
) -> list[JudgeAssessment]:
    """Assess judges by their agreement with people's labels.

    A judge is assessed only if a sample of its answers was drawn for people to label.

    Args:
        store: the samples and labels.
        floors: minimum (0 to 1) of each figure, such as `tpr`, by the name of the figure.
        used: fingerprints of the judges to assess, by metric name. None: for each metric, the judges that
            gave the answers in the sample that was drawn last.
    """
    newest = {(each.metric, each.fingerprint): each for each in store.samples}
    if used is None:
        last = {each.metric: each.created_at for each in store.samples}
        chosen = [each for each in newest.values() if each.created_at == last[each.metric]]
    else:
        chosen = [each for (metric, mark), each in newest.items() if mark in used.get(metric, ())]
    return [_assess_judge(store, sample, floors) for sample in chosen]


def _assess_judge(store: LabelStore, sample: DrawnSample, floors: Mapping[str, float]) -> JudgeAssessment:
    rows = [each for each in store.answers.values() if each.metric == sample.metric]
    judged = [each for each in rows if sample.fingerprint in each.verdicts]
    counts = _count_labels(judged, sample)
    return JudgeAssessment(
        sample.metric,
        sample.fingerprint,
        counts,
        sum(bool(each.labels) and each.majority is None for each in judged),
        estimate_accuracy(counts),
        {name: (floor, decide_floor(counts, cast("Figure", name), floor)) for name, floor in floors.items()},
    )


def _count_labels(answers: Sequence[SampledAnswer], sample: DrawnSample) -> LabelCounts:
    pairs = [(each.verdicts[sample.fingerprint], each.majority) for each in answers]
    return LabelCounts(
        pairs.count(("pass", "pass")),
        pairs.count(("pass", "fail")),
        pairs.count(("fail", "fail")),
        pairs.count(("fail", "pass")),
        sample.passed,
        sample.failed,
    )


def describe_assessment(assessment: JudgeAssessment) -> Iterator[str]:
    """Yield lines about the judge of one metric: its figures, and the decision on each floor."""
    counts, accuracy = assessment.counts, assessment.accuracy
    answers = counts.all_passed + counts.all_failed
    yield f"{assessment.metric}: {counts.labelled} of {pluralize(answers, 'judged answer')} labelled"
    if assessment.undecided:
        yield f"  {pluralize(assessment.undecided, 'answer')} left out: as many people pass as fail"
    yield f"  agreement  {_format_estimate(accuracy.agreement)}"
    yield f"  kappa      {_format_estimate(accuracy.kappa)}"
    yield f"  TPR        {_format_estimate(accuracy.tpr)}: passes what people pass"
    yield f"  TNR        {_format_estimate(accuracy.tnr)}: fails what people fail"
    yield f"  pass rate  {_describe_pass_rate(assessment)}"
    for name, (floor, decision) in assessment.floors.items():
        yield f"  floor      {_NAMES[name]} {floor:g}: {describe_floor_decision(decision)}"


def _describe_pass_rate(assessment: JudgeAssessment) -> str:
    counts, accuracy = assessment.counts, assessment.accuracy
    judge = counts.all_passed / max(1, counts.all_passed + counts.all_failed)
    said = f"{format_score(judge)} says the judge"
    if accuracy.pass_rate.value is not None:
        return f"{said}, {_format_estimate(accuracy.pass_rate)} without its errors"
    if accuracy.tpr.value is None or accuracy.tnr.value is None:
        return said
    return f"{said}; it cannot be corrected: with TPR + TNR of at most 1 the judge is no better than chance"


def describe_floor_decision(decision: FloorDecision) -> str:
    """Return the decision on one floor in words, such as `not enough labels: 12 more would decide`."""
    if decision.answer != "undecided":
        return decision.answer
    if decision.further_labels is None:
        return "not enough labels"
    return f"not enough labels: {decision.further_labels:,} more would decide"


def _format_value(estimate: Estimate) -> str:
    return "not known" if estimate.value is None else format_score(estimate.value)


def _format_estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not known: too few labels, or all alike"
    low, high = format_score(estimate.low), format_score(estimate.high)
    return f"{format_score(estimate.value)} ({low} to {high})"


@frozen
class PeopleAgreement:
    """Agreement of two people on the answers that both people labelled."""

    first: str
    second: str
    answers: int
    """Number of answers that both people labelled, at least 1."""
    agreed: int
    kappa: float | None
    """Cohen's kappa, -1 to 1; None if it is undefined, because both people used one and the same label."""


def compare_people(store: LabelStore) -> Iterator[PeopleAgreement]:
    """Yield the agreement of each pair of people who both labelled at least one answer."""
    people = sorted({label.by for each in store.answers.values() for label in each.labels})
    for one, other in combinations(people, 2):
        pairs = list(_iter_pairs(store, one, other))
        if not pairs:
            continue
        kappa = compute_kappa(
            pairs.count(("pass", "pass")),
            pairs.count(("pass", "fail")),
            pairs.count(("fail", "pass")),
            pairs.count(("fail", "fail")),
        )
        yield PeopleAgreement(one, other, len(pairs), sum(a == b for a, b in pairs), kappa)


def describe_people(store: LabelStore) -> Iterator[str]:
    """Yield a line about the agreement of each pair of people who both labelled at least one answer."""
    for each in compare_people(store):
        more = "" if each.kappa is None else f" (kappa {format_score(each.kappa)})"
        answers = pluralize(each.answers, "answer")
        yield f"{each.first} and {each.second} agree on {each.agreed} of {answers}{more}"


def _iter_pairs(store: LabelStore, one: str, other: str) -> Iterator[tuple[str, str]]:
    for each in store.answers.values():
        labels = {label.by: label.label for label in each.labels}
        if one in labels and other in labels:
            yield labels[one], labels[other]


@frozen
class LabelCheck:
    """Assessments of a run's judges by people's labels, with decisions on the floors (minima)."""

    assessments: tuple[JudgeAssessment, ...]
    unlabelled: tuple[str, ...]
    """Names of metrics without labels: no answers of their present judge were drawn for people to label."""

    @property
    def unreliable(self) -> tuple[str, ...]:
        """Return a phrase for each judge that misses a floor; () if there is no such judge."""
        return tuple(
            f"the judge of {each.metric} is unreliable: {', '.join(each.missed)} "
            f"({pluralize(each.counts.labelled, 'label')})"
            for each in self.assessments
            if each.missed
        )

    def iter_notices(self) -> Iterator[str]:
        """Yield a sentence for each judge that reaches all floors, or has too few labels for a decision.

        Then yield one sentence about the `unlabelled` metrics, if any. Judges that miss a floor are left to
        `unreliable`.
        """
        for each in self.assessments:
            if each.missed:
                continue
            if each.is_decided:
                yield f"The judge of {each.metric} holds `judge.floor` ({each.counts.labelled} labels)."
                continue
            open_ = (
                f"{_NAMES[name]} {floor:g}: {describe_floor_decision(decision)}"
                for name, (floor, decision) in each.floors.items()
                if decision.answer == "undecided"
            )
            answers = "; ".join(open_)
            yield f"It is not known whether the judge of {each.metric} holds `judge.floor`. {answers}."
        if self.unlabelled:
            yield (
                f"It is not known whether the judge of {', '.join(self.unlabelled)} holds `judge.floor`: no "
                "answers of this judge were drawn for people to label. See: evalgate judge sample"
            )


def check_label_floors(
    store: LabelStore, floors: Mapping[str, float], metrics: Iterable[BoundMetric]
) -> LabelCheck:
    """Decide, from people's labels in `store`, if the judges of the gating metrics reach their floors.

    `floors` has the floor (minimum, 0 to 1) of each figure by the figure's name, such as `tpr`.
    """
    used: dict[str, tuple[str, ...]] = {}
    for bound in metrics:
        if isinstance(bound.metric, LlmJudged) and bound.criterion.gates:
            used[bound.name] = tuple(dict.fromkeys((*used.get(bound.name, ()), bound.fingerprint)))
    found = tuple(assess_judges(store, floors, used))
    known = {(each.metric, each.fingerprint) for each in found}
    missing = [name for name, marks in used.items() if any((name, mark) not in known for mark in marks)]
    return LabelCheck(found, tuple(missing))
