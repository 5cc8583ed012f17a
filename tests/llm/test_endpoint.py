"""The `judge` section with the environment: provider, URL, model and key."""

import re

import pytest
from pydantic import ValidationError

from evalgate.config.schema.judge import CacheConfig, JudgeConfig
from evalgate.config.schema.providers import PROVIDERS, parse_model_name
from evalgate.config.token_prices import load_known_prices
from evalgate.core.errors import InvalidInputError
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.llm.endpoint import resolve_endpoint

KEY = "sk-planted-0123456789abcdef"


def problems(**section: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        JudgeConfig.model_validate({"model": "judge", **section})
    found = translate_validation_error(
        caught.value,
        file="evalgate.yaml",
        position=lambda _: (3, 5),
        known_keys=lambda _: JudgeConfig.model_fields,
    )
    return [str(problem) for problem in found]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"provider": "opnai"}, "`provider` is no provider that evalgate knows. Did you mean `openai`?"),
        ({"provider": "zzz"}, "Known: `anthropic`, `azure`, `custom`,"),
        ({"api_key": KEY}, "`api_key` must name a variable, as `${OPENAI_API_KEY}`"),
        ({"api_key": f"Bearer ${{X}} {KEY}"}, "`api_key` must name a variable"),
        ({"api_key": ""}, "`api_key` must name a variable"),
        ({"base_url": f"https://me:{KEY}@host/v1"}, "`base_url` must not hold a user name or password"),
        (
            {"generation": {"messages": [], "stream": True}},
            "`generation` must not set `messages` and `stream`",
        ),
        ({"temperature": 3}, "`temperature` "),
        ({"concurrency": 0}, "`concurrency` "),
        ({"timeout": "60"}, "`timeout` must be a number"),
        ({"retries": -1}, "`retries` "),
        ({"apikey": KEY}, "`apikey` is not a known key. Did you mean `api_key`?"),
        ({"cache": {"mode": "on"}}, "`cache.mode` "),
        ({"model": None}, "`model` must be text"),
    ],
)
def test_a_wrong_section_is_told_without_what_may_be_a_key(section: dict[str, object], words: str) -> None:
    (told,) = problems(**section)

    assert told.startswith("evalgate.yaml:3:5: ")
    assert words in told
    assert KEY not in told


def test_a_section_with_a_key_in_it_does_not_repeat_it() -> None:
    with pytest.raises(ValidationError) as caught:
        JudgeConfig.model_validate({"model": "judge", "api_key": KEY, "timeout": KEY})

    assert KEY not in str(caught.value)


