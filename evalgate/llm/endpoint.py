"""Resolve the endpoint of a model (provider, base URL, model and key), and expand environment variables."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import SecretStr

from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.providers import PROVIDERS, Provider
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import join_quoted
from evalgate.core.frozen import frozen
from evalgate.documents.env_expansion import expand_go_env
from evalgate.redaction.encodings import iter_spellings

_SHORTEST_SECRET = 6
"""Fewest characters of a key that is redacted. Shorter keys (`none`, `x`) are placeholders for local
servers."""


@frozen
class ModelEndpoint:
    """OpenAI-compatible endpoint with one of its models. The repr does not show the key."""

    name: str
    """Name of the provider."""
    provider: Provider
    base_url: str
    """The URL without a final slash."""
    model: str
    """Name of the configured model."""
    key: SecretStr | None
    """The API key; None if the provider needs no key, and none is set."""

    def get_price_name(self, model: str = "") -> str:
        """Return the model's name in the price table: `provider/model`. "" means the configured model."""
        return f"{self.name}/{model or self.model}"

    def redact_key(self, text: str) -> str:
        """Return `text` with `[key]` in place of the API key, plain or encoded (JSON, URL, HTML, base64).

        A key of fewer than 6 characters stays, because it is a placeholder such as `none`, and no secret.
        """
        for needle in iter_spellings(self.key.get_secret_value()) if self.key else ():
            text = text.replace(needle, "[key]") if len(needle) >= _SHORTEST_SECRET else text
        return text


def resolve_endpoint(config: JudgeConfig, environ: Mapping[str, str]) -> ModelEndpoint:
    """Return the endpoint that a configuration describes.

    Raises:
        InvalidInputError: a setting is missing or wrong. The error lists every problem, without the key.
    """
    problems: list[str] = []
    name = _expand_setting("provider", config.provider, environ, problems)
    model = _expand_setting("model", config.model, environ, problems)
    provider = PROVIDERS.get(name)
    if provider is None:
        if not problems:
            hint = did_you_mean(name, PROVIDERS) or f" Known: {join_quoted(sorted(PROVIDERS))}."
            problems.append(f"`judge.provider`: {name!r} is no provider that evalgate knows.{hint}")
        raise InvalidInputError("; ".join(problems))
    base_url = _resolve_base_url(config, name, provider, environ, problems)
    key = _resolve_key(config, name, provider, environ, problems)
    if not model and not problems:
        problems.append("`judge.model` is empty: name the model that judges")
    if problems:
        raise InvalidInputError("; ".join(problems))
    return ModelEndpoint(name, provider, base_url, model, key)


def _expand_setting(field: str, text: str, environ: Mapping[str, str], problems: list[str]) -> str:
    expansion = expand_go_env(text, environ)
    value = expansion.text.strip()
    if missing := list(dict.fromkeys(expansion.unset)):
        are = "is" if len(missing) == 1 else "are"
        problems.append(
            f"`judge.{field}` names {join_quoted(missing)}, which {are} not set in the environment: "
            "set it where evalgate runs (in a workflow, as `env:`)"
        )
    elif text and not value:
        problems.append(
            f"`judge.{field}` is empty: {text} is set to nothing "
            "(the workflow of a fork's pull request sees no secrets)"
        )
    return value


def _resolve_base_url(
    config: JudgeConfig, name: str, provider: Provider, environ: Mapping[str, str], problems: list[str]
) -> str:
    variable = provider.base_url_variable
    if config.base_url is not None:
        url = _expand_setting("base_url", config.base_url, environ, problems)
    elif variable and environ.get(variable, "").strip():
        url = environ[variable].strip().rstrip("/")
        url += "" if url.endswith(provider.base_url_suffix) else provider.base_url_suffix
    elif provider.base_url is not None:
        url = provider.base_url
    else:
        or_variable = f" or set {variable}" if variable else ""
        problems.append(
            f"`judge.base_url` is missing: provider `{name}` has none of its own; give it{or_variable}"
        )
        return ""
    # An empty value of a variable is reported already.
    if (url or config.base_url == "") and not _is_valid_url(url):
        problems.append(
            "`judge.base_url` must be http:// or https:// with a host, and without a user name, password, "
            "query or fragment"
        )
    return url.rstrip("/")


def _is_valid_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        return False


def _resolve_key(
    config: JudgeConfig, name: str, provider: Provider, environ: Mapping[str, str], problems: list[str]
) -> SecretStr | None:
    if config.api_key is not None:
        value = _expand_setting("api_key", config.api_key, environ, problems)
        return _check_key(value, problems)
    value = next(
        (environ[each].strip() for each in provider.key_variables if environ.get(each, "").strip()), ""
    )
    if not value and provider.needs_key:
        problems.append(
            f"no key for provider `{name}`: set {' or '.join(provider.key_variables)} where evalgate runs, "
            "or name another variable as `judge.api_key: ${NAME}`"
        )
    return _check_key(value, problems)


def _check_key(key: str, problems: list[str]) -> SecretStr | None:
    if not key:
        return None
    if not key.isascii() or not key.isprintable():
        problems.append("the variable of the judge's key holds characters that no key has: copy it again")
    return SecretStr(key)
