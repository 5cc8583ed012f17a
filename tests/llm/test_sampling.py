"""Several samples of one question."""

import pytest

from evalgate.config.token_prices import Tokens
from evalgate.llm.client import ModelAnswer, build_model_request
from evalgate.llm.errors import ADVICE, RANDOM_FAILURES, FailureKind, JudgeError
from evalgate.llm.sampling import Samples, UnparsableAnswerError, take_samples
from tests.llm.fakes import ScriptedModel, Turn, answered, failed


def parse(answer: ModelAnswer) -> bool:
    if answer.text not in {"yes", "no"}:
        raise UnparsableAnswerError("neither yes nor no")
    return answer.text == "yes"


async def taken(*turns: list[Turn]) -> tuple[Samples[bool], ScriptedModel]:
    model = ScriptedModel.by_sample(turns)
    return await take_samples(model, build_model_request("right?"), len(turns), parse), model


async def test_samples_come_in_order_each_with_its_number() -> None:
    samples, model = await taken(["yes"], ["no"], ["yes"])

    assert samples.values == samples.require_values() == (True, False, True)
    assert [sample.number for sample in samples.good] == [1, 2, 3]
    assert sorted((request.sample, request.attempt) for request in model.requests) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("bad", ["maybe", failed("refused"), failed("unparsable"), failed("outage")])
async def test_a_bad_sample_is_asked_for_once_more(bad: Turn) -> None:
    samples, model = await taken([bad, "yes"], ["no"])

    assert samples.require_values() == (True, False)
    assert samples.good[0].attempts == 2
    assert sorted((request.sample, request.attempt) for request in model.requests) == [(1, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize("kind", sorted(RANDOM_FAILURES))
async def test_a_sample_that_stays_bad_is_a_failure_never_a_score(kind: FailureKind) -> None:
    samples, _ = await taken(["yes"], [failed(kind, "first"), failed(kind, "second")], ["yes"])

    assert samples.values == (True, True)
    assert samples.require_values(at_least=2) == (True, True)
    for wanted in (None, 3):
        with pytest.raises(JudgeError, match=r"^1 sample of 3 failed: second\. ") as caught:
            samples.require_values(wanted)
        assert caught.value.kind == kind


@pytest.mark.parametrize("kind", sorted(set(ADVICE) - RANDOM_FAILURES - {"outage", "rate_limited"}))
async def test_what_cannot_be_better_is_not_asked_for_again(kind: FailureKind) -> None:
    samples, model = await taken([failed(kind, "no"), "yes"])

    assert len(model.requests) == 1
    with pytest.raises(JudgeError, match=r"^no\. "):
        samples.require_values()


async def test_an_outage_that_was_retried_is_not_retried_more() -> None:
    long = JudgeError("outage", "down (asked 5 times in 9 s)", attempts=5)
    samples, model = await taken([long, "yes"])

    assert len(model.requests) == 1
    assert samples.failed[0].failure is long


async def test_who_wants_to_be_left_alone_is_not_asked_at_once() -> None:
    samples, model = await taken([failed("rate_limited", "slow down", retry_after=3600), "yes"])

    assert len(model.requests) == 1
    assert samples.failed[0].failure.kind == "rate_limited"


KEPT = ModelAnswer("?", cached=True)


async def test_answers_of_no_use_that_were_kept_are_asked_for_anew() -> None:
    samples, _ = await taken(
        [KEPT, KEPT, "yes"], [KEPT, "hm"], [KEPT, KEPT, "hm", "no"], [KEPT, KEPT, "?", "!"]
    )

    assert [(each.number, each.attempts) for each in samples.good] == [(1, 3), (3, 4)]
    assert [(each.number, each.text, each.attempts) for each in samples.failed] == [(2, "hm", 2), (4, "!", 4)]


async def test_where_one_good_answer_is_enough_a_rerun_says_the_same() -> None:
    model = ScriptedModel.by_sample([["yes"], [KEPT, KEPT, "no"]])
    samples = await take_samples(model, build_model_request("right?"), 2, parse, are_all_needed=False)

    assert samples.values == (True,)
    assert [each.attempts for each in samples.failed] == [2]


async def test_where_none_is_good_all_are_asked_for_anew() -> None:
    model = ScriptedModel.by_sample([[KEPT, KEPT, "yes"], [KEPT, KEPT, "no"]])
    samples = await take_samples(model, build_model_request("right?"), 2, parse, are_all_needed=False)

    assert samples.values == (True, False)


async def test_no_good_sample_at_all() -> None:
    samples, _ = await taken(["?", "??"], ["?", "?"])

    assert samples.values == ()
    with pytest.raises(
        JudgeError, match="2 samples of 2 failed: the judge's answer cannot be read: neither yes nor"
    ):
        samples.require_values(at_least=1)


async def test_an_answer_that_was_cut_off_says_so() -> None:
    samples, _ = await taken([ModelAnswer("ye", finish="length"), ModelAnswer("y", finish="length")])

    with pytest.raises(JudgeError, match="neither yes nor no; it was cut off at max_tokens"):
        samples.require_values()


async def test_every_sample_is_told() -> None:
    samples, _ = await taken(
        [ModelAnswer("yes", "judge-1", Tokens(3, 4), cached=True)], ["?", "??"], ["?", answered("no", 1, 2)]
    )

    assert samples.to_rows(lambda value: (float(value), f"it said {value}")) == (
        {
            "sample": 1,
            "score": 1.0,
            "reason": "it said True",
            "text": "yes",
            "model": "judge-1",
            "cached": True,
            "attempts": 1,
            "usage": {"input_tokens": 3, "output_tokens": 4},
        },
        {
            "sample": 2,
            "score": None,
            "failure": "unparsable",
            "reason": "the judge's answer cannot be read: neither yes nor no",
            "text": "??",
            "attempts": 2,
        },
        {
            "sample": 3,
            "score": 0.0,
            "reason": "it said False",
            "text": "no",
            "model": "judge-1",
            "cached": False,
            "attempts": 2,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
    )
