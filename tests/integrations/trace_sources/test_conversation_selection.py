"""Samples of conversations: the same for the same seed, and from every stratum."""

from collections import Counter

from evalgate.core.types import CaseTurn, Reply, ToolCall, UserMessage
from evalgate.integrations.trace_sources.conversation_selection import draw_sample, limit_per_path
from evalgate.integrations.trace_sources.conversations import ObservedConversation


def build_conversation(number: int, tool: str) -> ObservedConversation:
    reply = Reply("Done.", (ToolCall(tool, {"n": number}),))
    return ObservedConversation(
        f"{number}", (CaseTurn(UserMessage(f"{number}"), reply),), (f"{number}",), number
    )


TOOLS = ["search"] * 90 + ["refund"] * 8 + ["delete"] * 2
FOUND = [build_conversation(number, tool) for number, tool in enumerate(TOOLS)]


def list_keys(conversations: list[ObservedConversation]) -> list[int]:
    return [int(each.key) for each in conversations]


def test_a_sample_takes_of_each_stratum_in_turn() -> None:
    for size, counts in (
        (3, {"search": 1, "refund": 1, "delete": 1}),
        (12, {"search": 5, "refund": 5, "delete": 2}),
        (100, {"search": 90, "refund": 8, "delete": 2}),
    ):
        assert Counter(TOOLS[key] for key in list_keys(draw_sample(FOUND, size, 0))) == counts


def test_a_seed_draws_the_same_sample_in_the_order_of_time() -> None:
    first = list_keys(draw_sample(FOUND, 12, 0))
    assert first == sorted(first) == list_keys(draw_sample(FOUND, 12, 0))
    assert len({tuple(list_keys(draw_sample(FOUND, 12, seed))) for seed in range(5)}) == 5


def test_the_newest_of_each_path_are_kept() -> None:
    assert list_keys(limit_per_path(FOUND, 2)) == [88, 89, 96, 97, 98, 99]
