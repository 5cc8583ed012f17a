"""Create check runs on GitHub, with annotations on lines of eval-set files."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from evalgate.ci.comment_sections import shorten_markdown
from evalgate.ci.github_client import GitHubClient, retry_transient
from evalgate.ci.posting import Annotation, PostResult, PostTimeouts, RetriesExhaustedError, TransientError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text, strip_invisible, to_one_line

MOST_ANNOTATIONS_A_REQUEST = 50
"""Maximum number of annotations that GitHub accepts in one request. Further requests append more."""

LONGEST_SUMMARY = 65_535
_LONGEST_MESSAGE = 16_000  # characters: at most 64 KB, even if each takes four bytes
_LONGEST_TITLE = 255

RUN_AGAIN = {
    "label": "Run again",
    "description": "Run the gate again for this commit",
    "identifier": "evalgate-run-again",
}
"""The button that asks for another run. GitHub sends its `identifier` in the event `check_run`."""

Conclusion: TypeAlias = Literal["success", "failure", "neutral", "cancelled", "timed_out", "action_required"]


@frozen
class Check:
    """The content of a check run: name, conclusion, texts and annotations."""

    name: str
    conclusion: Conclusion
    title: str
    summary: str
    """Markdown."""
    annotations: tuple[Annotation, ...] = ()
    can_run_again: bool = False
    """True: the check run has the button `Run again`."""

    @property
    def actions(self) -> list[dict[str, str]]:
        """Return the buttons of the check run: one or none.

        GitHub accepts at most three buttons, with labels of at most 20 characters.
        """
        return [RUN_AGAIN] if self.can_run_again else []


def build_outputs(check: Check) -> Iterator[dict[str, Any]]:
    """Yield the field `output` of each request that posts the check run, with up to 50 annotations each.

    Without annotations, one output is yielded.
    """
    notes = [_build_annotation(each) for each in check.annotations]
    head = {
        "title": to_one_line(check.title, _LONGEST_TITLE) or check.conclusion,
        "summary": shorten_markdown(strip_invisible(check.summary), LONGEST_SUMMARY) or check.conclusion,
    }
    for start in range(0, max(1, len(notes)), MOST_ANNOTATIONS_A_REQUEST):
        batch = notes[start : start + MOST_ANNOTATIONS_A_REQUEST]
        yield {**head, "annotations": batch} if batch else dict(head)


def _build_annotation(each: Annotation) -> dict[str, str | int]:
    # GitHub refuses line 0, which a case without a known line has.
    line = max(1, each.line)
    annotation: dict[str, str | int] = {
        "path": to_one_line(each.path, 1000) or "unknown",
        "start_line": line,
        "end_line": line,
        "annotation_level": "failure",
        "message": shorten_text(strip_invisible(each.message), _LONGEST_MESSAGE) or "failed",
    }
    title = to_one_line(each.title, _LONGEST_TITLE)
    return annotation | ({"title": title} if title else {})


MOST_CREATIONS = 5
"""Maximum number of requests to create one check run.

Each failed request may have created a check run that GitHub does not list yet.
"""

_SLOWER = 4
"""Factor for `PostTimeouts.pause_s` in the pauses between requests that create a check run.

GitHub needs time to list a new check run.
"""


@dataclass
class CheckRun:
    """A check run, and the requests that create it.

    GitHub may answer 502 although it has created the check run. A repeated request would then create a second
    check run. So each check run has a unique `external_id`, and evalgate searches for this id before it
    repeats a request.
    """

    github: GitHubClient
    head_sha: str
    check: Check
    timeouts: PostTimeouts
    external_id: str = field(default_factory=lambda: f"evalgate-{uuid4().hex}")
    _creations: int = 0
    _last: str = ""
    """The error message of the last failed attempt to create the check run."""

    def post(self) -> PostResult:
        """Create the check run with all its annotations.

        Raises:
            PostError: GitHub refused a request, or did not carry it out in time. The check run may then lack
                annotations and stay in progress.
        """
        deadline = time.monotonic() + self.timeouts.total_s
        first, *rest = build_outputs(self.check)
        # Until the last batch the check run stays in progress, so that a reader knows it is incomplete.
        slower = replace(self.timeouts, pause_s=_SLOWER * self.timeouts.pause_s)
        conclusion = "" if rest else self.check.conclusion
        number, url = retry_transient(
            lambda: self._create_check(first, conclusion), slower, deadline, jitter=random.random
        )
        for batches_sent, output in enumerate(rest, start=1):
            conclusion = self.check.conclusion if batches_sent == len(rest) else ""
            batch = _AnnotationBatch(
                self.github, number, batches_sent * MOST_ANNOTATIONS_A_REQUEST, output, conclusion
            )
            retry_transient(batch.send_annotations, self.timeouts, deadline, jitter=random.random)
        return PostResult("posted", url=url)

    def _create_check(self, output: dict[str, Any], conclusion: str) -> tuple[int, str]:
        # If the answer to a request was lost, GitHub may have carried out the request.
        if self._creations:
            found = self.github.find_check(self.check.name, self.head_sha, self.external_id)
            if found:
                return found
        if self._creations >= MOST_CREATIONS:
            raise RetriesExhaustedError(f"{self._last} (given up after {self._creations} attempts)")
        self._creations += 1
        try:
            return self.github.create_check(
                self.check.name, self.head_sha, self.external_id, output, conclusion, self.check.actions
            )
        except TransientError as error:
            self._last = str(error)
            raise


@dataclass
class _AnnotationBatch:
    """A batch of annotations to add to an existing check run."""

    github: GitHubClient
    number: int
    before: int
    """The number of annotations that the check run has before this batch."""
    output: dict[str, Any]
    conclusion: str
    _was_sent: bool = False

    def send_annotations(self) -> None:
        """Add the annotations and the conclusion to the check run, unless an earlier call added them."""
        # GitHub appends annotations, so a batch that is sent twice would show every annotation twice. An
        # earlier call may have added the annotations although it raised an error.
        if self._was_sent and self.github.count_annotations(self.number) > self.before:
            return
        self._was_sent = True
        self.github.extend_check(self.number, self.output, self.conclusion)
