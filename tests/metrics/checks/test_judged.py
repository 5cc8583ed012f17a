"""Conditions of checks that only a model can evaluate."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest

import evalgate
from evalgate.config.schema.criteria import CHECK
from evalgate.config.schema.judge import JudgeConfig
from evalgate.core.protocols import LlmJudged, MetricContext
from evalgate.core.types import CaseRun, CaseTurn, Criterion, EvalCase, MetricScore, Reply, UserMessage
from evalgate.llm.client import ModelAnswer, ModelRequest
from evalgate.llm.openai_client import parse_embedding
from evalgate.metrics.checks.check import Check
from evalgate.metrics.checks.judged import compute_cosine
from evalgate.runner.metric_binding import _bind_metric
from tests.llm.resolvers import build_scripted_resolver
from tests.metrics.checks.build import NEWEST, call_with
from tests.openai_server import OpenAIServer, RawReply

JUDGE = JudgeConfig(provider="openai", model="gpt-4.1-mini")


class LateJudge:
    """Says yes to values that hold "late", and embeds a text by its length."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        text = request.messages[0].text
        if request.embeds:
            return ModelAnswer(json.dumps([1.0, float(len(text))]))
        verdict = "late" in text.partition("=== value")[2]
        return ModelAnswer(json.dumps({"verdict": verdict, "reason": "it says so"}))


async def score(conditions: Mapping[str, object], reply: Reply, judge: LateJudge) -> MetricScore:
    context = MetricContext(NEWEST, build_scripted_resolver(judge, JUDGE))
    check = Check.build(Criterion("check/it", 1.0, conditions, CHECK), context)
    assert isinstance(check, LlmJudged)
    case = EvalCase("case", (CaseTurn(UserMessage("Hi")),))
    result = await check.score(case, CaseRun(1, "answered", (reply,)))
    assert isinstance(result, MetricScore)
    return result


async def test_a_statement_about_an_argument() -> None:
    judge, rule = (
        LateJudge(),
        {"args": {"pay": {"reason": {"semantic": "It is too late.", "contains": "parcel"}}}},
    )
    right = await score(rule, call_with(reason="the parcel was late"), judge)
    assert right.score == 1.0
    assert right.details == {
        "judged": [{"statement": "It is too late.", "verdict": True, "reason": "it says so"}]
    }
    wrong = await score(rule, call_with(reason="a broken parcel"), judge)
    assert wrong.reason.endswith(
        '`reason` should fit “It is too late.”, found "a broken parcel" (it says so)'
    )
    before = len(judge.requests)
    assert (await score(rule, call_with(reason="late"), judge)).score == 0.0
    assert len(judge.requests) == before  # the text alone decided


async def test_statements_in_alternatives() -> None:
    rule: dict[str, object] = {
        "alternatives": [
            {"response": {"semantic": "It is late."}},
            {"tools": {"require": "pay"}, "response": {"semantic": "It is too late."}},
        ]
    }
    judge = LateJudge()
    assert (await score(rule, Reply("late"), judge)).score == 1.0
    assert len(judge.requests) == 1
    assert (await score(rule, Reply("on time"), judge)).reason.startswith("none of 2 alternatives holds")


async def test_embeddings() -> None:
    judge = LateJudge()
    similar = {"to": "abc", "by": "embeddings", "model": "small", "at_least": 0.99}
    assert (await score({"response": {"similar": similar}}, Reply("abd"), judge)).score == 1.0
    assert [(each.model, each.embeds) for each in judge.requests] == [("small", True)] * 2
    found = await score({"response": {"similar": similar}}, Reply(""), judge)
    assert found.reason.startswith(
        "turn 1: the response should be like “abc” (embeddings at least 0.99), found 0.3"
    )


def test_the_judge_is_part_of_the_fingerprint() -> None:
    criterion = Criterion("check/it", 1.0, {"response": {"semantic": "ok"}}, CHECK)
    prints = [
        _bind_metric(
            criterion,
            Check.build(
                criterion,
                MetricContext(
                    NEWEST, build_scripted_resolver(LateJudge(), JUDGE.model_copy(update={"model": model}))
                ),
            ),
        ).fingerprint
        for model in ("a", "b")
    ]
    assert prints[0].partition("-")[0] == prints[1].partition("-")[0]
    assert prints[0] != prints[1]


def test_cosine() -> None:
    assert compute_cosine([1, 0], [2, 0]) == 1.0
    assert compute_cosine([1, 0], [0, 1]) == 0.0
    assert compute_cosine([1, 0], [-1, 0]) == 0.0
    assert compute_cosine([0, 0], [1, 0]) == compute_cosine([1], [1, 0]) == 0.0
    assert math.isclose(compute_cosine([1, 1], [1, 0]), math.sqrt(0.5))


@pytest.mark.parametrize("body", ["", "{}", '{"data": []}', '{"data": [{"embedding": []}]}'])
def test_a_response_without_an_embedding(body: str) -> None:
    assert not isinstance(parse_embedding(body, "openai/small"), ModelAnswer)


def test_a_run_asks_the_provider_of_the_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    body = {
        "object": "list",
        "model": "small",
        "data": [{"object": "embedding", "index": 0, "embedding": [1, 2]}],
    }
    reply = RawReply(json.dumps({**body, "usage": {"prompt_tokens": 3, "total_tokens": 3}}).encode())
    with OpenAIServer(reply, reply) as server:
        judge = {"provider": "custom", "base_url": server.url, "model": "m", "cache": {"mode": "off"}}
        similar = {"to": "Hello", "by": "embeddings", "model": "small", "at_least": 0.9}
        record = evalgate.evaluate(
            [{"query": "Hi"}],
            lambda _: "Hello there",
            checks={"greets": {"response": {"similar": similar}}},
            thresholds={"judge": judge},
            folder=tmp_path,
        )
    assert record.passed
    assert sorted(body["input"] for body in server.bodies) == ["Hello", "Hello there"]
