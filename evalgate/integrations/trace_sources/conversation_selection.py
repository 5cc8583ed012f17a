"""Select conversations: drop repeats, keep only the newest of each tool path, and draw a sample.

A tool path is the names of the called tools, turn by turn. The sample is drawn from groups of conversations
with the same tool path, length (short or long) and traits (errors, liked, disliked).
"""

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from evalgate.core.types import ToolCall
from evalgate.integrations.trace_sources.conversations import ObservedConversation
from evalgate.integrations.trace_sources.traces import Feedback

Trait: TypeAlias = Literal["errors", "disliked", "liked"]

_BAD = frozenset(
    {"thumbs_down", "thumbs-down", "down", "negative", "bad", "dislike", "disliked", "incorrect"}
)
_GOOD = frozenset({"thumbs_up", "thumbs-up", "up", "positive", "good", "like", "liked", "correct"})
_LONG = 3
"""Number of turns from which a conversation counts as long in the sample."""


def is_disliked(feedback: Feedback) -> bool:
    """Return True if a score is 0 or below, or a label is negative, such as `thumbs_down`."""
    return any(value.lower() in _BAD if isinstance(value, str) else value <= 0 for value in feedback.values())


def is_liked(feedback: Feedback) -> bool:
    """Return True if a score is above 0 or a label is positive, and `is_disliked` returns False."""
    return not is_disliked(feedback) and any(
        value.lower() in _GOOD if isinstance(value, str) else value > 0 for value in feedback.values()
    )


TRAITS: dict[Trait, Callable[[ObservedConversation], bool]] = {
    "errors": lambda each: bool(each.error),
    "disliked": lambda each: is_disliked(each.feedback),
    "liked": lambda each: is_liked(each.feedback),
}


def list_traits(conversation: ObservedConversation) -> tuple[Trait, ...]:
    """Return the traits of a conversation by which a user can select: errors, disliked and liked."""
    return tuple(name for name, has_trait in TRAITS.items() if has_trait(conversation))


def drop_repeats(
    found: Iterable[ObservedConversation], is_known: Callable[[ObservedConversation], bool]
) -> list[ObservedConversation]:
    """Drop conversations with the same questions, calls and answers as another; sort the rest by time.

    Two conversations are equal even if their tool results or the messages before a response differ. Of equal
    conversations, the one with the most traits is kept, so that no error or feedback is lost.

    `is_known` returns True for a conversation that was imported earlier. Such a conversation is kept rather
    than others: if another one were kept, it would be imported as a second case.
    """
    best: dict[str, tuple[tuple[bool, int], ObservedConversation]] = {}
    for each in found:
        said = [
            [
                turn.user.text,
                turn.expected.response,
                [
                    [event.name, event.args, event.other_args] if isinstance(event, ToolCall) else None
                    for event in turn.expected.events
                ],
            ]
            for turn in each.turns
        ]
        key = json.dumps(said, sort_keys=True, default=str)
        rank = is_known(each), len(list_traits(each))
        if key not in best or rank > best[key][0]:
            best[key] = rank, each
    return sorted((each for _, each in best.values()), key=lambda each: (each.start, each.key))


def limit_per_path(found: Sequence[ObservedConversation], most: int) -> list[ObservedConversation]:
    """Return the newest `most` conversations of each tool path, in the order of `found`.

    A tool path is the names of the called tools, turn by turn. `found` must be sorted by time, oldest first.
    """
    left: dict[object, int] = defaultdict(lambda: most)
    kept = []
    for each in reversed(found):
        if left[each.tool_path] > 0:
            left[each.tool_path] -= 1
            kept.append(each)
    return kept[::-1]


def draw_sample(found: Sequence[ObservedConversation], size: int, seed: int) -> list[ObservedConversation]:
    """Return up to `size` conversations, drawn at random from groups of similar conversations.

    Conversations with the same tool path, length (short or long) and traits form a group. Each round draws
    one conversation from every group, until there are `size`. The result is in the order of `found`. It is
    the same for the same arguments.
    """
    strata: dict[object, list[ObservedConversation]] = defaultdict(list)
    for each in found:
        strata[each.tool_path, len(each.turns) >= _LONG, list_traits(each)].append(each)
    generator = random.Random(seed)  # noqa: S311  a sample, no secret
    groups = [generator.sample(group, len(group)) for group in strata.values()]
    generator.shuffle(groups)
    chosen: list[ObservedConversation] = []
    while len(chosen) < size and any(groups):
        chosen += [group.pop() for group in groups if group]
    keys = {each.key for each in chosen[:size]}
    return [each for each in found if each.key in keys]
