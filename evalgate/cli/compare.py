"""`evalgate compare A B`: comparison of two stored results, with the words and the exit code of a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from evalgate.baselines.stores.file import FileStore
from evalgate.cli.baseline import open_store
from evalgate.cli.rejudge import GateRules, build_stored_record, reevaluate
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.formatting import pluralize
from evalgate.core.types import AgentInfo, Baseline, Record, Totals, Verdict
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_json import parse_json
from evalgate.documents.text_files import read_named_file
from evalgate.gating.verdict import find_inconsistencies
from evalgate.runner.plan import resolve_workspace
from evalgate.system.workspace import Workspace

EMPTY_RECORD = Record(
    "", "", 0.0, AgentInfo("stored", "runs"), 1, Verdict("pass", ExitCode.OPEN), (), (), Totals()
)
"""Record of runs from a baseline, which does not store the other fields."""


def compare_results(before: str, after: str, *, thresholds: str | None, folder: Path) -> Record:
    """Compare `after` with `before`, each a `results.json` or a baseline, without running anything.

    The `gate` section of the thresholds file applies; the thresholds are those that `after` was evaluated
    with.

    Raises:
        InvalidInputError: a file does not exist, or is neither.
    """
    workspace = resolve_workspace(folder)
    rules = load_thresholds_or_default(workspace.folder, thresholds)
    baseline = load_stored_baseline(workspace, before)
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    record = load_stored_result(workspace, after)
    if record is None:
        record = build_stored_record(load_stored_baseline(workspace, after), criteria, EMPTY_RECORD)
    gate = rules.config.gate.model_copy(update={"baseline": before})
    found = reevaluate(record, GateRules(gate, infer_runs_setting(record), criteria), baseline)
    what = pluralize(len(found.cases), "case")
    notice = f"{after} ({what}) was compared with {before}; nothing was run."
    return replace(found, notices=(notice, *found.notices))


def infer_runs_setting(record: Record) -> int | Literal["auto"]:
    """Return the `runs` setting that a stored result was made with."""
    most = max((sum(not run.confirms for run in case.runs) for case in record.cases), default=1)
    return "auto" if record.effort is not None else max(most, 1)


def load_thresholds_or_default(folder: Path, given: str | None) -> Thresholds:
    """Return the thresholds file that is named or found in a folder, or the defaults.

    Raises:
        InvalidInputError: with every problem of the file.
    """
    path = folder / given if given else find_thresholds_file(folder)
    return load_thresholds(path, given or path.name) if path else Thresholds(Config(), folder)


def load_checked_record(folder: Path, path: str) -> Record:
    """Load a stored result and check that it is consistent.

    Raises:
        InvalidInputError: there is none, or it contradicts itself.
    """
    record = read_record(folder / path, path)
    if wrong := list(find_inconsistencies(record)):
        raise InvalidInputError(f"{path}: {'; '.join(wrong)}. Somebody edited it.")
    return record


def load_stored_result(workspace: Workspace, what: str) -> Record | None:
    """Return the result in a file; None for a baseline or the name of a baseline store.

    Raises:
        InvalidInputError: it cannot be read, or contradicts itself because it was edited.
    """
    if not isinstance(open_store(workspace, what), FileStore):
        return None
    try:
        value = parse_json(read_named_file(workspace.folder / what, what), what).value
    except FileNotFoundError:
        raise _build_missing_error(what) from None
    except OSError as error:
        raise InvalidInputError(f"{what}: cannot be read: {error.strerror}") from None
    is_baseline = isinstance(value, Mapping) and "kind" in value
    return None if is_baseline else load_checked_record(workspace.folder, what)


def load_stored_baseline(workspace: Workspace, what: str) -> Baseline:
    """Return the baseline in a file or a store, or one made of the result in a file.

    Raises:
        InvalidInputError: there is none.
    """
    found = open_store(workspace, what).read()
    if found is None:
        raise _build_missing_error(what)
    return found


def _build_missing_error(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{what}: there is nothing. `evalgate run` writes a result, `evalgate baseline save` keeps it."
    )


def format_verdict_json(record: Record) -> str:
    """Return the verdict and the metrics as JSON."""
    found = {"verdict": asdict(record.verdict), "metrics": [asdict(metric) for metric in record.metrics]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
