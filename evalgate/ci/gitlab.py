"""Post a note (a comment) to the merge request of a GitLab CI job.

Requests are sent by python-gitlab, which is in the optional extra `gitlab` and is loaded only for posting.
The functions report failures as `PostResult` or `PostNotice`. They do not raise GitLab's errors.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from evalgate.ci.comment_sections import CommentSection
from evalgate.ci.posting import (
    MAX_SECTION_CHARACTERS,
    CommentTooLongError,
    NoPullRequest,
    NotFoundError,
    PostContent,
    PostError,
    PostNotice,
    PostOptions,
    PostResult,
    PostTimeouts,
    TransientError,
    build_section,
    build_token_redactor,
    parse_seconds,
    to_post_notice,
    translate_errors,
)
from evalgate.ci.sticky_comment import Comment, CommentThread, post_sticky_comment
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install

if TYPE_CHECKING:
    from gitlab import Gitlab
    from requests import Session

LONGEST_NOTE = 1_000_000
"""Maximum number of characters of a note's body. GitLab answers 400 to a longer body."""

_API = re.compile(r"(https?://[^\s?#@]+?)/api/v4/?")
_PROJECT = re.compile(r"[1-9]\d{0,18}")
_IID = re.compile(r"[1-9]\d{0,8}")
_ONCE: Mapping[str, Any] = {"obey_rate_limit": False, "max_retries": 0}
"""Options that turn off python-gitlab's retries, because only `StickyComment` knows the time left."""
_RATE_LIMIT_S = 60.0  # GitLab's limits are per minute
_TOKEN_ENVS = ("EVALGATE_GITLAB_TOKEN", "GITLAB_TOKEN")
_PIPELINE = ("CI_PIPELINE_ID", "CI_JOB_ID")
"""Environment variables that hold the numbers of run and attempt. A repeated job has a new CI_JOB_ID."""
_NO_CHECKS = "GitLab has none: it shows the Code Quality report instead"

_WHY_NOT = {
    401: "the token is wrong or has expired; CI_JOB_TOKEN cannot write notes",
    403: "the token may not write here: it needs the scope `api`",
}


def is_gitlab_ci(environ: Mapping[str, str]) -> bool:
    """Return True if GitLab's runner started this process."""
    return environ.get("GITLAB_CI") == "true"


def post_merge_request(
    content: PostContent,
    options: PostOptions,
    on_notice: Callable[[PostNotice], None],
    *,
    environ: Mapping[str, str],
    timeouts: PostTimeouts | None = None,
) -> None:
    """Post a note if `options` ask for a comment, and pass a notice about it to `on_notice`.

    If `options` ask for a check run, another notice states that GitLab has no check runs.
    """
    if options.comment:
        names = (options.token_env,) if options.token_env else _TOKEN_ENVS
        token = next(filter(None, (environ.get(name, "") for name in names)), "")
        result = post_note(
            find_merge_request(environ, token),
            options.name,
            build_section(options, content.render_comment(MAX_SECTION_CHARACTERS), environ, _PIPELINE),
            shared=bool(options.section),
            shorter=content.render_comment,
            timeouts=timeouts,
        )
        on_notice(to_post_notice("note", result, content.verdict))
    if options.check:
        on_notice(to_post_notice("check run", PostResult("skipped", _NO_CHECKS), content.verdict))


@frozen
class MergeRequest:
    """A merge request, and the token to write to it."""

    token: str
    server: str
    """The URL of GitLab, such as `https://gitlab.example.com`; with a path if GitLab is served from one."""
    project: int
    """Id of the project that the merge request is opened in. The pipeline of a fork is in another project."""
    iid: int
    page: str = ""
    """The URL of the merge request; "" if unknown."""
    ca_file: str = ""
    """A file with certificates that are trusted in addition to those that `requests` trusts; "" for none."""

    def __repr__(self) -> str:
        return f"MergeRequest(server={self.server!r}, project={self.project}, iid={self.iid})"


def find_merge_request(environ: Mapping[str, str], token: str) -> MergeRequest | NoPullRequest:
    """Return the merge request of the current pipeline, or a `NoPullRequest` with the reason.

    The merge request is read from GitLab's predefined variables. No request is sent.
    """
    iid = environ.get("CI_MERGE_REQUEST_IID", "")
    if not iid:
        return NoPullRequest("this pipeline is not for a merge request: run the job for merge_request_event")
    api = _API.fullmatch(environ.get("CI_API_V4_URL", ""))
    project = environ.get("CI_MERGE_REQUEST_PROJECT_ID") or environ.get("CI_PROJECT_ID", "")
    if not api or not _PROJECT.fullmatch(project) or not _IID.fullmatch(iid):
        return NoPullRequest("CI_API_V4_URL, CI_PROJECT_ID or CI_MERGE_REQUEST_IID is not as GitLab sets it")
    home = environ.get("CI_MERGE_REQUEST_PROJECT_URL", "")
    page = f"{home}/-/merge_requests/{iid}" if home else ""
    return MergeRequest(token, api[1], int(project), int(iid), page, environ.get("CI_SERVER_TLS_CA_FILE", ""))


def post_note(
    request: MergeRequest | NoPullRequest,
    gate: str,
    section: CommentSection,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    timeouts: PostTimeouts | None = None,
) -> PostResult:
    """Post or update the gate's single note under a merge request of GitLab.

    The account of the token is requested from GitLab. A failure is returned as a result.

    Args:
        request: The merge request. For a `NoPullRequest`, the result is `skipped`, with the same reason.
        gate: The name of the gate. Each gate has its own note.
        section: The section of this job. It replaces a section with the same key, unless that one is newer.
        shared: True if other jobs may post at the same time.
        shorter: Function that renders the section's text in at most a given number of characters, for a note
            that gets too long. None: the end of the section is cut.
        timeouts: The time limits; None: the defaults of `PostTimeouts`.
    """
    if isinstance(request, NoPullRequest):
        return PostResult("skipped", request.reason)
    timeouts = timeouts or PostTimeouts()

    def open_thread() -> CommentThread:
        return MergeRequestThread(request, timeouts)

    return post_sticky_comment("GitLab", open_thread, gate, section, timeouts, shared=shared, shorter=shorter)


