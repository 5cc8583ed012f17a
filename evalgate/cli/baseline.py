"""`evalgate baseline save`, `accept`, `prune` and `export`."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from evalgate.baselines.history import add_run, hash_record, prune_runs, replace_runs
from evalgate.baselines.stores.file import FileStore
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.gate import DEFAULT_BASELINE
from evalgate.config.schema.thresholds import Config
from evalgate.core import registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselineStore, HasFollowUpStep, StoreContext, explain_missing_baseline
from evalgate.core.sanitize import disable_commands
from evalgate.core.types import Baseline, BaselineSource, Criterion, Record
from evalgate.datasets.results_io import read_record
from evalgate.gating.verdict import find_inconsistencies
from evalgate.redaction.redactor import Redactor
from evalgate.runner.plan import resolve_workspace
from evalgate.system import git
from evalgate.system.files import is_readable_name
from evalgate.system.workspace import Workspace


@frozen
class BaselineTarget:
    """Location of a baseline, with the thresholds file that applies to it."""

    workspace: Workspace
    target: str
    store: BaselineStore
    config: Config
    """The thresholds file; the defaults without one."""
    criteria: tuple[Criterion, ...] = ()
    """The criteria of that file."""

    @property
    def keep(self) -> int:
        """Return the number of gate runs to keep of each eval set."""
        return self.config.gate.statistics.baseline_keep

    @property
    def next_step(self) -> str:
        """Return the step that is left before others see a change; "" if there is none."""
        return f" {self.store.next_step}" if isinstance(self.store, HasFollowUpStep) else ""

    def read(self) -> Baseline:
        """Read the baseline.

        Raises:
            InvalidInputError: there is none, or it cannot be read.
        """
        if (found := self.store.read()) is None:
            raise InvalidInputError(
                f"{self.target}: there is no baseline yet{explain_missing_baseline(self.store)}. "
                f"`evalgate run`, then "
                "`evalgate baseline save`."
            )
        return found


@frozen
class SaveOptions:
    """Options of `baseline save` and `baseline accept`."""

    environ: Mapping[str, str]
    commit: str | None = None
    """Commit that was evaluated; None: the one that is checked out."""
    allow_pull_request: bool = False
    allow_failing: bool = False
    """True: runs that closed the gate may be added."""


def resolve_target(folder: Path, to: str | None, thresholds: str | None) -> BaselineTarget:
    """Return the baseline `to`, else that of the thresholds file, else the default one.

    Raises:
        InvalidInputError: there is no such folder or thresholds file, or it is wrong.
    """
    workspace = resolve_workspace(folder)
    path = workspace.folder / thresholds if thresholds else find_thresholds_file(workspace.folder)
    rules = load_thresholds(path, thresholds or workspace.format_path(path)) if path else None
    config = rules.config if rules else Config()
    target = to or config.gate.baseline or DEFAULT_BASELINE
    return BaselineTarget(
        workspace, target, open_store(workspace, target), config, rules.criteria if rules else ()
    )


def find_baseline(workspace: Workspace) -> str | None:
    """Return the default path of a baseline if a baseline is there."""
    return DEFAULT_BASELINE if is_readable_name(workspace.folder / DEFAULT_BASELINE) else None


def open_store(workspace: Workspace, what: str) -> BaselineStore:
    """Return the baseline store that `what` names: a path, `branch:NAME`, a URL and so on.

    Raises:
        InvalidInputError: it names no baseline.
    """
    place = StoreContext(workspace.folder, os.environ, workspace.owner)
    store = registry.resolve_baseline_store(what, place)
    return store or FileStore(workspace.folder / what, what, workspace.owner)


def save_baseline(results: str, destination: BaselineTarget, save_options: SaveOptions) -> str:
    """Add the raw scores of a `results.json` to the baseline; return a sentence about it.

    Raises:
        InvalidInputError: the result is not acceptable, or the baseline cannot be written.
    """
    record, source = _read_acceptable_record(results, destination, save_options, "added to")
    if record.verdict.status == "fail" and not save_options.allow_failing:
        raise InvalidInputError(
            f"{results}: the gate closed for this run ({record.verdict.reasons[0]}), so it is not added to "
            "the baseline. If the default branch is like that, say --allow-failing: what is merged is what "
            "changes are compared with. If the change was meant, use `evalgate baseline accept --reason …`."
        )
    seen: list[Baseline | None] = [None]

    def add_to_baseline(before: Baseline | None) -> Baseline:
        seen[0] = before
        return add_run(before, record, source, keep=destination.keep)

    after = _update_store(destination, add_to_baseline)
    before, cases = seen[0], pluralize(len(record.cases), "case")
    ending = f"{destination.next_step}{_describe_failures(record)}"
    if before is None:
        return f"Baseline of {cases} saved to {destination.target}.{ending}"
    if any(each.digest == source.digest for each in before.sources):
        return f"{destination.target} holds this run already: nothing was added."
    return (
        f"Runs of {cases} added to {destination.target}, "
        f"which holds {pluralize(len(after.sources), 'gate run')} now.{ending}"
    )


def accept_baseline(results: str, reason: str, destination: BaselineTarget, save_options: SaveOptions) -> str:
    """Replace the whole baseline by a `results.json`, for a reason that reports show.

    Raises:
        InvalidInputError: as `save_baseline`.
    """
    record, source = _read_acceptable_record(results, destination, save_options, "accepted as")
    # A reason is typed by hand and stays in the repository: it is redacted as everything that is reported.
    redacted_reason = Redactor.from_environment(save_options.environ).redact_text(reason)
    _update_store(destination, lambda _: replace_runs(record, source, redacted_reason))
    return (
        f"{destination.target} holds {pluralize(len(record.cases), 'case')} of this run and nothing else now."
        f"{destination.next_step}{_describe_failures(record)}"
    )


def prune_baseline(keep: int, destination: BaselineTarget) -> str:
    """Keep only the newest gate runs of each eval set; return a sentence about it.

    Raises:
        InvalidInputError: there is no baseline, or it cannot be written.
    """
    sources = len(destination.read().sources)
    after = _update_store(destination, lambda before: prune_runs(before or destination.read(), keep=keep))
    gone = sources - len(after.sources)
    return f"{destination.target}: {pluralize(gone, 'gate run')} removed, {len(after.sources)} left."


def _update_store(destination: BaselineTarget, change: Callable[[Baseline | None], Baseline]) -> Baseline:
    try:
        return destination.store.update(change)
    except OSError as error:
        raise InvalidInputError(
            f"{destination.target}: the baseline cannot be written there ({error.strerror or error}). "
            "Choose another file with --to."
        ) from None


def _read_acceptable_record(
    results: str, destination: BaselineTarget, save_options: SaveOptions, verb: str
) -> tuple[Record, BaselineSource]:
    """Return the record and its source if later runs may be compared with it; else raise an error."""
    what = git.describe_unmerged_change(save_options.environ)
    if what and not save_options.allow_pull_request:
        raise InvalidInputError(
            f"this job tests {what}, and its runs are not {verb} the baseline: a change that is not merged "
            "would be the standard for all others. Save in a job of the default branch, or say "
            "--allow-pull-request."
        )
    folder = destination.workspace.folder
    record = read_record(folder / results, results)
    if problem := _explain_rejection(record) or _explain_staleness(record, folder, save_options):
        raise InvalidInputError(f"{results}: {problem}")
    source = BaselineSource(
        record.created_at,
        save_options.commit or git.read_commit(folder, save_options.environ),
        git.read_branch(folder, save_options.environ),
        digest=hash_record(record),
    )
    return record, source


def _explain_rejection(record: Record) -> str:
    if wrong := list(find_inconsistencies(record)):
        return f"{'; '.join(wrong)}. Somebody edited it: run `evalgate run` again."
    if not any(metric.score is not None for case in record.cases for metric in case.metrics):
        return "no case has a score, so it is no baseline. Run `evalgate run` first."
    if record.verdict.status == "error":
        return (
            f"this run has no verdict ({record.verdict.reasons[0]}), so it is no standard for others. "
            "Run `evalgate run` to the end first."
        )
    return ""


def _explain_staleness(record: Record, folder: Path, save_options: SaveOptions) -> str:
    committed = None if save_options.commit else git.read_commit_time(folder)
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


def _describe_failures(record: Record) -> str:
    bad = record.totals.failed + record.totals.errored
    return f" {pluralize(bad, 'case')} in it did not pass." if bad else ""


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
    """Return one row for each metric of each run, in the order of the cases, as `csv` or `json`.

    A score is empty (null) if the metric returned none; `outcome` states whether the agent answered.

    Raises:
        InvalidInputError: a name contains a command of a CI runner, which CSV cannot escape.
    """
    rows = _iter_rows(baseline)
    if format_name == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
        return _reject_commands(text.getvalue())
    lines = [json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) for row in rows]
    return "[\n" + ",\n".join(f" {line}" for line in lines) + "\n]\n" if lines else "[]\n"


def _reject_commands(text: str) -> str:
    if disable_commands(text) != text:
        message = (
            "the baseline holds a name that a CI runner would take for a command, and CSV cannot spell it "
            "otherwise: use --format json"
        )
        raise InvalidInputError(message)
    return text


def _iter_rows(baseline: Baseline) -> Iterator[Row]:
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
