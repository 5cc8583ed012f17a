"""One comment per gate, although several jobs may post to it at the same time.

Neither GitHub nor GitLab can compare and swap a comment: whoever writes last wins, and what was written
between its reading and its writing is lost. So every job merges what it finds with its own section and all
that it has seen before, writes, reads again after a random pause, and goes on until its section has stood for
`settle_s`: as every job does, the comment ends with all sections. Of several comments the oldest stays, which
all agree on; the others are removed after their sections have been taken over.

Two jobs of one run that post under the same key, such as the legs of a matrix without `section`, cannot both
have their way. Each writes at most once: the last one stays, and each job that notices says what to set.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from evalgate.ci.comment_sections import (
    CommentSection,
    is_of_gate,
    merge_sections,
    read_sections,
    render_body,
)
from evalgate.ci.post_result import (
    CommentTooLongError,
    NotFoundError,
    PostError,
    PostResult,
    PostStatus,
    PostTimeouts,
    TransientError,
    describe_giving_up,
)
from evalgate.core.frozen import frozen


@frozen
class Comment:
    """A comment as it was when it was read."""

    number: int
    """Grows with time."""
    author: str
    body: str
    url: str


class CommentThread(Protocol):
    """The comments of one pull request. Every method raises Trouble, and nothing else."""

    host: str
    """How people call the service."""
    longest: int
    """Characters of a comment's body that it takes."""

    def get_author(self) -> str:
        """The account that the token speaks for, as far as that is known before something is posted."""
        ...

    def list_comments(self) -> list[Comment]:
        """All of them, in any order."""
        ...

    def create_comment(self, body: str) -> Comment:
        """A new comment."""
        ...

    def edit_comment(self, number: int, body: str) -> Comment:
        """Another body for a comment."""
        ...

    def delete_comment(self, number: int) -> None:
        """Remove a comment; one that is gone already is no trouble."""
        ...


_SMALLEST_LIMIT = 8_000

_EXAMPLES = {"GitHub": "section: ${{ matrix.x }}", "GitLab": '--section "$CI_JOB_NAME"'}


