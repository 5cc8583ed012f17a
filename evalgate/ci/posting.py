"""Post comments and check runs to GitHub and GitLab.

The functions return failures as `PostResult` and raise no error of a service.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from evalgate.ci.check_runs import Annotation, Check, CheckRun
from evalgate.ci.comment_sections import CommentSection, strip_markers
from evalgate.ci.events import HeadCommit, NoPullRequest, PullRequest, Subject, find_subject
from evalgate.ci.github_client import Account, GitHubClient, PullRequestThread, retry_transient
from evalgate.ci.gitlab import MergeRequest, MergeRequestThread, find_merge_request
from evalgate.ci.post_result import PostError, PostResult, PostTimeouts
from evalgate.ci.sticky_comment import CommentThread, StickyComment

ACTIONS_BOT = "github-actions[bot]"
"""The account of a workflow's own token."""

_MOST_GRACE_S = 5.0  # so that a post which notices its own timeout can still say why
_NO_PULL = "no open pull request has this commit as its newest"


def post_comment(
    account: Account,
    subject: Subject,
    gate: str,
    section: CommentSection,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    author: str = ACTIONS_BOT,
    timeouts: PostTimeouts | None = None,
) -> PostResult:
    """Post or update the one comment that a gate has under a pull request.

    Args:
        account: The token and the repository.
        subject: The pull request, as `find_subject` returned it. If it is a commit of a branch, each open
            pull request from that branch gets a comment: the event does not tell which one was tested.
        gate: The name of the comment. Gates of different names have comments of their own.
        section: The section of this job. It replaces only a section of the same key and of this run or an
            older one.
        shared: True if other jobs may post to the same comment at the same time. This costs `settle_s`.
        shorter: Renders the section's text in at most a number of characters, for a comment that gets too
            long. By default the end is cut.
        author: The account of the token. Only its comments are edited and deleted.
        timeouts: The time limits; by default those of `PostTimeouts`.
    """
    timeouts = timeouts or PostTimeouts()
    if isinstance(subject, NoPullRequest):
        return PostResult("skipped", subject.reason)

    if isinstance(subject, HeadCommit):
        pulls, failure = _find_pulls(account, subject, timeouts)
        if failure is not None:
            return failure
    else:
        pulls = [subject.number]

    def post_to_pull(pull: int) -> PostResult:
        def open_thread() -> CommentThread:
            return PullRequestThread(GitHubClient(account, timeouts), pull, author)

        return _post_sticky("GitHub", open_thread, gate, section, timeouts, shared=shared, shorter=shorter)

    return _join_outcomes([post_to_pull(pull) for pull in pulls])


def post_note(
    request: MergeRequest | NoPullRequest,
    gate: str,
    section: CommentSection,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    timeouts: PostTimeouts | None = None,
) -> PostResult:
    """Post or update the one note that a gate has under a merge request of GitLab.

    The arguments are those of `post_comment`. GitLab is asked for the account of the token.
    """
    if isinstance(request, NoPullRequest):
        return PostResult("skipped", request.reason)
    timeouts = timeouts or PostTimeouts()

    def open_thread() -> CommentThread:
        return MergeRequestThread(request, timeouts)

    return _post_sticky("GitLab", open_thread, gate, section, timeouts, shared=shared, shorter=shorter)


def _post_sticky(
    host: str,
    open_thread: Callable[[], CommentThread],
    gate: str,
    section: CommentSection,
    timeouts: PostTimeouts,
    *,
    shared: bool,
    shorter: Callable[[int], str] | None,
) -> PostResult:
    section = replace(section, text=strip_markers(section.text))
    return _run_within_limit(
        timeouts, host, lambda: StickyComment(open_thread(), gate, section, timeouts, shared, shorter).post()
    )


def post_check(
    account: Account, head_sha: str, check: Check, *, timeouts: PostTimeouts | None = None
) -> PostResult:
    """Create a check run for a commit.

    `head_sha` is the head of the pull request, not the merge commit that is checked out.
    """
    timeouts = timeouts or PostTimeouts()

    return _run_within_limit(
        timeouts,
        "GitHub",
        lambda: CheckRun(GitHubClient(account, timeouts), head_sha, check, timeouts).post(),
    )


def _find_pulls(
    account: Account, subject: HeadCommit, timeouts: PostTimeouts
) -> tuple[list[int], PostResult | None]:
    """Return the open pull requests with this commit as their newest, or an outcome if there is none."""
    found: list[int] = []

    def find_open_pulls() -> PostResult:
        deadline = time.monotonic() + timeouts.total_s
        github = GitHubClient(account, timeouts)
        found.extend(
            retry_transient(lambda: github.list_open_pulls(subject), timeouts, deadline, jitter=random.random)
        )
        return PostResult("posted" if found else "skipped", _NO_PULL)

    outcome = _run_within_limit(timeouts, "GitHub", find_open_pulls)
    # Without the branch, further pull requests may belong to a person who pushed the commit of another one.
    pulls = sorted(found) if subject.repository and subject.branch else sorted(found)[:1]
    return pulls, None if outcome.kind == "posted" else outcome


def _join_outcomes(outcomes: list[PostResult]) -> PostResult:
    """Return the first outcome that is failed or skipped, else the first, with the URLs of all."""
    worst = next((each for each in outcomes if each.kind in {"failed", "skipped"}), outcomes[0])
    return replace(worst, url=" ".join(each.url for each in outcomes if each.url))


def _run_within_limit(timeouts: PostTimeouts, host: str, post: Callable[[], PostResult]) -> PostResult:
    """Return the result of `post`, or a failure if it exceeds its time limit and a short grace period."""
    limit = timeouts.total_s + min(timeouts.total_s, _MOST_GRACE_S)
    outcome = PostResult("failed", f"{host} did not answer within {limit:g} s")

    def run_post() -> None:
        nonlocal outcome
        try:
            outcome = post()
        except PostError as error:
            outcome = PostResult(error.kind, str(error))

    # The timeout of a request does not bound an answer that arrives byte by byte. A daemon thread does.
    thread = threading.Thread(target=run_post, daemon=True, name="evalgate-posting")
    thread.start()
    thread.join(limit)
    return outcome


__all__ = [
    "ACTIONS_BOT",
    "Account",
    "Annotation",
    "Check",
    "CommentSection",
    "HeadCommit",
    "MergeRequest",
    "NoPullRequest",
    "PostResult",
    "PostTimeouts",
    "PullRequest",
    "Subject",
    "find_merge_request",
    "find_subject",
    "post_check",
    "post_comment",
    "post_note",
]