ENDPOINTS = [
    ({}, {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1"),
    ({}, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://proxy/v1/"}, "http://proxy/v1"),
    (
        {"base_url": "http://mine/v1/"},
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://proxy"},
        "http://mine/v1",
    ),
    (
        {"provider": "gemini"},
        {"GOOGLE_API_KEY": KEY},
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    ({"provider": "gemini"}, {"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": "x"}, PROVIDERS["gemini"].base_url),
    ({"provider": "anthropic"}, {"ANTHROPIC_API_KEY": KEY}, "https://api.anthropic.com/v1"),
    ({"provider": "deepseek"}, {"DEEPSEEK_API_KEY": KEY}, "https://api.deepseek.com"),
    ({"provider": "mistral"}, {"MISTRAL_API_KEY": KEY}, "https://api.mistral.ai/v1"),
    ({"provider": "openrouter"}, {"OPENROUTER_API_KEY": KEY}, "https://openrouter.ai/api/v1"),
    (
        {"provider": "azure"},
        {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"},
        "https://r.openai.azure.com/openai/v1",
    ),
    (
        {"provider": "azure"},
        {"AZURE_OPENAI_AD_TOKEN": KEY, "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/openai/v1/"},
        "https://r.openai.azure.com/openai/v1",
    ),
    ({"provider": "ollama", "api_key": "$MINE"}, {"MINE": f" {KEY}\n"}, "http://localhost:11434/v1"),
    ({"provider": "vllm"}, {"VLLM_API_KEY": KEY}, "http://localhost:8000/v1"),
    (
        {"provider": "${P}", "base_url": "https://${HOST}/v1", "api_key": "${MINE}"},
        {"P": "custom", "HOST": "judge.example", "MINE": KEY},
        "https://judge.example/v1",
    ),
]


@pytest.mark.parametrize(("section", "environ", "base_url"), ENDPOINTS)
def test_endpoints(section: dict[str, str], environ: dict[str, str], base_url: str) -> None:
    endpoint = resolve_endpoint(JudgeConfig.model_validate({"model": "judge", **section}), environ)

    assert endpoint.base_url == base_url
    assert endpoint.key is not None
    assert endpoint.key.get_secret_value() == KEY
    assert KEY not in repr(endpoint)


@pytest.mark.parametrize("provider", ["ollama", "vllm"])
def test_local_servers_need_no_key(provider: str) -> None:
    assert resolve_endpoint(JudgeConfig(model="m", provider=provider), {}).key is None


@pytest.mark.parametrize(
    ("section", "environ", "told"),
    [
        (
            {},
            {},
            "openai`: set OPENAI_API_KEY where evalgate runs, or name another variable as `judge.api_key: ${",
        ),
        ({}, {"OPENAI_API_KEY": " "}, "no key for provider `openai`"),
        ({"provider": "gemini"}, {}, "set GEMINI_API_KEY or GOOGLE_API_KEY where"),
        (
            {"api_key": "${MINE}"},
            {"OPENAI_API_KEY": KEY},
            "`judge.api_key` names `MINE`, which is not set in the environment: set it where evalgate runs",
        ),
        ({"api_key": "${MINE}"}, {"MINE": ""}, "`judge.api_key` is empty: ${MINE} is set to nothing (the workflow of"),
        ({"api_key": "$MINE"}, {"MINE": "kéy"}, "holds characters that no key has"),
        ({"model": "${A}-${B}"}, {"OPENAI_API_KEY": KEY}, "`judge.model` names `A` and `B`, which are not set"),
        ({"model": " "}, {"OPENAI_API_KEY": KEY}, "`judge.model` is empty"),
        ({"provider": "${P}"}, {"P": "mistrel"}, "'mistrel' is no provider that evalgate knows. Did you mean `mistral`?"),
        ({"provider": "${P}"}, {}, "`judge.provider` names `P`, which is not set"),
        ({"provider": "custom"}, {}, "`judge.base_url` is missing: provider `custom` has none of its own; give it"),
        ({"provider": "azure"}, {"AZURE_OPENAI_API_KEY": KEY}, "give it or set AZURE_OPENAI_ENDPOINT"),
        ({"base_url": "judge.example/v1"}, {"OPENAI_API_KEY": KEY}, "must be http:// or https:// with a host"),
        ({"base_url": "https://x/?key=1"}, {"OPENAI_API_KEY": KEY}, "must be http:// or https:// with a host"),
        ({"base_url": "https://[x"}, {"OPENAI_API_KEY": KEY}, "must be http:// or https:// with a host"),
        ({"base_url": ""}, {"OPENAI_API_KEY": KEY}, "must be http:// or https:// with a host"),
        ({"base_url": "https://${U}/v1"}, {"OPENAI_API_KEY": KEY, "U": f"me:{KEY}@h"}, "without a user name"),
        ({"provider": "azure", "model": "$M"}, {}, "names `M`, which is not set in the environment: set it where"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(section: dict[str, str], environ: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(told)) as caught:
        resolve_endpoint(JudgeConfig.model_validate({"model": "judge", **section}), environ)

    assert KEY not in str(caught.value)


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve_endpoint(JudgeConfig(provider="azure", model="$M"), {})

    assert str(caught.value).count("; ") == 3


def test_parameters() -> None:
    config = JudgeConfig(model="m", temperature=0, max_tokens=9, generation={"seed": 7, "temperature": 1})

    assert config.build_parameters() == {"seed": 7, "temperature": 0, "max_tokens": 9}
    assert JudgeConfig(model="m").build_parameters() == {}


def test_every_provider_says_where_it_is_documented() -> None:
    for name, provider in PROVIDERS.items():
        assert name == "custom" or provider.documentation.startswith("https://")
        assert not (provider.base_url or "").endswith("/")
        assert provider.key_variables or not provider.needs_key


def test_a_metric_may_have_its_own_values() -> None:
    config = JudgeConfig(model="m", temperature=0.5, cache=CacheConfig(mode="off"))
    other = config.apply_changes(model="n", temperature=None)

    assert (other.model, other.temperature, other.cache.mode) == ("n", None, "off")
    with pytest.raises(ValidationError):
        config.apply_changes(api_key=KEY)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-2.5-flash", ("gemini", "gemini-2.5-flash")),
        ("claude-haiku-4-5", ("anthropic", "claude-haiku-4-5")),
        ("gpt-4o-mini", ("openai", "gpt-4o-mini")),
        ("o3", ("openai", "o3")),
        ("o4-mini", ("openai", "o4-mini")),
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("openrouter/anthropic/claude-opus-5", ("openrouter", "anthropic/claude-opus-5")),
        ("ollama/llama3.3", ("ollama", "llama3.3")),
        ("custom/x", None),
        ("openai/", None),
        ("bedrock/claude", None),
        ("olmo-2", None),
        ("llama3.3", None),
        ("", None),
    ],
)
def test_whose_model_a_name_is(name: str, expected: tuple[str, str] | None) -> None:
    assert parse_model_name(name) == expected


def test_every_known_price_is_of_a_provider_that_its_name_tells() -> None:
    for name in load_known_prices():
        assert parse_model_name(name.partition("/")[2]) == tuple(name.split("/", 1))
