"""Evaluate when a user starts a run from a page: one run at a time, each in its own thread."""

import asyncio
import io
import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import EvalgateError, InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import CaseKey, Record, RunResult, ScopedThreshold, Status, Verdict
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.html.case import classify_run
from evalgate.reporting.results_history import DEFAULT_KEPT, build_result_id, list_results
from evalgate.reporting.summary_lines import describe_verdict
from evalgate.reporting.trace_view import format_seconds
from evalgate.runner.execution import RunHooks
from evalgate.runner.pipeline import OpenCheckpoints, PreparedRun, RunOptions, prepare_run
from evalgate.runner.plan import Plan, build_plan
from evalgate.runner.publish import Publisher, PublishOptions
from evalgate.viewer.project_agents import PROJECT_AGENT, list_agents, read_project_config

OUT = "evalgate-report/again"
"""Folder of the reports of runs from a page. The reports of `evalgate run` are in another folder."""
_MOST_LINES = 200
_WORDS: Mapping[Status, str] = {
    "passed": "pass",
    "failed": "fail",
    "errored": "error",
    "not_evaluated": "not evaluated",
}
_COLOURS = {"pass": "passed", "fail": "failed", "error": "errored"}
_END_S = 30.0


@frozen
class FinishedRun:
    """Finished run of one case, as a line of the progress page."""

    eval_set_id: str
    eval_id: str
    status: str
    """`pass`, `fail`, `error` or `not evaluated`."""
    words: str
    """Duration and scores of the run, or the error."""

    @property
    def colour(self) -> str:
        """Return the CSS class that colours the status; "" for no colour."""
        return _COLOURS.get(self.status, "")


@frozen
class Progress:
    """State of one evaluation run that the progress page shows."""

    number: int
    planned: int
    done: int
    lines: tuple[FinishedRun, ...]
    """Finished runs of cases, the newest first, at most 200."""
    is_over: bool
    is_cancelled: bool
    failure: str
    """Reason why the run made no record; "" while the run goes on, or if it made a record."""
    record_id: str
    """Id of the record in the history; "" while the run goes on, or if the record could not be kept."""
    decision: Verdict | None
    """Verdict of a finished run; None while the run goes on, or if it made no record."""

    @property
    def verdict(self) -> str:
        """Return the verdict in words, such as "Gate closed"; "" without a verdict."""
        return describe_verdict(self.decision)[1] if self.decision else ""

    @property
    def colour(self) -> str:
        """Return the CSS class that colours the verdict; "" for no colour."""
        return _COLOURS.get(self.decision.status, "") if self.decision else ""


def build_project_plan(folder: Path, thresholds_file: str | None, choice: str) -> Plan:
    """Return the plan of the project's thresholds file: agent, eval sets and metrics.

    If the file names no eval sets, the plan has all eval sets in `folder`. `choice` is the folder of a Google
    ADK agent, or `PROJECT_AGENT`.

    Raises:
        InvalidInputError: the files are wrong; the error has every problem.
    """
    config = read_project_config(folder, thresholds_file)
    names_no_sets = config is not None and not config.eval_sets
    overrides = Overrides(
        agent=f"adk:{choice}" if choice else None, eval_sets=(".",) if names_no_sets else ()
    )
    return build_plan(overrides, thresholds_file=thresholds_file, folder=folder, environ=os.environ)


def list_run_agents(folder: Path, thresholds_file: str | None) -> tuple[str, ...]:
    """Return the agents to choose from for a run: `PROJECT_AGENT` alone, or folders of Google ADK agents.

    `PROJECT_AGENT` stands for the agent of the thresholds file. It is returned alone if the file names an
    agent or is invalid, or if there is no Google ADK agent.
    """
    found = list_agents(folder, read_project_config(folder, thresholds_file))
    return (PROJECT_AGENT,) if PROJECT_AGENT in found else found


def apply_choices(plan: Plan, cases: Collection[CaseKey], thresholds: Mapping[str, float | None]) -> Plan:
    """Return `plan` with only the cases in `cases`, and only the metrics that `thresholds` names.

    `thresholds` has the new threshold of each metric by name; None keeps the present thresholds. Thresholds
    of single cases are always kept.

    Raises:
        InvalidInputError: no case is left, or an eval set has no metric left.
    """
    plan = plan.select_cases(cases)
    suites = tuple(
        replace(
            suite,
            metrics=tuple(
                bound
                if (threshold := thresholds[bound.name]) in {None, bound.criterion.threshold}
                else bound.apply_threshold(ScopedThreshold(threshold, ""))
                for bound in suite.metrics
                if bound.name in thresholds
            ),
        )
        for suite in plan.suites
    )
    if not suites:
        raise InvalidInputError("no case was chosen: tick at least one")
    if not all(suite.metrics for suite in suites):
        raise InvalidInputError("no metric was chosen for an eval set: tick at least one")
    return replace(plan, suites=suites)


