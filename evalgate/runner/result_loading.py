"""Load stored results and baselines that a command is given by name, such as the two sides of `compare`."""

from collections.abc import Mapping
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Baseline, Record
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_json import parse_json
from evalgate.gating.verdict import find_inconsistencies
from evalgate.runner.baseline_targets import open_named_store
from evalgate.system.files import read_input_file
from evalgate.system.workspace import Workspace


def load_checked_record(folder: Path, path: str) -> Record:
    """Load a stored record and check that its verdict and totals fit its cases.

    Raises:
        InvalidInputError: the file does not exist, cannot be read, or contradicts itself.
    """
    record = read_record(folder / path, path)
    if wrong := list(find_inconsistencies(record)):
        raise InvalidInputError(f"{path}: {'; '.join(wrong)}. The file was edited: run `evalgate run` again.")
    return record


def load_stored_result(workspace: Workspace, name: str) -> Record | None:
    """Return the record in the file `name`; None if `name` is a baseline file or another baseline store.

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
    """Return the baseline in a file or a store; a file with a record is converted to a baseline.

    Raises:
        InvalidInputError: nothing is stored under this name, or it cannot be read.
    """
    found = open_named_store(workspace, name).read()
    if found is None:
        raise _build_missing_error(name)
    return found


def _build_missing_error(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name}: does not exist. `evalgate run` writes a result, `evalgate baseline save` stores it."
    )
