"""`evalgate baseline save`: a result becomes the standard of later runs."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from evalgate.baseline import baseline_of
from evalgate.baselines.file import BaselineFile
from evalgate.config import find_thresholds_file, load_thresholds
from evalgate.errors import InvalidInput
from evalgate.numbers import counted
from evalgate.plan import workspace_at
from evalgate.record import read_record
from evalgate.system.workspace import Workspace

DEFAULT_PATH = ".evalgate/baseline.json"


def save_baseline(
    results: str, *, to: str | None, thresholds: str | None, folder: Path, environ: Mapping[str, str]
) -> str:
    """Keep the scores of a `results.json`; gives the sentence that says so.

    Raises:
        InvalidInput: there is no such result, it holds nothing to compare with, or the baseline cannot be
            written.
    """
    workspace = workspace_at(folder)
    record = read_record(workspace.folder / results, results)
    scored = [case for case in record.cases if any(metric.score is not None for metric in case.metrics)]
    if not scored:
        raise InvalidInput(f"{results}: no case has a score, so it is no baseline. Run `evalgate run` first.")
    if record.verdict.status == "error":
        raise InvalidInput(
            f"{results}: this run has no verdict ({record.verdict.reasons[0]}), so it is no standard for "
            "others. Run `evalgate run` to the end first."
        )
    target = to or _configured(thresholds, workspace) or DEFAULT_PATH
    store = BaselineFile(workspace.folder / target, target, workspace.owner)
    try:
        store.write(baseline_of(record, commit=_commit(workspace.folder, environ)))
    except OSError as error:
        raise InvalidInput(
            f"{target}: the baseline cannot be written there ({error.strerror or error}). "
            "Choose another file with --to."
        ) from None
    bad = record.totals.failed + record.totals.errored
    warning = f" {counted(bad, 'case')} in it did not pass." if bad else ""
    return f"Baseline of {counted(len(record.cases), 'case')} saved to {target}. Commit it.{warning}"


def _configured(thresholds: str | None, workspace: Workspace) -> str | None:
    path = workspace.folder / thresholds if thresholds else find_thresholds_file(workspace.folder)
    return load_thresholds(path, thresholds or workspace.shown(path)).config.gate.baseline if path else None


def _commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """The commit that the result speaks of, when anybody knows."""
    if sha := environ.get("GITHUB_SHA"):
        return sha
    command = ["git", "-c", f"safe.directory={folder}", "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
