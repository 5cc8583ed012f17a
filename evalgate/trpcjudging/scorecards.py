"""What one answer of a judge says of one turn, and which of several answers counts."""

from collections.abc import Sequence

from evalgate.frozen import frozen
from evalgate.model import JsonObject
from evalgate.numbers import mean_as_added


@frozen
class ItemScore:
    """What the judge says of one rubric, or of one sentence."""

    id: str
    score: float
    reason: str = ""


@frozen
class Scorecard:
    """One answer, read."""

    score: float
    """In [0, 1]."""
    reason: str = ""
    items: tuple[ItemScore, ...] = ()
    """In the judge's order; empty where it is asked for one score."""
    value: bool | str | None = None
    """What the judge chose, where that is no number."""

    @property
    def details(self) -> JsonObject:
        """What the record holds beside score and reason."""
        items = [{"id": item.id, "score": item.score, "reason": item.reason} for item in self.items]
        value = {} if self.value is None else {"value": self.value}
        return {**({"rubric_scores": items} if items else {}), **value}


def of_items(items: Sequence[ItemScore]) -> Scorecard:
    """The mean of `items`, at least one, and their reasons, one a line."""
    mean = mean_as_added([item.score for item in items])
    return Scorecard(mean, "\n".join(item.reason for item in items), tuple(items))


def representative(cards: Sequence[Scorecard], threshold: float) -> Scorecard:
    """The first card on the side of the majority, unaltered; of a tie, the first that fails.

    tRPC-Agent-Go's `majority_vote`: a card passes at or above the threshold. `cards` holds at least one.
    """
    passing = [card for card in cards if card.score >= threshold]
    failing = [card for card in cards if card.score < threshold]
    return passing[0] if len(passing) > len(failing) else failing[0]
