"""Compare a judge with people's labels of calibration cases, the entries of `judge.anchors`."""

from collections.abc import Sequence

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen


@frozen
class CalibrationAnswer:
    """A response that people labelled (an entry of `judge.anchors`), its label, and the judge's score."""

    name: str
    label: bool | float
    """People's label: True if the case passes, False if not, or a score."""
    judged: float | None
    """The judge's score; None if the judge gave no score."""
    threshold: float = 0.5
    """Lowest score of the judge that counts as a pass, if the label is True or False."""
    tolerance: float = 0.1
    """Largest difference between score and label that counts as agreement, if the label is a score."""
    failure: str = ""
    """Reason why the judge gave no score; "" if it gave a score."""

    @property
    def is_met(self) -> bool:
        """Return True if the judge agrees with the label; False if the judge gave no score."""
        if self.judged is None:
            return False
        if isinstance(self.label, bool):
            return (self.judged >= self.threshold) == self.label
        # 1e-9 absorbs floating-point noise: 0.7 is within 0.1 of 0.8.
        return abs(self.judged - self.label) <= self.tolerance + 1e-9


@frozen
class CalibrationVerdict:
    """Result of a comparison of the judge with people's labels, over all entries of `judge.anchors`."""

    met: int
    """Number of entries at which the judge agrees with the label."""
    total: int
    floor: float
    """Share of entries at which the judge must agree with the label, in [0, 1]."""
    missed: tuple[str, ...] = ()
    """Names of the entries at which the judge disagrees with the label, or gave no score."""
    failures: tuple[str, ...] = ()
    """One reason for each entry that the judge could not score. An entry that it scored wrongly has none."""

    @property
    def is_reliable(self) -> bool:
        """Return True if the share of entries with agreement is at least `floor`, or if no entry exists."""
        return self.met >= self.floor * self.total - 1e-9

    @property
    def sentence(self) -> str:
        """Return a summary such as `the judge agrees with people on 9 of 10 anchors`."""
        if not self.total:
            return "the judge was compared with no anchors"
        found = f"{self.met} of {pluralize(self.total, 'anchor')}"
        if self.is_reliable:
            return f"the judge agrees with people on {found}"
        return f"the judge is unreliable: {found}, fewer than the {self.floor:.0%} that are asked for"

    @property
    def shortfall(self) -> str:
        """Return sentences that list `missed`, with the first of `failures`; "" if no entry is missed."""
        if not self.missed:
            return ""
        named = f"Missed: {', '.join(self.missed)}."
        if not self.failures:
            return named
        why = (
            f"The judge gave no score to {len(self.failures)} of these. The first reason: {self.failures[0]}"
        )
        return f"{named} {why.removesuffix('.')}."


def evaluate_calibration(answers: Sequence[CalibrationAnswer], floor: float) -> CalibrationVerdict:
    """Count the answers at which the judge agrees with the label, and list the others.

    `floor` is the share of answers at which the judge must agree, in [0, 1].
    """
    missed = [answer for answer in answers if not answer.is_met]
    return CalibrationVerdict(
        met=len(answers) - len(missed),
        total=len(answers),
        floor=floor,
        missed=tuple(answer.name for answer in missed),
        failures=tuple(answer.failure for answer in missed if answer.judged is None),
    )
