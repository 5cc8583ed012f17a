"""A check run with annotations on the lines of the eval-set file."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from evalgate.ci.comment_sections import shorten_markdown
from evalgate.ci.github_client import GitHubClient, retry_transient
from evalgate.ci.post_result import PostResult, PostTimeouts, RetriesExhaustedError, TransientError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text, strip_invisible, to_one_line

MOST_ANNOTATIONS = 50
"""GitHub takes no more in one request; more requests add to them."""

LONGEST_SUMMARY = 65_535
_LONGEST_MESSAGE = 16_000  # characters: 64 KB even when each takes four bytes
_LONGEST_TITLE = 255

CheckLevel: TypeAlias = Literal["notice", "warning", "failure"]
Conclusion: TypeAlias = Literal["success", "failure", "neutral", "cancelled", "timed_out", "action_required"]


@frozen
class Annotation:
    """A remark on a line of a file of the repository. Texts may hold anything."""

    path: str
    """Relative to the repository's root."""
    line: int
    message: str
    title: str = ""
    level: CheckLevel = "failure"


@frozen
class Check:
    """What a check run says."""

    name: str
    conclusion: Conclusion
    title: str
    summary: str
    """Markdown."""
    annotations: tuple[Annotation, ...] = ()


def build_outputs(check: Check) -> Iterator[dict[str, Any]]:
    """The `output` of each request that the check takes; at least one."""
    notes = [_build_annotation(each) for each in check.annotations]
    head = {
        "title": to_one_line(check.title, _LONGEST_TITLE) or check.conclusion,
        "summary": shorten_markdown(strip_invisible(check.summary), LONGEST_SUMMARY) or check.conclusion,
    }
    for batch in _split_batches(notes):
        yield {**head, "annotations": batch} if batch else dict(head)


def _split_batches(notes: Sequence[dict[str, str | int]]) -> Iterator[Sequence[dict[str, str | int]]]:
    for start in range(0, max(1, len(notes)), MOST_ANNOTATIONS):
        yield notes[start : start + MOST_ANNOTATIONS]


def _build_annotation(each: Annotation) -> dict[str, str | int]:
    line = max(1, each.line)
    made: dict[str, str | int] = {
        "path": to_one_line(each.path, 1000) or "unknown",
        "start_line": line,
        "end_line": line,
        "annotation_level": each.level,
        "message": shorten_text(strip_invisible(each.message), _LONGEST_MESSAGE) or "failed",
    }
    title = to_one_line(each.title, _LONGEST_TITLE)
    return made | ({"title": title} if title else {})


MOST_CREATIONS = 5
"""Requests that may each create a check run, although GitHub's list shows none of them."""

_SLOWER = 4
"""Pauses between them are longer by this factor, so that GitHub's list shows what a request has created."""


@dataclass
class CheckRun:
    """A check run and the requests that create it.

    GitHub can create a check run and still answer 502, and it accepts the same one again. So each check run
    has an `external_id` of its own, and is looked for before a request is repeated.
    """

    github: GitHubClient
    head_sha: str
    check: Check
    timeouts: PostTimeouts
    external_id: str = field(default_factory=lambda: f"evalgate-{uuid4().hex}")
    _creations: int = 0
    _last: str = ""
    """The trouble of the last request that was to create it."""

    def post(self) -> PostResult:
        """Create the check run with all its annotations.

        Raises:
            PostError: it cannot be done, or not in time.
        """
        deadline = time.monotonic() + self.timeouts.total_s
        first, *rest = build_outputs(self.check)
        slower = replace(self.timeouts, pause_s=_SLOWER * self.timeouts.pause_s)
        conclusion = "" if rest else self.check.conclusion
        number, url = retry_transient(
            lambda: self._create_check(first, conclusion), slower, deadline, jitter=random.random
        )
        for place, output in enumerate(rest, start=1):
            conclusion = self.check.conclusion if place == len(rest) else ""
            extension = _AnnotationBatch(self.github, number, place * MOST_ANNOTATIONS, output, conclusion)
            retry_transient(extension.send_annotations, self.timeouts, deadline, jitter=random.random)
        return PostResult("posted", url=url)

    def _create_check(self, output: dict[str, Any], conclusion: str) -> tuple[int, str]:
        if self._creations:
            found = self.github.find_check(self.check.name, self.head_sha, self.external_id)
            if found:
                return found
        if self._creations >= MOST_CREATIONS:
            raise RetriesExhaustedError(f"{self._last} (given up after {self._creations} attempts)")
        self._creations += 1
        try:
            return self.github.create_check(
                self.check.name, self.head_sha, self.external_id, output, conclusion
            )
        except TransientError as trouble:
            self._last = str(trouble)
            raise


@dataclass
class _AnnotationBatch:
    """Further annotations of a check run."""

    github: GitHubClient
    number: int
    before: int
    """Annotations that the check run has without these."""
    output: dict[str, Any]
    conclusion: str
    _was_sent: bool = False

    def send_annotations(self) -> None:
        """Add the annotations, unless an earlier attempt did although it seemed to fail."""
        if self._was_sent and self.github.count_annotations(self.number) > self.before:
            return
        self._was_sent = True
        self.github.extend_check(self.number, self.output, self.conclusion)
