"""A connection to a GitHub repository through PyGithub, with its errors classified.

PyGithub is the optional extra `github`; it takes half a second to load, so it is loaded when it is used.

PyGithub is the optional extra `github`; it takes half a second to load, so only posting loads it.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from evalgate.ci.comment_sections import LONGEST_COMMENT
from evalgate.ci.events import HeadCommit
from evalgate.ci.post_result import (
    GivenUp,
    Gone,
    Passing,
    Patience,
    TooLong,
    Trouble,
    describe_giving_up,
    redactor_of,
    seconds,
    sorted_out,
)
from evalgate.ci.sticky_comment import Comment
from evalgate.core.extras import describe_install
from evalgate.core.frozen import frozen
from evalgate.redaction.redactor import Redactor

if TYPE_CHECKING:
    from github import GithubException
    from github.IssueComment import IssueComment
    from github.PullRequestPart import PullRequestPart
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


class GitHub:
    """One repository. Every method raises Trouble, and nothing else, when GitHub does not do as asked."""

    def __init__(self, account: Account, patience: Patience) -> None:
        connection = connect(account, patience)
        self._repository, self._sorted_out = connection.repository, connection.sorted_out

    def comments(self, pull: int) -> list[Comment]:
        """All comments of a pull request, oldest first."""
        with self._sorted_out():
            return [_read(each) for each in self._repository.get_issue(pull).get_comments()]

    def create_comment(self, pull: int, body: str) -> Comment:
        """A new comment."""
        with self._sorted_out():
            return _read(self._repository.get_issue(pull).create_comment(body))

    def edit_comment(self, pull: int, number: int, body: str) -> Comment:
        """Another body for a comment."""
        with self._sorted_out():
            comment = self._repository.get_issue(pull).get_comment(number)
            comment.edit(body)
            return _read(comment)

    def delete_comment(self, pull: int, number: int) -> None:
        """Remove a comment; one that is gone already is no trouble."""
        try:
            with self._sorted_out():
                self._repository.get_issue(pull).get_comment(number).delete()
        except Gone:
            return

    def open_pulls_of(self, head: HeadCommit) -> list[int]:
        """The numbers of the open pull requests whose newest commit this is."""
        with self._sorted_out():
            found = self._repository.get_commit(head.sha).get_pulls()
            return [each.number for each in found if each.state == "open" and _is_at(each.head, head)]

    def create_check(
        self, name: str, head_sha: str, external_id: str, output: dict[str, Any], conclusion: str
    ) -> tuple[int, str]:
        """Create a check run and return its id and its page; `conclusion` "": it is not over."""
        with self._sorted_out():
            run = self._repository.create_check_run(
                name, head_sha, external_id=external_id, output=output, **_state(conclusion)
            )
            return run.id, run.html_url

    def find_check(self, name: str, head_sha: str, external_id: str) -> tuple[int, str] | None:
        """Return the id and the page of the check run with our `external_id`; None if there is none."""
        with self._sorted_out():
            # By default GitHub lists only the newest check run of each name, which may be another job's.
            found = self._repository.get_commit(head_sha).get_check_runs(check_name=name, filter="all")
            return next(((run.id, run.html_url) for run in found if run.external_id == external_id), None)

    def count_annotations(self, number: int) -> int:
        """Return how many annotations a check run has."""
        with self._sorted_out():
            return int(self._repository.get_check_run(number).output.annotations_count)

    def extend_check(self, number: int, output: dict[str, Any], conclusion: str) -> None:
        """More annotations for a check run; `conclusion` "": it is not over yet."""
        with self._sorted_out():
            self._repository.get_check_run(number).edit(output=output, **_state(conclusion))


@dataclass(frozen=True)
class PullRequestThread:
    """The comments of one pull request; see `evalgate.ci.sticky_comment.Thread`."""

    github: GitHub
    pull: int
    login: str
    """Whom the token speaks for: GitHub tells a workflow's token nothing of itself."""

    host = "GitHub"
    longest = LONGEST_COMMENT

    def author(self) -> str:
        """See `Thread`."""
        return self.login

    def comments(self) -> list[Comment]:
        """See `Thread`."""
        return self.github.comments(self.pull)

    def create_comment(self, body: str) -> Comment:
        """See `Thread`."""
        return self.github.create_comment(self.pull, body)

    def edit_comment(self, number: int, body: str) -> Comment:
        """See `Thread`."""
        return self.github.edit_comment(self.pull, number, body)

    def delete_comment(self, number: int) -> None:
        """See `Thread`."""
        self.github.delete_comment(self.pull, number)


def _state(conclusion: str) -> dict[str, Any]:
    return {"status": "completed", "conclusion": conclusion} if conclusion else {"status": "in_progress"}


def _is_at(there: "PullRequestPart", head: HeadCommit) -> bool:
    repository = there.repo.full_name if there.repo else ""  # a fork can be deleted
    return (
        there.sha == head.sha
        and head.branch in {"", there.ref}
        and (not head.repository or head.repository == repository)
    )


def _read(comment: "IssueComment") -> Comment:
    user = comment.user
    return Comment(int(comment.id), user.login if user else "", comment.body or "", str(comment.html_url))
