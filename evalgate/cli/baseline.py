"""`evalgate baseline save`, `accept`, `prune` and `export`."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from evalgate.baselines.history import accepted, added, digest_of, pruned
from evalgate.baselines.stores.file import BaselineFile
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.gate import DEFAULT_BASELINE
from evalgate.config.schema.thresholds import Config
from evalgate.core import registry
from evalgate.core.errors import InvalidInput
from evalgate.core.formatting import counted
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselinePlace, BaselineStore, LeavesAStep, absence_of
from evalgate.core.sanitize import without_commands
from evalgate.core.types import Baseline, BaselineSource, Criterion, Record
from evalgate.datasets.results_io import read_record
from evalgate.gating.verdict import contradictions
from evalgate.redaction.redactor import Redactor
from evalgate.runner.plan import workspace_at
from evalgate.system import git
from evalgate.system.files import is_readable_name
from evalgate.system.workspace import Workspace


@frozen
class Shelf:
    """Where a baseline is kept, and how much of it."""

    workspace: Workspace
    target: str
    store: BaselineStore
    config: Config
    """The thresholds file; the defaults without one."""
    criteria: tuple[Criterion, ...] = ()
    """The criteria of that file."""

    @property
    def keep(self) -> int:
        """Gate runs that stay of each eval set."""
        return self.config.gate.statistics.baseline_keep

    @property
    def next_step(self) -> str:
        """What is left to do after a change for others to see it; "" when nothing is."""
        return f" {self.store.next_step}" if isinstance(self.store, LeavesAStep) else ""

    def read(self) -> Baseline:
        """The baseline.

        Raises:
            InvalidInput: there is none, or it cannot be read.
        """
        if (found := self.store.read()) is None:
            raise InvalidInput(
                f"{self.target}: there is no baseline yet{absence_of(self.store)}. `evalgate run`, then "
                "`evalgate baseline save`."
            )
        return found


@frozen
class Keeping:
    """What a result is kept with."""

    environ: Mapping[str, str]
    commit: str | None = None
    """The commit that the result speaks of; None: the one that is checked out."""
    allow_pull_request: bool = False
    allow_failing: bool = False
    """Whether runs may be added for which the gate closed."""


def shelf_at(folder: Path, to: str | None, thresholds: str | None) -> Shelf:
    """The baseline called `to`, else that of the thresholds file, else the usual one.

    Raises:
        InvalidInput: there is no such folder or thresholds file, or it is wrong.
    """
    workspace = workspace_at(folder)
    path = workspace.folder / thresholds if thresholds else find_thresholds_file(workspace.folder)
    rules = load_thresholds(path, thresholds or workspace.shown(path)) if path else None
    config = rules.config if rules else Config()
    target = to or config.gate.baseline or DEFAULT_BASELINE
    return Shelf(workspace, target, kept_at(workspace, target), config, rules.criteria if rules else ())


def find_baseline(workspace: Workspace) -> str | None:
    """Return the place where baselines are kept that nobody names, if there is one."""
    return DEFAULT_BASELINE if is_readable_name(workspace.folder / DEFAULT_BASELINE) else None


def kept_at(workspace: Workspace, what: str) -> BaselineStore:
    """Where the baseline is that is called `what`: a path, `branch:NAME`, a URL and so on.

    Raises:
        InvalidInput: it is no name of a baseline.
    """
    place = BaselinePlace(workspace.folder, os.environ, workspace.owner)
    store = registry.baseline_store(what, place)
    return store or BaselineFile(workspace.folder / what, what, workspace.owner)


def save_baseline(results: str, shelf: Shelf, keeping: Keeping) -> str:
    """Add the raw scores of a `results.json` to the baseline; gives the sentence that says so.

    Raises:
        InvalidInput: it is no result to hold others against, or the baseline cannot be written.
    """
    record, source = _checked(results, shelf, keeping, "added to")
    if record.verdict.status == "fail" and not keeping.allow_failing:
        raise InvalidInput(
            f"{results}: the gate closed for this run ({record.verdict.reasons[0]}), so it is not added to "
            "the baseline. If the default branch is like that, say --allow-failing: what is merged is what "
            "changes are compared with. If the change was meant, use `evalgate baseline accept --reason …`."
        )
    seen: list[Baseline | None] = [None]

    def add(before: Baseline | None) -> Baseline:
        seen[0] = before
        return added(before, record, source, keep=shelf.keep)

    after = _updated(shelf, add)
    before, cases = seen[0], counted(len(record.cases), "case")
    if before is None:
        return f"Baseline of {cases} saved to {shelf.target}.{shelf.next_step}{_bad(record)}"
    if any(each.digest == source.digest for each in before.sources):
        return f"{shelf.target} holds this run already: nothing was added."
    return (
        f"Runs of {cases} added to {shelf.target}, which holds {counted(len(after.sources), 'gate run')} "
        f"now.{shelf.next_step}{_bad(record)}"
    )


def accept_baseline(results: str, reason: str, shelf: Shelf, keeping: Keeping) -> str:
    """Put a `results.json` in the place of all that the baseline holds, for a reason that reports show.

    Raises:
        InvalidInput: as `save_baseline`.
    """
    record, source = _checked(results, shelf, keeping, "accepted as")
    # A reason is typed by hand and stays in the repository: it is redacted as everything that is reported.
    told = Redactor.of(keeping.environ).text(reason)
    _updated(shelf, lambda _: accepted(record, source, told))
    return (
        f"{shelf.target} holds {counted(len(record.cases), 'case')} of this run and nothing else now."
        f"{shelf.next_step}{_bad(record)}"
    )


def prune_baseline(keep: int, shelf: Shelf) -> str:
    """Leave only the newest gate runs of each eval set; gives the sentence that says so.

    Raises:
        InvalidInput: there is no baseline, or it cannot be written.
    """
    sources = len(shelf.read().sources)
    after = _updated(shelf, lambda before: pruned(before or shelf.read(), keep=keep))
    gone = sources - len(after.sources)
    return f"{shelf.target}: {counted(gone, 'gate run')} removed, {len(after.sources)} left."


def _updated(shelf: Shelf, change: Callable[[Baseline | None], Baseline]) -> Baseline:
    try:
        return shelf.store.update(change)
    except OSError as error:
        raise InvalidInput(
            f"{shelf.target}: the baseline cannot be written there ({error.strerror or error}). "
            "Choose another file with --to."
        ) from None


def _checked(results: str, shelf: Shelf, keeping: Keeping, verb: str) -> tuple[Record, BaselineSource]:
    """The record and where it comes from, when it may be a standard for others."""
    what = git.unmerged(keeping.environ)
    if what and not keeping.allow_pull_request:
        raise InvalidInput(
            f"this job tests {what}, and its runs are not {verb} the baseline: a change that is not merged "
            "would be the standard for all others. Save in a job of the default branch, or say "
            "--allow-pull-request."
        )
    folder = shelf.workspace.folder
    record = read_record(folder / results, results)
    if problem := _why_not(record) or _why_stale(record, folder, keeping):
        raise InvalidInput(f"{results}: {problem}")
    source = BaselineSource(
        record.created_at,
        keeping.commit or git.commit(folder, keeping.environ),
        git.branch(folder, keeping.environ),
        digest=digest_of(record),
    )
    return record, source


def _why_not(record: Record) -> str:
    if wrong := list(contradictions(record)):
        return f"{'; '.join(wrong)}. Somebody edited it: run `evalgate run` again."
    if not any(metric.score is not None for case in record.cases for metric in case.metrics):
        return "no case has a score, so it is no baseline. Run `evalgate run` first."
    if record.verdict.status == "error":
        return (
            f"this run has no verdict ({record.verdict.reasons[0]}), so it is no standard for others. "
            "Run `evalgate run` to the end first."
        )
    return ""


def _why_stale(record: Record, folder: Path, keeping: Keeping) -> str:
    committed = None if keeping.commit else git.committed_at(folder)
    try:
        made = datetime.fromisoformat(record.created_at)
    except ValueError:
        return (
            f"`created_at` is no time: {record.created_at!r}. Somebody edited it: run `evalgate run` again."
        )
    if committed is None or made.tzinfo is None or made >= committed:
        return ""
    return (
        "this run was made before the commit that is checked out, so nobody knows what it speaks of. Run "
        "`evalgate run` again, or name its commit with --commit."
    )


def _bad(record: Record) -> str:
    bad = record.totals.failed + record.totals.errored
    return f" {counted(bad, 'case')} in it did not pass." if bad else ""


COLUMNS = (
    "eval_set_id",
    "eval_id",
    "metric",
    "score",
    "outcome",
    "created_at",
    "commit",
    "branch",
    "duration_s",
)

Row: TypeAlias = tuple[str | float | None, ...]


def export_baseline(baseline: Baseline, format_name: str) -> str:
    """One row for each metric of each run, in the order of the cases, as `csv` or `json`.

    A score is empty (null) where the metric gave none; `outcome` says whether the agent answered.

    Raises:
        InvalidInput: a name holds what a CI runner obeys, which CSV cannot spell in another way.
    """
    rows = _rows(baseline)
    if format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        return _harmless(text.getvalue())
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows]
    return "[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n" if lines else "[]\n"


def _harmless(text: str) -> str:
    if without_commands(text) != text:
        message = (
            "the baseline holds a name that a CI runner would take for a command, and CSV cannot spell it "
            "otherwise: use --format json"
        )
        raise InvalidInput(message)
    return text


def _rows(baseline: Baseline) -> Iterator[Row]:
    for case in baseline.cases:
        for run in case.runs:
            source = baseline.sources[run.source]
            for metric, score in run.scores.items():
                yield (
                    case.eval_set_id,
                    case.eval_id,
                    metric,
                    score,
                    run.outcome,
                    source.created_at,
                    source.commit,
                    source.branch,
                    run.duration_s,
                )
