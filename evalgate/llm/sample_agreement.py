"""Measure how often a judge agrees with itself, that is, how often its samples of one question agree."""

from collections.abc import Iterable, Mapping, Sequence

from evalgate.core.means import compute_mean


def compute_agreement(votes: Sequence[object]) -> float | None:
    """Return the share of equal pairs among all pairs of votes on one question, in [0, 1].

    Return None for fewer than two votes.

    The formula is that of Fleiss (1971), "Measuring nominal scale agreement among many raters", for one
    subject: the sum of n(n - 1) / N(N - 1) over the different answers. N is the number of all votes, and n
    the number of votes for an answer.
    """
    total = len(votes)
    if total < 2:
        return None
    same = sum(vote == other for vote in votes for other in votes)
    return (same - total) / (total * (total - 1))


def compute_self_agreement(questions: Iterable[Sequence[object]]) -> float | None:
    """Return the mean agreement, in [0, 1], over the questions with two or more votes.

    Return None if no question has two votes.
    """
    values = [value for votes in questions if (value := compute_agreement(votes)) is not None]
    return compute_mean(values) if values else None


def read_sample_scores(details: Mapping[str, object] | None) -> tuple[object, ...]:
    """Return the scores of a judge's samples from a metric's details, without the failed samples.

    Return () if the details have no samples.
    """
    samples = (details or {}).get("samples")
    rows = samples if isinstance(samples, list | tuple) else ()
    scores = (row.get("score") for row in rows if isinstance(row, Mapping))
    return tuple(score for score in scores if score is not None)
