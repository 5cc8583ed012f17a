"""Cache the answers of models in one SQLite file, so that only new questions are sent.

SQLite's rollback journal is used instead of its write-ahead log, because it works on any file system, and
leaves a single file when no process writes. A killed process leaves a journal next to the file, which the
next process rolls back. Each answer is a transaction of its own, so processes that share the file never wait
long.
"""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeVar
from weakref import WeakValueDictionary

from pydantic import TypeAdapter, ValidationError

from evalgate.config.token_prices import Tokens
from evalgate.core.types import ModelUsage
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest, merge_parameters
from evalgate.llm.usage import MeteredUsage, count_model_usage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.system.files import check_is_regular
from evalgate.system.folder_lock import lock_folder

_T = TypeVar("_T")

_APPLICATION_ID = 0x45564A31
"""SQLite's application id of evalgate's caches, "EVJ1"."""
_DIGEST = 32  # hexadecimal digits of the digest before each stored answer
_LOCK_TIMEOUT_S = 10.0  # seconds to wait for a file that another process has locked
_LATER_LOCK_TIMEOUT_MS = 100  # milliseconds to wait once that time was too short
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
    """A map in a SQLite file, from keys of requests to texts of answers.

    Problems with the file raise no error: they are added to `notices`, and a text that cannot be read counts
    as not stored. The map is safe for threads, and for any number of processes with the same file.

    An agent may be able to write to the file. So `get` trusts only two kinds of texts: those that this object
    stored with `put`, and those that were in the file when `trust_stored_answers` was called. Without such a
    call, it trusts the texts that were in the file when the file was opened.
    """

    def __init__(self, path: Path, *, writes: bool, wall: Callable[[], float]) -> None:
        self.path = path
        self._file_path = path
        """Path of the file that SQLite opens."""
        self._writes = writes
        self._wall = wall
        self._lock = threading.Lock()
        self._used_keys: set[str] = set()
        self._trusted: set[str] | None = None
        """Digests of the pairs of key and text that `get` may return; None until the digests are read."""
        self._notices: dict[str, None] = {}
        self._file: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        self._prepare_file()
        with self._lock:
            self._file = self._open_file()
        if self._trusted is None:
            self._trusted = self._read_digests()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return sentences for the report about problems with the file, without duplicates."""
        return tuple(self._notices)

    def trust_stored_answers(self) -> None:
        """Let `get` return the texts that are in the file now and the texts that `put` stores, but no others.

        Only the first call counts, and only if `distrust_stored_answers` was not called before. If the file
        does not exist, it is not created.
        """
        self._prepare_file()
        if self._trusted is None and self._file_path.exists():
            with self._lock:
                self._file = self._open_file()
            self._trusted = self._read_digests()
            self._close_file()
        self.distrust_stored_answers()

    def distrust_stored_answers(self) -> None:
        """Let `get` return only texts stored by `put`. Do nothing after a call of `trust_stored_answers`."""
        if self._trusted is None:
            self._trusted = set()

    def get(self, key: str) -> str | None:
        """Return the stored text of a key.

        Return None if no text is stored, or if the text is damaged, not trusted or cannot be read.
        """

        def select_answer(file: sqlite3.Connection) -> str | None:
            row = file.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None or not isinstance(row[0], str):
                return None
            text = row[0][_DIGEST:]
            if _add_digest(key, text) != row[0]:
                self._add_notice("holds damaged answers, which are requested again")
                return None
            if row[0][:_DIGEST] not in (self._trusted or ()):
                self._add_notice(
                    "holds answers of unknown origin, which another run or the agent may have stored: they "
                    "were not used, but requested again"
                )
                return None
            self._used_keys.add(key)
            return text

        return self._run_query(select_answer)

    def put(self, key: str, text: str) -> None:
        """Store a text under a key; do nothing if the cache is read-only."""

        def insert_answer(file: sqlite3.Connection) -> None:
            answer = _add_digest(key, text)
            row = (key, answer, int(self._wall()))
            file.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", row)
            if self._trusted is not None:
                self._trusted.add(answer[:_DIGEST])

        if self._writes:
            self._run_query(insert_answer)

    def prune(self, *, max_age_days: float, max_bytes: int) -> int:
        """Remove old answers from the file, and return the number of removed answers.

        Answers that were not used for `max_age_days` are removed first. If the remaining answers and their
        keys have more than `max_bytes`, the least recently used ones are removed, too. Answers that this
        process used count as used now. A read-only cache stays as it is.
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
        """Store the present time as the last use of all answers that `get` returned, and close the file.

        If the cache is read-only, the time is not stored.
        """
        self._update_last_used()
        self._close_file()

    def _prepare_file(self) -> None:
        """Prepare the file before it is opened. Do nothing here; `PrivateCache` overrides this method."""

    def _close_file(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _read_digests(self) -> set[str]:
        """Return the digests of all stored texts, as they are in the file; an empty set if reading fails."""

        def select_digests(file: sqlite3.Connection) -> set[str]:
            rows = file.execute("SELECT SUBSTR(answer, 1, ?) FROM answers", (_DIGEST,))
            return {digest for (digest,) in rows if isinstance(digest, str)}

        return self._run_query(select_digests) or set()

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
        """Call `work` with the open file and return its result.

        Return None if the file is not open, or if SQLite fails; a failure also adds a notice.
        """
        with self._lock:
            if self._file is None:
                return None
            try:
                return work(self._file)
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._file.rollback()
                    # A process that keeps the file locked must not delay every question.
                    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                        self._file.execute(f"PRAGMA busy_timeout = {_LATER_LOCK_TIMEOUT_MS}")
                self._add_notice(f"could not be used at times ({error})")
                return None

    def _open_file(self) -> sqlite3.Connection | None:
        try:
            if self._file_path.exists():
                check_is_regular(self._file_path)
            if not self._writes:
                return self._connect_and_check() if self._file_path.is_file() else None
            self._file_path.parent.mkdir(parents=True, exist_ok=True)
            with lock_folder(self._file_path.parent, _LOCK_TIMEOUT_S, required=False):
                return self._open_or_recreate()
        except (sqlite3.Error, OSError) as error:
            self._add_notice(f"is not used: {getattr(error, 'strerror', None) or error}")
            return None

    def _open_or_recreate(self) -> sqlite3.Connection:
        try:
            return self._connect_and_check()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, no permission, disk full: the content may be intact
            aside = _find_free_path(self._file_path)
            self._file_path.rename(aside)
            # The journal belongs to the renamed file. SQLite would roll the new file back with it.
            Path(f"{self._file_path}-journal").unlink(missing_ok=True)
            self._add_notice(
                f"was not a cache of answers ({error}): renamed to {aside.name}, and a new one was created"
            )
            return self._connect_and_check()

    def _connect_and_check(self) -> sqlite3.Connection:
        mode = "rwc" if self._writes else "ro"
        file = sqlite3.connect(
            f"{self._file_path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_LOCK_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _check_schema(file, writes=self._writes)
        except BaseException:
            file.close()
            raise
        return file

    def _add_notice(self, predicate: str) -> None:
        self._notices.setdefault(f"the judge's cache {self.path.name} {predicate}.")


def _add_digest(key: str, text: str) -> str:
    """Return the text in its stored form: a 32-digit digest of key and text, and then the text.

    The digest reveals damage, because SQLite detects no damaged cells.
    """
    return hashlib.sha256(f"{key}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST] + text


def _check_schema(file: sqlite3.Connection, *, writes: bool) -> None:
    """Check that the file is an undamaged cache. If it is empty and `writes` is True, first create the table.

    Also set SQLite to write without waiting for the disk.

    Raises:
        sqlite3.DatabaseError: the file belongs to another program, is damaged or has other columns.
    """
    (application,) = file.execute("PRAGMA application_id").fetchone()
    objects = file.execute("SELECT type, name FROM sqlite_master").fetchall()
    if writes and not application and not objects:
        file.executescript(_SCHEMA.format(_APPLICATION_ID))
    elif application != _APPLICATION_ID:
        raise sqlite3.DatabaseError("another program's file")
    elif objects != [("table", "answers")]:  # a view or a trigger could make a query endless
        raise sqlite3.DatabaseError(f"{len(objects)} tables, views and triggers")
    # Now, because SQLite reports a damaged page only when a query meets it, in the middle of a run.
    (verdict,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"damaged: {verdict}")
    columns = [row[1] for row in file.execute("PRAGMA table_info(answers)")]
    if columns != ["key", "answer", "used"]:
        raise sqlite3.DatabaseError(f"columns {columns}")
    # Without synchronous writes, a killed process still loses nothing. A power failure may damage the file,
    # so that its answers are lost; the next run still works.
    file.execute("PRAGMA synchronous = OFF")


def _find_free_path(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    return aside


_FORM = 2
"""Version of the form of keys and answers. Raise it whenever the form changes. 2: answers have a digest."""

_ANSWER = TypeAdapter(ModelAnswer)


class CachingModel:
    """A wrapper around a model that returns stored answers, and asks the model only if no answer is stored.

    Equal requests at the same time are handled one by one, so that later ones find the stored answer.
    """

    def __init__(
        self,
        inner: ModelClient,
        file: ResponseCache,
        *,
        base_url: str,
        model: str,
        parameters: Mapping[str, object],
        redactor: LiveRedactor,
        compute_cost: Callable[[ModelRequest, Tokens | None], MeteredUsage],
    ) -> None:
        self._inner = inner
        self._file = file
        self._base_url = base_url
        self._model = model
        self._parameters = parameters
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._redactor = redactor
        self._compute_cost = compute_cost
        self.usage = ModelUsage()
        """Usage of the calls that the cache saved, with the cost that they would have had."""
        self.withheld = 0
        """Number of answers that were not stored, because they contain a secret."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the stored answer, or ask the inner model and store its answer.

        An answer with a secret is not stored.

        Raises:
            JudgeError: the inner model gave no answer. Failures are not stored.
        """
        key = self.compute_key(request)
        # A lock for each key, so that of equal requests at the same time only one asks. The values are weak:
        # a lock lives as long as a request uses it, and thousands of questions leave no locks behind.
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = await asyncio.to_thread(self._file.get, key)
            answer = _parse_answer(kept) if kept is not None else None
            if answer is not None:
                spared = self._compute_cost(request, answer.tokens).to_spared_usage()
                self.usage += spared
                count_model_usage(spared)
                return answer
            answer = await self._inner.ask(request)
            # Not stored redacted either, because the next run might score the redacted text differently.
            text = f"{answer.model}\n{answer.text}"
            if self._redactor.redact_text(text, *(message.text for message in request.messages)) != text:
                self.withheld += 1
            else:
                await asyncio.to_thread(self._file.put, key, _ANSWER.dump_json(answer).decode())
            return answer

    def compute_key(self, request: ModelRequest) -> str:
        """Return the cache key of a request: the SHA-256, in hex, of the request and endpoint settings."""
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
            **({"embeds": True} if request.embeds else {}),
        }
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=dict)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_answer(kept: str) -> ModelAnswer | None:
    try:
        answer = _ANSWER.validate_json(kept)
    except ValidationError:
        return None
    return ModelAnswer(answer.text, answer.model, answer.tokens, answer.finish, answer.choices, cached=True)
