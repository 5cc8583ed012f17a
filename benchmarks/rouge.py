"""Compare the speed of evalgate's ROUGE-1 with that of the package `rouge_score`. The scores must be equal."""

import random

from benchmarks.measure import seconds_a_call
from evalgate.metrics.rouge import compute_rouge_1

GOAL = 30  # times the calls per second of rouge_score
LENGTHS = (50, 2_000)  # words
PAIRS = 300  # more texts than evalgate caches
THEIR_PAIRS = 30

STARTS = ("act", "book", "carry", "deliver", "order", "pay", "relate", "shop", "travel", "value")
ENDS = ("", "s", "ed", "ing", "er", "ers", "able", "ation", "ational", "fulness", "ly", "ment", "ness")


def main():
    """Print the calls per second of both, on pairs of texts of which no two are equal."""
    from rouge_score.rouge_scorer import RougeScorer

    theirs = RougeScorer(["rouge1"], use_stemmer=True)
    for length in LENGTHS:
        pairs = _pairs(length)
        sample = pairs[:THEIR_PAIRS]
        if any(compute_rouge_1(*pair).f_measure != theirs.score(*pair)["rouge1"].fmeasure for pair in sample):
            raise SystemExit("rouge: the scores differ from those of rouge_score")
        ours_s = seconds_a_call(lambda pair: compute_rouge_1(*pair).f_measure, pairs)
        theirs_s = seconds_a_call(lambda pair: theirs.score(*pair), sample, times=2)
        print(
            f"{length:5} words  {1 / ours_s:8.0f} calls/s   rouge_score {1 / theirs_s:6.0f} calls/s   "
            f"× {theirs_s / ours_s:.1f} (goal {GOAL})"
        )


def _pairs(length):
    """Return pairs of texts of `length` words: four fifths common words, the others rare (two stems and an ending)."""
    source = random.Random(7)
    common = [f"{start}{end}" for start in STARTS for end in ENDS]

    def text():
        rare = (f"{source.choice(STARTS)}{source.choice(STARTS)}{source.choice(ENDS)}" for _ in range(length))
        return " ".join(word if source.random() < 0.2 else source.choice(common) for word in rare)

    return [(text(), text()) for _ in range(PAIRS)]
