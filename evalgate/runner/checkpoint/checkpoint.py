"""Keep a journal of finished runs of cases, so that `--resume` can continue an interrupted gate."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from evalgate.core.types import NON_AGENT_OUTCOMES, RunResult
from evalgate.llm.budget_guard import was_stopped_by_budget
from evalgate.llm.usage import RunUsage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.checkpoint.journal import FILE_NAME, FinishedRuns, Journal, lock_journal, unlock_journal
from evalgate.runner.checkpoint.plan_id import compute_local_plan_id, compute_part_digests
from evalgate.runner.checkpoint.row_codec import dump_run
from evalgate.runner.plan import Plan


class Checkpoint:
    """Context manager that locks and keeps the journal of a run, a file in the folder of its reports.

    The start of the `with` block locks the journal's file, and `begin_run` creates the journal. The end of
    the block deletes the journal if `mark_complete` and `mark_published` were called and there is no
    exception. Otherwise the journal is kept, because it may be the only copy of the runs. If `begin_run` is
    never called, the journal of an earlier run is not changed.
    """

    def __init__(
        self, plan: Plan, folder: Path | None, *, resume: bool, redactor: LiveRedactor | None = None
    ) -> None:
        """Store the settings. If `resume` is True, open the journal of the interrupted run in `folder`.

        If `folder` is None, no journal is written. `redactor` redacts runs before they are stored. If the
        publisher of the record uses the same redactor, it need not redact these runs again.

        Raises:
            InvalidInputError: there is no journal to resume, or it is damaged, belongs to another plan or
                version of evalgate, or is in use.
            OSError: the journal cannot be opened or read.
        """
        self._plan = plan
        self._redactor = redactor or LiveRedactor.from_environment(plan.agent_environ, plan.masks)
        self._folder = folder
        self._journal: Journal | None = None
        self._lock: int | None = None
        """File descriptor of the lock, held from before the agent starts until the journal is open."""
        self.finished: FinishedRuns = {}
        """Runs of cases that the interrupted run of the same plan finished; {} without `resume`."""
        self.used = RunUsage()
        """Usage of models that was last recorded: of the interrupted run, and later also of this run."""
        self._is_over = False
        self._is_published = False
        self._fault = ""
        if resume and folder is not None:
            shown_as = plan.workspace.format_path(folder / FILE_NAME)
            self._journal, self.finished = Journal.resume(
                folder,
                compute_local_plan_id(plan),
                shown_as,
                self._redactor.redact_stored,
                compute_part_digests(plan),
            )
            self.used = self._journal.used

    def begin_run(self) -> None:
        """Create a new journal, unless an earlier journal is resumed.

        An error of the operating system, such as a full disk, does not stop the run: `notices` report it.
        """
        if self._folder is None or self._journal is not None or self._fault:
            return
        lock, self._lock = self._lock, None
        try:
            owner, parts = self._plan.workspace.owner, compute_part_digests(self._plan)
            self._journal = Journal.create(
                self._folder, compute_local_plan_id(self._plan), owner, lock, parts
            )
        except OSError as error:
            self._fault = error.strerror or str(error)

    def mark_complete(self) -> None:
        """Store the fact that all planned runs were made, so that there is nothing to resume."""
        self._is_over = True

    def mark_published(self) -> None:
        """Store the fact that the run's record was written, so that the journal is not the only copy."""
        self._is_published = True

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a notice if the journal could not be opened or written; otherwise ()."""
        if self._fault:
            return (f"No journal was kept, so this run cannot be resumed: {self._fault}.",)
        if self._journal is not None and self._journal.fault:
            return (f"The journal lacks runs, so `--resume` makes them again: {self._journal.fault}.",)
        return ()

    def add_runs(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Redact runs and append them to the journal, if there is a journal.

        `results` are pairs (index of the case in the plan, run).
        """
        if self._journal is None:
            return
        # The row is encoded first, because the redactor searches JSON much faster than it searches objects.
        rows = [(result, dump_run(result)) for _, result in results]
        redacted = self._redactor.redact_many(rows)
        kept = [
            (index, row if hidden is result else dump_run(hidden))
            for (index, _), (result, row), hidden in zip(results, rows, redacted, strict=True)
        ]
        self._journal.append_runs(kept)

    def record_usage(self, used: RunUsage) -> None:
        """Append `used`, the total usage so far, to the journal if it changed since the last call."""
        if self._journal is not None and used != self.used:
            self._journal.append_usage(used)
            self.used = used

    def __enter__(self) -> Self:
        """Lock the journal in the folder, without changing it. A resumed journal is locked already.

        Raises:
            InvalidInputError: another run writes to the journal, or its path is a link or a special file.
        """
        # The journal is only locked here, not replaced, because starting the agent may still fail.
        if self._folder is not None and self._journal is None:
            try:
                self._lock = lock_journal(self._folder, self._plan.workspace.owner)
            except OSError as error:  # the run is possible without a journal
                self._fault = error.strerror or str(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None and self._folder is not None:
            unlock_journal(self._folder, self._lock)
        if self._journal is not None:
            is_over = self._is_over and self._is_published and error is None
            self._journal.close(is_over=is_over)


def is_final_run(run: RunResult) -> bool:
    """Return True if `--resume` need not repeat the run.

    `--resume` repeats runs that the budget stopped, and runs that failed for a reason outside of the agent.
    """
    return run.outcome not in NON_AGENT_OUTCOMES and not was_stopped_by_budget(run)
