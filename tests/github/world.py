"""State of the fake GitHub: one repository, the permissions of tokens, comments, checks, runs and artifacts."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.github.git import Objects

OWNER, NAME = "acme", "demo"
REPOSITORY = f"{OWNER}/{NAME}"
OURS = 4242
"""The repository's id."""
PULL = 7
HEAD_SHA = "5f" * 20
LONGEST_BODY = 65_536


@dataclass(frozen=True)
class Grant:
    """Account and write permissions of a token. Every token can read everything."""

    login: str = "github-actions[bot]"
    kind: str = "Bot"
    writes: frozenset[str] = frozenset({"issues", "checks", "contents", "actions"})


@dataclass
class Comment:
    """A comment with its texts at all times. The text None means that it was deleted."""

    number: int
    issue: int
    author: Grant
    history: list[tuple[float, str | None]]
    edits: int = 0

    def body(self, at: float) -> str | None:
        """Return the text of the comment at a time; None if it did not exist."""
        return next((text for when, text in reversed(self.history) if when <= at), None)


@dataclass(frozen=True)
class Run:
    """A workflow run, by default one that stores a baseline."""

    number: int
    event: str = "push"
    branch: str = "main"
    conclusion: str | None = "success"
    """None: the run is in progress."""
    repository: int = OURS
    """Id of the repository of its commit."""
    workflow: str = "evalgate.yml"
    sha: str = HEAD_SHA


@dataclass(frozen=True)
class Artifact:
    """An artifact of a workflow run."""

    number: int
    name: str
    content: bytes = b""
    """The zip."""
    run: int = 0
    expired: bool = False
    digest: str = ""
    """Digest that GitHub reports; "": the real digest of `content`."""


@dataclass
class World:
    """State of the repository. Requests are handled one at a time, under `lock`."""

    grants: dict[str, Grant] = field(default_factory=lambda: {"ghs_writer": Grant()})
    pulls: dict[int, Mapping[str, Any]] = field(default_factory=lambda: {PULL: {"sha": HEAD_SHA}})
    comments: dict[int, Comment] = field(default_factory=dict)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    reruns: list[int] = field(default_factory=list)
    """Numbers of the runs that a client started again."""
    permissions: dict[str, str] = field(default_factory=dict)
    """Permission by login; `read` for all others."""
    git: Objects = field(default_factory=Objects)
    lag_s: float = 0.0
    """Age in seconds of the state that is read, because GitHub reads from replicas."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    _last: int = 1000

    def next_id(self) -> int:
        self._last += 1
        return self._last

    def add_comment(self, body: str, author: Grant | None = None, issue: int = PULL) -> Comment:
        with self.lock:
            number = self.next_id()
            comment = Comment(number, issue, author or Grant(), [(time.monotonic(), body)])
            self.comments[number] = comment
            return comment

    def edit_comment(self, comment: Comment, body: str | None) -> None:
        with self.lock:
            comment.history.append((time.monotonic(), body))
            comment.edits += 1

    def comment_bodies(self, issue: int = PULL) -> Sequence[str]:
        """Return the current texts of an issue's comments, oldest first."""
        with self.lock:
            now = time.monotonic()
            bodies = [each.body(now) for each in self.comments.values() if each.issue == issue]
            return [body for body in bodies if body is not None]
