"""Maintain one comment per gate, although several jobs may post to it at the same time.

Neither GitHub nor GitLab can lock a comment. If two jobs change it at the same time, the changes of the first
job are lost. So every job remembers all sections that it has read, adds its own section, and writes all of
them. After a random pause it reads the comment again. It repeats this until its section has stayed for at
least `settle_s`. As all jobs do so, the comment ends with all sections. If there are several comments, all
jobs copy the sections into the oldest comment and delete the other comments.

Two jobs of one run may post under the same key, such as the legs of a matrix without `section`. Each job then
writes at most once, and the last section stays. A job that notices this names the missing setting in its
result.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from evalgate.ci.comment_sections import (
    CommentSection,
    is_of_gate,
    merge_sections,
    read_sections,
    render_body,
    strip_markers,
)
from evalgate.ci.posting import (
    CommentTooLongError,
    NotFoundError,
    PostError,
    PostResult,
    PostStatus,
    PostTimeouts,
    TransientError,
    describe_giving_up,
    run_within_limit,
)
from evalgate.core.frozen import frozen


@frozen
class Comment:
    """A comment with the text that it had when it was read."""

    number: int
    """The id of the comment, which grows with time."""
    author: str
    body: str
    url: str


class CommentThread(Protocol):
    """The comments of one pull or merge request. The methods raise no error except `PostError`."""

    host: str
    """The name of the service, for messages."""
    longest: int
    """Maximum number of characters of a comment's body."""

    def get_author(self) -> str:
        """Return the login of the token's account, from the configuration or from the service."""
        ...

    def list_comments(self) -> list[Comment]:
        """Return all comments, in any order."""
        ...

    def create_comment(self, body: str) -> Comment:
        """Create a comment with the text `body` and return it."""
        ...

    def edit_comment(self, number: int, body: str) -> Comment:
        """Replace the text of a comment and return the new comment."""
        ...

    def delete_comment(self, number: int) -> None:
        """Delete a comment. Do nothing if it does not exist any more."""
        ...


@frozen
class _SyncResult:
    """Outcome of one attempt to bring the comment up to date.

    `unchanged` is set if the comment needed no change. `final` is set if the comment has a section with this
    job's key that this job must not replace. If both are None, the job has written the comment or tried to.
    It then reads the comment again, because another job may have written at the same time.
    """

    unchanged: Comment | None = None
    """The comment, if it needed no change."""
    final: PostResult | None = None
    """Result of the post, if another section must stay under the key of this job."""


_SMALLEST_LIMIT = 8_000

_EXAMPLES = {"GitHub": "section: ${{ matrix.x }}", "GitLab": '--section "$CI_JOB_NAME"'}


def post_sticky_comment(
    host: str,
    open_thread: Callable[[], CommentThread],
    gate: str,
    section: CommentSection,
    timeouts: PostTimeouts,
    *,
    shared: bool,
    shorter: Callable[[int], str] | None,
) -> PostResult:
    """Post or update the comment of a gate within the time limit. A failure is returned as a result.

    Args:
        host: The name of the service for messages: `GitHub` or `GitLab`.
        open_thread: Function that opens the comments; it may raise `PostError`.
        gate: The name of the gate. Each gate has its own comment.
        section: The section of this job.
        timeouts: The time limits.
        shared: True if other jobs may post to the comment at the same time.
        shorter: Function that renders the section's text in at most a given number of characters, for a
            comment that gets too long. None: the end of the section is cut.
    """
    section = replace(section, text=strip_markers(section.text))
    return run_within_limit(
        timeouts, host, lambda: StickyComment(open_thread(), gate, section, timeouts, shared, shorter).post()
    )


