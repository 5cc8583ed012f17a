"""Where the results go."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol, runtime_checkable

from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, Record, RunResult


class Reporter(Protocol):
    """A rendering of the record."""

    file_name: str
    """Where `--out` puts it."""

    def render(self, record: Record) -> str:
        """The whole report: a pure function of the record (no clock, no file, no environment)."""
        ...


@runtime_checkable
class StreamingReporter(Protocol):
    """A reporter whose text is large."""

    def iter_chunks(self, record: Record) -> Iterator[str]:
        """What `render` gives, in order."""
        ...


@runtime_checkable
class PrefixesPaths(Protocol):
    """A reporter whose readers look for files from the repository's root, wherever the gate works."""

    def prefix_paths(self, folder: str) -> Reporter:
        """This one for a record whose paths start in `folder`, as the root sees it; "" is the root itself."""
        ...


class BaselineStore(Protocol):
    """A place that keeps a baseline."""

    def read(self) -> Baseline | None:
        """The stored baseline; None when there is none yet.

        Raises:
            InvalidInputError: it exists and cannot be read.
            NoVerdictError: whoever keeps it does not answer.
        """
        ...

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace what is stored by what `change` makes of it, and give that back.

        Nothing that somebody else stored meanwhile is lost: a store that cannot keep others out reads again
        and calls `change` again. It is pure and may raise; then nothing is replaced.

        Raises:
            InvalidInputError: as `read`, or what `change` raises.
            OSError: it cannot be written.
        """
        ...


@frozen
class StoreContext:
    """What a store of baselines works in."""

    folder: Path
    """The workspace."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The gate's own environment, which holds the credentials."""
    owner: tuple[int, int] | None = None
    """uid and gid that files written here belong to."""


@runtime_checkable
class HasFollowUpStep(Protocol):
    """A store whose update is not seen by others yet."""

    @property
    def next_step(self) -> str:
        """What is left to do, as a sentence."""
        ...


@runtime_checkable
class ExplainsMissing(Protocol):
    """A store that knows why there is no baseline."""

    @property
    def absence(self) -> str:
        """Why the last `read` gave None, as the rest of a sentence; "" when nothing more is to be said."""
        ...


def explain_missing_baseline(store: BaselineStore) -> str:
    """Why it gave none, to follow `there is no baseline`; "" where there is nothing to add."""
    why = store.absence if isinstance(store, ExplainsMissing) else ""
    return f": {why}" if why else ""


class ProgressListener(Protocol):
    """Somebody who watches a run: the terminal's progress line."""

    def on_runs_planned(self, runs: int) -> None:
        """So many further case-runs are about to be made."""
        ...

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """One case-run is over and scored."""
        ...
