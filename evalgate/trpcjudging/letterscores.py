"""Two letters from A (best) to T (worst), read from the probabilities of what could stand there."""

import math
from collections.abc import Iterator, Mapping, Sequence

from evalgate.judge.asking import TokenChoice
from evalgate.judge.sampling import Unparsable
from evalgate.trpcjudging.scorecards import Scorecard

SCALE = "ABCDEFGHIJKLMNOPQRST"
_WORST = len(SCALE) - 1


def pairwise(choices: Sequence[TokenChoice]) -> Scorecard:
    """How much better A is than B: 0.5 when they are equal, 1.0 when A is best and B worst.

    Raises:
        Unparsable: a tag, a letter or the probabilities are missing.
    """
    first, second = _letter(choices, "score_A"), _letter(choices, "score_B")
    reason = f"Computed from score_A {first:.4f} and score_B {second:.4f} log probabilities."
    return Scorecard(0.5 + (first - second) / 2, reason)


def _letter(choices: Sequence[TokenChoice], name: str) -> float:
    """The expected score of the letter after a tag, in [0, 1]."""
    if not choices:
        raise Unparsable("it has no log probabilities: the model must give them (`logprobs`)")
    tag = f"<{name}>"
    text = "".join(choice.token for choice in choices)
    start = text.rfind(tag)
    if start < 0:
        raise Unparsable(f"it has no `{tag}`")
    choice, before = _token_at(choices, start + len(tag), name)
    return _expected(_weights(choice, before), name)


def _token_at(choices: Sequence[TokenChoice], place: int, name: str) -> tuple[TokenChoice, str]:
    """The token with the first character from `place` on that is no blank, and what of it is before."""
    begin = 0
    for choice in choices:
        end = begin + len(choice.token)
        before = choice.token[: max(0, place - begin)]
        if end > place and choice.token[len(before) :].strip():
            return choice, before
        begin = end
    raise Unparsable(f"nothing follows `<{name}>`")


def _weights(choice: TokenChoice, before: str) -> Iterator[tuple[int, float]]:
    """Step on the scale (0 is the best) → probability, of every token that could stand there."""
    tokens: Mapping[str, float] = {choice.token: choice.logprob, **dict(choice.alternatives)}
    for token, logprob in tokens.items():
        letter = token.removeprefix(before).strip().upper()
        if len(letter) == 1 and letter in SCALE:
            yield SCALE.index(letter), math.exp(min(logprob, 0.0))


def _expected(weights: Iterator[tuple[int, float]], name: str) -> float:
    found = list(weights)
    total = sum(weight for _, weight in found)
    if not total:
        raise Unparsable(f"no letter from A to T follows `<{name}>`")
    return sum((1 - step / _WORST) * weight for step, weight in found) / total
