"""Render the record with every reporter into files, `results.json` among them."""

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.protocols import Reporter, StreamingReporter
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record, iter_record_chunks
from evalgate.system.files import AnchoredFolder, Owner, make_folder, replace_file, write_atomically


class ResultsJsonReport:
    """Every fact of the run; all other reports can be rendered from it again."""

    file_name = "results.json"

    def render(self, record: Record) -> str:
        """The record as JSON."""
        return dump_record(record)

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """See `evalgate.core.protocols.StreamingReporter`."""
        return iter_record_chunks(record)


class ReportWriteError(EvalgateError):
    """Some reports could not be written although the folder could be at the start: a full disk, mostly.

    The verdict stands; `written` are the files that are there.
    """

    exit_code = 2

    def __init__(self, message: str, written: Sequence[Path]) -> None:
        super().__init__(message)
        self.written = tuple(written)


_PROBE = ".evalgate-probe"
"""Written and removed to see whether reports can be written."""


def check_writable(out: Path, owner: Owner | None = None, *, root: Path | None = None) -> AnchoredFolder:
    """Make sure, before anything runs, that reports can be written to the folder `out`; it is created.

    Returns:
        The folder, which no link can replace from now on; `root` is the folder of the project.

    Raises:
        InvalidInputError: they cannot.
    """
    probe = out / _PROBE
    try:
        make_folder(out, owner)
        write_atomically(probe, "", owner)
        probe.unlink()
        return AnchoredFolder.open_anchor(root or out.parent, out)
    except OSError as error:
        raise InvalidInputError(
            f"The report folder {str(out)!r} cannot be written ({_describe_error(error)}). "
            "Choose another one with --out, or mend its permissions."
        ) from None


PREVIOUS_RECORD = "results.json.previous"
"""Where the record of the last run is kept when another one begins."""


def keep_previous_record(out: AnchoredFolder) -> None:
    """Move the record of an earlier run aside, in the place of the one that was kept before it.

    Nothing takes it there for the record of the run that begins, and nothing is lost should that one fail.
    """
    with contextlib.suppress(OSError), out.open_folder() as folder:
        os.replace("results.json", PREVIOUS_RECORD, src_dir_fd=folder, dst_dir_fd=folder)


def remove_reports(out: AnchoredFolder, reporters: Sequence[Reporter], *, but: Collection[Path] = ()) -> None:
    """Remove earlier reports from the folder `out`, so that none can be taken for one that is missing.

    What cannot be removed stays; neither do other files and those in `but` (resolved paths) go.
    """
    with contextlib.suppress(OSError), out.open_folder() as folder:
        for reporter in reporters:
            with contextlib.suppress(OSError):
                if (out.path / reporter.file_name).resolve() not in but:
                    os.unlink(reporter.file_name, dir_fd=folder)


def remove_leftovers(out: AnchoredFolder, reporters: Sequence[Reporter]) -> None:
    """Remove the halves of reports in `out` that a killed run left. Nobody else may be writing there."""
    names = (*(reporter.file_name for reporter in reporters), _PROBE)
    beginnings = tuple(f".{name}." for name in names)
    with contextlib.suppress(OSError), out.open_folder() as folder:
        for name in os.listdir(folder):  # noqa: PTH208  of a descriptor
            if name.startswith(beginnings) and name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)


def write_reports(
    record: Record, out: AnchoredFolder, reporters: Sequence[Reporter], *, owner: Owner | None = None
) -> tuple[Path, ...]:
    """Render and write every report; the paths, in the order of the reporters.

    Each file is replaced atomically: a reader sees the old or the new one whole. One that fails does not stop
    the others.

    Raises:
        ReportWriteError: with every file that failed.
    """
    written: list[Path] = []
    failed: list[str] = []
    try:
        with out.open_folder(owner) as folder:
            for reporter in reporters:
                path = out.path / reporter.file_name
                try:
                    _write_report(record, reporter, folder, owner)
                    written.append(path)
                except OSError as error:
                    failed.append(f"{path}: {_describe_error(error)}")
    except OSError as error:
        failed.append(f"{out.path}: {_describe_error(error)}")
    if failed:
        problems = "\n".join(failed)
        raise ReportWriteError(
            "The run is over, but not every report could be written. Make room, or choose another folder "
            f"with --out, and run again.\n{problems}",
            written,
        )
    return tuple(written)


def _write_report(record: Record, reporter: Reporter, folder: int, owner: Owner | None) -> None:
    text = (
        reporter.iter_chunks(record)
        if isinstance(reporter, StreamingReporter)
        else (reporter.render(record),)
    )
    replace_file(folder, reporter.file_name, text, owner)


def _describe_error(error: OSError) -> str:
    return error.strerror or str(error)
