"""Groups of cases in a pytest session; each group is one evaluation with one verdict.

If pytest runs an item again, as with `--reruns`, the case is run again. A worker of pytest-xdist sends its
runs to the controller, which scores them and decides the verdict.
"""

import os
import pickle
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from evalgate.agents.adapters.in_process import describe_object
from evalgate.api.evaluation_plan import EvaluationOptions
from evalgate.api.record import Record, redact_record
from evalgate.api.testing.background import BackgroundEvaluation
from evalgate.api.testing.project import Project
from evalgate.core.errors import InvalidInputError, NoVerdictError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import AgentInfo, CaseKey, CaseResult, EvalSet, RunResult
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.reporting.repro_command import build_accept_command, build_repro_command
from evalgate.runner.checkpoint.row_codec import dump_run, load_run
from evalgate.runner.pipeline import PreparedRun, build_record_from_runs
from evalgate.runner.plan import Plan
from evalgate.runner.regating import EMPTY_RECORD

EncodedRuns = dict[CaseKey, list[bytes]]
"""Runs of each case, by case key. `dump_run` encodes a run as bytes, and `load_run` decodes it."""


@dataclass(eq=False)
class EvaluationGroup:
    """Eval sets with one agent and one set of options: one evaluation, with one verdict."""

    name: str
    """Node id of the function, class or module with the marker `evalgate`.

    It is "" for the group of all cases for which no marker sets an option.
    """
    project: Project
    agent: object
    options: EvaluationOptions
    in_worker: bool = False
    """True in a worker of pytest-xdist, which runs only the cases of its own items and decides nothing."""
    sets: dict[str, EvalSet] = field(default_factory=dict)
    """Eval sets by id, each with all of its cases, also the cases that are not in `selected`."""
    selected: set[CaseKey] = field(default_factory=set)
    """Cases that remain after pytest's selection (`-k`, `-m`, `--lf`)."""
    items_with_result: set[str] = field(default_factory=set)
    """Node ids of the items that have got a result. If such an item asks again, its case is run again."""
    _plan: Plan | None = None
    _running: "BackgroundEvaluation[Any] | None" = None
    _error: Exception | None = None

    def add_set(self, eval_set: EvalSet) -> None:
        """Add an eval set to the group, unless it was added before.

        Raises:
            InvalidInputError: the group has another eval set with the same id.
        """
        known = self.sets.setdefault(eval_set.eval_set_id, eval_set)
        if known.path != eval_set.path or (not eval_set.path and known != eval_set):
            other = known.path or "another eval set"
            message = (
                f"its eval_set_id {eval_set.eval_set_id!r} is that of {other} too: give each eval set "
                "an id of its own, so that their results can be told apart"
            )
            raise InvalidInputError([Problem(eval_set.path, 0, 0, message)])

    def build_plan(self) -> Plan:
        """Return the plan of the group's selected cases.

        Raises:
            InvalidInputError: the input is invalid; the error lists every problem found.
        """
        wanted = {eval_set_id for eval_set_id, _ in self.selected}
        sets = [self.sets[name] for name in self.sets if name in wanted]
        return self.project.build_plan(sets, self.agent, self.options).select_cases(self.selected)

    def get_result(self, key: CaseKey, node_id: str) -> CaseResult:
        """Wait for the result of a case and return it with secrets hidden. Start the evaluation if necessary.

        If pytest asks again for the item `node_id`, the case is run again.

        Raises:
            EvalgateError: the agent, the thresholds or the baseline cannot be used.
        """
        with self._redactor.redact_errors(), self._name_options():
            running = self._start()
            result = (
                running.repeat_case(key) if node_id in self.items_with_result else running.get_result(key)
            )
        self.items_with_result.add(node_id)
        found: CaseResult = self._redactor.redact_tree(result)
        return found

    def _start(self) -> BackgroundEvaluation[Any]:
        if self._error is not None:
            raise self._error
        try:
            if self._running is None:
                conclude = export_runs if self.in_worker else build_redacted_record
                at_once = not self.in_worker
                self._plan = self.build_plan()
                self._running = BackgroundEvaluation(self._plan, conclude, all_at_once=at_once)
        except Exception as error:
            self._error = error
            raise
        return self._running

    @contextmanager
    def _name_options(self) -> Iterator[None]:
        """Replace the name `--baseline` in errors of the `with` block by the option's name in pytest.

        This is `baseline` if the marker sets the option, otherwise `--evalgate-baseline`.
        """
        # `baseline` is an option of the marker, `--evalgate-baseline` of the command line.
        is_own = self.options.baseline != self.project.options.baseline
        name = "`baseline`" if is_own else "--evalgate-baseline"
        try:
            yield
        except InvalidInputError as error:
            raise InvalidInputError(
                replace(each, message=re.sub(r"^--baseline\b", name, each.message)) for each in error.problems
            ) from None

    @cached_property
    def _redactor(self) -> LiveRedactor:
        return LiveRedactor.from_environment(os.environ)

    def cancel(self) -> None:
        """Stop the evaluation if it was started."""
        if self._running is not None:
            self._running.cancel()

    def finish(self) -> Any:
        """Wait for the end of the evaluation and return its record. Start the evaluation if necessary.

        In a worker of pytest-xdist, return the encoded runs (`EncodedRuns`) instead of a record.

        Raises:
            EvalgateError: the agent, the thresholds or the baseline cannot be used.
        """
        with self._redactor.redact_errors(), self._name_options():
            return self._start().finish()

    @property
    def was_attempted(self) -> bool:
        """Return True if the evaluation has started, or has failed to start."""
        return self._running is not None or self._error is not None

    def build_run_command(self, case: CaseResult) -> str:
        """Build the `evalgate run` command that runs one case again, or "" if no command can do so.

        Return "" for an agent that is a Python object of this process, and before the evaluation has started.
        Return "" also if a marker `evalgate` made the group, because the command does not read markers.
        """
        if self.name or self._plan is None or self._plan.agent.settings.kind == "in_process":
            return ""
        agent = AgentInfo(self._plan.agent.settings.kind, self._plan.agent.name)
        record = replace(EMPTY_RECORD, agent=agent, options=self.project.run_options)
        return build_repro_command(record, case)

    def build_accept_command(self, case: CaseResult) -> str:
        """Build the `evalgate accept` command that makes the agent's behaviour the case's new expectation.

        Return "" if the behaviour cannot be accepted, or if a marker `evalgate` made the group. The command
        reads the behaviour from a report, so return "" also if the project writes no reports.
        """
        folder = self.project.report_folder
        if self.name or not folder:
            return ""
        options = (*self.project.run_options, "--out", f"{folder}/again")
        return build_accept_command(replace(EMPTY_RECORD, options=options), case)