class MergeRequestThread:
    """The notes of one merge request, as a `CommentThread`.

    The constructor sends no request. It raises `PostError` if the token is empty or python-gitlab is missing.
    """

    host = "GitLab"
    longest = LONGEST_NOTE

    def __init__(self, request: MergeRequest, timeouts: PostTimeouts) -> None:
        self._redactor = build_token_redactor(request.token)
        if not request.token.strip():
            raise PostError("there is no token", kind="skipped")
        self._page = request.page
        self._retry_after: str | None = None
        self._author = ""
        with self._translate_errors():
            self._gitlab = self._create_client(request, timeouts)
            # Lazy: only the notes are requested, neither the project nor the merge request.
            project = self._gitlab.projects.get(request.project, lazy=True)
            self._notes = project.mergerequests.get(request.iid, lazy=True).notes

    def get_author(self) -> str:
        """Return the login of the token's account. GitLab is asked only once."""
        if not self._author:
            with self._translate_errors():
                user = self._gitlab.http_get("/user", **_ONCE)
                self._author = str(user["username"]) if isinstance(user, dict) else ""
        return self._author

    def list_comments(self) -> list[Comment]:
        """Return the notes of the merge request, oldest first. Notes by GitLab itself are left out."""
        with self._translate_errors():
            found = self._notes.list(get_all=True, per_page=100, order_by="created_at", sort="asc", **_ONCE)
            return [self._to_comment(note.attributes) for note in found if not note.attributes["system"]]

    def create_comment(self, body: str) -> Comment:
        """Create a note under the merge request."""
        with self._translate_errors():
            return self._to_comment(self._notes.create({"body": body}, **_ONCE).attributes)

    def edit_comment(self, number: int, body: str) -> Comment:
        """Replace the text of a note and return the new note."""
        with self._translate_errors():
            return self._to_comment(self._notes.update(number, {"body": body}, **_ONCE))

    def delete_comment(self, number: int) -> None:
        """Delete a note. Do nothing if it does not exist any more."""
        try:
            with self._translate_errors():
                self._notes.delete(number, **_ONCE)
        except NotFoundError:
            return

    def _to_comment(self, note: Mapping[str, Any]) -> Comment:
        number = int(note["id"])
        url = f"{self._page}#note_{number}" if self._page else ""
        return Comment(number, str(note["author"]["username"]), str(note["body"]), url)

    def _create_client(self, request: MergeRequest, timeouts: PostTimeouts) -> "Gitlab":
        try:
            import gitlab
        except ImportError:
            raise PostError(f"this needs python-gitlab: {describe_install('gitlab')}") from None
        import requests

        def record_retry_after(response: requests.Response, **_: object) -> None:
            # python-gitlab's errors do not carry the headers of the response.
            self._retry_after = response.headers.get("Retry-After")

        session = requests.Session()
        session.hooks["response"].append(record_retry_after)
        if request.ca_file:
            _trust_certificates(session, request.ca_file)
        # As an OAuth token, GitLab accepts personal, project and group access tokens too.
        # Behind a proxy, GitLab's links to further pages may name a host that the job cannot reach.
        return gitlab.Gitlab(
            request.server,
            oauth_token=request.token,
            timeout=timeouts.request_s,
            user_agent="evalgate",
            keep_base_url=True,
            session=session,
        )

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(self._to_post_error, self._redactor)

    def _to_post_error(self, error: Exception) -> PostError:
        from gitlab import GitlabError
        from requests import RequestException
        from requests.exceptions import SSLError

        if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
            return PostError(
                "GitLab's certificate is not trusted: name the file of its authority in REQUESTS_CA_BUNDLE"
            )
        if isinstance(error, RequestException):
            return TransientError(f"GitLab cannot be reached ({type(error).__name__})")
        if isinstance(error, GitlabError) and error.response_code:
            return _classify_gitlab_error(error.response_code, str(error.error_message), self._retry_after)
        return TransientError(f"GitLab's answer makes no sense ({type(error).__name__})")


def _trust_certificates(session: "Session", file: str) -> None:
    """Add the certificates in a PEM file to those that a session trusts; do nothing if it is unreadable."""
    from requests.adapters import HTTPAdapter

    try:
        context = ssl.create_default_context(cafile=file)
    except OSError:
        return

    # `verify`, an argument of requests, would replace the certificates that are trusted.
    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **options: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **options)

        def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
            return super().proxy_manager_for(*args, ssl_context=context, **options)

    session.mount("https://", Adapter())


def _classify_gitlab_error(status: int, message: str, retry_after: str | None) -> PostError:
    answer = f"GitLab answered {status}: {message or 'no reason given'}"
    if status in {408, 429} or status >= 500:
        return TransientError(answer, parse_seconds(retry_after, _RATE_LIMIT_S if status == 429 else 0.0))
    if status in {404, 410}:
        return NotFoundError(f"{answer} (is it there, and may the token see it?)")
    if status == 413 or "too long" in message:
        return CommentTooLongError(answer)
    why = _WHY_NOT.get(status, "")
    return PostError(answer + (f" ({why})" if why else ""), kind="skipped" if status == 403 else "failed")
