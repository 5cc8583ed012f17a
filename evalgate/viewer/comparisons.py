"""Two records, or a record and the baseline, compared case by case."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from evalgate.baselines.history import build_baseline
from evalgate.baselines.stores.file import FileStore
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseKey, CaseResult, Reply, RunResult
from evalgate.runner.reevaluation import compare_with_baseline, load_thresholds_or_default, resolve_target
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.state import Viewer

BASELINE = "baseline"
"""The id of the stored baseline among the records that can be compared with."""


@frozen
class ComparedRecord:
    """A record compared with an earlier one."""

    opened: OpenedRecord
    """The later record, judged against the earlier one."""
    before: Mapping[CaseKey, CaseResult]
    """The cases of the earlier record; empty for a baseline, which keeps no conversations."""
    baseline: Baseline
    """The runs of the earlier record."""
    before_title: str

    def get_earlier_replies(self, key: CaseKey) -> Sequence[Reply | None]:
        """Return the replies of a case in the earlier record, turn by turn; empty if they are not known."""
        case = self.before.get(key)
        if case is not None:
            run = choose_run(case)
            return tuple(turn.actual for turn in run.turns) if run else ()
        stored = next((each for each in self.baseline.cases if each.key == key), None)
        return stored.replies if stored else ()


def choose_run(case: CaseResult) -> RunResult | None:
    """Return the first answered run of a case, else its first run."""
    answered = (run for run in case.runs if run.outcome == "answered")
    return next(answered, case.runs[0] if case.runs else None)


def read_baseline(viewer: Viewer) -> Baseline | None:
    """Return the stored baseline; None if there is none, or if it is not in a file of the project.

    Raises:
        InvalidInputError: the thresholds file or the baseline is broken.
    """
    target = resolve_target(viewer.folder, None, viewer.thresholds)
    return target.store.read() if isinstance(target.store, FileStore) else None


def compare_records(viewer: Viewer, before: str, after: str) -> ComparedRecord:
    """Return the record with the id `after` compared with `before`, a record's id or `BASELINE`.

    Raises:
        InvalidInputError: there is no such record or baseline, or the thresholds file is broken.
    """
    opened = viewer.records.open_record(after)
    if before != BASELINE:
        return _compare_opened(viewer.records.open_record(before), opened, viewer.folder, viewer.thresholds)
    baseline = read_baseline(viewer)
    if baseline is None:
        raise InvalidInputError(
            "there is no baseline in a file of this project: `evalgate baseline save` makes one"
        )
    rules = load_thresholds_or_default(viewer.folder, viewer.thresholds)
    record = compare_with_baseline(opened.record, baseline, rules, baseline.path or BASELINE)
    judged = OpenedRecord(opened.record_id, opened.title, record)
    return ComparedRecord(judged, {}, baseline, baseline.path or BASELINE)


@lru_cache(maxsize=2)  # each holds both records
def _compare_opened(
    before: OpenedRecord, after: OpenedRecord, folder: Path, thresholds: str | None
) -> ComparedRecord:
    rules = load_thresholds_or_default(folder, thresholds)
    baseline = build_baseline(before.record, path=before.title)
    record = compare_with_baseline(after.record, baseline, rules, before.title)
    return ComparedRecord(
        OpenedRecord(after.record_id, after.title, record),
        {case.key: case for case in before.record.cases},
        baseline,
        before.title,
    )


def join_sides(run: RunResult, replies: Sequence[Reply | None]) -> RunResult:
    """Return a run that expects what an earlier run did: a page about it shows both side by side."""
    turns = tuple(
        replace(turn, expected=replies[at] if at < len(replies) else None, metrics=turn.metrics)
        for at, turn in enumerate(run.turns)
    )
    return replace(run, turns=turns)
