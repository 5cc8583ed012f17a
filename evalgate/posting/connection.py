"""A connection to a repository of GitHub, through PyGithub, and what goes wrong with it sorted.

PyGithub is the optional extra `github`; it takes half a second to load, so it is loaded when it is used.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from evalgate.extras import describe_install
from evalgate.frozen import frozen
from evalgate.posting.outcome import GivenUp, Gone, Passing, Patience, TooLong, Trouble
from evalgate.posting.troubles import describe_giving_up, redactor_of, seconds, sorted_out
from evalgate.redaction import Redactor

if TYPE_CHECKING:
    from github import GithubException
    from github.Repository import Repository

DEFAULT_API = "https://api.github.com"

_NAME = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.\-]{1,100}"
_REPOSITORY = re.compile(f"{_NAME}/{_NAME}")
_T = TypeVar("_T")


@frozen
class Account:
    """Who posts, and where."""

    token: str
    repository: str
    """`owner/name`."""
    api_url: str = DEFAULT_API

    def __repr__(self) -> str:
        return f"Account(repository={self.repository!r}, api_url={self.api_url!r})"

    @classmethod
    def of(cls, environ: Mapping[str, str], token: str) -> "Account":
        """From GITHUB_REPOSITORY and, on GitHub Enterprise, GITHUB_API_URL."""
        return cls(token, environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_API_URL") or DEFAULT_API)


@frozen
class Connection:
    """A repository, and whose business with it is sorted out."""

    repository: "Repository"
    redactor: Redactor

    def sorted_out(self) -> AbstractContextManager[None]:
        """Whatever the client raises, as Trouble without a secret in it, and without its cause."""
        return sorted_out(_trouble, self.redactor)


def connect(account: Account, patience: Patience) -> Connection:
    """A connection to the account's repository. Nothing is asked of GitHub yet.

    Raises:
        Trouble: there is no token, or no such name of a repository; and nothing else.
    """
    redactor = redactor_of(account.token)
    if not account.token.strip():
        raise Trouble("there is no token", kind="skipped")
    if not _REPOSITORY.fullmatch(account.repository):
        raise Trouble("GITHUB_REPOSITORY is not `owner/name`")
    with sorted_out(_trouble, redactor):
        return Connection(_repository(account, patience), redactor)


def _repository(account: Account, patience: Patience) -> "Repository":
    try:
        import github
    except ImportError:
        raise Trouble(f"this needs PyGithub: {describe_install('github')}") from None
    client = github.Github(
        auth=github.Auth.Token(account.token),
        base_url=account.api_url.rstrip("/"),
        timeout=patience.request_s,
        per_page=100,
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=patience.between_writes_s,
        user_agent="evalgate",
        lazy=True,
    )
    return client.get_repo(account.repository)


def _trouble(error: Exception) -> Trouble:
    from github import GithubException, IncompletableObject
    from requests import RequestException

    if isinstance(error, GithubException) and not isinstance(error, IncompletableObject):
        return _refusal(error)
    if isinstance(error, RequestException):
        return Passing(f"GitHub cannot be reached ({type(error).__name__})")
    return Passing(f"GitHub's answer makes no sense ({type(error).__name__})")


def _refusal(error: "GithubException") -> Trouble:
    data = error.data if isinstance(error.data, dict) else {}
    said = f"GitHub answered {error.status}: {data.get('message') or 'no reason given'}"
    if error.status in {403, 429}:
        return _forbidden(error, said)
    if error.status in {404, 410}:
        return Gone(f"{said} (is it there, and may the token see it?)")
    if error.status == 422:
        return TooLong(said) if "too long" in str(data) else Trouble(f"{said} {data.get('errors', '')}")
    if error.status == 401:
        return Trouble(f"{said} (the token is wrong or has expired)")
    return Passing(said) if error.status == 408 or error.status >= 500 else Trouble(said)


def _forbidden(error: "GithubException", said: str) -> Trouble:
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if "retry-after" in headers:
        return Passing(said, seconds(headers["retry-after"], 60.0))
    if headers.get("x-ratelimit-remaining") == "0":
        return Passing(said, max(1.0, seconds(headers.get("x-ratelimit-reset"), 0.0) - time.time()))
    if error.status == 429 or "rate limit" in said.lower() or "abuse" in said.lower():
        return Passing(said, 60.0)  # as GitHub's documentation asks when no header says more
    return Trouble(
        f"{said} (the token may not do this; in a pull request from a fork it may only read)", kind="skipped"
    )


def persistent(
    attempt: Callable[[], _T], patience: Patience, deadline: float, *, jitter: Callable[[], float]
) -> _T:
    """What `attempt` gives, tried again while its trouble is passing and `deadline` (monotonic) allows.

    Raises:
        Trouble: it is not passing, or lasts too long.
    """
    began, pause = time.monotonic(), patience.pause_s
    while True:
        try:
            return attempt()
        except Passing as trouble:
            wait = max(trouble.wait_s, pause * (0.5 + jitter()))
            if time.monotonic() + wait > deadline:
                how = describe_giving_up(time.monotonic() - began, trouble.wait_s)
                raise GivenUp(f"{trouble} ({how})") from None
        time.sleep(wait)
        pause = min(2 * pause, patience.longest_pause_s)
