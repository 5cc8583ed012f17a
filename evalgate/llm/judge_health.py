"""How far a judge can be trusted: its agreement with people, and with itself."""

from collections.abc import Iterable, Mapping, Sequence

from evalgate.core.formatting import compute_mean, format_score, pluralize
from evalgate.core.frozen import frozen


@frozen
class Anchor:
    """A case that people judged, and what the judge made of it."""

    name: str
    label: bool | float
    """What people say: passed or not, or a score."""
    judged: float | None
    """The judge's score; None when it gave none."""
    threshold: float = 0.5
    """At or above it the judge says "passed"; for a label that is true or false."""
    tolerance: float = 0.1
    """How far the judge may be off, for a label that is a score."""

    @property
    def is_met(self) -> bool:
        """Whether the judge says what people say. A judge that says nothing does not."""
        if self.judged is None:
            return False
        if isinstance(self.label, bool):
            return (self.judged >= self.threshold) == self.label
        # Against noise of the last digit: 0.7 is within 0.1 of 0.8.
        return abs(self.judged - self.label) <= self.tolerance + 1e-9


@frozen
class AnchorVerdict:
    """What the anchors say of the judge."""

    met: int
    anchors: int
    floor: float
    """The share that must be met."""
    missed: tuple[str, ...] = ()
    """Names of the others."""
    unanswered: tuple[str, ...] = ()
    """Those of `missed` that the judge gave no score."""

    @property
    def is_reliable(self) -> bool:
        """Whether enough are met. Without anchors there is nothing to hold against the judge."""
        return self.met >= self.floor * self.anchors - 1e-9

    @property
    def sentence(self) -> str:
        """`the judge is unreliable: 7 of 10 anchors, fewer than the 80% that are asked for`."""
        if not self.anchors:
            return "the judge was held against no anchors"
        found = f"{self.met} of {pluralize(self.anchors, 'anchor')}"
        if self.is_reliable:
            return f"the judge agrees with people on {found}"
        return f"the judge is unreliable: {found}, fewer than the {self.floor:.0%} that are asked for"


def evaluate_anchors(anchors: Sequence[Anchor], floor: float) -> AnchorVerdict:
    """Hold a judge against people. `floor`: the share of anchors that must be met, in [0, 1]."""
    missed = [anchor for anchor in anchors if not anchor.is_met]
    return AnchorVerdict(
        met=len(anchors) - len(missed),
        anchors=len(anchors),
        floor=floor,
        missed=tuple(anchor.name for anchor in missed),
        unanswered=tuple(anchor.name for anchor in missed if anchor.judged is None),
    )


def compute_agreement(votes: Sequence[object]) -> float | None:
    """How often two samples of one question, taken at random, say the same; in [0, 1].

    The agreement of one subject of Fleiss (1971), "Measuring nominal scale agreement among many raters":
    Σ n(n - 1) / N(N - 1) over the answers that were given n times among N. None for fewer than two.
    """
    total = len(votes)
    if total < 2:
        return None
    same = sum(vote == other for vote in votes for other in votes)
    return (same - total) / (total * (total - 1))


def compute_self_agreement(questions: Iterable[Sequence[object]]) -> float | None:
    """Mean agreement over the questions that were asked at least twice; None when none was."""
    found = [value for votes in questions if (value := compute_agreement(votes)) is not None]
    return compute_mean(found) if found else None


def read_sample_scores(details: Mapping[str, object] | None) -> tuple[object, ...]:
    """The scores of the samples that a turn's details hold; failed samples have none."""
    samples = (details or {}).get("samples")
    rows = samples if isinstance(samples, list | tuple) else ()
    scores = (row.get("score") for row in rows if isinstance(row, Mapping))
    return tuple(score for score in scores if score is not None)


def describe_agreement(value: float | None) -> str:
    """`the judge agrees with itself 0.87`, or "" when that cannot be said."""
    return "" if value is None else f"the judge agrees with itself {format_score(value)}"
