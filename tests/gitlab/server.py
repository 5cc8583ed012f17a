"""A fake GitLab on loopback, with notes, members, pages, limits and faults. Requests and answers are checked."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.faulty_server import Request, serving
from tests.github.faults import Fault
from tests.gitlab.contract import (
    LARGEST_PAGE,
    LONGEST_NOTE,
    Operation,
    answer_problems,
    operation,
    request_problems,
)
from tests.gitlab.quickactions import quick_actions

PROJECT = 4711
MERGE_REQUEST = 7
BOT = "project_4711_bot_a1b2c3"
HOME = "https://gitlab.example.com/acme/demo"


@dataclass(frozen=True)
class Member:
    """User of a token, and if the token may write."""

    username: str = BOT
    writes: bool = True


@dataclass
class Note:
    """Current state of a note."""

    number: int
    author: str
    body: str
    system: bool = False
    edits: int = 0


class Refused(Exception):
    """Raised to answer a request with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message}


@dataclass
class FakeGitLab:
    """Fake GitLab server with one project and one merge request."""

    prefix: str = ""
    """Path before the API's paths, such as `/gitlab`."""
    page_size: int = LARGEST_PAGE
    members: dict[str, Member] = field(default_factory=lambda: {"glpat-writer": Member()})
    notes: dict[int, Note] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    """Names of quick actions that GitLab would have executed."""
    port: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    _last: int = 1000

    @property
    def api(self) -> str:
        """Return the value of CI_API_V4_URL."""
        return f"http://127.0.0.1:{self.port}{self.prefix}/api/v4"

    def environ(self, **more: str) -> dict[str, str]:
        """Return the predefined variables of a merge-request pipeline, and `more`."""
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": self.api,
            "CI_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_IID": str(MERGE_REQUEST),
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_PROJECT_URL": HOME,
            "CI_PIPELINE_ID": "900",
            "CI_JOB_ID": "12345678901",
            "GITLAB_TOKEN": "glpat-writer",
            **more,
        }

    def add_note(self, body: str, author: str = BOT, *, system: bool = False) -> Note:
        with self.lock:
            self._last += 1
            self.notes[self._last] = Note(self._last, author, body, system)
            return self.notes[self._last]

    def bodies(self) -> list[str]:
        """Return the texts of all notes of the merge request, oldest first."""
        with self.lock:
            return [note.body for note in self.notes.values()]

    @contextmanager
    def running(self) -> Iterator["FakeGitLab"]:
        """Serve during the block. Raise AssertionError at its end if there are `violations`."""
        with serving(self) as self.port:
            yield self
        assert not self.violations, self.violations

    def fault(self, method: str, path: str) -> Fault:
        """Return the fault to inject into a request; `Fault()` for none."""
        with self.lock:
            return next((each for each in self.faults if each.befalls(method, path)), Fault())

    @property
    def usual_headers(self) -> Mapping[str, str]:
        return {}

    def refusal(self, fault: Fault) -> Any:
        return {"message": fault.message}

    def exchanged(self, request: Request, status: int) -> None:
        del status
        self.asked.append((request.method, request.path))

    def answer(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        """Return status, body and headers for a request. Note violations of GitLab's documentation."""
        found = operation(request.method, request.path.removeprefix(self.prefix))
        if found is None:
            self.violations.append(f"{request.method} {request.path}: no such endpoint")
            return 404, {"error": "404 Not Found"}, {}
        asked, values = found
        problems = request_problems(asked, request.query, request.body)
        headers: dict[str, str] = {}
        try:
            with self.lock:
                body = self._done(asked, values, request)
            status = asked.status
        except Refused as refusal:
            status, body = refusal.status, refusal.body
        if isinstance(body, list):
            body, headers = self._page(body, request)
        problems += answer_problems(asked, status, body)
        self.violations += [f"{request.method} {request.path}: {problem}" for problem in problems]
        return status, body, headers

    def _done(self, asked: Operation, values: Mapping[str, str], request: Request) -> Any:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        member = self.members.get(token) if kind == "Bearer" else None
        if member is None:
            raise Refused(401, "401 Unauthorized")
        if not values:
            return _user(member.username)
        if (values["id"], values["noteable_id"]) != (str(PROJECT), str(MERGE_REQUEST)):
            raise Refused(404, "404 Project Not Found")
        if asked.method == "GET":
            newest_first = request.query.get("sort", "desc") == "desc"
            return [_note(each) for each in sorted(self.notes.values(), key=_number, reverse=newest_first)]
        if not member.writes:
            raise Refused(403, "403 Forbidden")
        if asked.method == "POST":
            return _note(self.add_note(self._kept(request.body["body"]), member.username))
        return self._changed(asked, values, member, request)

    def _changed(self, asked: Operation, values: Mapping[str, str], member: Member, request: Request) -> Any:
        note = self.notes.get(int(values["note_id"]))
        if note is None:
            raise Refused(404, "404 Note Not Found")
        if note.author != member.username:
            raise Refused(403, "403 Forbidden")
        if asked.method == "DELETE":
            del self.notes[note.number]
            return None
        note.body = self._kept(request.body["body"])
        note.edits += 1
        return _note(note)

    def _kept(self, body: str) -> str:
        """Return the text that GitLab stores for a note. Note its quick actions; refuse a text that is too long."""
        if len(body) > LONGEST_NOTE:
            raise Refused(
                400, '400 Bad request - Note {:note=>["is too long (maximum is 1000000 characters)"]}'
            )
        self.executed += quick_actions(body)
        return body.replace("\r", "").rstrip()

    def _page(self, items: list[Any], request: Request) -> tuple[Any, dict[str, str]]:
        size = min(int(request.query.get("per_page", 20)), LARGEST_PAGE, self.page_size)
        number = int(request.query.get("page", 1))
        shown = items[(number - 1) * size : number * size]
        if number * size >= len(items):
            return shown, {}
        # as a server behind a proxy that does not know its own address
        query = urlencode({**request.query, "page": number + 1})
        return shown, {"Link": f'<http://gitlab.internal{request.path}?{query}>; rel="next"'}


def _number(note: Note) -> int:
    return note.number


def _user(username: str) -> dict[str, Any]:
    return {
        "id": 1,
        "username": username,
        "name": username,
        "state": "active",
        "web_url": f"https://gitlab.example.com/{username}",
    }


def _note(note: Note) -> dict[str, Any]:
    return {
        "id": note.number,
        "type": None,
        "body": note.body,
        "author": _user(note.author),
        "created_at": "2026-11-21T08:30:00.000Z",
        "updated_at": "2026-11-21T08:30:00.000Z",
        "system": note.system,
        "noteable_id": 70007,
        "noteable_type": "MergeRequest",
        "project_id": PROJECT,
        "resolvable": False,
        "confidential": False,
        "internal": False,
        "imported": False,
        "imported_from": "none",
        "noteable_iid": MERGE_REQUEST,
        "commands_changes": {},
    }
