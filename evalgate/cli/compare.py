"""`evalgate compare A B`: two results beside each other, with the words and the exit code of a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

from evalgate.baselines.stores.file import BaselineFile
from evalgate.cli.baseline import kept_at
from evalgate.cli.rejudge import Rules, record_of, rejudged
from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInput
from evalgate.core.formatting import counted
from evalgate.core.types import AgentInfo, Baseline, Record, Totals, Verdict
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_json import parse_json
from evalgate.documents.text_files import read_named_file
from evalgate.gating.verdict import contradictions
from evalgate.runner.plan import workspace_at
from evalgate.system.workspace import Workspace

NOTHING = Record("", "", 0.0, AgentInfo("stored", "runs"), 1, Verdict("pass", 0), (), (), Totals())
"""Of runs whose circumstances nobody knows."""


def compared(before: str, after: str, *, thresholds: str | None, folder: Path) -> Record:
    """`after` held against `before`, each a `results.json` or a baseline; nothing is run.

    What the thresholds file says of the gate holds; the thresholds are those that `after` was held to.

    Raises:
        InvalidInput: a file is not there, or is neither.
    """
    workspace = workspace_at(folder)
    rules = thresholds_in(workspace.folder, thresholds)
    baseline = stored_in(workspace, before)
    criteria = {criterion.metric: criterion for criterion in rules.gating_criteria}
    record = result_in(workspace, after)
    if record is None:
        record = record_of(stored_in(workspace, after), criteria, NOTHING)
    gate = rules.config.gate.model_copy(update={"baseline": before})
    found = rejudged(record, Rules(gate, runs_of(record), criteria), baseline)
    what = counted(len(found.cases), "case")
    return _with_notice(found, f"{after} ({what}) was compared with {before}; nothing was run.")


def runs_of(record: Record) -> int | Literal["auto"]:
    """How often the cases of a stored result were to be run."""
    most = max((sum(not run.confirms for run in case.runs) for case in record.cases), default=1)
    return "auto" if record.effort is not None else max(most, 1)


def thresholds_in(folder: Path, given: str | None) -> Thresholds:
    """The thresholds file that is named or found in a folder; the defaults without one.

    Raises:
        InvalidInput: with every problem of the file.
    """
    path = folder / given if given else find_thresholds_file(folder)
    return load_thresholds(path, given or path.name) if path else Thresholds(Config(), folder)


def checked_record(folder: Path, path: str) -> Record:
    """A stored result that nobody edited.

    Raises:
        InvalidInput: there is none, or it contradicts itself.
    """
    record = read_record(folder / path, path)
    if wrong := list(contradictions(record)):
        raise InvalidInput(f"{path}: {'; '.join(wrong)}. Somebody edited it.")
    return record


def result_in(workspace: Workspace, what: str) -> Record | None:
    """The result in a file; None when it is a baseline, or names a store of baselines.

    Raises:
        InvalidInput: it cannot be read, or somebody edited it.
    """
    if not isinstance(kept_at(workspace, what), BaselineFile):
        return None
    try:
        value = parse_json(read_named_file(workspace.folder / what, what), what).value
    except FileNotFoundError:
        raise _is_not_there(what) from None
    except OSError as error:
        raise InvalidInput(f"{what}: cannot be read: {error.strerror}") from None
    is_baseline = isinstance(value, Mapping) and "kind" in value
    return None if is_baseline else checked_record(workspace.folder, what)


def stored_in(workspace: Workspace, what: str) -> Baseline:
    """The baseline that a file holds, or makes, or that a store holds.

    Raises:
        InvalidInput: there is none.
    """
    found = kept_at(workspace, what).read()
    if found is None:
        raise _is_not_there(what)
    return found


def _is_not_there(what: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: there is nothing. `evalgate run` writes a result, `evalgate baseline save` keeps it."
    )


def _with_notice(record: Record, notice: str) -> Record:
    return replace(record, notices=(notice, *record.notices))


def verdict_as_json(record: Record) -> str:
    """The verdict and the metrics for programs."""
    found = {"verdict": asdict(record.verdict), "metrics": [asdict(metric) for metric in record.metrics]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
