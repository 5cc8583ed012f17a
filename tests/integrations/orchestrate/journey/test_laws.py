"""Laws of journeys, over generated conversations."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from evalgate.core.types import CaseRun, EvalCase, Goal, Journey, Message, Reply, ToolCall
from evalgate.integrations.orchestrate.journey.arguments import (
    compare_as_date_or_number,
    find_argument_mismatch,
    is_same_moment,
    is_similar,
    normalize_value,
    parse_moment,
)
from evalgate.integrations.orchestrate.journey.outcome import (
    LiteralTextJudge,
    evaluate_journey,
    match_tool_calls,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.sampled_from(["a", "b", "a.b"]), JSON, max_size=3)
NAMES = st.sampled_from(["p", "q", "r"])
HOW = st.sampled_from(["strict", "optional", "ignore", "fuzzy"])
CALLS = st.lists(st.builds(ToolCall, NAMES, ARGS), max_size=5)
GOALS = st.lists(
    st.builds(lambda name, args, how: Goal(name, "tool_call", name, args, {"a": how}), NAMES, ARGS, HOW)
    | st.builds(lambda name, text: Goal(name, "text", response=text, keywords=(text,)), NAMES, st.text())
    | st.builds(lambda name, key: Goal(name, "interaction", identifier=(key, "v")), NAMES, st.text()),
    max_size=4,
)
EVENTS = CALLS | st.lists(st.builds(Message, st.text(), payload=st.none() | ARGS), max_size=3)
REPLIES = st.lists(st.none() | st.builds(Reply, st.none() | st.text(), EVENTS.map(tuple)), max_size=3)
ORDERS = st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple), max_size=3)


@given(GOALS, ORDERS, REPLIES)
async def test_no_conversation_breaks_a_journey(
    goals: list[Goal], order: dict[str, tuple[str, ...]], replies: list[Reply | None]
) -> None:
    journey = Journey(tuple(goals), order)

    outcome = await evaluate_journey(
        EvalCase("c"), CaseRun(1, "answered", tuple(replies)), journey, LiteralTextJudge()
    )

    scores = (outcome.compute_completion(), outcome.calls.precision, outcome.calls.recall)
    assert all(score is None or 0.0 <= score <= 1.0 for score in scores)
    if not outcome.explain_failure(accept_undecided=False):
        assert not outcome.explain_failure(accept_undecided=True)


@given(GOALS, CALLS, st.builds(ToolCall, NAMES, ARGS))
def test_a_further_pair_never_lowers_recall(goals: list[Goal], calls: list[ToolCall], call: ToolCall) -> None:
    before = match_tool_calls(Journey(tuple(goals), {}), calls)
    pair = Goal("new", "tool_call", "new tool", call.args)
    after = match_tool_calls(Journey((*goals, pair), {}), [*calls, ToolCall("new tool", call.args)])

    assert len(after.reached) == len(before.reached) + 1
    assert (after.recall or 0.0) >= (before.recall or 0.0)


@given(ARGS, ARGS, HOW)
def test_a_call_matches_itself_with_further_arguments(
    args: dict[str, Any], more: dict[str, Any], how: Any
) -> None:
    goal = Goal("p", "tool_call", "p", args, {"a": how})

    assert (
        find_argument_mismatch(goal, args) == "" or how == "fuzzy"
    )  # beyond a double's range nothing is near itself
    assert find_argument_mismatch(Goal("p", "tool_call", "p", args), {**more, **args}) == "" or "a.b" in {
        *args,
        *more,
    }


@given(JSON, JSON)
def test_similarity_is_symmetric(one: Any, other: Any) -> None:
    assert is_similar(one, other) == is_similar(other, one)
    assert compare_as_date_or_number(one, other) == compare_as_date_or_number(other, one)
    assert normalize_value(normalize_value(one)) == normalize_value(one) or isinstance(
        one, (bool, list, dict)
    )


@example("0/0/00 0:00Z")
@given(
    st.text()
    | st.from_regex(r"[0-9]{1,4}[-/. ][0-9a-z]{1,4}[-/. ,]?[0-9]{0,4}( [0-9]{1,2}:[0-9]{2}(Z|am)?)?")
)
def test_any_text_is_a_date_or_none(text: str) -> None:
    moment = parse_moment(text)

    assert moment is None or is_same_moment(moment, moment)
