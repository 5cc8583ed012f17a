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
        """Render the whole report: a pure function of the record (no clock, no file, no environment)."""
        ...


@runtime_checkable
class FolderReporter(Protocol):
    """A renderer of several files, in a subfolder of `--out`.

    Files of earlier runs stay in the subfolder, so the names of files should differ from run to run.
    """

    file_name: str
    """Name of the folder."""

    def render_files(self, record: Record) -> Iterator[tuple[str, str]]:
        """Yield each file's path, relative to the folder and with `/`, and its text.

        A pure function of the record (no clock, no file, no environment).
        """
        ...


AnyReporter: TypeAlias = Reporter | FolderReporter


@runtime_checkable
class StreamingReporter(Protocol):
    """A reporter that renders large texts in pieces."""

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """Yield the text of `render` in pieces, in order."""
        ...


@frozen
class ReportContext:
    """Facts about the place of a report that the record does not hold."""

    folder: str = ""
    """The folder that paths in the record start from, relative to the repository's root; "" is the root."""
    files: frozenset[str] = frozenset()
    """The file names of this run's reports in the same folder, this one included."""


@runtime_checkable
class ContextualReporter(Protocol):
    """A reporter that names other reports, or files as seen from the repository's root.

    Contextual reporters run after the others, so `files` lacks reports that could not be written.
    """

    def with_context(self, context: ReportContext) -> Reporter:
        """Return a copy of this reporter that uses the context."""
        ...


class BaselineStore(Protocol):
    """A place that keeps a baseline."""

    def read(self) -> Baseline | None:
        """Read the stored baseline; return None if there is none yet.

        Raises:
            InvalidInputError: the baseline exists and cannot be read.
            NoVerdictError: the service that stores it does not answer.
        """
        ...

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace the stored baseline by the result of `change`, and return it.

        No concurrent update is lost: a store without locks reads again and calls `change` again. `change`
        is pure and may raise; then nothing is replaced.

        Raises:
            InvalidInputError: the stored baseline cannot be read, the store is read-only, or `change`
                raised the error.
            NoVerdictError: the service that stores the baseline does not answer.
            OSError: the baseline cannot be written.
        """
        ...


@frozen
class StoreContext:
    """Surroundings of a baseline store."""

    folder: Path
    """Root folder of the workspace."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment, which holds the credentials."""
    owner: tuple[int, int] | None = None
    """uid and gid that files written here belong to."""


@runtime_checkable
class HasFollowUpStep(Protocol):
    """A store with updates that others see only after a further step."""

    @property
    def next_step(self) -> str:
        """Return the step that is left to do, as a sentence."""
        ...


@runtime_checkable
class ExplainsMissing(Protocol):
    """A store that knows why there is no baseline."""

    @property
    def absence(self) -> str:
        """Return the reason why the last `read` returned None, as the rest of a sentence; "" if unknown."""
        ...


def explain_missing_baseline(store: BaselineStore) -> str:
    """Return ": " and the reason, to append to `there is no baseline`; "" if the store knows no reason."""
    why = store.absence if isinstance(store, ExplainsMissing) else ""
    return f": {why}" if why else ""


class ProgressListener(Protocol):
    """Listener to the progress of a run, such as the terminal's progress line."""

    def on_runs_planned(self, runs: int) -> None:
        """Add `runs` to the number of runs of cases to make."""
        ...

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Count one run of a case as finished and scored."""
        ...