@dataclass
class StickyComment:
    """The comment of one gate under a pull or merge request, and this job's section to post to it."""

    thread: CommentThread
    gate: str
    section: CommentSection
    timeouts: PostTimeouts
    shared: bool = False
    """True if other jobs may post to the comment at the same time."""
    shorter: Callable[[int], str] | None = None
    jitter: Callable[[], float] = random.random
    _seen: dict[str, CommentSection] = field(default_factory=dict)
    """The newest section of each key that this job has read or written."""
    _created: Comment | None = None
    _created_at: float = 0.0
    _slowest_s: float = 0.0
    """The longest time that this job took from reading the comment to having written it."""
    _waited: bool = False
    _limit: int = 0
    _kind: PostStatus = "unchanged"
    _foreign: set[str] = field(default_factory=set)
    """Texts of other jobs' sections that this job found under its own key before it wrote.

    An outdated list of comments may contain them again."""
    _written: set[str] = field(default_factory=set)
    """Texts that this job wrote under its key. In a long comment, these are shortened sections."""
    _replaces: bool = False
    """True if another job of this run had reported under the same key before this job wrote."""
    _author: str = ""
    """The account of the token. Comments of other accounts stay untouched, as anyone can write the marker."""

    def __post_init__(self) -> None:
        self._limit = self.thread.longest

    def post(self) -> PostResult:
        """Write the section into the comment. Return when no other job can overwrite the section any more.

        Call this once. The result is `skipped` if a newer run, or a newer attempt of this job, has reported
        already. The result is `failed` in three cases:

        - `timeouts.total_s` is over.
        - Another job of this run has written a newer section under the same key.
        - Another job of this run has replaced this job's section by its own.

        Raises:
            PostError: the service refused the comment.
        """
        deadline = time.monotonic() + self.timeouts.total_s
        began = stood_since = time.monotonic()
        pause, last_error = self.timeouts.pause_s, TransientError("")
        while True:
            wait = 0.0
            try:
                with self._measure_step():
                    step = self._sync_comment()
                if step.final is not None:
                    return step.final
                if step.unchanged is None:
                    stood_since, last_error = time.monotonic(), TransientError("")
                elif self._is_safe(stood_since):
                    url = step.unchanged.url
                    return PostResult(self._kind, self._explain_result(), url, needs_attention=self._replaces)
            except TransientError as error:
                last_error, wait = error, error.wait_s
            # All jobs pause at random, so that they do not write at the same time again.
            wait = max(wait, pause * (0.5 + self.jitter()))
            if time.monotonic() + wait > deadline:
                reason = str(last_error) or "other jobs kept writing to the comment"
                how = describe_giving_up(time.monotonic() - began, last_error.wait_s)
                return PostResult("failed", f"{reason} ({how})")
            time.sleep(wait)
            pause = min(1.5 * pause, self.timeouts.longest_pause_s)

    @contextmanager
    def _measure_step(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    def _is_safe(self, stood_since: float) -> bool:
        """Return True if no other job can overwrite this job's section any more.

        `stood_since` is the time of `time.monotonic()` since which the comment needed no change.
        """
        written_to = self.shared and self._kind != "unchanged"
        # A service that is slow for this job is slow for the others too.
        settled = max(self.timeouts.settle_s, 2 * self._slowest_s)
        # A comment that is not shared, or that this job did not change, is safe at once.
        return not written_to or time.monotonic() - stood_since >= settled

    def _sync_comment(self) -> _SyncResult:
        """Read the comment. Write to it if necessary.

        Nothing is written if the comment needs no edit, or if another section must stay under this job's key.
        """
        ours = self._find_own_comments()
        # Oldest comment last: it stays, so its sections win over equally new sections of other comments.
        self._seen = merge_sections(self._seen, *(read_sections(each.body) for each in reversed(ours)))
        existing = self._seen.get(self.section.key)
        if existing and (ending := self._build_final_result(existing, ours)):
            return _SyncResult(final=ending)
        self._seen = merge_sections(self._seen, {self.section.key: self.section})
        if not ours:
            self._wait_for_others()
            self._create_comment()
            return _SyncResult()
        return _SyncResult(unchanged=self._update_comment(ours[0], ours[1:]))

    def _build_final_result(self, existing: CommentSection, ours: list[Comment]) -> PostResult | None:
        """Return the result of the post if the section `existing` must stay under this job's key.

        Return None if this job may replace `existing`: its own section, a section of an older run, or a
        section of another job that was there before this job wrote. In the last case, a note about the
        replacement is added to `section`. `ours` are the gate's comments, the oldest first.

        A section that another job of this run wrote in place of this job's section must stay. If this job
        has created a second comment in the meantime, that comment is then deleted.
        """
        url, rival = ours[0].url if ours else "", self._is_of_another_job(existing)
        if existing.age > self.section.age:
            if rival:
                return PostResult(
                    "failed",
                    f"another job of this run reported in its place: {self._describe_remedy()}",
                    url,
                )
            return PostResult("skipped", "a newer run has already reported", url)
        if not rival:
            return None
        if self._kind == "unchanged" or existing.text in self._foreign:
            self._foreign.add(existing.text)
            self._add_replacement_note(existing)
            return None
        # Both jobs created a comment. The older comment stays, which is the other job's.
        if self._created and self._created.number != ours[0].number:
            self.thread.delete_comment(self._created.number)
        return PostResult(
            "failed",
            f"another job of this run replaced it with its own report: {self._describe_remedy()}",
            url,
        )

    def _is_of_another_job(self, existing: CommentSection) -> bool:
        """Return True if another job of this run wrote the section `existing` under this job's key."""
        if existing.text in {self.section.text, *self._written} or existing.run != self.section.run:
            return False
        if existing.attempt != self.section.attempt:
            # On GitLab, each job has its own attempt number. On GitHub, all jobs of an attempt have the same
            # number, and the runners of another attempt have other names.
            return self.thread.host == "GitLab" and "" != existing.job != self.section.job
        if self.section.job:
            return existing.job != self.section.job
        # The jobs have no names. In a comment that is not shared, a text that this job did not write is
        # another job's.
        return not self.shared

    def _add_replacement_note(self, existing: CommentSection) -> None:
        if self._replaces or existing.job == self.section.job:
            return
        self._replaces = True
        note = (
            "> **Another job of this run reported here, too; only the last report is shown.** "
            f"To see both, {self._describe_remedy()}.\n\n"
        )
        self.section = replace(self.section, text=note + self.section.text)
        if shorter := self.shorter:
            self.shorter = lambda limit: note + shorter(limit - len(note))

    def _describe_remedy(self) -> str:
        return f"give each job a section of its own, for example `{_EXAMPLES[self.thread.host]}`"

    def _find_own_comments(self) -> list[Comment]:
        # Anyone can write the marker of a gate, so the author decides which comments are ours.
        self._author = self._author or self.thread.get_author()
        found = [
            each
            for each in self.thread.list_comments()
            if each.author.lower() == self._author.lower() and is_of_gate(each.body, self.gate)
        ]
        created = self._created
        # A list may be older than the comment that this job created a moment ago.
        if created and all(each.number != created.number for each in found):
            if time.monotonic() - self._created_at < self.timeouts.settle_s:
                found.append(created)
            else:
                self._created = None
        return sorted(found, key=lambda each: each.number)

    def _wait_for_others(self) -> None:
        """Raise `TransientError` once before a shared comment is created, so that jobs rarely create two.

        The caller then waits for a random time, and looks for the comment again.
        """
        # Each new comment sends an e-mail to all watchers of the pull request.
        if self.shared and not self._waited:
            self._waited = True
            raise TransientError("there is no comment yet", self.jitter() * self.timeouts.settle_s)

    def _create_comment(self) -> None:
        body = self._render_body()
        try:
            created = self.thread.create_comment(body)
        except CommentTooLongError:
            self._lower_limit()
            return
        self._created, self._created_at, self._kind = created, time.monotonic(), "posted"
        # The token may belong to an app or a person. From now on, older comments of this account are found.
        self._author = created.author or self._author

    def _update_comment(self, comment: Comment, others: list[Comment]) -> Comment | None:
        """Edit `comment` if `_is_complete` is False for it. Otherwise delete the duplicates in `others`.

        Return `comment` if nothing was written or deleted, or else None.
        """
        # Duplicates are deleted after the edit is safe: if the job dies in between, no section is lost.
        if not self._is_complete(comment):
            self._edit_comment(comment)
            return None
        for other in others:
            self.thread.delete_comment(other.number)
            self._forget_comment(other)
        return None if others else comment

    def _edit_comment(self, comment: Comment) -> None:
        try:
            self.thread.edit_comment(comment.number, self._render_body())
        except CommentTooLongError:
            self._lower_limit()
        except NotFoundError:
            self._forget_comment(comment)
        else:
            self._kind = "posted" if self._kind == "posted" else "updated"

    def _is_complete(self, comment: Comment) -> bool:
        """Return True if the comment needs no edit.

        Each section that this job has seen must be in the comment, in the same or a newer version. This job's
        own section must also have the same text. Another text is accepted in two cases: the section is newer,
        or the comment is longer than half of the limit, so that other jobs may have shortened the section.
        """
        body = comment.body.replace("\r\n", "\n").rstrip()
        if body == self._render_body():
            return True
        sections = read_sections(body)
        if any(key not in sections or sections[key].age < seen.age for key, seen in self._seen.items()):
            return False
        ours = sections[self.section.key]
        # In a full comment, other jobs had to shorten this section.
        return ours.age > self.section.age or ours.text == self.section.text or len(body) > self._limit // 2

    def _render_body(self) -> str:
        shorter = {self.section.key: self.shorter} if self.shorter else {}
        body = render_body(self.gate, self._seen.values(), shorter=shorter, limit=self._limit)
        self._written.add(read_sections(body)[self.section.key].text)
        return body

    def _lower_limit(self) -> None:
        # The service's message may not state its limit, and a proxy may have a lower limit.
        self._limit = self._limit * 3 // 4
        if self._limit < _SMALLEST_LIMIT:
            raise PostError(f"{self.thread.host} accepts no comment, however short")

    def _forget_comment(self, comment: Comment) -> None:
        if self._created and self._created.number == comment.number:
            self._created = None

    def _explain_result(self) -> str:
        if self._replaces:
            return f"it replaces the report of another job of this run: {self._describe_remedy()}"
        if self._author.lower() == self.thread.get_author().lower() or self._kind != "posted":
            return ""
        return (
            f"the token belongs to {self._author}: set this account as the comment's author "
            "to have it found at once"
        )
