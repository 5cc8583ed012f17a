"""Resolver, client, cache and retries together, over HTTP."""

import asyncio
import contextlib
import io
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.schema.budgets import Budget
from evalgate.config.schema.judge import CacheMode, JudgeConfig
from evalgate.config.token_prices import Price
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Usage
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.client import ModelAnswer, build_model_request
from evalgate.llm.errors import JudgeError
from evalgate.llm.judge_resolver import LlmContext, ModelPool
from evalgate.llm.sampling import UnparsableAnswerError, take_samples
from evalgate.reporting.summary_lines import format_judge_usage
from tests.llm.fakes import FakeTime
from tests.openai_server import Body, BrokenReply, Completion, ErrorReply, OpenAIServer, RawReply, Reply

KEY = "sk-planted-0123456789abcdef"
PRICES = {"custom/judge": Price(input=100_000, output=100_000)}  # 10 tokens for a dollar


def a_place(folder: Path, time: FakeTime | None = None, **more: Any) -> LlmContext:
    clock = (time or FakeTime()).clock
    return LlmContext(folder, {"MY_KEY": KEY}, clock=clock, **{"own_prices": PRICES, **more})


def a_config(url: str, **more: Any) -> JudgeConfig:
    section = {"provider": "custom", "model": "judge", "base_url": url, "api_key": "${MY_KEY}", **more}
    return JudgeConfig.model_validate(section)


def files_in(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def yes_or_no(answer: ModelAnswer) -> bool:
    if answer.text not in {"yes", "no"}:
        raise UnparsableAnswerError("neither yes nor no")
    return answer.text == "yes"


async def test_a_run_and_the_next(tmp_path: Path) -> None:
    time = FakeTime()
    with OpenAIServer(
        ErrorReply(429, "slow", headers={"Retry-After": "7"}), BrokenReply(20), ErrorReply(500), Completion("hm"), Completion("yes"),
    ) as server:  # fmt: skip
        config = a_config(server.url, retries=9)
        async with ModelPool(a_place(tmp_path, time)) as judges:
            samples = await take_samples(
                judges.get_model(config), build_model_request("right?"), 1, yes_or_no
            )
            assert samples.require_values() == (True,)
        first = judges.judge_usage
        async with ModelPool(a_place(tmp_path, time)) as judges:
            again = await take_samples(judges.get_model(config), build_model_request("right?"), 1, yes_or_no)
        second = judges.judge_usage

    assert len(server.requests) == 5
    assert time.slept[0] == 7
    assert [sample.attempts for sample in samples.good] == [2]
    assert (first.calls, first.usage.input_tokens, first.output_tokens, first.spared) == (2, 22, 14, 0)
    assert first.cost_usd == pytest.approx(3.6)
    assert format_judge_usage(first) == "2 judge calls (36 tokens, $3.60), 0 spared by the cache"
    assert again.require_values() == (True,)
    assert all(sample.answer.cached for sample in again.good)
    assert format_judge_usage(second) == "0 judge calls, 2 spared by the cache"
    assert judges.notices == ()


@pytest.mark.parametrize("mode", ["off", "read"])
async def test_without_writing_nothing_is_kept(mode: str, tmp_path: Path) -> None:
    with OpenAIServer(Completion("yes"), Completion("no")) as server:
        config = a_config(server.url, cache={"mode": mode})
        async with ModelPool(a_place(tmp_path)) as judges:
            model = judges.get_model(config)
            texts = [(await model.ask(build_model_request("?"))).text for _ in range(2)]

    assert texts == ["yes", "no"]
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("said", "own", "answers", "kept"),
    [
        ("off", "read-write", ["yes", "no"], 0),
        ("read", "read-write", ["yes", "no"], 0),
        ("read-write", "off", ["yes", "yes"], 1),
        (None, "read-write", ["yes", "yes"], 1),
    ],
)
async def test_what_the_command_line_says_of_the_cache_holds_for_every_model(
    said: CacheMode | None, own: str, answers: list[str], kept: int, tmp_path: Path
) -> None:
    with OpenAIServer(Completion("yes"), Completion("no")) as server:
        async with ModelPool(a_place(tmp_path, cache_mode=said)) as judges:
            model = judges.get_model(a_config(server.url, cache={"mode": own}))
            assert [(await model.ask(build_model_request("?"))).text for _ in range(2)] == answers

    assert len(files_in(tmp_path)) == kept


async def test_a_broken_cache_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("broken" * 99)
    with OpenAIServer(Completion("yes")) as server:
        async with ModelPool(a_place(tmp_path)) as judges:
            model = judges.get_model(a_config(server.url, cache={"path": "cache"}))
            assert (await model.ask(build_model_request("?"))).text == "yes"

    assert [notice.split("(")[0] for notice in judges.notices] == [
        "the judge's cache cache was not a cache of answers "
    ]


async def test_a_budget_ends_the_asking_of_those_who_wait(tmp_path: Path) -> None:
    meter = UsageMeter(Budget(tokens=30))
    with OpenAIServer(script=lambda _: Completion("yes")) as server:
        async with ModelPool(a_place(tmp_path, meter=meter)) as judges:
            model = judges.get_model(a_config(server.url, concurrency=1))
            samples = await take_samples(model, build_model_request("right?"), 5, yes_or_no)

    assert len(server.requests) == 2
    assert [sample.failure.kind for sample in samples.failed] == ["budget_spent"] * 3


