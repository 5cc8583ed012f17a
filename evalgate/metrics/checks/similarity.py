"""Compute the similarity of two texts, from 0 to 1, and their edit distance."""

from evalgate.metrics.rouge import compute_rouge_1

_LONGEST = 2_000
"""Most characters of a text that `compute_edit_similarity` compares: the time grows with their square."""


def compute_rouge_similarity(one: str, other: str) -> float:
    """Return the F-measure of ROUGE-1 of two texts, 0 to 1, as Google ADK's `response_match_score` does."""
    return compute_rouge_1(one, other).f_measure


def compute_edit_similarity(one: str, other: str) -> float:
    """Return (n − d) / n, from 0 to 1: d is the Levenshtein distance, n the length of the longer text.

    Return 1.0 if both texts are empty. Only the first 2,000 characters of each text count.
    """
    one, other = one[:_LONGEST], other[:_LONGEST]
    longest = max(len(one), len(other))
    # One division is rounded once. 1 − d / n is rounded twice, and may end just below a limit such as 0.66.
    return (longest - compute_edit_distance(one, other)) / longest if longest else 1.0


def is_within_edits(one: str, other: str, most: int) -> bool:
    """Return True if the Levenshtein distance of two texts, of any length, is at most `most`."""
    if abs(len(one) - len(other)) > most:
        return False
    # Only cells within `most` of the diagonal are computed: all others are larger than `most`.
    far = most + 1
    row = {at: at for at in range(min(most, len(other)) + 1)}
    for number, character in enumerate(one, 1):
        below: dict[int, int] = {}
        for at in range(max(0, number - most), min(len(other), number + most) + 1):
            replaced = row.get(at - 1, far) + (character != other[at - 1]) if at else far
            below[at] = min(row.get(at, far) + 1, below.get(at - 1, far) + 1, replaced)
        row = below
    return row[len(other)] <= most


def compute_edit_distance(one: str, other: str) -> int:
    """Return the Levenshtein distance: the fewest characters to insert, remove or replace to get `other`."""
    row = list(range(len(other) + 1))
    for number, character in enumerate(one, 1):
        diagonal, row[0] = row[0], number
        for at, against in enumerate(other, 1):
            above = row[at]
            row[at] = min(above + 1, row[at - 1] + 1, diagonal + (character != against))
            diagonal = above
    return row[-1]
