"""The providers of models, and the model names that identify their provider."""

import re
from collections.abc import Mapping
from typing import Literal

from evalgate.core.frozen import frozen

CUSTOM = "custom"


@frozen
class Provider:
    """Properties of a provider's API. Requests go to its base URL followed by `chat/completions`."""

    base_url: str | None
    """None: the user must set `base_url`."""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the API key; the first variable that is set counts."""
    needs_key: bool = True
    base_url_variable: str | None = None
    """Environment variable that may hold a base URL to use instead of `base_url`."""
    base_url_suffix: str = ""
    """Text appended to the URL in `base_url_variable`, unless the URL already ends with it."""
    schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    """Type of `response_format` that the endpoint supports."""
    length_parameter: str = "max_tokens"
    """Name of the request's parameter that limits the answer's length in tokens."""
    documentation: str = ""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        length_parameter="max_completion_tokens",
        documentation="https://developers.openai.com/api/docs",
    ),
    "azure": Provider(
        None,
        ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        base_url_suffix="/openai/v1",
        length_parameter="max_completion_tokens",
        documentation="https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle",
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        documentation="https://ai.google.dev/gemini-api/docs/openai",
    ),
    "anthropic": Provider(
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        schema="none",  # ignored, says the documentation
        documentation="https://platform.claude.com/docs/en/cli-sdks-libraries/libraries/openai-sdk",
    ),
    "deepseek": Provider(
        "https://api.deepseek.com",
        ("DEEPSEEK_API_KEY",),
        schema="json_object",
        documentation="https://api-docs.deepseek.com",
    ),
    "mistral": Provider(
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        documentation="https://docs.mistral.ai/api",
    ),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        documentation="https://openrouter.ai/docs/api-reference",
    ),
    "ollama": Provider(
        "http://localhost:11434/v1",
        ("OLLAMA_API_KEY",),
        needs_key=False,
        documentation="https://docs.ollama.com/api/openai-compatibility",
    ),
    "vllm": Provider(
        "http://localhost:8000/v1",
        ("VLLM_API_KEY",),
        needs_key=False,
        documentation="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    ),
    CUSTOM: Provider(None, needs_key=False),
}


_FAMILIES: Mapping[str, str] = {
    "openai": r"gpt-|chatgpt-|o\d(-|$)",
    "gemini": r"gemini-",
    "anthropic": r"claude-",
    "deepseek": r"deepseek-",
    "mistral": r"(mistral|ministral|magistral|codestral|pixtral|devstral)-",
}
"""Provider to a pattern for the beginning of a model's name. No other provider has models with such
names."""


def parse_model_name(name: str) -> tuple[str, str] | None:
    """Return (provider, model) for a name such as `gemini-2.5-flash`, or `openai/gpt-4o` as in LiteLLM.

    Return None if the name does not identify the provider.
    """
    prefix, slash, rest = name.partition("/")
    if slash:
        return (prefix, rest) if prefix in PROVIDERS and prefix != CUSTOM and rest else None
    return next(
        ((provider, name) for provider, pattern in _FAMILIES.items() if re.match(pattern, name)), None
    )
