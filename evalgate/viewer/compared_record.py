"""Compare a record with another record or with the baseline, case by case."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from evalgate.baselines.history import build_baseline
from evalgate.baselines.stores.file import FileStore
from evalgate.config.loader import load_thresholds_or_default
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseKey, CaseResult, Reply, RunResult
from evalgate.runner.baseline_targets import BaselineTarget, resolve_target
from evalgate.runner.regating import compare_stored_record
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.state import Viewer

BASELINE = "baseline"
"""Id of the stored baseline in the addresses of pages that compare it like a record."""


@frozen
class ComparedRecord:
    """Record that was compared with an earlier record or the stored baseline."""

    opened: OpenedRecord
    """Later record, with its changes since the earlier record or baseline."""
    before: Mapping[CaseKey, CaseResult]
    """Cases of the earlier record; {} if the later record was compared with the stored baseline."""
    baseline: Baseline
    """Stored baseline, or the runs of the earlier record in the form of a baseline."""
    before_title: str

    def get_earlier_replies(self, key: CaseKey) -> Sequence[Reply | None]:
        """Return the agent's earlier replies to a case, turn by turn; () if none are stored.

        If `before` has the case, return the replies of the run that `choose_shown_run` returns for it.
        Otherwise return the replies in `baseline`.
        """
        case = self.before.get(key)
        if case is not None:
            run = choose_shown_run(case)
            return tuple(turn.actual for turn in run.turns) if run else ()
        stored = next((each for each in self.baseline.cases if each.key == key), None)
        return stored.replies if stored else ()


def choose_shown_run(case: CaseResult) -> RunResult | None:
    """Return the run of a case to show: the first answered run, or else the first run.

    Return None if the case was not run.
    """
    answered = (run for run in case.runs if run.outcome == "answered")
    return next(answered, case.runs[0] if case.runs else None)


_REMOTE_CACHE_S = 300.0
"""Seconds for which a remote baseline is kept before it is fetched again."""


@frozen
class _FetchedBaseline:
    target: str
    time: float
    baseline: Baseline | None


def read_baseline(viewer: Viewer, *, remote: bool = False) -> Baseline | None:
    """Return the stored baseline; None if the project has no baseline.

    A remote baseline is in a branch, an artifact or a bucket. If `remote` is False, return None for it. If
    `remote` is True, fetch it, and keep it for five minutes.

    Raises:
        InvalidInputError: the thresholds file or the baseline is broken.
        NoVerdictError: the network does not answer.
    """
    target = resolve_target(viewer.folder, None, viewer.thresholds)
    store = target.store
    if not isinstance(store, FileStore):
        return _read_remote(viewer, target) if remote else None
    try:
        found = store.path.stat()
    except OSError:
        return store.read()  # returns None for a missing file, or raises the error
    return _read_store(store, found.st_mtime_ns, found.st_size)


def _read_remote(viewer: Viewer, target: BaselineTarget) -> Baseline | None:
    known = viewer.services.get(_FetchedBaseline)
    if (
        not isinstance(known, _FetchedBaseline)
        or known.target != target.target
        or time.monotonic() - known.time > _REMOTE_CACHE_S
    ):
        known = _FetchedBaseline(target.target, time.monotonic(), target.store.read())
        viewer.services[_FetchedBaseline] = known
    return known.baseline


def find_remote_baseline(viewer: Viewer) -> str:
    """Return the place of a remote baseline, such as `branch:baselines`; "" if the baseline is a file.

    Raises:
        InvalidInputError: the thresholds file is broken.
    """
    target = resolve_target(viewer.folder, None, viewer.thresholds)
    return "" if isinstance(target.store, FileStore) else target.target


def has_baseline(viewer: Viewer) -> bool:
    """Return True if there is a baseline in a file and it can be read. A remote baseline is not looked up."""
    try:
        return read_baseline(viewer) is not None
    except InvalidInputError:
        return False


@lru_cache(maxsize=1)
def _read_store(store: FileStore, _time: int, _size: int) -> Baseline | None:
    return store.read()


_compared: dict[object, ComparedRecord] = {}
"""Cache of the newest comparison. Its pages need it repeatedly, and comparing 10,000 cases takes seconds."""
_lock = threading.Lock()


def compare_records(viewer: Viewer, before: str, after: str) -> ComparedRecord:
    """Compare two records by their ids: the later record `after` with the earlier record `before`.

    `before` may also be `BASELINE`, for the stored baseline.

    Raises:
        InvalidInputError: there is no such record or baseline, or the thresholds file, a record or the
            baseline is broken.
        NoVerdictError: the network does not answer.
    """
    thresholds = load_thresholds_or_default(viewer.folder, viewer.thresholds)
    opened = viewer.records.open_record(after)
    earlier = None if before == BASELINE else viewer.records.open_record(before)
    baseline = read_baseline(viewer, remote=True) if earlier is None else None
    if earlier is None and baseline is None:
        raise InvalidInputError("this project has no baseline yet: `evalgate baseline save` makes one")
    version: object = earlier.version if earlier else baseline and baseline.sources
    key = (viewer.folder, before, version, after, opened.version, repr(thresholds.config))
    with _lock:
        if key not in _compared:
            _compared.clear()
            _compared[key] = _compare(opened, earlier, baseline, thresholds)
        return _compared[key]


def _compare(
    opened: OpenedRecord, earlier: OpenedRecord | None, baseline: Baseline | None, thresholds: Thresholds
) -> ComparedRecord:
    title = earlier.title if earlier else BASELINE
    if baseline is None:
        baseline = build_baseline(earlier.record if earlier else opened.record, path=title)
    title = baseline.path or title
    record = compare_stored_record(opened.record, baseline, thresholds, title)
    return ComparedRecord(
        OpenedRecord(opened.record_id, opened.title, opened.version, record),
        {case.key: case for case in earlier.record.cases} if earlier else {},
        baseline,
        title,
    )


def join_sides(run: RunResult, replies: Sequence[Reply | None]) -> RunResult:
    """Return `run` with `replies` in place of its expected replies.

    `replies` are those of an earlier run, so a page then shows the replies of both runs side by side.
    """
    turns = tuple(
        replace(turn, expected=replies[at] if at < len(replies) else None)
        for at, turn in enumerate(run.turns)
    )
    return replace(run, turns=turns)
