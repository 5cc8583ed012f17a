"""Posting to GitHub and GitLab: one comment for a gate, and a check run. Nothing raises for their faults."""

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
"""Who a workflow's own token speaks for."""

_MOST_GRACE_S = 5.0
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
        account: who posts, and where.
        subject: the pull request, as `find_subject` found it. If it is a commit of a branch, each open pull
            request from that branch gets a comment: the event does not tell which one was tested.
        gate: the comment's name; gates of different names have comments of their own.
        section: what this job says; it replaces only what the same key said in this run or an older one.
        shared: whether other jobs may post to the same comment at the same time; costs `settle_s`.
        shorter: the section's text in at most so many characters, for a comment that gets too long;
            by default it is cut at the end.
        author: the account that the token speaks for; comments of nobody else are touched.
        timeouts: how long it may take.
    """
    timeouts = timeouts or PostTimeouts()
    if isinstance(subject, NoPullRequest):
        return PostResult("skipped", subject.reason)

    if isinstance(subject, HeadCommit):
        pulls, trouble = _find_pulls(account, subject, timeouts)
        if trouble is not None:
            return trouble
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

    As `post_comment`; whom the token speaks for GitLab itself says.
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
    """Create a check run for a commit: the head of the pull request, not the merge that is checked out."""
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
    # Without the branch, a second pull request may be of somebody who pushed the commit of another.
    pulls = sorted(found) if subject.repository and subject.branch else sorted(found)[:1]
    return pulls, None if outcome.kind == "posted" else outcome


def _join_outcomes(outcomes: list[PostResult]) -> PostResult:
    """Return the first outcome that went wrong, else the first; the pages of all."""
    worst = next((each for each in outcomes if each.kind in {"failed", "skipped"}), outcomes[0])
    return replace(worst, url=" ".join(each.url for each in outcomes if each.url))


def _run_within_limit(timeouts: PostTimeouts, host: str, post: Callable[[], PostResult]) -> PostResult:
    """What `post` gives, or that it failed: at the latest when its time and a little more is up."""
    limit = timeouts.total_s + min(timeouts.total_s, _MOST_GRACE_S)
    outcome = PostResult("failed", f"{host} did not answer within {limit:g} s")

    def run_post() -> None:
        nonlocal outcome
        try:
            outcome = post()
        except PostError as trouble:
            outcome = PostResult(trouble.kind, str(trouble))

    # An answer that comes byte by byte has no other bound than a thread that nobody waits for.
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