async def test_a_budget_ends_the_asking(tmp_path: Path) -> None:
    meter = UsageMeter(Budget(usd=3.5))
    with OpenAIServer(script=lambda _: Completion("yes")) as server:
        async with ModelPool(a_place(tmp_path, meter=meter)) as judges:
            model = judges.get_model(a_config(server.url))
            await model.ask(build_model_request("1"))
            await model.ask(build_model_request("2"))
            with pytest.raises(JudgeError, match=r"^The budget of \$3\.50 is spent\. ") as caught:
                await model.ask(build_model_request("3"))
            assert (await model.ask(build_model_request("1"))).cached, "what is kept costs nothing"

    assert caught.value.kind == "budget_spent"
    assert len(server.requests) == 2
    assert meter.spent.to_paid_usage() == replace(judges.judge_usage, spared=0, spared_usage=Usage())


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Completion("yes", model="judge"), "1 judge call (18 tokens, cost unknown), 0 spared by the cache"),
        (Completion("yes", usage=None), "1 judge call (0 tokens, cost unknown), 0 spared by the cache"),
    ],
)
async def test_a_cost_that_is_not_known_is_not_0(reply: Completion, sentence: str, tmp_path: Path) -> None:
    with OpenAIServer(reply) as server:
        async with ModelPool(a_place(tmp_path, own_prices={})) as judges:
            await judges.get_model(a_config(server.url)).ask(build_model_request("?"))

    assert format_judge_usage(judges.judge_usage) == sentence
    assert judges.judge_usage.usage.cost_usd is None


async def test_what_failed_and_was_paid_for_is_counted(tmp_path: Path) -> None:
    with OpenAIServer(Completion("")) as server:
        async with ModelPool(a_place(tmp_path)) as judges:
            with pytest.raises(JudgeError):
                await judges.get_model(a_config(server.url)).ask(build_model_request("?"))

    assert judges.judge_usage.usage.input_tokens == 11


async def test_one_configuration_is_one_model_and_one_endpoint_has_one_limit(tmp_path: Path) -> None:
    time = FakeTime()
    with OpenAIServer(script=lambda _: Completion("yes")) as server:
        async with ModelPool(a_place(tmp_path, time)) as judges:
            one = a_config(server.url, requests_per_minute=2)
            other = a_config(server.url, requests_per_minute=2, model="judge-2")
            assert judges.get_model(one) is judges.get_model(one)
            assert judges.get_model(one) is not judges.get_model(other)
            await asyncio.gather(
                judges.get_model(one).ask(build_model_request("1")),
                judges.get_model(one).ask(build_model_request("2")),
                judges.get_model(other).ask(build_model_request("1")),
            )

    assert time.slept == [60]
    assert sorted(body["model"] for body in server.bodies) == ["judge", "judge", "judge-2"]


async def test_a_model_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    async with ModelPool(a_place(tmp_path)) as judges:
        with pytest.raises(InvalidInputError, match="names `NOT_THERE`, which is not set"):
            judges.get_model(a_config("http://x/v1", api_key="$NOT_THERE"))


async def test_without_the_sdk_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.llm.openai_client.find_spec", lambda name: None)
    async with ModelPool(a_place(tmp_path)) as judges:
        with pytest.raises(InvalidInputError, match="install evalgate with its extra `judge`"):
            judges.get_model(a_config("http://x/v1"))


def planting(body: Body) -> Reply:
    """Every way to give the key back."""
    what = body["messages"][0]["content"]
    replies: dict[str, Reply] = {
        "answer": Completion(f"I know {KEY}"),
        "refusal": Completion(refusal=f"not with {KEY}"),
        "wrong": ErrorReply(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
        "busy": ErrorReply(429, f"{KEY} is busy"),
        "broken": RawReply(f"<html>{KEY}".encode()),
        "cut": BrokenReply(5),
    }
    return replies[what]


async def test_a_planted_key_is_in_no_output(tmp_path: Path) -> None:
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    told: list[str] = []
    try:
        with OpenAIServer(script=planting) as server, contextlib.redirect_stderr(log):
            async with ModelPool(a_place(tmp_path)) as judges:
                model = judges.get_model(a_config(server.url, retries=1))
                for what in ("answer", "refusal", "wrong", "busy", "broken", "cut"):
                    samples = await take_samples(model, build_model_request(what), 2, yes_or_no)
                    told += [repr(samples), str(samples.to_rows(lambda value: (float(value), "")))]
                    told += [str(each.failure) for each in samples.failed]
                told += [
                    repr(judges.judge_usage),
                    repr(judges.notices),
                    format_judge_usage(judges.judge_usage),
                    repr(model),
                    repr(vars(judges)),
                ]
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(logging.WARNING)

    assert len(server.requests) >= 12
    assert "[key]" in "".join(told)
    assert KEY not in "".join(told)
    assert "HTTP" in log.getvalue(), "the log was listened to"
    assert KEY not in log.getvalue()
    assert files_in(tmp_path)
    assert not [data for data in files_in(tmp_path) if KEY.encode() in data]
