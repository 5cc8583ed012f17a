"""Client for one GitHub repository, built on PyGithub. It raises `TransientError` if a retry can help.

PyGithub is in the optional extra `github`. It takes half a second to load, so it is loaded only when a
connection is opened.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from evalgate.ci.comment_sections import LONGEST_COMMENT
from evalgate.ci.github_event import HeadCommit
from evalgate.ci.posting import (
    CommentTooLongError,
    NotFoundError,
    PostError,
    PostTimeouts,
    RetriesExhaustedError,
    TransientError,
    build_token_redactor,
    describe_giving_up,
    parse_seconds,
    translate_errors,
)
from evalgate.ci.sticky_comment import Comment
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.redaction.redactor import Redactor

if TYPE_CHECKING:
    from github import GithubException
    from github.Issue import Issue
    from github.IssueComment import IssueComment
    from github.PullRequestPart import PullRequestPart
    from github.Repository import Repository


DEFAULT_API = "https://api.github.com"

_NAME = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.\-]{1,100}"
_REPOSITORY = re.compile(f"{_NAME}/{_NAME}")
_T = TypeVar("_T")


@frozen
class Account:
    """The token and the repository to post with."""

    token: str
    repository: str
    """The repository as `owner/name`."""
    api_url: str = DEFAULT_API

    def __repr__(self) -> str:
        return f"Account(repository={self.repository!r}, api_url={self.api_url!r})"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], token: str) -> "Account":
        """Build an account from `token` and the environment variables of GitHub Actions.

        GITHUB_REPOSITORY names the repository, "" by default. GITHUB_API_URL names the API, `DEFAULT_API` by
        default.
        """
        return cls(token, environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_API_URL") or DEFAULT_API)


@frozen
class GitHubConnection:
    """A PyGithub repository, and the redactor that hides the token in error messages."""

    repository: "Repository"
    redactor: Redactor
    permission: str = ""
    """Permission that error messages ask for, such as `checks: write`; "" to ask for none."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that turns PyGithub's errors into `PostError`, without secrets."""
        return translate_errors(partial(_to_post_error, permission=self.permission), self.redactor)


def build_connection(account: Account, timeouts: PostTimeouts, permission: str = "") -> GitHubConnection:
    """Build a connection to the account's repository. No request is sent yet.

    `permission`, such as `checks: write`, is the permission that error messages ask for if the token may not
    carry out a request; "" to ask for none.

    Raises:
        PostError: the token is empty, the repository has no valid name, or PyGithub is missing or fails.
    """
    redactor = build_token_redactor(account.token)
    if not account.token.strip():
        raise PostError("there is no token", kind="skipped")
    if not _REPOSITORY.fullmatch(account.repository):
        raise PostError("GITHUB_REPOSITORY is not `owner/name`")
    with translate_errors(_to_post_error, redactor):
        return GitHubConnection(_open_repository(account, timeouts), redactor, permission)


def _open_repository(account: Account, timeouts: PostTimeouts) -> "Repository":
    try:
        import github
    except ImportError:
        raise PostError(f"this needs PyGithub: {describe_install('github')}") from None
    # PyGithub must not retry: only evalgate knows how much time a post has left.
    # `lazy` saves the request for the repository, of which only the name is needed.
    client = github.Github(
        auth=github.Auth.Token(account.token),
        base_url=account.api_url.rstrip("/"),
        timeout=timeouts.request_s,
        per_page=100,
        retry=None,
        seconds_between_requests=None,
        seconds_between_writes=timeouts.between_writes_s,
        user_agent="evalgate",
        lazy=True,
    )
    return client.get_repo(account.repository)


def _to_post_error(error: Exception, permission: str = "") -> PostError:
    from github import GithubException, IncompletableObject
    from requests import RequestException

    # IncompletableObject has no status: GitHub's answer lacked a URL that it should have.
    if isinstance(error, GithubException) and not isinstance(error, IncompletableObject):
        return _classify_github_error(error, permission)
    if isinstance(error, RequestException):
        return TransientError(f"GitHub cannot be reached ({type(error).__name__})")
    return TransientError(f"GitHub's answer makes no sense ({type(error).__name__})")


def _classify_github_error(error: "GithubException", permission: str) -> PostError:
    data = error.data if isinstance(error.data, dict) else {}
    answer = f"GitHub answered {error.status}: {data.get('message') or 'no reason given'}"
    if error.status in {403, 429}:
        return _classify_forbidden(error, answer, permission)
    if error.status in {404, 410}:
        return NotFoundError(f"{answer} (is it there, and may the token see it?)")
    if error.status == 422:
        return (
            CommentTooLongError(answer)
            if "too long" in str(data)
            else PostError(f"{answer} {data.get('errors', '')}")
        )
    if error.status == 401:
        return PostError(f"{answer} (the token is wrong or has expired)")
    return TransientError(answer) if error.status == 408 or error.status >= 500 else PostError(answer)


def _classify_forbidden(error: "GithubException", answer: str, permission: str) -> PostError:
    # GitHub reports its rate limits as 403 as well as 429; only the headers and the text tell them apart.
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if "retry-after" in headers:
        return TransientError(answer, parse_seconds(headers["retry-after"], 60.0))
    if headers.get("x-ratelimit-remaining") == "0":
        return TransientError(
            answer, max(1.0, parse_seconds(headers.get("x-ratelimit-reset"), 0.0) - time.time())
        )
    if error.status == 429 or "rate limit" in answer.lower() or "abuse" in answer.lower():
        return TransientError(answer, 60.0)  # GitHub's documentation asks for a minute if no header says more
    # GitHub's message is another one if no permission would help, as for a locked conversation.
    is_permission = permission and "not accessible" in answer
    remedy = f": the job needs `permissions: {permission}`" if is_permission else ""
    return PostError(
        f"{answer} (the token may not do this{remedy}; in a pull request from a fork it may only read)",
        kind="skipped",
    )


