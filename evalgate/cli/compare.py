"""`evalgate compare A B`: compare two stored results, with the report and the exit code of a run."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from evalgate.core.formatting import pluralize
from evalgate.core.types import Record
from evalgate.runner.reevaluation import (
    EMPTY_RECORD,
    build_stored_record,
    compare_with_baseline,
    load_stored_baseline,
    load_stored_result,
    load_thresholds_or_default,
)
from evalgate.system.workspace import resolve_workspace


def compare_results(before: str, after: str, *, thresholds: str | None, folder: Path) -> Record:
    """Compare `after` with `before`, each a `results.json` or a baseline, without running anything.

    The `gate` section of the thresholds file applies; the thresholds are those that `after` was evaluated
    with.

    Raises:
        InvalidInputError: a file does not exist, or is neither a result nor a baseline.
    """
    workspace = resolve_workspace(folder)
    rules = load_thresholds_or_default(workspace.folder, thresholds)
    baseline = load_stored_baseline(workspace, before)
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    record = load_stored_result(workspace, after)
    if record is None:
        record = build_stored_record(load_stored_baseline(workspace, after), criteria, EMPTY_RECORD)
    found = compare_with_baseline(record, baseline, rules, before)
    what = pluralize(len(found.cases), "case")
    notice = f"{after} ({what}) was compared with {before}; nothing was run."
    return replace(found, notices=(notice, *found.notices))


def format_verdict_json(record: Record) -> str:
    """Return the verdict and the metrics as JSON."""
    found = {"verdict": asdict(record.verdict), "metrics": [asdict(metric) for metric in record.metrics]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
