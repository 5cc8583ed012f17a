"""Whose model a bare name is, for files of other ecosystems that name a model and no provider."""

import re
from collections.abc import Mapping

from evalgate.judge.providers import CUSTOM, PROVIDERS

_FAMILIES: Mapping[str, str] = {
    "openai": r"gpt-|chatgpt-|o\d(-|$)",
    "gemini": r"gemini-",
    "anthropic": r"claude-",
    "deepseek": r"deepseek-",
    "mistral": r"(mistral|ministral|magistral|codestral|pixtral|devstral)-",
}
"""Patterns that the beginning of a name matches, of models that only the provider itself names so."""


def named_model(name: str) -> tuple[str, str] | None:
    """Provider and model for `gemini-2.5-flash`, or for `openai/gpt-4o` as LiteLLM writes it.

    None when the name does not tell: nothing is guessed.
    """
    prefix, slash, rest = name.partition("/")
    if slash:
        return (prefix, rest) if prefix in PROVIDERS and prefix != CUSTOM and rest else None
    return next(
        ((provider, name) for provider, pattern in _FAMILIES.items() if re.match(pattern, name)), None
    )
