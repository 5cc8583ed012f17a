"""`response_match_score`."""

import pytest
from pydantic import ValidationError

from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, Criterion, MetricScore
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from tests.builders import a_case, a_reply, a_turn

NOTHING_EXPECTED = (
    "the eval set gives no `final_response` to compare with, which scores 0.0 as in Google ADK: "
    "add one, or leave out this metric"
)


async def scored(
    expected: str | None, actual: str | None, metric: ResponseMatch | None = None
) -> MetricScore:
    run = CaseRun(1, "answered", (a_reply(actual),))
    result = await (metric or ResponseMatch()).score(a_case("c", a_turn(expected=a_reply(expected))), run)
    assert isinstance(result, MetricScore)
    return result


@pytest.mark.parametrize(
    ("expected", "actual", "score", "reason"),
    [
        ("It is sunny.", "it IS sunny", 1.0, ""),
        ("It is sunny.", "sunny", 0.5, "1 of 3 expected words are among the 1 given"),
        ("It is sunny.", None, 0.0, "the agent gave no final response"),
        ("It is sunny.", "", 0.0, "0 of 3 expected words are among the 0 given"),
        (
            None,
            "It is sunny.",
            0.0,
            NOTHING_EXPECTED,
        ),
        (
            "…",
            "It is sunny.",
            0.0,
            "the expected `final_response` has no words to compare, which scores 0.0 as in Google ADK",
        ),
    ],
)
async def test_the_reason_says_what_a_turn_lacks(
    expected: str | None, actual: str | None, score: float, reason: str
) -> None:
    result = await scored(expected, actual)

    assert (result.score, result.reason) == (score, reason)


@pytest.mark.parametrize(("release", "score"), [((2, 3), 0.0), ((2, 5), 0.0), ((2, 6), 1.0), ((2, 13), 1.0)])
async def test_the_release_decides_which_scripts_have_words(release: tuple[int, int], score: float) -> None:
    metric = ResponseMatch.build(Criterion("m", 1.0), MetricContext(release))

    assert (await scored("こんにちは", "こんにちは", metric)).score == score


async def test_a_named_profile_overrides_the_release() -> None:
    metric = ResponseMatch.build(Criterion("m", 1.0, {"profile": "adk<=2.5"}), MetricContext((2, 13)))

    assert (await scored("こんにちは", "こんにちは", metric)).score == 0.0


@pytest.mark.parametrize("options", [{"profile": "adk"}, {"stemmer": True}])
def test_a_wrong_option_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ResponseMatch.build(Criterion("m", 1.0, options), MetricContext((2, 13)))


@pytest.mark.parametrize(
    "key", ["include_intermediate_responses_in_final", "includeIntermediateResponsesInFinal"]
)
def test_options_that_google_adk_accepts_everywhere_change_nothing(key: str) -> None:
    plain, with_it = (
        ResponseMatch.build(Criterion("m", 1.0, options), MetricContext((2, 13)))
        for options in ({}, {key: True})
    )

    assert with_it.model_dump() == plain.model_dump()
