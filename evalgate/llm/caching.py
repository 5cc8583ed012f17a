"""Answers kept in one SQLite file, so that only new questions are asked.

SQLite's rollback journal, not its write-ahead log: at rest there is one whole file, on any file system, and a
process that is killed leaves a journal beside it that the next one rolls back. Every answer is a transaction
of its own, so that processes that share the file never wait long for each other.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakValueDictionary

from pydantic import TypeAdapter, ValidationError

from evalgate.config.schema.budget import MeteredUsage, Tokens
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest, merge_parameters
from evalgate.llm.usage import count_spared
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.system.files import check_is_regular

_T = TypeVar("_T")

_APPLICATION_ID = 0x45564A31
"""SQLite's application id of our files, "EVJ1"."""
_DIGEST = 32
_LOCK_TIMEOUT = 10.0  # seconds that another process may hold the file
_SCHEMA = """
    PRAGMA auto_vacuum = FULL;
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS answers (
        key TEXT PRIMARY KEY, answer TEXT NOT NULL, used INTEGER NOT NULL
    ) WITHOUT ROWID;
    PRAGMA application_id = {};
    COMMIT;
"""
_REMOVE_LONGEST_UNUSED = """
    DELETE FROM answers WHERE key IN (
        SELECT key FROM (
            SELECT key, SUM(LENGTH(CAST(answer AS BLOB)) + LENGTH(key)) OVER (ORDER BY used DESC, key) AS size
            FROM answers
        ) WHERE size > ?
    )
"""


