"""Two letters from A (best) to T (worst), read from the probabilities of what could stand there."""

import math
from collections.abc import Mapping, Sequence

from evalgate.judge.asking import TokenChoice
from evalgate.judge.sampling import Unparsable
from evalgate.trpcjudging.gotext import trimmed
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
    """The expected score of the letter after the first such tag, in [0, 1]."""
    if not choices:
        raise Unparsable("it has no log probabilities: the model must give them (`logprobs`)")
    tag = f"<{name}>"
    text = "".join(choice.token for choice in choices)
    start = text.find(tag)
    if start < 0:
        raise Unparsable(f"it has no `{tag}`")
    choice, before = _token_at(choices, start + len(tag), name)
    return _expected(_logprobs(choice, before), name)


def _token_at(choices: Sequence[TokenChoice], place: int, name: str) -> tuple[TokenChoice, str]:
    """The token in which the text goes on after `place`, and what of it is before.

    Where a token ends at `place`, it is the next one, even an empty one.
    """
    end = 0
    for at, choice in enumerate(choices):
        begin, end = end, end + len(choice.token)
        if end > place:
            return choice, choice.token[: place - begin]
        if end == place and at + 1 < len(choices):
            return choices[at + 1], ""
    raise Unparsable(f"nothing follows `<{name}>`")


def _logprobs(choice: TokenChoice, before: str) -> Mapping[int, float]:
    """Step on the scale (0 is the best) → the best logprob of the tokens that say so."""
    found: dict[int, float] = {}
    for token, logprob in ((choice.token, choice.logprob), *choice.alternatives):
        letter = trimmed(token.removeprefix(before)).upper() if token.startswith(before) else ""
        if len(letter) == 1 and letter in SCALE:
            step = SCALE.index(letter)
            found[step] = max(logprob, found.get(step, logprob))
    return found


def _expected(logprobs: Mapping[int, float], name: str) -> float:
    best = max(logprobs.values(), default=-math.inf)
    if best == -math.inf or any(map(math.isnan, logprobs.values())):
        raise Unparsable(f"no letter from A to T follows `<{name}>`")
    # Beside the best: the exponential of a small logprob is 0.
    weights = {step: math.exp(logprob - best) for step, logprob in logprobs.items()}
    return math.fsum((1 - step / _WORST) * weight for step, weight in weights.items()) / math.fsum(
        weights.values()
    )
