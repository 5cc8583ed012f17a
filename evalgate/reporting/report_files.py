"""Write the reports of all reporters, such as `results.json`, into the report folder."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.exit_codes import ExitCode
from evalgate.core.protocols import (
    AnyReporter,
    ContextualReporter,
    FolderReporter,
    ReportContext,
    StreamingReporter,
)
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record, iter_record_chunks
from evalgate.system.files import (
    GuardedFolder,
    Owner,
    make_folder,
    replace_nested_file,
    write_atomically,
)
from evalgate.system.gc import pause_gc


class ResultsJsonReport:
    """The reporter of `results.json`: the whole record, from which other reports can be rendered again."""

    file_name = "results.json"

    def render(self, record: Record) -> str:
        """Return the record as JSON."""
        return dump_record(record)

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the record as JSON in pieces."""
        return iter_record_chunks(record)


class ReportWriteError(EvalgateError):
    """Failure to write some reports, for example because of a full disk or a broken plugin.

    `written` are the paths of the written reports. If the exit code of the verdict is 0, `runner/publish.py`
    replaces the verdict by an error; all other verdicts stay.
    """

    exit_code = ExitCode.INVALID_INPUT

    def __init__(self, message: str, written: Sequence[Path]) -> None:
        super().__init__(message)
        self.written = tuple(written)


_PROBE = ".evalgate-probe"
"""The name of a file that is written and removed to test whether reports can be written."""


def check_writable(
    out: Path, owner: Owner | None = None, *, root: Path | None = None, option: str = "--out"
) -> GuardedFolder:
    """Create the report folder `out` and check, before the run, that files can be written to it.

    Args:
        out: the report folder.
        owner: the owner of new folders; None for the user of the process.
        root: the folder of the project; None for the parent of `out`. Folders below `root` on the path to
            `out` are protected: an agent cannot redirect the reports by a link in their place. If `out` is
            not within `root`, the parent of `out` is used as `root`.
        option: the option or argument with which the user chooses the folder, for the error.

    Returns:
        The folder, protected from replacement by a link.

    Raises:
        InvalidInputError: The folder cannot be written.
    """
    # Permissions are not enough: root may write to every folder, but not to a read-only file system.
    probe = out / _PROBE
    try:
        make_folder(out, owner)
        write_atomically(probe, "", owner)
        probe.unlink()
        return GuardedFolder.open_ancestor(root or out.parent, out)
    except OSError as error:
        raise InvalidInputError(
            f"The report folder {str(out)!r} cannot be written ({_describe_error(error)}). "
            f"Choose another one with {option}, or correct its permissions."
        ) from None


PREVIOUS_SUFFIX = ".previous"
PREVIOUS_RECORD = f"results.json{PREVIOUS_SUFFIX}"
"""The name that `results.json` of the previous run gets when a new run begins."""


def check_previous_record(out: Path) -> None:
    """Check that `keep_previous_record` can rename the record in the report folder `out`.

    Raises:
        InvalidInputError: a folder is in the place of `results.json.previous`. The rename would fail, and the
            next record would replace the old one.
    """
    place = out / PREVIOUS_RECORD
    if place.is_dir() and not place.is_symlink():
        raise InvalidInputError(
            f"{str(place)!r} is a folder, and the record of the last run is kept in a file of this name: "
            "move or delete the folder"
        )


def keep_previous_record(out: GuardedFolder) -> None:
    """Rename the record of the last run to `results.json.previous`, replacing an older file of that name.

    No reader can then take the old record for the record of the new run. The old record also survives if the
    new run fails. An error of the file system is ignored.
    """
    # By descriptor: an agent may have replaced the folder by a link to another one.
    with contextlib.suppress(OSError), out.open_folder() as folder:
        os.replace("results.json", PREVIOUS_RECORD, src_dir_fd=folder, dst_dir_fd=folder)


def remove_reports(out: GuardedFolder, names: Iterable[str], *, but: Collection[Path] = ()) -> None:
    """Remove the files `names` from the report folder: they could be taken for reports of this run.

    Files with a resolved path in `but` stay, and so do files that cannot be removed.
    """
    with contextlib.suppress(OSError), out.open_folder() as folder:
        for name in names:
            with contextlib.suppress(OSError):
                # Not `Path.resolve`, which raises RuntimeError for a link to itself before Python 3.13.
                if Path(os.path.realpath(out.path / name)) not in but:
                    os.unlink(name, dir_fd=folder)