class ResponseCache:
    """Texts by key. What goes wrong with the file is a notice and a miss, never an error.

    Safe for threads, and for any number of processes with the same file.
    """

    def __init__(self, path: Path, *, writes: bool, wall: Callable[[], float]) -> None:
        self._path = path
        self._writes = writes
        self._wall = wall
        self._lock = threading.Lock()
        self._used_keys: set[str] = set()
        self._notices: dict[str, None] = {}
        self._file: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        with self._lock:
            self._file = self._open_file()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the report should know."""
        return tuple(self._notices)

    def get(self, key: str) -> str | None:
        """The text that is kept, or None."""

        def select_answer(file: sqlite3.Connection) -> str | None:
            row = file.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None or not isinstance(row[0], str):
                return None
            text = _verify_digest(key, row[0])
            if text is None:
                self._add_notice("holds answers that are not as they were written; they are asked for anew")
                return None
            self._used_keys.add(key)
            return text

        return self._run_query(select_answer)

    def put(self, key: str, text: str) -> None:
        """Keep a text, if the file is written."""

        def insert_answer(file: sqlite3.Connection) -> None:
            row = (key, _add_digest(key, text), int(self._wall()))
            file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)

        if self._writes:
            self._run_query(insert_answer)

    def prune(self, *, max_age_days: float, max_bytes: int) -> int:
        """Remove what nobody asked for in so long, then the longest unused until the rest fits.

        Gives how many were removed. What this run asked for counts as used now.
        """

        def delete_unused(file: sqlite3.Connection) -> int:
            before = file.total_changes
            oldest = int(self._wall() - max_age_days * 86_400)
            file.execute("DELETE FROM answers WHERE used < ?", (oldest,))
            file.execute(_REMOVE_LONGEST_UNUSED, (max_bytes,))
            return file.total_changes - before

        if not self._writes:
            return 0
        self._update_last_used()
        return self._run_query(delete_unused) or 0

    def close(self) -> None:
        """Close the file; what this run asked for counts as used."""
        self._update_last_used()
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _update_last_used(self) -> None:
        used = [(int(self._wall()), key) for key in sorted(self._used_keys)]
        if not (self._writes and used):
            return

        def update_rows(file: sqlite3.Connection) -> None:
            file.execute("BEGIN IMMEDIATE")
            file.executemany("UPDATE answers SET used = ? WHERE key = ?", used)
            file.execute("COMMIT")

        self._run_query(update_rows)
        self._used_keys.clear()

    def _run_query(self, work: Callable[[sqlite3.Connection], _T]) -> _T | None:
        with self._lock:
            if self._file is None:
                return None
            try:
                return work(self._file)
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._file.rollback()
                self._add_notice(f"could not be used at times ({error})")
                return None

    def _open_file(self) -> sqlite3.Connection | None:
        try:
            if self._path.exists():
                check_is_regular(self._path)
            if not self._writes:
                return self._connect_and_check() if self._path.is_file() else None
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with _lock_folder(self._path.parent):
                return self._open_or_recreate()
        except (sqlite3.Error, OSError) as error:
            self._add_notice(f"is not used: {getattr(error, 'strerror', None) or error}")
            return None

    def _open_or_recreate(self) -> sqlite3.Connection:
        try:
            return self._connect_and_check()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, no permission, disk full: says nothing about what is in it
            aside = _find_free_path(self._path)
            self._path.rename(aside)
            # It belongs to the file that went; a new one would be rolled back by it.
            Path(f"{self._path}-journal").unlink(missing_ok=True)
            self._add_notice(f"was not a cache of answers ({error}): renamed to {aside.name}, and begun anew")
            return self._connect_and_check()

    def _connect_and_check(self) -> sqlite3.Connection:
        mode = "rwc" if self._writes else "ro"
        file = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_LOCK_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_schema(file, writes=self._writes)
        except BaseException:
            file.close()
            raise
        return file

    def _add_notice(self, what: str) -> None:
        self._notices.setdefault(f"the judge's cache {self._path.name} {what}.")


def _add_digest(key: str, text: str) -> str:
    """Return the text behind a digest of key and text: SQLite's own check does not see a changed cell."""
    return hashlib.sha256(f"{key}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST] + text


def _verify_digest(key: str, kept: str) -> str | None:
    """Return the text; None if it, or the key that it is kept under, is not what was written."""
    text = kept[_DIGEST:]
    return text if _add_digest(key, text) == kept else None


def _check_schema(file: sqlite3.Connection, *, writes: bool) -> None:
    """Raise sqlite3.DatabaseError unless the file is ours and whole, or empty and made ours."""
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (objects,) = file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if writes and not application and not objects:
        file.executescript(_SCHEMA.format(_APPLICATION_ID))
    elif application != _APPLICATION_ID:
        raise sqlite3.DatabaseError("another program's file")
    (verdict,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"damaged: {verdict}")
    columns = [row[1] for row in file.execute("PRAGMA table_info(answers)")]
    if columns != ["key", "answer", "used"]:
        raise sqlite3.DatabaseError(f"columns {columns}")
    # A process that is killed loses nothing by it; a machine that loses its power may break the file, which
    # costs the answers in it and no run.
    file.execute("PRAGMA synchronous = OFF")


def _find_free_path(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    return aside


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Of the processes that open a file in this folder, one looks whether it is broken, and mends it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_FORM = 2
# 1: the first. 2: answers have a digest. Raise it when a request is sent, or an answer kept, differently.

_ANSWER = TypeAdapter(ModelAnswer)


class CachingModel:
    """A model whose answers are kept: who asks the same at the same time waits for one."""

    def __init__(
        self,
        inner: ModelClient,
        file: ResponseCache,
        *,
        base_url: str,
        model: str,
        parameters: Mapping[str, object],
        hiding: LiveRedactor,
        compute_cost: Callable[[ModelRequest, Tokens | None], MeteredUsage],
    ) -> None:
        self._inner = inner
        self._file = file
        self._base_url = base_url
        self._model = model
        self._parameters = parameters
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._hiding = hiding
        self._compute_cost = compute_cost
        self.spared = MeteredUsage()
        """Calls that were not made, as they were paid for once."""
        self.withheld = 0
        """Answers that were not kept, for they hold a secret."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The kept answer, or the inner model's, which is kept then unless it holds a secret.

        Raises:
            JudgeError: there is none. Failures are not kept.
        """
        key = self.compute_key(request)
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = await asyncio.to_thread(self._file.get, key)
            answer = _parse_answer(kept) if kept is not None else None
            if answer is not None:
                spared = self._compute_cost(request, answer.tokens)
                self.spared += spared
                count_spared(spared)
                return answer
            answer = await self._inner.ask(request)
            if self._holds_secret(answer, request):
                self.withheld += 1
            else:
                await asyncio.to_thread(self._file.put, key, _ANSWER.dump_json(answer).decode())
            return answer

    def _holds_secret(self, answer: ModelAnswer, request: ModelRequest) -> bool:
        # Without its secret an answer may read otherwise, and the next run would score otherwise.
        said = f"{answer.model}\n{answer.text}"
        return self._hiding.redact_text(said, *(message.text for message in request.messages)) != said

    def compute_key(self, request: ModelRequest) -> str:
        """SHA-256, in hexadecimal digits, over all that the answer depends on."""
        whole = {
            "form": _FORM,
            "base_url": self._base_url,
            "model": request.model or self._model,
            "messages": [[message.role, message.text] for message in request.messages],
            "parameters": merge_parameters(request, self._parameters),
            "answer_schema": asdict(request.answer_schema) if request.answer_schema else None,
            "prompt_version": request.prompt_version,
            "sample": request.sample,
            "attempt": request.attempt,
        }
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=dict)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_answer(kept: str) -> ModelAnswer | None:
    try:
        answer = _ANSWER.validate_json(kept)
    except ValidationError:
        return None
    return ModelAnswer(answer.text, answer.model, answer.tokens, answer.finish, answer.choices, cached=True)
