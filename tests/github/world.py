"""What the fake GitHub knows: one repository, who may do what in it, and all that was done."""

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
    """Who a token speaks for and what it may write; everything can be read."""

    login: str = "github-actions[bot]"
    kind: str = "Bot"
    writes: frozenset[str] = frozenset({"issues", "checks", "contents", "actions"})


@dataclass
class Comment:
    """A comment with all it ever said. None: it is deleted."""

    number: int
    issue: int
    author: Grant
    history: list[tuple[float, str | None]]
    edits: int = 0

    def body(self, at: float) -> str | None:
        """What it said at a time."""
        return next((text for when, text in reversed(self.history) if when <= at), None)


@dataclass(frozen=True)
class Run:
    """A run of a workflow, by default one that makes a baseline."""

    number: int
    event: str = "push"
    branch: str = "main"
    conclusion: str | None = "success"
    """None: it goes on."""
    repository: int = OURS
    """Where its commit is from."""
    workflow: str = "evalgate.yml"
    sha: str = HEAD_SHA


@dataclass(frozen=True)
class Artifact:
    """What a run kept."""

    number: int
    name: str
    content: bytes = b""
    """The zip."""
    run: int = 0
    expired: bool = False
    digest: str = ""
    """What GitHub says that it is; "" for the true one."""


@dataclass
class World:
    """Everything is done under `lock`, one request at a time, as a database would."""

    grants: dict[str, Grant] = field(default_factory=lambda: {"ghs_writer": Grant()})
    pulls: dict[int, Mapping[str, Any]] = field(default_factory=lambda: {PULL: {"sha": HEAD_SHA}})
    comments: dict[int, Comment] = field(default_factory=dict)
    check_runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    reruns: list[int] = field(default_factory=list)
    """Runs that were asked for again."""
    permissions: dict[str, str] = field(default_factory=dict)
    """Login → what it may do; `read` for everybody else."""
    git: Objects = field(default_factory=Objects)
    lag_s: float = 0.0
    """How old what is read may be: GitHub reads from replicas."""
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
        """What stands under an issue now, oldest first."""
        with self.lock:
            now = time.monotonic()
            bodies = [each.body(now) for each in self.comments.values() if each.issue == issue]
            return [body for body in bodies if body is not None]
