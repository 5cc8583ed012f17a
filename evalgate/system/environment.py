"""The environment that an agent gets: an allow-list, never the gate's own."""

from collections.abc import Iterable, Mapping

_PERSON = ("HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TEMP", "TMP", "CI")
_LANGUAGE = ("LANG", "LANGUAGE", "LC_*")
# LD_LIBRARY_PATH: interpreters outside the system's folders (actions/setup-python) do not start without it.
_PROGRAMS = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "NODE_PATH")
_CERTIFICATES = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_ALLOWED = (
    *_PERSON,
    *_LANGUAGE,
    *_PROGRAMS,
    *_CERTIFICATES,
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
)

# Whoever holds these can act as the workflow: write its outputs, read its inputs, take its identity.
_NEVER = (
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STATE",
    "GITHUB_STEP_SUMMARY",
    "ACTIONS_*",
    "INPUT_*",
)
_ONLY_BY_EXACT_NAME = ("GITHUB_TOKEN", "GH_TOKEN", "RUNNER_*")


def agent_environment(source: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """What of `source` the agent gets: the allow-list and `names`; a trailing `*` stands for any ending."""
    patterns = [*_ALLOWED, *names]
    return {name: source[name] for name in sorted(source) if _is_given(name, patterns)}


def withheld_variables(source: Mapping[str, str], names: Iterable[str]) -> frozenset[str]:
    """Return the variables of `source` that the agent does not get, and would if `names` held them."""
    given = agent_environment(source, names)
    return frozenset(name for name in source if name not in given and not _is_listed(name, _NEVER))


def environment_notices(source: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """One sentence for each of `names` that the agent does not get."""
    notices = []
    for pattern in names:
        given = agent_environment(source, [pattern])
        if any(_matches(name, pattern) for name in given):
            continue
        if not pattern.endswith("*") and _is_listed(pattern, _NEVER):
            notices.append(f"the environment variable {pattern} is never given to the agent")
        else:
            notices.append(f"the environment variable {pattern}, wanted for the agent, is not set")
    return tuple(notices)


def _is_given(name: str, patterns: list[str]) -> bool:
    if _is_listed(name, _NEVER):
        return False
    if _is_listed(name, _ONLY_BY_EXACT_NAME):
        return name in patterns
    return _is_listed(name, patterns)


def _is_listed(name: str, patterns: Iterable[str]) -> bool:
    return any(_matches(name, pattern) for pattern in patterns)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
