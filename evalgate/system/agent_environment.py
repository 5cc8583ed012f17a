"""Choose the environment variables that the agent gets: an allow-list, and the names that the user adds."""

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


class _NamePatterns:
    """Set of variable names and patterns. A pattern ends with `*`, which matches any ending of a name."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.exact = frozenset(patterns)
        self._prefixes = tuple(pattern[:-1] for pattern in self.exact if pattern.endswith("*"))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self._prefixes)


# A process with these can act as the workflow: write its outputs, read its inputs, take its identity.
_NEVER = _NamePatterns(
    (
        "GITHUB_OUTPUT",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "ACTIONS_*",
        "INPUT_*",
    )
)
_ONLY_BY_EXACT_NAME = _NamePatterns(("GITHUB_TOKEN", "GH_TOKEN", "RUNNER_*"))


def build_agent_environment(source: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables of `source` that the agent gets: those in the allow-list and in `names`.

    A name in `names` may end with `*`, which matches any ending. But GITHUB_TOKEN, GH_TOKEN and variables
    such as RUNNER_TEMP are returned only if `names` has their full names. Variables that let a process act as
    the workflow, such as GITHUB_OUTPUT, ACTIONS_* and INPUT_*, are never returned.
    """
    patterns = _NamePatterns((*_ALLOWED, *names))
    return {name: source[name] for name in sorted(source) if _is_given(name, patterns)}


def list_withheld_variables(source: Mapping[str, str], names: Iterable[str]) -> frozenset[str]:
    """Return the names of variables in `source` that the agent gets only if the user adds them to `names`.

    `names` are the names that the user has given so far. Variables that the agent can never get are left out.
    """
    given = build_agent_environment(source, names)
    return frozenset(name for name in source if name not in given and name not in _NEVER)


def list_environment_notices(source: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each name or pattern in `names` that adds nothing to the agent's environment."""
    notices = []
    for pattern in names:
        wanted = _NamePatterns([pattern])
        if any(name in wanted for name in build_agent_environment(source, [pattern])):
            continue
        withheld = [name for name in source if name in wanted]
        exact = sorted(name for name in withheld if name in _ONLY_BY_EXACT_NAME)
        if exact:
            notices.append(
                f"the environment variables {pattern} are given to the agent only by their exact names, such "
                f"as {exact[0]}"
            )
        elif withheld or pattern in _NEVER:
            notices.append(f"the environment variable {pattern} is never given to the agent")
        else:
            notices.append(f"the environment variable {pattern}, wanted for the agent, is not set")
    return tuple(notices)


def _is_given(name: str, patterns: _NamePatterns) -> bool:
    if name in _NEVER:
        return False
    return name in (patterns.exact if name in _ONLY_BY_EXACT_NAME else patterns)
