"""Reliability of a judge: its agreement with people's labels, and with itself."""

from collections.abc import Iterable, Mapping, Sequence

from evalgate.core.formatting import compute_mean, pluralize
from evalgate.core.frozen import frozen


@frozen
class JudgeAnchor:
    """A case with a label by people and the judge's score."""

    name: str
    label: bool | float
    """People's label: passed or not, or a score."""
    judged: float | None
    """The judge's score; None if the judge gave no score."""
    threshold: float = 0.5
    """Least score that counts as passed, for a label that is true or false."""
    tolerance: float = 0.1
    """Greatest difference between judge and label, for a label that is a score."""

    @property
    def is_met(self) -> bool:
        """Return True if the judge agrees with the label; False if it gave no score."""
        if self.judged is None:
            return False
        if isinstance(self.label, bool):
            return (self.judged >= self.threshold) == self.label
        # 1e-9 absorbs floating-point noise: 0.7 is within 0.1 of 0.8.
        return abs(self.judged - self.label) <= self.tolerance + 1e-9


@frozen
class JudgeAnchorVerdict:
    """The result of comparing a judge with all anchors."""

    met: int
    anchors: int
    floor: float
    """Least share of anchors that must be met, in [0, 1]."""
    missed: tuple[str, ...] = ()
    """Names of the anchors that are not met."""
    unanswered: tuple[str, ...] = ()
    """Names of the anchors in `missed` that have no score."""

    @property
    def is_reliable(self) -> bool:
        """Return True if enough anchors are met, or if there is no anchor."""
        return self.met >= self.floor * self.anchors - 1e-9

    @property
    def sentence(self) -> str:
        """Return a summary, as `the judge agrees with people on 9 of 10 anchors`."""
        if not self.anchors:
            return "the judge was compared with no anchors"
        found = f"{self.met} of {pluralize(self.anchors, 'anchor')}"
        if self.is_reliable:
            return f"the judge agrees with people on {found}"
        return f"the judge is unreliable: {found}, fewer than the {self.floor:.0%} that are asked for"


def evaluate_judge_anchors(anchors: Sequence[JudgeAnchor], floor: float) -> JudgeAnchorVerdict:
    """Compare the judge with the labels of all anchors. `floor` is the least share met, in [0, 1]."""
    missed = [anchor for anchor in anchors if not anchor.is_met]
    return JudgeAnchorVerdict(
        met=len(anchors) - len(missed),
        anchors=len(anchors),
        floor=floor,
        missed=tuple(anchor.name for anchor in missed),
        unanswered=tuple(anchor.name for anchor in missed if anchor.judged is None),
    )


def compute_agreement(votes: Sequence[object]) -> float | None:
    """Return the probability that two random samples of one question agree, in [0, 1].

    This is the agreement for one subject of Fleiss (1971), "Measuring nominal scale agreement among many
    raters": Σ n(n - 1) / N(N - 1) over the answers that were given n times among N. Return None for fewer
    than two votes.
    """
    total = len(votes)
    if total < 2:
        return None
    same = sum(vote == other for vote in votes for other in votes)
    return (same - total) / (total * (total - 1))


def compute_self_agreement(questions: Iterable[Sequence[object]]) -> float | None:
    """Return the mean agreement over all questions with two votes or more; None without such a question."""
    values = [value for votes in questions if (value := compute_agreement(votes)) is not None]
    return compute_mean(values) if values else None


def read_sample_scores(details: Mapping[str, object] | None) -> tuple[object, ...]:
    """Read the scores of a judge's samples from a metric's details. Failed samples are left out."""
    samples = (details or {}).get("samples")
    rows = samples if isinstance(samples, list | tuple) else ()
    scores = (row.get("score") for row in rows if isinstance(row, Mapping))
    return tuple(score for score in scores if score is not None)