def retry_transient(
    attempt: Callable[[], _T], timeouts: PostTimeouts, deadline: float, *, jitter: Callable[[], float]
) -> _T:
    """Call `attempt` and return its result. Repeat the call while it raises `TransientError`.

    Args:
        attempt: The request.
        timeouts: The limits of the pauses between attempts.
        deadline: The time of `time.monotonic()` after which no attempt is repeated.
        jitter: Function that returns a random number from 0 to 1.

    Raises:
        RetriesExhaustedError: the next attempt could begin only after the deadline.
        PostError: `attempt` raised an error that is not transient.
    """
    began, pause = time.monotonic(), timeouts.pause_s
    while True:
        try:
            return attempt()
        except TransientError as error:
            # Jitter, so that the legs of a matrix, which began together, do not ask again together.
            wait = max(error.wait_s, pause * (0.5 + jitter()))
            if time.monotonic() + wait > deadline:
                how = describe_giving_up(time.monotonic() - began, error.wait_s)
                raise RetriesExhaustedError(f"{error} ({how})") from None
        time.sleep(wait)
        pause = min(2 * pause, timeouts.longest_pause_s)


class GitHubClient:
    """Requests to one repository. The constructor and the methods raise no error except `PostError`."""

    def __init__(self, account: Account, timeouts: PostTimeouts, permission: str) -> None:
        connection = build_connection(account, timeouts, permission)
        self._repository, self._translate_errors = connection.repository, connection.translate_errors

    def list_open_pulls(self, head: HeadCommit) -> list[int]:
        """Return the numbers of the open pull requests that have `head` as their newest commit.

        If `head` names a repository or branch, pull requests from elsewhere are left out.
        """
        with self._translate_errors():
            found = self._repository.get_commit(head.sha).get_pulls()
            return [each.number for each in found if each.state == "open" and _has_head(each.head, head)]

    def create_check(
        self,
        name: str,
        head_sha: str,
        external_id: str,
        output: dict[str, Any],
        conclusion: str,
        actions: list[dict[str, str]],
    ) -> tuple[int, str]:
        """Create a check run and return its id and URL. It stays in progress if `conclusion` is ""."""
        more: dict[str, Any] = {"actions": actions} if actions else {}
        with self._translate_errors():
            run = self._repository.create_check_run(
                name, head_sha, external_id=external_id, output=output, **_build_status(conclusion), **more
            )
            return run.id, run.html_url

    def find_check(self, name: str, head_sha: str, external_id: str) -> tuple[int, str] | None:
        """Return the id and URL of the check run with this `external_id`, or None if it does not exist."""
        with self._translate_errors():
            # By default GitHub lists only the newest check run of each name, which may be another job's.
            found = self._repository.get_commit(head_sha).get_check_runs(check_name=name, filter="all")
            return next(((run.id, run.html_url) for run in found if run.external_id == external_id), None)

    def count_annotations(self, number: int) -> int:
        """Return the number of annotations of the check run with the id `number`."""
        with self._translate_errors():
            return int(self._repository.get_check_run(number).output.annotations_count)

    def extend_check(self, number: int, output: dict[str, Any], conclusion: str) -> None:
        """Add annotations to the check run with the id `number`.

        The check run stays in progress if `conclusion` is "".
        """
        with self._translate_errors():
            self._repository.get_check_run(number).edit(output=output, **_build_status(conclusion))


@dataclass(frozen=True)
class PullRequestThread:
    """The comments of one pull request, as a `CommentThread`.

    GitHub stores these comments as comments of an issue. "Review comments", which belong to lines of code,
    are not used.
    """

    connection: GitHubConnection
    pull: int
    login: str
    """The configured login of the token's account. GitHub does not tell the login for a workflow's token."""

    host = "GitHub"
    longest = LONGEST_COMMENT

    def get_author(self) -> str:
        """Return the login of the token's account from the configuration, without a request to GitHub."""
        return self.login

    def list_comments(self) -> list[Comment]:
        """Return all comments of the pull request, oldest first."""
        with self.connection.translate_errors():
            return [_to_comment(each) for each in self._get_issue().get_comments()]

    def create_comment(self, body: str) -> Comment:
        """Create a comment under the pull request."""
        with self.connection.translate_errors():
            return _to_comment(self._get_issue().create_comment(body))

    def edit_comment(self, number: int, body: str) -> Comment:
        """Replace the text of a comment and return the new comment."""
        with self.connection.translate_errors():
            comment = self._get_issue().get_comment(number)
            comment.edit(body)
            return _to_comment(comment)

    def delete_comment(self, number: int) -> None:
        """Delete a comment. Do nothing if it does not exist any more."""
        try:
            with self.connection.translate_errors():
                self._get_issue().get_comment(number).delete()
        except NotFoundError:
            return

    def _get_issue(self) -> "Issue":
        return self.connection.repository.get_issue(self.pull)


def _build_status(conclusion: str) -> dict[str, Any]:
    return {"status": "completed", "conclusion": conclusion} if conclusion else {"status": "in_progress"}


def _has_head(part: "PullRequestPart", head: HeadCommit) -> bool:
    repository = part.repo.full_name if part.repo else ""  # a fork can be deleted
    return (
        part.sha == head.sha
        and head.branch in {"", part.ref}
        and (not head.repository or head.repository == repository)
    )


def _to_comment(comment: "IssueComment") -> Comment:
    user = comment.user
    return Comment(int(comment.id), user.login if user else "", comment.body or "", str(comment.html_url))
