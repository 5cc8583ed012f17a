"""Protocols of reporters, baseline stores and progress displays."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, Record, RunResult


class Reporter(Protocol):
    """A renderer of one kind of report from the record."""

    file_name: str
    """Name of the report's file in the folder of `--out`."""

    def render(self, record: Record) -> str:
        """Return the text of the report.

        The text must depend on the record alone: not on the time, on files or on the environment.
        """
        ...


@runtime_checkable
class FolderReporter(Protocol):
    """A renderer of several files, in a subfolder of `--out`.

    Files of earlier runs stay in the subfolder, so the names of files should differ from run to run.
    """

    file_name: str
    """Name of the folder."""

    def render_files(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield (path, text) of each file; the path is relative to the folder and has forward slashes.

        The result must depend on the record alone: not on the time, on files or on the environment.
        """
        ...


AnyReporter: TypeAlias = Reporter | FolderReporter


@runtime_checkable
class StreamingReporter(Protocol):
    """A reporter that renders large texts in pieces."""

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the text that `render` returns, in pieces."""
        ...


@frozen
class ReportContext:
    """Facts about the report folder that are not in the record."""

    folder: str = ""
    """Path from the repository's root to the folder that paths in the record are relative to. "": they are
    relative to the root itself."""
    files: frozenset[str] = frozenset()
    """The file names of this run's reports in the same folder, this one included."""


@runtime_checkable
class ContextualReporter(Protocol):
    """A reporter that needs the names of the other reports, or paths from the repository's root.

    Contextual reporters run last. So it is known then which other reports could not be written, and
    `ReportContext.files` does not name these.
    """

    def with_context(self, context: ReportContext) -> Reporter:
        """Return a copy of this reporter that uses `context`."""
        ...


class BaselineStore(Protocol):
    """Storage of a baseline, such as a file or a branch."""

    def read(self) -> Baseline | None:
        """Return the stored baseline; None if no baseline has been stored yet.

        Raises:
            InvalidInputError: the baseline exists and cannot be read.
            NoVerdictError: the service that stores it does not answer.
        """
        ...

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace the stored baseline by the result of `change`, and return the new baseline.

        `change` gets the stored baseline, or None. No concurrent update is lost: a store without locks reads
        again and calls `change` again. `change` must be a pure function. If it raises, nothing is replaced.

        Raises:
            InvalidInputError: the stored baseline cannot be read, the store is read-only, or `change`
                raised the error.
            NoVerdictError: the service that stores the baseline does not answer.
            OSError: the baseline cannot be written.
        """
        ...


@frozen
class StoreContext:
    """Workspace, environment and file owner for a baseline store."""

    folder: Path
    """Root folder of the workspace."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment, which holds the credentials."""
    owner: tuple[int, int] | None = None
    """User id and group id that the written files get; None: those of the process."""


@runtime_checkable
class HasFollowUpStep(Protocol):
    """A store with updates that take effect only after a further step, such as an upload."""

    @property
    def next_step(self) -> str:
        """Return the remaining step, as a sentence for the user."""
        ...


@runtime_checkable
class ExplainsMissing(Protocol):
    """A store that knows the reason why there is no baseline."""

    @property
    def absence(self) -> str:
        """Return a clause with the reason why the last `read` returned None; "" if it is not known."""
        ...


def explain_missing_baseline(store: BaselineStore) -> str:
    """Return ": " and the store's reason why there is no baseline; "" if the store knows no reason.

    The result is appended to the words `there is no baseline`.
    """
    why = store.absence if isinstance(store, ExplainsMissing) else ""
    return f": {why}" if why else ""


class ProgressListener(Protocol):
    """Listener to the progress of a run, such as the terminal's progress line."""

    def on_runs_planned(self, runs: int) -> None:
        """Add `runs` to the number of case-runs (runs of one case) that are planned."""
        ...

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Count one case-run as finished and scored."""
        ...