class BackgroundRun:
    """One evaluation run in its own thread. It is also the `ProgressListener` of this run."""

    def __init__(self, number: int, plan: Plan, options: tuple[str, ...]) -> None:
        self._number = number
        self._plan = plan
        self._options = options
        self._thresholds = plan.case_thresholds
        self._lock = threading.Lock()
        self._planned = 0
        self._finished: list[FinishedRun] = []
        self._failure = ""
        self._record: Record | None = None
        self._record_id = ""
        self._cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._redactor = LiveRedactor.from_environment(os.environ)
        self._thread = threading.Thread(target=self._run, name="evalgate-run")

    @property
    def is_over(self) -> bool:
        """Return True if the run has ended, or was not started."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, which makes the run and writes its record."""
        self._thread.start()

    def cancel(self) -> None:
        """Ask the run to stop, and return at once. The run still writes a record of its results so far."""
        with self._lock:
            loop, task, already = self._loop, self._task, self._cancelled
            self._cancelled = True
        if loop is not None and task is not None and not already and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    def wait_for_end(self) -> None:
        """Wait at most 30 seconds until the agent is stopped and the record is written."""
        self._thread.join(_END_S)

    def get_progress(self) -> Progress:
        """Return the current state, for the progress page."""
        is_over = self.is_over
        with self._lock:
            return Progress(
                self._number,
                self._planned,
                len(self._finished),
                tuple(self._finished[: -_MOST_LINES - 1 : -1]),
                is_over,
                self._cancelled,
                self._failure,
                self._record_id,
                self._record.verdict if self._record is not None else None,
            )

    # --- called by the run ----------------------------------------------------------------------------------

    def on_runs_planned(self, runs: int) -> None:
        """Add `runs` to the number of planned runs."""
        with self._lock:
            self._planned += runs

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Add the result of a finished run to the list."""
        found = FinishedRun(eval_set_id, eval_id, *self._describe_result(eval_set_id, eval_id, result))
        with self._lock:
            self._finished.append(found)

    def close(self) -> None:
        """Do nothing: this listener has nothing to close."""

    def _describe_result(self, eval_set_id: str, eval_id: str, result: RunResult) -> tuple[str, str]:
        if result.outcome != "answered":
            message = result.failure.message if result.failure is not None else ""
            return "error", self._redactor.redact_text(f"{result.outcome.replace('_', ' ')}: {message}")
        thresholds = self._thresholds.get((eval_set_id, eval_id), {})
        words = [
            f"{each.name} {get_score_range(each.name).format_pair(each.score, thresholds.get(each.name))[0]}"
            for each in result.metrics
            if each.score is not None
        ]
        words += [
            f"{each.name} errored: {self._redactor.redact_text(each.reason)}"
            for each in result.metrics
            if each.status == "errored"
        ]
        return _WORDS[classify_run(result)], ", ".join([format_seconds(result.duration_s), *words])

    def _run(self) -> None:
        try:
            self._publish_run()
        except EvalgateError as error:
            self._failure = self._redactor.redact_text(str(error))
        except Exception as error:  # noqa: BLE001  the server goes on, and the page shows the bug
            self._failure = self._redactor.redact_text(
                f"a bug in evalgate ended the run: {type(error).__name__}: {error}"
            )

    def _publish_run(self) -> None:
        folder = self._plan.workspace.folder
        publisher = Publisher(
            self._plan.workspace,
            OUT,
            os.environ,
            io.StringIO(),
            io.StringIO(),
            self._redactor,
            PublishOptions(keep_results=DEFAULT_KEPT),
        )
        with OpenCheckpoints() as checkpoints:
            options = RunOptions(
                journal_folder=folder / OUT, redactor=self._redactor, checkpoints=checkpoints
            )
            hooks = RunHooks(on_begin=publisher.clear_previous_reports)
            with prepare_run(self._plan, self, options, hooks) as prepared_run:
                asyncio.run(self._make_runs(prepared_run))
                record = replace(prepared_run.build_record(), options=self._options)
            publisher.publish(record)
            if publisher.has_record:
                checkpoints.mark_published()  # otherwise only the journal has the runs, so it stays
        kept = [each.result_id for each in list_results(folder)]
        wanted = build_result_id(record.created_at)
        with self._lock:
            self._record = record
            self._record_id = next((each for each in kept if each.startswith(wanted)), "")

    async def _make_runs(self, prepared_run: PreparedRun) -> None:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            cancelled = self._cancelled
        if cancelled and self._task is not None:
            self._task.cancel()
        await prepared_run.make_runs()


class BackgroundRuns:
    """All runs that were started from pages of one viewer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: list[BackgroundRun] = []

    def start_run(self, plan: Plan, options: tuple[str, ...]) -> int:
        """Start a run and return its number, counted from 1.

        `options` are words of a command line, such as `-c FILE`. The record stores them for the command that
        repeats a case.

        Raises:
            InvalidInputError: another run is in progress.
        """
        with self._lock:
            if self._runs and not self._runs[-1].is_over:
                raise InvalidInputError(
                    f"run {len(self._runs)} is in progress: wait for its end, or stop it first"
                )
            run = BackgroundRun(len(self._runs) + 1, plan, options)
            run.start()
            self._runs.append(run)
            return len(self._runs)

    def find_run(self, number: int) -> BackgroundRun:
        """Return the run with the number `number`, counted from 1.

        Raises:
            InvalidInputError: there is no such run.
        """
        with self._lock:
            if not 1 <= number <= len(self._runs):
                raise InvalidInputError(f"there is no run {number} of this server")
            return self._runs[number - 1]

    def list_progress(self) -> list[Progress]:
        """Return the state of every run, the newest first."""
        with self._lock:
            return [each.get_progress() for each in reversed(self._runs)]

    def close(self) -> None:
        """Stop the run in progress, and wait at most 30 seconds until its agent has ended."""
        with self._lock:
            running = [each for each in self._runs if not each.is_over]
        for each in running:
            each.cancel()
            each.wait_for_end()