def build_redacted_record(prepared_run: PreparedRun) -> Record:
    """Build the record of finished runs, with secrets hidden."""
    return redact_record(prepared_run.build_record())


def export_runs(prepared_run: PreparedRun) -> EncodedRuns:
    """Encode the runs that a worker made. Cases without a run are left out."""
    keys = [
        (suite.eval_set.eval_set_id, case.eval_id)
        for suite in prepared_run.plan.suites
        for case in suite.eval_set.cases
    ]
    made = {key: prepared_run.run_results.get_runs(index) for index, key in enumerate(keys)}
    return {key: [dump_run(run) for run in runs] for key, runs in made.items() if runs}


# --- workers of pytest-xdist --------------------------------------------------------------------------------


@frozen
class WorkerMessage:
    """Message from a worker to the controller: the runs of one group, and the settings to score the runs."""

    name: str
    agent: object
    options: EvaluationOptions
    sources: tuple[str | EvalSet, ...]
    """The group's eval sets: the path of each file, and the eval sets that are in no file."""
    selected: frozenset[CaseKey]
    runs: EncodedRuns
    error: str = ""
    """Reason why the evaluation failed, or why the arguments of the pytest marker cannot be sent; "" without
    an error."""


def build_message(group: EvaluationGroup) -> WorkerMessage:
    """Finish a group's evaluation in a worker. Return a message with the runs, or with the error."""
    runs: EncodedRuns = {}
    error = ""
    try:
        runs = group.finish()
    except Exception as failure:  # noqa: BLE001  the controller reports it
        error = str(failure)
    agent = group.agent
    if agent is not None and not isinstance(agent, str):
        # The cases have been run, so the controller needs only the name of the agent.
        module, _, name = describe_object(agent).rpartition(".")
        agent = SimpleNamespace(__module__=module, __qualname__=name)
    sources = tuple(each.path or each for each in group.sets.values())
    return WorkerMessage(group.name, agent, group.options, sources, frozenset(group.selected), runs, error)


def dump_messages(messages: Iterable[WorkerMessage]) -> list[bytes]:
    """Encode messages for the controller with pickle.

    If pickle cannot encode a message, a message with the reason in `error` is encoded instead.
    """
    return [_dump_message(message) for message in messages]


def _dump_message(message: WorkerMessage) -> bytes:
    try:
        return pickle.dumps(message)
    except Exception as error:  # noqa: BLE001  the user's objects may raise any exception
        reason = f"the arguments of the marker cannot be sent to the controller of pytest-xdist: {error}"
        return pickle.dumps(
            replace(message, agent=None, options=EvaluationOptions(), sources=(), error=reason)
        )


def load_messages(data: Iterable[bytes]) -> list[WorkerMessage]:
    """Decode messages that `dump_messages` encoded.

    Accept messages only from workers of this session, because unpickling can run code.
    """
    return [pickle.loads(each) for each in data]  # noqa: S301  of a worker that pytest-xdist started


def merge_messages(project: Project, messages: Sequence[WorkerMessage], began: float) -> Record:
    """Build the record of one group from the messages of its workers. There must be at least one message.

    If several workers ran the same case, the runs of the first worker are used. `began` is the start of the
    session in Unix seconds.

    Raises:
        NoVerdictError: a worker failed, or a case has no runs.
        EvalgateError: the eval sets, the thresholds or the baseline cannot be used.
    """
    if errors := list(dict.fromkeys(each.error for each in messages if each.error)):
        raise NoVerdictError("; ".join(errors))
    first = messages[0]
    group = EvaluationGroup(first.name, project, first.agent, first.options, selected=set(first.selected))
    for source in first.sources:
        for eval_set in project.load_files([source]) if isinstance(source, str) else (source,):
            group.add_set(eval_set)
    made: dict[CaseKey, list[RunResult]] = {}
    for message in messages:
        for key, runs in message.runs.items():
            made.setdefault(key, list(map(load_run, runs)))
    if missing := first.selected - made.keys():
        raise NoVerdictError(f"{len(missing)} of {len(first.selected)} cases have no result")
    seconds = time.time() - began
    record = build_record_from_runs(group.build_plan(), made, datetime.fromtimestamp(began, UTC), seconds)
    return redact_record(record)
