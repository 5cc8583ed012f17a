"""Load stored results and baselines that the user names, as the two sides of `evalgate compare`."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import get_args

from evalgate.core.errors import InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.types import Baseline, Record, Status, VerdictStatus
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_json import parse_json
from evalgate.gating.verdict import UNDECIDED_CODES
from evalgate.metrics.scoring import describe_edited_score
from evalgate.runner.baseline_targets import open_named_store
from evalgate.system.files import read_input_file
from evalgate.system.workspace import Workspace

_CODES: Mapping[VerdictStatus, Collection[ExitCode]] = {
    "pass": {ExitCode.OPEN},
    "fail": {ExitCode.CLOSED},
    "inconclusive": set(UNDECIDED_CODES.values()),
    "skipped": {ExitCode.OPEN},
    "error": {ExitCode.INVALID_INPUT, ExitCode.NO_VERDICT, ExitCode.INTERRUPTED},
}


def load_checked_record(folder: Path, path: str) -> Record:
    """Load a stored record and check that verdict, totals, cases and scores fit together.

    Raises:
        InvalidInputError: the file does not exist, cannot be read, or contradicts itself.
    """
    record = read_record(folder / path, path)
    if wrong := list(find_inconsistencies(record)):
        raise InvalidInputError(f"{path}: {'; '.join(wrong)}. The file was edited: run `evalgate run` again.")
    return record


def find_inconsistencies(record: Record) -> Iterator[str]:
    """Yield a clause about each contradiction in a stored record: these show that the record was edited."""
    verdict, totals = record.verdict, record.totals
    gating = verdict.gating_exit_code
    code = verdict.exit_code if gating is None else gating
    if code not in _CODES[verdict.status] or (gating is not None and verdict.exit_code != ExitCode.OPEN):
        yield f"the verdict `{verdict.status}` does not go with exit code {verdict.exit_code}"
    counted_cases = Counter(case.status for case in record.cases)
    if totals.cases != len(record.cases) or any(
        getattr(totals, status) != counted_cases[status] for status in get_args(Status)
    ):
        yield "the totals are not those of the cases"
    if verdict.status == "pass" and any(
        metric.status == "failed" and metric.gates for metric in record.metrics
    ):
        yield "the verdict is `pass` although a metric failed"
    yield from islice(_find_edited_scores(record), 1)


def _find_edited_scores(record: Record) -> Iterator[str]:
    """Yield a clause about each score of a run that only an edit can have made.

    Ranges are checked only if the record has `criteria`, which name the implementation of each metric. Older
    files lack `criteria`.
    """
    criteria = record.index_criteria()
    for case in record.cases:
        limits = {metric.name: metric for metric in case.metrics}
        for run in case.runs:
            for metric in run.metrics:
                if (limit := limits.get(metric.name)) is None:
                    continue
                criterion = criteria.get((limit.name, limit.fingerprint))
                implementation = (criterion.evaluator or criterion.metric) if criterion else ""
                if edited := describe_edited_score(metric, limit.range, limit.threshold, implementation):
                    yield f"in run {run.run} of {case.eval_id}, {edited}"


def load_stored_result(workspace: Workspace, name: str) -> Record | None:
    """Return the record in the file `name`; None if `name` names a baseline (a file or another store).

    Raises:
        InvalidInputError: the file does not exist, cannot be read, or contradicts itself after an edit.
    """
    from evalgate.baselines.stores.file import FileStore

    # A file holds a result or a baseline; other places, such as `branch:NAME`, hold baselines only.
    if not isinstance(open_named_store(workspace, name), FileStore):
        return None
    try:
        value = parse_json(read_input_file(workspace.folder / name, name), name).value
    except FileNotFoundError:
        raise _build_missing_error(name) from None
    except OSError as error:
        raise InvalidInputError(f"{name}: cannot be read: {error.strerror}") from None
    is_baseline = isinstance(value, Mapping) and "kind" in value
    return None if is_baseline else load_checked_record(workspace.folder, name)


def load_stored_baseline(workspace: Workspace, name: str) -> Baseline:
    """Return the baseline with the name `name`: a path, `branch:NAME`, and so on.

    If the file holds a record, the record is converted to a baseline.

    Raises:
        InvalidInputError: there is no baseline with this name, or it cannot be read.
    """
    found = open_named_store(workspace, name).read()
    if found is None:
        raise _build_missing_error(name)
    return found


def _build_missing_error(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name}: does not exist. `evalgate run` writes a result, `evalgate baseline save` stores it."
    )
