"""What a provider must do for a judge: held against the local server, or against a real endpoint.

    EVALGATE_JUDGE_PROVIDER=gemini EVALGATE_JUDGE_MODEL=gemini-2.5-flash pytest -v tests/llm/test_real_endpoint.py

asks that model with the key in the provider's own variable (and at EVALGATE_JUDGE_BASE_URL, when set). The name
of every test says which endpoint it asked.
"""

import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.providers import PROVIDERS
from evalgate.llm.client import AnswerSchema, ModelAnswer, ModelClient, build_model_request
from evalgate.llm.errors import JudgeError
from evalgate.llm.judge_resolver import LlmContext, ModelPool
from evalgate.llm.sampling import UnparsableAnswerError, take_samples
from tests.openai_server import Body, Completion, ErrorReply, OpenAIServer, Reply

PROVIDER, MODEL = (os.environ.get(f"EVALGATE_JUDGE_{name}", "") for name in ("PROVIDER", "MODEL"))
IS_REAL = bool(PROVIDER and MODEL)
NAME = f"{PROVIDER}/{MODEL}" if IS_REAL else "local server, EVALGATE_JUDGE_PROVIDER and _MODEL are not set"
KEY = "sk-local-0123456789abcdef"

ASKED = build_model_request('Answer with this JSON object and nothing else: {"ok": true}')
SCHEMA = AnswerSchema(
    "verdict",
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    },
)


@dataclass
class Place:
    """A configuration and the environment that goes with it."""

    config: JudgeConfig
    environ: dict[str, str]


def local(body: Body) -> Reply:
    """As a provider answers."""
    if body["model"] != "judge":
        return ErrorReply(404, f"The model `{body['model']}` does not exist", "model_not_found")
    return Completion('{"ok": true}')


@pytest.fixture(params=[pytest.param(IS_REAL, id=NAME)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param:
        url = os.environ.get("EVALGATE_JUDGE_BASE_URL") or None
        yield Place(JudgeConfig(provider=PROVIDER, model=MODEL, base_url=url), dict(os.environ))
        return
    with OpenAIServer(script=local, key=KEY) as server:
        config = JudgeConfig(provider="openai", model="judge", base_url=server.url)
        yield Place(config, {"OPENAI_API_KEY": KEY})


@pytest.fixture
async def judges(place: Place, tmp_path: Path) -> AsyncIterator[ModelPool]:
    async with ModelPool(LlmContext(tmp_path, place.environ)) as opened:
        yield opened


@pytest.fixture
def model(place: Place, judges: ModelPool) -> ModelClient:
    return judges.get_model(place.config)


def is_ok(answer: ModelAnswer) -> bool:
    try:
        return bool(json.loads(answer.text[answer.text.index("{") : answer.text.rindex("}") + 1])["ok"])
    except (ValueError, KeyError) as error:
        raise UnparsableAnswerError(str(error)) from None


async def test_samples_are_answered_counted_and_kept(model: ModelClient, judges: ModelPool) -> None:
    first = await take_samples(model, ASKED, 2, is_ok)
    again = await take_samples(model, ASKED, 2, is_ok)

    assert first.require_values() == again.require_values() == (True, True)
    assert [sample.answer.cached for sample in first.good + again.good] == [False, False, True, True]
    assert all(sample.answer.tokens and sample.answer.tokens.total > 0 for sample in first.good)
    assert judges.judge_usage.calls >= 2
    assert judges.judge_usage.spared >= 2


async def test_json_of_a_shape(model: ModelClient) -> None:
    answer = await model.ask(replace(ASKED, answer_schema=SCHEMA, parameters={"max_tokens": 2000}))

    assert is_ok(answer)


async def test_a_model_that_does_not_exist(model: ModelClient) -> None:
    with pytest.raises(JudgeError) as caught:
        await model.ask(replace(ASKED, model="no-such-model-of-evalgate"))

    assert caught.value.kind == "unknown_model"


async def test_a_wrong_key(place: Place, judges: ModelPool) -> None:
    if not PROVIDERS[place.config.provider].needs_key:
        return  # a local server that lets everybody in has no wrong key
    wrong = LlmContext(Path(), {**place.environ, "WRONG_KEY": "sk-wrong-0123456789abcdef"})
    section = place.config.model_dump() | {"api_key": "${WRONG_KEY}", "cache": {"mode": "off"}}
    async with ModelPool(wrong) as others:
        with pytest.raises(JudgeError) as caught:
            await others.get_model(JudgeConfig.model_validate(section)).ask(ASKED)

    assert caught.value.kind == "wrong_key"
    assert judges.judge_usage.calls == 0
