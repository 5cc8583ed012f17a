"""Warnings of `evalgate validate` about journeys."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import CaseTurn, EvalCase, Goal, Journey, UserMessage
from evalgate.integrations.orchestrate.lint import JourneyLint, find_cycle
from tests.datasets.lints.looking import said_by

CALL = Goal("p", "tool_call", "p")
OTHER = Goal("q", "tool_call", "q")
TEXT = Goal("m", "text", response="Hi")
LATER = Goal("n", "text", response="Bye")
WIDGET = Goal("w", "interaction", identifier=("k", "v"))


def sentences(order: dict[str, tuple[str, ...]], *goals: Goal, turns: int = 2) -> list[str]:
    talk = tuple(CaseTurn(UserMessage("?")) for _ in range(turns))
    return find_warnings(EvalCase("c", talk, journey=Journey(goals, order)))


def find_warnings(case: EvalCase) -> list[str]:
    return [sentence for _, sentence in said_by(JourneyLint(), case, metrics={})]


@pytest.mark.parametrize(
    ("order", "goals", "expected"),
    [
        ({"p": ("q", "m"), "q": ("w",), "w": ("m",), "m": ("n",)}, (CALL, OTHER, TEXT, LATER, WIDGET), []),
        ({"p": ("q",), "q": ("p",)}, (CALL, OTHER), ["`goals` run in a circle (p → q → p), so that the journey can never succeed"]),
        ({"m": ("p",)}, (CALL, TEXT), ["the order `m` before `p` can never hold: a goal of type text counts after every tool_call"]),
        ({"w": ("p",)}, (CALL, WIDGET), ["the order `w` before `p` can never hold: a goal of type interaction counts after every tool_call"]),
        ({"n": ("m",)}, (TEXT, LATER), ["the order `n` before `m` can never hold: both count in the order of `goal_details`"]),
        ({"k": ()}, (Goal("k", "conversational_search"),), ["the goal `k` is of type conversational_search, which nothing ever reaches"]),
        ({"m": ()}, (Goal("m", "text"),), ["the goal `m` has neither `response` nor `keywords`, so that no text reaches it"]),
        ({"p": ()}, (Goal("p", "tool_call", "p "),), ["the goal `p` names its tool with blanks around: 'p '"]),
        ({"p": ()}, (CALL, CALL), ["the goal `p` is described 2 times; only the last description counts"]),
    ],
)  # fmt: skip
def test_journeys_that_cannot_succeed_are_reported(
    order: dict[str, tuple[str, ...]], goals: tuple[Goal, ...], expected: list[str]
) -> None:
    assert sentences(order, *goals) == expected


def test_a_widget_needs_an_answer_of_the_user() -> None:
    (sentence,) = sentences({"w": ()}, WIDGET, turns=1)

    assert "user_prompts" in sentence


def test_a_case_without_a_journey_has_no_warning() -> None:
    assert find_warnings(EvalCase("c")) == []


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef")).map(tuple)))
def test_a_cycle_is_a_path_back_to_its_start(order: dict[str, tuple[str, ...]]) -> None:
    cycle = find_cycle(order)

    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(child in order[name] for name, child in pairwise(cycle))
    else:  # names can be removed one by one, always one without a remaining predecessor
        left = {name: set(later) for name, later in order.items()}
        while left:
            free = [name for name, later in left.items() if not later & left.keys()]
            assert free
            left.pop(free[0])
