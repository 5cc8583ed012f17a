"""Likeness of two texts, from 0 to 1."""

from evalgate.metrics.rouge import compute_rouge_1

_LONGEST = 2_000
"""Characters of each text that an edit distance looks at: the time grows with the square."""


def compute_rouge_likeness(one: str, other: str) -> float:
    """Return the F-measure of ROUGE-1, as `response_match_score` does."""
    return compute_rouge_1(one, other).f_measure


def compute_edit_likeness(one: str, other: str) -> float:
    """Return 1 less the Levenshtein distance as a share of the longer text; 1.0 for two empty texts.

    Only the first 2,000 characters of each text count.
    """
    one, other = one[:_LONGEST], other[:_LONGEST]
    longest = max(len(one), len(other))
    return 1 - compute_edit_distance(one, other) / longest if longest else 1.0


def compute_edit_distance(one: str, other: str) -> int:
    """Return the fewest characters to insert, remove or replace (Levenshtein)."""
    row = list(range(len(other) + 1))
    for number, character in enumerate(one, 1):
        diagonal, row[0] = row[0], number
        for at, against in enumerate(other, 1):
            above = row[at]
            row[at] = min(above + 1, row[at - 1] + 1, diagonal + (character != against))
            diagonal = above
    return row[-1]
