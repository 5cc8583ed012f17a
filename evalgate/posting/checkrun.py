"""One check run on its way to GitHub: requests are repeated after passing faults; none takes effect twice."""

import random
import time
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from evalgate.posting.checks import MOST_ANNOTATIONS, Check, outputs
from evalgate.posting.client import GitHub
from evalgate.posting.connection import persistent
from evalgate.posting.outcome import GivenUp, Outcome, Passing, Patience

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

    github: GitHub
    head_sha: str
    check: Check
    patience: Patience
    external_id: str = field(default_factory=lambda: f"evalgate-{uuid4().hex}")
    _creations: int = 0
    _last: str = ""
    """The trouble of the last request that was to create it."""

    def post(self) -> Outcome:
        """Create the check run with all its annotations.

        Raises:
            Trouble: it cannot be done, or not in time.
        """
        deadline = time.monotonic() + self.patience.total_s
        first, *rest = outputs(self.check)
        slower = replace(self.patience, pause_s=_SLOWER * self.patience.pause_s)
        conclusion = "" if rest else self.check.conclusion
        number, url = persistent(
            lambda: self._create(first, conclusion), slower, deadline, jitter=random.random
        )
        for place, output in enumerate(rest, start=1):
            conclusion = self.check.conclusion if place == len(rest) else ""
            extension = _Extension(self.github, number, place * MOST_ANNOTATIONS, output, conclusion)
            persistent(extension.send, self.patience, deadline, jitter=random.random)
        return Outcome("posted", url=url)

    def _create(self, output: dict[str, Any], conclusion: str) -> tuple[int, str]:
        if self._creations:
            found = self.github.find_check(self.check.name, self.head_sha, self.external_id)
            if found:
                return found
        if self._creations >= MOST_CREATIONS:
            raise GivenUp(f"{self._last} (given up after {self._creations} attempts)")
        self._creations += 1
        try:
            return self.github.create_check(
                self.check.name, self.head_sha, self.external_id, output, conclusion
            )
        except Passing as trouble:
            self._last = str(trouble)
            raise


@dataclass
class _Extension:
    """Further annotations of a check run."""

    github: GitHub
    number: int
    before: int
    """Annotations that the check run has without these."""
    output: dict[str, Any]
    conclusion: str
    _was_sent: bool = False

    def send(self) -> None:
        """Add the annotations, unless an earlier attempt did although it seemed to fail."""
        if self._was_sent and self.github.count_annotations(self.number) > self.before:
            return
        self._was_sent = True
        self.github.extend_check(self.number, self.output, self.conclusion)
