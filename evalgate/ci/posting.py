"""Posting to GitHub and GitLab: one comment for a gate, and a check run. Nothing raises for their faults."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from evalgate.ci.check_runs import Annotation, Check, CheckRun
from evalgate.ci.comment_sections import Section, unmarked
from evalgate.ci.events import HeadCommit, NoPullRequest, PullRequest, Subject, subject_of
from evalgate.ci.github_client import Account, GitHub, PullRequestThread, persistent
from evalgate.ci.gitlab import MergeRequest, MergeRequestThread, merge_request_of
from evalgate.ci.post_result import Outcome, Patience, Trouble
from evalgate.ci.sticky_comment import StickyComment, Thread

ACTIONS_BOT = "github-actions[bot]"
"""Who a workflow's own token speaks for."""

_MOST_GRACE_S = 5.0
_NO_PULL = "no open pull request has this commit as its newest"


def post_comment(
    account: Account,
    subject: Subject,
    gate: str,
    section: Section,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    author: str = ACTIONS_BOT,
    patience: Patience | None = None,
) -> Outcome:
    """Post or update the one comment that a gate has under a pull request.

    Args:
        account: who posts, and where.
        subject: the pull request, as `subject_of` found it. If it is a commit of a branch, each open pull
            request from that branch gets a comment: the event does not tell which one was tested.
        gate: the comment's name; gates of different names have comments of their own.
        section: what this job says; it replaces only what the same key said in this run or an older one.
        shared: whether other jobs may post to the same comment at the same time; costs `settle_s`.
        shorter: the section's text in at most so many characters, for a comment that gets too long;
            by default it is cut at the end.
        author: the account that the token speaks for; comments of nobody else are touched.
        patience: how long it may take.
    """
    patience = patience or Patience()
    if isinstance(subject, NoPullRequest):
        return Outcome("skipped", subject.reason)

    if isinstance(subject, HeadCommit):
        pulls, trouble = _find_pulls(account, subject, patience)
        if trouble is not None:
            return trouble
    else:
        pulls = [subject.number]

    def post_to(pull: int) -> Outcome:
        def thread() -> Thread:
            return PullRequestThread(GitHub(account, patience), pull, author)

        return _post_sticky("GitHub", thread, gate, section, patience, shared=shared, shorter=shorter)

    return _join_outcomes([post_to(pull) for pull in pulls])


def post_note(
    request: MergeRequest | NoPullRequest,
    gate: str,
    section: Section,
    *,
    shared: bool = False,
    shorter: Callable[[int], str] | None = None,
    patience: Patience | None = None,
) -> Outcome:
    """Post or update the one note that a gate has under a merge request of GitLab.

    As `post_comment`; whom the token speaks for GitLab itself says.
    """
    if isinstance(request, NoPullRequest):
        return Outcome("skipped", request.reason)
    patience = patience or Patience()

    def thread() -> Thread:
        return MergeRequestThread(request, patience)

    return _post_sticky("GitLab", thread, gate, section, patience, shared=shared, shorter=shorter)


def _post_sticky(
    host: str,
    thread: Callable[[], Thread],
    gate: str,
    section: Section,
    patience: Patience,
    *,
    shared: bool,
    shorter: Callable[[int], str] | None,
) -> Outcome:
    section = replace(section, text=unmarked(section.text))
    return _within(
        patience, host, lambda: StickyComment(thread(), gate, section, patience, shared, shorter).post()
    )


def post_check(account: Account, head_sha: str, check: Check, *, patience: Patience | None = None) -> Outcome:
    """Create a check run for a commit: the head of the pull request, not the merge that is checked out."""
    patience = patience or Patience()

    return _within(
        patience, "GitHub", lambda: CheckRun(GitHub(account, patience), head_sha, check, patience).post()
    )


def _find_pulls(
    account: Account, subject: HeadCommit, patience: Patience
) -> tuple[list[int], Outcome | None]:
    """Return the open pull requests with this commit as their newest, or an outcome if there is none."""
    found: list[int] = []

    def look() -> Outcome:
        deadline = time.monotonic() + patience.total_s
        github = GitHub(account, patience)
        found.extend(
            persistent(lambda: github.open_pulls_of(subject), patience, deadline, jitter=random.random)
        )
        return Outcome("posted" if found else "skipped", _NO_PULL)

    outcome = _within(patience, "GitHub", look)
    # Without the branch, a second pull request may be of somebody who pushed the commit of another.
    pulls = sorted(found) if subject.repository and subject.branch else sorted(found)[:1]
    return pulls, None if outcome.kind == "posted" else outcome


def _join_outcomes(outcomes: list[Outcome]) -> Outcome:
    """Return the first outcome that went wrong, else the first; the pages of all."""
    worst = next((each for each in outcomes if each.kind in {"failed", "skipped"}), outcomes[0])
    return replace(worst, url=" ".join(each.url for each in outcomes if each.url))


def _within(patience: Patience, host: str, post: Callable[[], Outcome]) -> Outcome:
    """What `post` gives, or that it failed: at the latest when its time and a little more is up."""
    limit = patience.total_s + min(patience.total_s, _MOST_GRACE_S)
    outcome = Outcome("failed", f"{host} did not answer within {limit:g} s")

    def run() -> None:
        nonlocal outcome
        try:
            outcome = post()
        except Trouble as trouble:
            outcome = Outcome(trouble.kind, str(trouble))

    # An answer that comes byte by byte has no other bound than a thread that nobody waits for.
    thread = threading.Thread(target=run, daemon=True, name="evalgate-posting")
    thread.start()
    thread.join(limit)
    return outcome


__all__ = [
    "ACTIONS_BOT",
    "Account",
    "Annotation",
    "Check",
    "HeadCommit",
    "MergeRequest",
    "NoPullRequest",
    "Outcome",
    "Patience",
    "PullRequest",
    "Section",
    "Subject",
    "merge_request_of",
    "post_check",
    "post_comment",
    "post_note",
    "subject_of",
]
