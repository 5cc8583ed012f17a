"""Providers with an OpenAI-compatible endpoint: where it is, and which variable holds the key."""

from collections.abc import Mapping
from typing import Literal

from evalgate.frozen import frozen

CUSTOM = "custom"


@frozen
class Provider:
    """What is the provider's own. Every base URL ends where `chat/completions` begins."""

    base_url: str | None
    """None: the user must say."""
    key_variables: tuple[str, ...] = ()
    """Variables that hold the key; the first that is set."""
    needs_key: bool = True
    base_url_variable: str | None = None
    """Variable that holds another base URL."""
    base_url_suffix: str = ""
    """Follows what `base_url_variable` holds."""
    schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    """What the endpoint does with a `response_format`."""
    length_parameter: str = "max_tokens"
    """Its name for the longest answer."""
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
