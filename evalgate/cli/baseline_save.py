"""`evalgate baseline save`, `accept` and `prune`: change the stored baseline."""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from evalgate.baselines.history import add_run, hash_record, prune_runs, replace_runs
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, BaselineSource, Record
from evalgate.redaction.redactor import Redactor
from evalgate.runner.baseline_targets import BaselineTarget
from evalgate.runner.result_loading import load_checked_record
from evalgate.system import git
from evalgate.system.pull_requests import describe_unmerged_change


@frozen
class BaselineSaveOptions:
    """Options of `baseline save` and `baseline accept`."""

    environ: Mapping[str, str]
    commit: str | None = None
    """Commit that was evaluated; None for the commit that is checked out."""
    allow_pull_request: bool = False
    """True to accept runs of a change that is not merged yet."""
    allow_failing: bool = False
    """True to accept a run that closed the gate."""


def save_baseline(results: str, destination: BaselineTarget, save_options: BaselineSaveOptions) -> str:
    """Add the raw scores of a `results.json` to the baseline; return a sentence for the user.

    If the baseline has the run already, nothing is added.

    Raises:
        InvalidInputError: the run closed the gate and `allow_failing` is not set, the result cannot be a
            baseline, the job tests an unmerged change and `allow_pull_request` is not set, or the baseline
            cannot be written.
        NoVerdictError: the service that stores the baseline does not answer.
    """
    record, source = _read_acceptable_record(results, destination, save_options, "added to")
    if record.verdict.status == "fail" and not save_options.allow_failing:
        raise InvalidInputError(
            f"{results}: the gate closed for this run ({record.verdict.reasons[0]}), so it is not added to "
            "the baseline. If the default branch is like that, add --allow-failing: changes are compared "
            "with what is merged. If the change was intended, use `evalgate baseline accept --reason …`."
        )
    # The store calls `add_to_baseline` again if another process wrote meanwhile: the last call counts.
    previous: list[Baseline | None] = [None]

    def add_to_baseline(before: Baseline | None) -> Baseline:
        previous[0] = before
        return add_run(before, record, source, keep=destination.keep)

    after = _update_store(destination, add_to_baseline)
    before, cases = previous[0], pluralize(len(record.cases), "case")
    ending = f"{destination.next_step}{_describe_failures(record)}"
    if before is None:
        return f"Baseline of {cases} saved to {destination.target}.{ending}"
    if any(each.digest == source.digest for each in before.sources):
        return f"{destination.target} already contains this run: nothing was added."
    return (
        f"Runs of {cases} added to {destination.target}, "
        f"which now contains {pluralize(len(after.sources), 'gate run')}.{ending}"
    )


def accept_baseline(
    results: str, reason: str, destination: BaselineTarget, save_options: BaselineSaveOptions
) -> str:
    """Replace the whole baseline with the scores of a `results.json`; reports show the `reason`.

    Return a sentence for the user. A run that closed the gate is accepted, too.

    Raises:
        InvalidInputError: the result cannot be a baseline, the job tests an unmerged change and
            `allow_pull_request` is not set, or the baseline cannot be written.
        NoVerdictError: the service that stores the baseline does not answer.
    """
    record, source = _read_acceptable_record(results, destination, save_options, "accepted as")
    # A reason is typed by hand and stays in the repository, so it is redacted like all text of reports.
    redacted_reason = Redactor.from_environment(save_options.environ).redact_text(reason)
    _update_store(destination, lambda _: replace_runs(record, source, redacted_reason))
    return (
        f"{destination.target} holds {pluralize(len(record.cases), 'case')} of this run, and nothing else."
        f"{destination.next_step}{_describe_failures(record)}"
    )


def prune_baseline(keep: int, destination: BaselineTarget) -> str:
    """Remove all but the newest `keep` gate runs of each eval set; return a sentence for the user.

    Raises:
        InvalidInputError: the baseline does not exist or cannot be written.
        NoVerdictError: the service that stores the baseline does not answer.
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
    results: str, destination: BaselineTarget, save_options: BaselineSaveOptions, verb: str
) -> tuple[Record, BaselineSource]:
    """Read a record to store in the baseline. Return it with its source: commit, branch and time.

    `verb` is `added to` or `accepted as`, for error messages.

    Raises:
        InvalidInputError: the record cannot be read or cannot serve as a baseline, or the job tests a change
            that is not merged and `allow_pull_request` is not set.
    """
    what = describe_unmerged_change(save_options.environ)
    if what and not save_options.allow_pull_request:
        raise InvalidInputError(
            f"this job tests {what}, and its runs are not {verb} the baseline: later runs "
            "would be compared with a change that is not merged. Save in a job of the default branch, or add "
            "--allow-pull-request."
        )
    folder = destination.workspace.folder
    record = load_checked_record(folder, results)
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
    if part := _explain_part(record):
        return part
    if not any(metric.score is not None for case in record.cases for metric in case.metrics):
        return "no case has a score, so it cannot be a baseline. Run `evalgate run` first."
    if record.verdict.status == "error":
        return (
            f"this run has no verdict ({record.verdict.reasons[0]}), so later runs cannot be "
            "compared with it. Run `evalgate run` to the end first."
        )
    return ""


def _explain_part(record: Record) -> str:
    """Return the reason not to save the record of a partial run; "" for a complete run.

    A shard, a run of only some cases, and the run of a variant by `evalgate matrix` are partial.
    """
    if record.variant is not None:
        values = ", ".join(f"{name}={value}" for name, value in record.variant.items())
        return f"this run is a variant of `evalgate matrix` ({values}): save one of `evalgate run`."
    # Refused before `selection` is checked: a shard of selected cases has both, and needs to be merged first.
    if record.shard is not None:
        return (
            f"this run is shard {record.shard.index} of {record.shard.count}, so it has no verdict. Merge "
            "all shards with `evalgate merge`, and save the result of that."
        )
    if record.selection is not None:
        return (
            f"this run was limited to {record.selection.cases:,} of {pluralize(record.selection.of, 'case')} "
            f"({shlex.join(record.selection.options)}), so the others would look removed. Run every case."
        )
    if record.partial_sets:
        return (
            f"this run had only some cases of {record.partial_sets[0]}, and in the baseline it would "
            "displace runs of the others. Run the whole eval set."
        )
    return ""


def _explain_staleness(record: Record, folder: Path, save_options: BaselineSaveOptions) -> str:
    # An old report folder would otherwise be stored as a run of the commit that is checked out now.
    if not record.created_at:
        return "`created_at` is empty. The file was edited: run `evalgate run` again."
    made = datetime.fromisoformat(record.created_at)
    committed = None if save_options.commit else git.read_commit_time(folder)
    if committed is None or made.tzinfo is None or made >= committed:
        return ""
    return (
        "this run was made before the commit that is checked out, so its commit is unknown. Run "
        "`evalgate run` again, or name its commit with --commit."
    )


def _describe_failures(record: Record) -> str:
    bad = record.totals.failed + record.totals.errored
    return f" {pluralize(bad, 'case')} in it did not pass." if bad else ""