@dataclass
class StickyComment:
    """The comment of one gate under one pull request, while one section is posted to it."""

    thread: CommentThread
    gate: str
    section: CommentSection
    timeouts: PostTimeouts
    shared: bool = False
    """Whether other jobs may post to it at the same time."""
    shorter: Callable[[int], str] | None = None
    jitter: Callable[[], float] = random.random
    _seen: dict[str, CommentSection] = field(default_factory=dict)
    _made: Comment | None = None
    _made_at: float = 0.0
    _slowest_s: float = 0.0
    """The longest that it took us from reading to having written."""
    _waited: bool = False
    _limit: int = 0
    _kind: PostStatus = "unchanged"
    _foreign: set[str] = field(default_factory=set)
    """Texts under our key that were there before we wrote: an old list may show them once more."""
    _written: set[str] = field(default_factory=set)
    """Texts that we wrote under our key: what a long comment leaves of the section."""
    _replaces: bool = False
    """Whether another job of this run had reported under our key before we wrote."""
    _author: str = ""
    """Only comments of this account are touched: anybody can write our marker."""

    def __post_init__(self) -> None:
        self._limit = self.thread.longest

    def post(self) -> PostResult:
        """Bring the section into the comment and see it stay there.

        Raises:
            PostError: it cannot be done, or not in time.
        """
        deadline = time.monotonic() + self.timeouts.total_s
        began = stood_since = time.monotonic()
        pause, trouble = self.timeouts.pause_s, TransientError("")
        while True:
            wait = 0.0
            try:
                comment = self._measure_step(self._sync_comment)
                if isinstance(comment, PostResult):
                    return comment
                if comment is None:
                    stood_since, trouble = time.monotonic(), TransientError("")
                elif self._is_safe(stood_since):
                    return PostResult(
                        self._kind, self._explain_result(), comment.url, needs_attention=self._replaces
                    )
            except TransientError as passing:
                trouble, wait = passing, passing.wait_s
            # others pause at random too, so that not all write at once again
            wait = max(wait, pause * (0.5 + self.jitter()))
            if time.monotonic() + wait > deadline:
                return self._build_timeout_outcome(trouble, time.monotonic() - began)
            time.sleep(wait)
            pause = min(1.5 * pause, self.timeouts.longest_pause_s)

    def _measure_step(self, step: Callable[[], Comment | PostResult | None]) -> Comment | PostResult | None:
        began = time.monotonic()
        try:
            return step()
        finally:
            self._slowest_s = max(self._slowest_s, time.monotonic() - began)

    def _is_safe(self, stood_since: float) -> bool:
        """Whether nobody who read the comment before we wrote it is still to write."""
        written_to = self.shared and self._kind != "unchanged"
        # when the service is slow for us, it is for the others
        settled = max(self.timeouts.settle_s, 2 * self._slowest_s)
        return not written_to or time.monotonic() - stood_since >= settled

    def _sync_comment(self) -> Comment | PostResult | None:
        """The comment, when it is as it should be; None: it was not, and something was written."""
        ours = self._find_own_comments()
        self._seen = merge_sections(self._seen, *(read_sections(each.body) for each in reversed(ours)))
        standing = self._seen.get(self.section.key)
        if standing and (ending := self._give_way(standing, ours)):
            return ending
        self._seen = merge_sections(self._seen, {self.section.key: self.section})
        if not ours:
            self._wait_for_others()
            self._create_comment()
            return None
        return self._update_comment(ours[0], ours[1:])

    def _give_way(self, standing: CommentSection, ours: list[Comment]) -> PostResult | None:
        """Return the outcome if what stands under our key must stay; None if we may write."""
        url, rival = ours[0].url if ours else "", self._is_of_another_job(standing)
        if standing.age > self.section.age:
            if rival:
                return PostResult(
                    "failed",
                    f"another job of this run reported in its place: {self._describe_mending()}",
                    url,
                )
            return PostResult("skipped", "a newer run has already reported", url)
        if not rival:
            return None
        if self._kind == "unchanged" or standing.text in self._foreign:
            self._foreign.add(standing.text)
            self._add_replacement_note(standing)
            return None
        if self._made and self._made.number != ours[0].number:
            self.thread.delete_comment(self._made.number)
        return PostResult(
            "failed",
            f"another job of this run replaced it with its own report: {self._describe_mending()}",
            url,
        )

    def _is_of_another_job(self, standing: CommentSection) -> bool:
        """Return True if another job of our run has written what stands under our key.

        If the jobs have no names, it can be what an earlier step of ours wrote: `_foreign` tells them apart.
        """
        if standing.text in {self.section.text, *self._written} or standing.run != self.section.run:
            return False
        if standing.attempt != self.section.attempt:
            # GitLab numbers each job and GitHub each attempt of all jobs, for which it renames the runners.
            return self.thread.host == "GitLab" and "" != standing.job != self.section.job
        if self.section.job:
            return standing.job != self.section.job
        return not self.shared

    def _add_replacement_note(self, standing: CommentSection) -> None:
        if self._replaces or standing.job == self.section.job:
            return
        self._replaces = True
        told = (
            "> **Another job of this run reported here, too; only the last report is shown.** "
            f"To see both, {self._describe_mending()}.\n\n"
        )
        self.section = replace(self.section, text=told + self.section.text)
        if shorter := self.shorter:
            self.shorter = lambda limit: told + shorter(limit - len(told))

    def _describe_mending(self) -> str:
        return f"give each job a section of its own, for example `{_EXAMPLES[self.thread.host]}`"

    def _find_own_comments(self) -> list[Comment]:
        self._author = self._author or self.thread.get_author()
        found = [
            each
            for each in self.thread.list_comments()
            if each.author.lower() == self._author.lower() and is_of_gate(each.body, self.gate)
        ]
        made = self._made
        # a list may be older than what we did a moment ago
        if made and all(each.number != made.number for each in found):
            if time.monotonic() - self._made_at < self.timeouts.settle_s:
                found.append(made)
            else:
                self._made = None
        return sorted(found, key=lambda each: each.number)

    def _wait_for_others(self) -> None:
        """Look again before the first comment is made: each one is an e-mail to everybody who watches."""
        if self.shared and not self._waited:
            self._waited = True
            raise TransientError("there is no comment yet", self.jitter() * self.timeouts.settle_s)

    def _create_comment(self) -> None:
        body = self._render_body()
        try:
            made = self.thread.create_comment(body)
        except CommentTooLongError:
            self._lower_limit()
            return
        self._made, self._made_at, self._kind = made, time.monotonic(), "posted"
        # a token of an app or a person; its older comments are found from now on
        self._author = made.author or self._author

    def _update_comment(self, comment: Comment, others: list[Comment]) -> Comment | None:
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
        """Whether it says all that was ever seen, or something newer of the same job, and what we say."""
        body = comment.body.replace("\r\n", "\n").rstrip()
        if body == self._render_body():
            return True
        held = read_sections(body)
        if any(key not in held or held[key].age < section.age for key, section in self._seen.items()):
            return False
        ours = held[self.section.key]
        # in a full comment, others had to shorten it
        return ours.age > self.section.age or ours.text == self.section.text or len(body) > self._limit // 2

    def _render_body(self) -> str:
        shorter = {self.section.key: self.shorter} if self.shorter else {}
        body = render_body(self.gate, self._seen.values(), shorter=shorter, limit=self._limit)
        self._written.add(read_sections(body)[self.section.key].text)
        return body

    def _lower_limit(self) -> None:
        self._limit = self._limit * 3 // 4
        if self._limit < _SMALLEST_LIMIT:
            raise PostError(f"{self.thread.host} takes no comment, however short")

    def _forget_comment(self, comment: Comment) -> None:
        if self._made and self._made.number == comment.number:
            self._made = None

    def _explain_result(self) -> str:
        if self._replaces:
            return f"it replaces the report of another job of this run: {self._describe_mending()}"
        if self._author.lower() == self.thread.get_author().lower() or self._kind != "posted":
            return ""
        return (
            f"the token speaks for {self._author}: name it as the comment's author to have it found at once"
        )

    def _build_timeout_outcome(self, trouble: TransientError, waited_s: float) -> PostResult:
        reason = str(trouble) or "other jobs kept writing to the comment"
        return PostResult("failed", f"{reason} ({describe_giving_up(waited_s, trouble.wait_s)})")
