"""The model that judges, of those that the run, the metric and the command line name."""

from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.errors import InvalidInputError
from evalgate.datasets.fingerprint import compute_metric_fingerprint, is_other_judge
from evalgate.llm.client import build_model_request
from evalgate.llm.judge_resolver import (
    DefaultJudge,
    JudgeNotConfiguredError,
    JudgeResolver,
    LlmContext,
    ModelPool,
)
from tests.llm.fakes import FakeTime
from tests.openai_server import Completion, OpenAIServer

OWN = JudgeConfig(provider="openai", model="gpt-4.1", api_key="${MY_KEY}", temperature=0.5)
PROXY = JudgeConfig(provider="custom", model="big", base_url="http://localhost:1/v1")


def a_bench(config: JudgeConfig | None, *, is_decreed: bool = False, **environ: str) -> JudgeResolver:
    place = LlmContext(Path(), environ, clock=FakeTime().clock)
    return JudgeResolver(ModelPool(place), config, forced_by_cli=is_decreed)


@pytest.mark.parametrize(
    ("config", "decreed", "named", "judge", "key"),
    [
        (OWN, False, "", "openai/gpt-4.1", "${MY_KEY}"),
        (OWN, False, "gpt-5-mini", "openai/gpt-5-mini", "${MY_KEY}"),
        (OWN, False, "gemini-2.5-flash", "gemini/gemini-2.5-flash", None),
        (OWN, False, "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", None),
        (OWN, False, "my-finetune", "openai/my-finetune", "${MY_KEY}"),
        (OWN, True, "gemini-2.5-flash", "openai/gpt-4.1", "${MY_KEY}"),
        (PROXY, False, "gemini-2.5-flash", "custom/gemini-2.5-flash", None),
        (None, False, "gemini-2.5-flash", "gemini/gemini-2.5-flash", None),
    ],
)
def test_whose_word_goes_first(
    config: JudgeConfig | None, decreed: bool, named: str, judge: str, key: str | None
) -> None:
    found = a_bench(config, is_decreed=decreed).resolve_judge(named)

    assert (found.name, found.config.api_key) == (judge, key)


@pytest.mark.parametrize(
    ("config", "named", "judge"),
    [
        (None, "", "gemini/gemini-2.5-flash"),
        (None, "gpt-5-mini", "openai/gpt-5-mini"),
        (OWN, "", "openai/gpt-4.1"),
    ],
)
def test_the_default_of_a_tool_judges_if_nobody_names_a_model(
    config: JudgeConfig | None, named: str, judge: str
) -> None:
    bench = a_bench(config, OPENAI_API_KEY="k", MY_KEY="k")
    default = DefaultJudge("gemini-2.5-flash", "Google ADK")

    assert bench.resolve_judge(named, default, temperature=0.5).name == judge
    if judge.startswith("gemini"):
        with pytest.raises(InvalidInputError, match="Google ADK's default judges: gemini"):
            bench.models.check_reserved()
    else:
        bench.models.check_reserved()
        assert not bench.models.default_notice


@pytest.mark.parametrize("named", ["", "some-model"])
def test_without_any_word_there_is_no_judge(named: str) -> None:
    with pytest.raises(JudgeNotConfiguredError, match="--judge PROVIDER/MODEL"):
        a_bench(None).resolve_judge(named)


def test_scores_of_another_judge_are_not_comparable_and_that_is_why() -> None:
    bench = a_bench(OWN)
    one, hotter, other = (
        compute_metric_fingerprint("m", {}, judge.identity)
        for judge in (
            bench.resolve_judge(),
            bench.resolve_judge(temperature=0.9),
            bench.resolve_judge("gpt-5"),
        )
    )

    assert len({one, hotter, other}) == 3
    assert is_other_judge(one, hotter)
    assert not is_other_judge(one, one)
    assert not is_other_judge(
        one, compute_metric_fingerprint("m", {"more": 1}, bench.resolve_judge("gpt-5").identity)
    )
    assert not is_other_judge(one, compute_metric_fingerprint("m", {}))
    assert not is_other_judge("", one)


def test_the_model_is_known_by_what_the_environment_calls_it() -> None:
    config = JudgeConfig(provider="custom", model="${WHICH}", base_url="http://localhost:1/v1")

    assert a_bench(config, WHICH="small").resolve_judge().name == "custom/small"


async def test_a_judge_is_opened_when_it_is_asked_and_checked_before() -> None:
    bench = a_bench(OWN)
    bench.resolve_judge()
    with pytest.raises(InvalidInputError, match=r"`judge\.api_key` names `MY_KEY`, which is not set"):
        bench.models.check_reserved()
    with OpenAIServer(Completion("yes")) as server:
        config = OWN.apply_changes(base_url=server.url, cache={"mode": "off"})
        bench = a_bench(config, MY_KEY="a-planted-key")
        judge = bench.resolve_judge()
        bench.models.check_reserved()
        async with bench.models:
            assert (await judge.client.ask(build_model_request("?"))).text == "yes"

    assert bench.models.judge_usage.calls == 1
    assert bench.models.get_usage("user").calls == 0


@pytest.mark.parametrize(
    ("config", "said", "found"),
    [
        (None, "openai/gpt-5", ("openai", "gpt-5", None, None, "read-write")),
        (None, "openrouter/openai/gpt-5", ("openrouter", "openai/gpt-5", None, None, "read-write")),
        (OWN, "openai/gpt-5", ("openai", "gpt-5", None, "${MY_KEY}", "read-write")),
        (OWN, "gemini/gemini-2.5-pro", ("gemini", "gemini-2.5-pro", None, None, "read-write")),
        (PROXY, "custom/small", ("custom", "small", "http://localhost:1/v1", None, "read-write")),
    ],
)
def test_the_command_line_names_another(
    config: JudgeConfig | None, said: str, found: tuple[str | None, ...]
) -> None:
    judge = apply_overrides(Config(judge=config), Overrides(judge=said)).judge

    assert judge is not None
    assert (judge.provider, judge.model, judge.base_url, judge.api_key, judge.cache.mode) == found


def test_the_command_line_says_what_becomes_of_the_cache() -> None:
    over = apply_overrides(Config(judge=OWN), Overrides(judge_cache="read"))

    assert over.judge is not None
    assert over.judge.cache.mode == "read"
    assert over.judge.temperature == 0.5
    assert apply_overrides(Config(), Overrides(judge_cache="read")).judge is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("gpt-5", "--judge gpt-5: must be PROVIDER/MODEL, as openai/gpt-4.1-mini"),
        ("/gpt-5", "--judge /gpt-5: must be PROVIDER/MODEL, as openai/gpt-4.1-mini"),
        ("opnai/gpt-5", "--judge opnai/gpt-5: is no provider that evalgate knows. Did you mean `openai`?"),
    ],
)
def test_a_wrong_name_is_told(said: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        apply_overrides(Config(), Overrides(judge=said))

    assert str(caught.value) == why
