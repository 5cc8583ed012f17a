"""`evalgate compare A B`: compare two stored results, with the report and the exit code of a run."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from evalgate.config.loader import load_thresholds_or_default
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.types import CaseKey, Record, Reply
from evalgate.reporting.findings import Finding
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.runner.current_thresholds import load_current_cases
from evalgate.runner.regating import EMPTY_RECORD, build_stored_record, compare_stored_record
from evalgate.runner.result_loading import load_stored_baseline, load_stored_result
from evalgate.system.files import write_atomically
from evalgate.system.workspace import Workspace, resolve_workspace


def compare_results(before: str, after: str, *, thresholds_file: str | None, folder: Path) -> Record:
    """Compare `after` with `before` without running anything. Both name a `results.json` or a baseline.

    The section `gate` of the thresholds file applies. If `after` is a `results.json`, it keeps the
    thresholds, weights and quarantine of its own run. If `after` is a baseline, they come from the thresholds
    file, and only the cases of today's eval sets count, with the runs since a break.

    Raises:
        InvalidInputError: a file does not exist, or is neither a result nor a baseline; or no case of the
            baseline `after` is in the eval sets.
    """
    workspace = resolve_workspace(folder)
    thresholds = load_thresholds_or_default(workspace.folder, thresholds_file)
    baseline = load_stored_baseline(workspace, before)
    criteria = {criterion.metric: criterion for criterion in thresholds.effective_criteria}
    record, remark = load_stored_result(workspace, after), ""
    if record is None:
        stored = load_stored_baseline(workspace, after)
        current = load_current_cases(
            thresholds.config, [*criteria.values()], workspace.folder, thresholds_file
        )
        cases = current.keep_comparable_runs(current.require_run_cases(stored, after))
        record = build_stored_record(cases, criteria, EMPTY_RECORD, current.policies, current.observed)
        remark = current.describe_compared_runs(stored)
    found = compare_stored_record(record, baseline, thresholds, before)
    what = pluralize(len(found.cases), "case")
    notice = f"{after} ({what}) was compared with {before}; nothing was run."
    return replace(found, notices=(notice, *filter(None, [remark]), *found.notices))


def write_comparison_page(record: Record, before: str, page: str, *, folder: Path) -> None:
    """Write a comparison as an HTML page to the file `page`.

    `before` names the older result or baseline. The page shows how the replies differ from its replies.

    Raises:
        InvalidInputError: `before` cannot be read, or the page cannot be written.
    """
    from evalgate.redaction.live_redactor import LiveRedactor

    workspace = resolve_workspace(folder)
    redactor = LiveRedactor.from_environment(os.environ)
    replies = redactor.redact_tree(list(_load_replies(workspace, before)))
    report = HtmlReport(earlier=dict(replies))
    path = workspace.folder / page
    try:
        write_atomically(path, report.iter_chunks(redactor.redact_tree(record)))
    except OSError as error:
        raise InvalidInputError(f"{page}: cannot be written: {error.strerror}") from None


def _load_replies(workspace: Workspace, name: str) -> Iterator[tuple[CaseKey, tuple[Reply | None, ...]]]:
    """Yield (case key, replies turn by turn) for each case of the baseline or result `name`.

    In a result with several runs of a case, take the replies of the run that a report shows.
    """
    record = load_stored_result(workspace, name)
    if record is None:
        yield from ((case.key, case.replies) for case in load_stored_baseline(workspace, name).cases)
        return
    for case in record.cases:
        # A result has several runs: take the replies of the run that the page shows first.
        run = Finding(case).run
        if run is not None:
            yield case.key, tuple(turn.actual for turn in run.turns)


def format_verdict_json(record: Record) -> str:
    """Return the verdict and the metrics of a record as JSON text."""
    found = {"verdict": asdict(record.verdict), "metrics": [asdict(metric) for metric in record.metrics]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