def remove_leftovers(out: GuardedFolder, names: Iterable[str]) -> None:
    """Remove temporary files (`.NAME.….tmp`) that a killed run left in `out`; ignore errors.

    `names` are the file names of the reports. No other process may write to `out` at the same time.
    """
    beginnings = tuple(f".{name}." for name in (*names, _PROBE))
    with contextlib.suppress(OSError), out.open_folder() as folder:
        for name in os.listdir(folder):  # noqa: PTH208  of a descriptor
            if name.startswith(beginnings) and name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def write_reports(
    record: Record,
    out: GuardedFolder,
    reporters: Sequence[AnyReporter],
    *,
    path_from_root: str = "",
    owner: Owner | None = None,
    option: str = "--out",
) -> tuple[Path, ...]:
    """Render and write every report, and return the paths in the order of `reporters`.

    Each file is replaced atomically, so a reader sees either the old or the new file. If a file cannot be
    written or a plugin fails, the other reports are still written. `path_from_root` is the path, from the
    repository's root, of the folder to which paths in the record are relative. `owner` is the owner of the
    files; None for the user of the process. `option` is the option with which the user chooses `out`, for the
    error.

    Raises:
        ReportWriteError: Some files could not be written. The message names each of these files.
        Exception: A reporter of evalgate itself has a bug. Its error is raised at once.
    """
    names = [reporter.file_name for reporter in reporters]
    written: set[str] = set()
    failed: dict[str, str] = {}
    try:
        with out.open_folder(owner) as folder, pause_gc():
            # Reports that name others come last: by then it is known which of the others are there.
            for reporter in sorted(reporters, key=lambda each: isinstance(each, ContextualReporter)):
                context = ReportContext(path_from_root, frozenset(names) - failed.keys())
                try:
                    _write_report(record, reporter, context, folder, owner)
                    written.add(reporter.file_name)
                except (Exception, SystemExit) as error:  # noqa: BLE001  those of evalgate's own are raised again
                    failed[reporter.file_name] = _describe_fault(reporter, error, out)
    except OSError as error:
        failed[""] = f"{out.path}: {_describe_error(error)}"
    paths = tuple(out.path / name for name in names if name in written)
    if failed:
        problems = "\n".join(failed.values())
        raise ReportWriteError(
            "The run is over, but not every report could be written. Correct the cause, such as a full disk, "
            f"or choose another folder with {option}, and run again.\n{problems}",
            paths,
        )
    return paths


def _describe_fault(reporter: AnyReporter, error: BaseException, out: GuardedFolder) -> str:
    """Return a sentence about the reason why a report could not be written.

    Raises:
        Exception: `error` itself, if it is a bug of evalgate: neither an OSError nor the error of a plugin.
    """
    if isinstance(error, OSError):
        return f"{out.path / reporter.file_name}: {_describe_error(error)}"
    from evalgate.core.foreign_plugins import describe_error

    if not is_foreign(reporter):
        raise error
    kind = type(reporter)
    why = f"the plugin `{kind.__module__}:{kind.__qualname__}` cannot be used: {describe_error(error)}"
    return f"{out.path / reporter.file_name}: {why}"


def is_foreign(plugin: object) -> bool:
    """Return True if the class of a plugin is defined in another package than evalgate."""
    return type(plugin).__module__.partition(".")[0] != "evalgate"


def _write_report(
    record: Record, reporter: AnyReporter, context: ReportContext, folder: int, owner: Owner | None
) -> None:
    if isinstance(reporter, ContextualReporter):
        reporter = reporter.with_context(context)
    for path, text in render_files(record, reporter):
        replace_nested_file(folder, path, text, owner)


def render_files(record: Record, reporter: AnyReporter) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield (path in the report folder, text in pieces) of each file of a report."""
    if isinstance(reporter, FolderReporter):
        for path, text in reporter.render_files(record):
            yield f"{reporter.file_name}/{path}", (text,)
    elif isinstance(reporter, StreamingReporter):
        yield reporter.file_name, reporter.iter_chunks(record)
    else:
        yield reporter.file_name, (reporter.render(record),)


def _describe_error(error: OSError) -> str:
    return error.strerror or str(error)
