"""Fake GitHub and GitLab with one interface, for tests of the comment of a gate that both services store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from evalgate.ci.comment_sections import CommentSection, read_sections
from evalgate.ci.github_client import Account
from evalgate.ci.github_event import PullRequest
from evalgate.ci.github_pull_request import post_comment
from evalgate.ci.gitlab import find_merge_request, post_note
from evalgate.ci.posting import PostResult, PostTimeouts
from tests.github.faults import Fault
from tests.github.server import FakeGitHub
from tests.github.world import PULL, REPOSITORY, Grant
from tests.gitlab.server import FakeGitLab

QUICK = PostTimeouts(
    total_s=50.0, request_s=20, settle_s=0.3, pause_s=0.02, longest_pause_s=0.2, between_writes_s=0.0
)


class Host(ABC):
    """A running service with one pull or merge request, and evalgate's way to post to it."""

    name: str
    client: str
    """The package that sends the requests."""
    extra: str
    """The name of this package in messages to users."""
    edit: str
    """The HTTP method that edits a comment."""
    longest: int
    """Greatest number of characters of a comment."""
    server_type: Any
    """The class of the service: `FakeGitHub` or `FakeGitLab`."""
    server: Any

    def __init__(self, server: Any) -> None:
        self.server = server

    @classmethod
    @contextmanager
    def running(cls, prefix: str = "", page_size: int = 100) -> Iterator[Self]:
        """Start the service for a `with` block."""
        with cls.server_type(prefix=prefix, page_size=page_size).running() as server:
            yield cls(server)

    @property
    def faults(self) -> list[Fault]:
        """Return the faults of the service, to which tests append."""
        faults: list[Fault] = self.server.faults
        return faults

    @property
    @abstractmethod
    def methods(self) -> list[str]:
        """Return the HTTP methods of all requests so far."""

    @abstractmethod
    def bodies(self) -> list[str]:
        """Return the texts of all comments, oldest first."""

    @abstractmethod
    def add(self, body: str, author: str = "") -> Callable[[], int]:
        """Add a comment, by default of the token's account; return a function that counts its edits."""

    @abstractmethod
    def delete_all(self) -> None: ...

    @abstractmethod
    def send(
        self,
        gate: str,
        section: CommentSection,
        *,
        token: str,
        timeouts: PostTimeouts,
        shared: bool,
    ) -> PostResult: ...

    @abstractmethod
    def describe_account(self, token: str) -> str:
        """Return the `repr` of the object that holds the token."""

    def post(
        self,
        text: str = "All good.",
        *,
        gate: str = "main",
        key: str = "",
        run: int = 1,
        token: str = "",
        timeouts: PostTimeouts = QUICK,
        shared: bool = False,
    ) -> PostResult:
        section = CommentSection(key, text, run, 1)
        return self.send(gate, section, token=token, timeouts=timeouts, shared=shared)

    def texts(self) -> list[dict[str, str]]:
        """Return the text of each section by key, for every comment."""
        return [{key: section.text for key, section in read_sections(body).items()} for body in self.bodies()]


class GitHubHost(Host):
    server_type = FakeGitHub
    server: FakeGitHub
    name, client, extra, edit, longest = "GitHub", "github", "PyGithub", "PATCH", 65_536

    @property
    def methods(self) -> list[str]:
        return [each.method for each in self.server.exchanges]

    def bodies(self) -> list[str]:
        return list(self.server.world.comment_bodies())

    def add(self, body: str, author: str = "") -> Callable[[], int]:
        comment = self.server.world.add_comment(body, Grant(login=author, kind="User") if author else None)
        return lambda: comment.edits

    def delete_all(self) -> None:
        for comment in self.server.world.comments.values():
            self.server.world.edit_comment(comment, None)

    def send(
        self, gate: str, section: CommentSection, *, token: str, timeouts: PostTimeouts, shared: bool
    ) -> PostResult:
        account = Account(token or "ghs_writer", REPOSITORY, self.server.url)
        return post_comment(account, PullRequest(PULL), gate, section, shared=shared, timeouts=timeouts)

    def describe_account(self, token: str) -> str:
        return repr(Account(token, REPOSITORY, self.server.url))


class GitLabHost(Host):
    server_type = FakeGitLab
    server: FakeGitLab
    name, client, extra, edit, longest = "GitLab", "gitlab", "python-gitlab", "PUT", 1_000_000

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.server.asked]

    def bodies(self) -> list[str]:
        return self.server.bodies()

    def add(self, body: str, author: str = "") -> Callable[[], int]:
        note = self.server.add_note(body, author) if author else self.server.add_note(body)
        return lambda: note.edits

    def delete_all(self) -> None:
        self.server.notes.clear()

    def send(
        self, gate: str, section: CommentSection, *, token: str, timeouts: PostTimeouts, shared: bool
    ) -> PostResult:
        request = find_merge_request(self.server.environ(), token or "glpat-writer")
        return post_note(request, gate, section, timeouts=timeouts, shared=shared)

    def describe_account(self, token: str) -> str:
        return repr(find_merge_request(self.server.environ(), token))


HOSTS: tuple[type[Host], ...] = (GitHubHost, GitLabHost)
