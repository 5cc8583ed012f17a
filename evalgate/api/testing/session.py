"""pytest hooks that collect cases, run them together and print the verdict."""

import inspect
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from evalgate.api.evaluation_plan import split_sources
from evalgate.api.pytest_plugin import is_agent_function
from evalgate.api.record import Record
from evalgate.api.testing.collection import (
    CASE,
    OUTCOME,
    AgentFunction,
    CaseItem,
    EvalSetFile,
    SelectedCase,
    add_tags,
    check_outcome,
    list_cases,
)
from evalgate.api.testing.groups import (
    EvaluationGroup,
    WorkerMessage,
    build_message,
    dump_messages,
    load_messages,
    merge_messages,
)
from evalgate.api.testing.project import Project, apply_options, locate_sources, to_folder_name
from evalgate.core.errors import EvalgateError, InvalidInputError

_ENDINGS = (".evalset.json", ".test.json")
_INTERRUPTED = "the session ended before every case was run"


def _refuse_unusable_agent(collector: pytest.Collector, name: str, candidate: object) -> None:
    """Raise an error if `candidate` is a method or class on which the marker would have no effect.

    Raises:
        CollectError: the marker is on a method that takes neither `outcome` nor `evalgate`, or on a class
            that is not a test class.
    """
    # Not `isinstance`, which reads `__class__`: a lazy proxy may raise an error then.
    kind = type(candidate)
    if kind is not FunctionType and not issubclass(kind, type):
        return
    if not any(mark.name == "evalgate" for mark in vars(candidate).get("pytestmark", ())):
        return
    if kind is FunctionType and callable(candidate):
        taken = inspect.signature(candidate).parameters.keys()
        is_lost = isinstance(collector, pytest.Class) and not {"outcome", "evalgate"} & taken
    else:
        is_lost = isinstance(collector, pytest.Module) and not collector.istestclass(candidate, name)
    if is_lost:
        raise pytest.Collector.CollectError(
            f"@pytest.mark.evalgate: the agent `{name}` must be a function of the module: a method or a "
            "class is not asked. Mark a function that calls it."
        )


def _refuse_test_markers(name: str, marks: Iterable[pytest.Mark]) -> None:
    """Raise an error if an agent has a marker that pytest applies only to test functions.

    Raises:
        CollectError: the agent `name` has the marker `parametrize` or `usefixtures`.
    """
    for mark in marks:
        if mark.name in ("parametrize", "usefixtures"):
            raise pytest.Collector.CollectError(
                f"@pytest.mark.evalgate: the agent `{name}` is not called by pytest, so its marker "
                f"`{mark.name}` has no effect. Evaluate it in a test with the fixture `evalgate` instead."
            )


def register_session(config: pytest.Config) -> None:
    """Register the plugin of one session. Let pytest also collect the eval sets of the thresholds file.

    If the command line has paths, pytest collects only what the paths name.

    Raises:
        pytest.UsageError: the thresholds file is invalid.
    """
    project = Project(config)
    try:
        files = project.files
    except InvalidInputError as error:
        raise pytest.UsageError(str(error)) from None
    # With paths on the command line, only what is in them is collected, as always in pytest.
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        roots = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
        outside = (path for path in files if not any(path.is_relative_to(root) for root in roots))
        config.args += map(str, outside)
    config.pluginmanager.register(EvalgateSession(config, project), "evalgate-session")


@dataclass
class Conclusion:
    """Result of one `EvaluationGroup`: its record, or the problem because of which it has no record.

    If there is a record, but its reports could not be written, `problem` has the reason. Cases of no known
    group, such as those that a crashed worker lost, have a `Conclusion` with a problem, too.
    """

    group: str
    record: Record | None = None
    problem: str = ""

    @property
    def is_open(self) -> bool:
        """Return True if the group has a record, its gate is open, and its reports are written."""
        return self.record is not None and self.record.passed and not self.problem


@dataclass(eq=False)  # pytest before 8.4 keeps plugins in a set
class EvalgateSession:
    """pytest hooks of one session, with its groups of cases and their verdicts."""

    config: pytest.Config
    project: Project
    groups: dict[str, EvaluationGroup] = field(default_factory=dict)
    """Groups by name, in the order in which they were collected."""
    conclusions: list[Conclusion] = field(default_factory=list)
    messages: dict[str, list[WorkerMessage]] = field(default_factory=dict)
    """Messages of the workers of pytest-xdist, by the name of the group."""
    began: float = field(default_factory=time.time)
    """Start of the session, in Unix seconds."""
    uncollected: list[str] = field(default_factory=list)
    """Eval-set files that could not be collected."""
    has_lost_worker: bool = False
    has_worker_cases: bool = False
    """True in the controller of pytest-xdist if a worker has run a case."""

    @property
    def in_worker(self) -> bool:
        """Return True in a worker of pytest-xdist."""
        return hasattr(self.config, "workerinput")

    # --- collection -----------------------------------------------------------------------------------------

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> EvalSetFile | None:
        """Return a collector for an eval-set file, or None for any other file.

        A file is an eval set in three cases: it has an ending such as `.evalset.json`, the thresholds file
        lists it, or it is a `.json` file that the command line names.
        """
        is_asked_for = file_path.suffix == ".json" and parent.session.isinitpath(file_path)
        if not (file_path.name.endswith(_ENDINGS) or is_asked_for or file_path in self.project.files):
            return None
        node: EvalSetFile = EvalSetFile.from_parent(parent, path=file_path)
        node.group = self._get_group("", {})
        node.add_marker("evalgate")
        return node

    def _get_group(self, name: str, given: Mapping[str, Any]) -> EvaluationGroup:
        """Return the group `name`. If it does not exist, create it with the options `given`.

        Raises:
            InvalidInputError: an option is unknown.
        """
        if name not in self.groups:
            others = dict(given)
            agent = others.pop("agent", self.project.agent)
            options = apply_options(self.project.options, others)
            self.groups[name] = EvaluationGroup(name, self.project, agent, options, self.in_worker)
        return self.groups[name]

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Module, name: str, obj: object
    ) -> AgentFunction | list[pytest.Item] | None:
        """Collect a marked function as an agent, unless it has the argument `outcome` or `evalgate`.

        Return [], which collects nothing, for an agent that is imported from another module: it is collected
        there. Return None for any object that is no agent.

        Raises:
            CollectError: the marker is on something that cannot be an agent, the agent has a marker without
                effect, or an eval set, an option or the thresholds file is invalid.
        """
        if not is_agent_function(collector, obj):
            _refuse_unusable_agent(collector, name, obj)
            return None
        if obj.__module__ != collector.obj.__name__:
            return []  # an imported function is collected in the module that defines it
        marks: list[pytest.Mark] = getattr(obj, "pytestmark", [])
        _refuse_test_markers(name, marks)
        node: AgentFunction = AgentFunction.from_parent(collector, name=name)
        for mark in marks:
            node.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))
        own = [mark for mark in marks if mark.name == "evalgate"]
        node.cases = self._list_marked_cases(node, own, {"agent": obj})
        return node

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Let pytest call a marked test that takes `outcome` once for each case that its markers select.

        Raises:
            CollectError: an eval set, an option or the thresholds file is invalid.
        """
        if "outcome" not in metafunc.fixturenames:
            return
        found = list(metafunc.definition.iter_markers_with_node("evalgate"))
        if not found:
            return
        marks = [mark for _, mark in reversed(found)]
        # A marker of a class or module makes one evaluation for all tests in it.
        owner = next((node for node, mark in found if mark.args or mark.kwargs), metafunc.definition)
        cases = self._list_marked_cases(owner, marks, {})
        counts = Counter(case.name for case in cases)
        parameters = [
            # Several eval sets may have a case with the same id.
            pytest.param(case, id=case.name if counts[case.name] == 1 else f"{case.key[0]}/{case.name}")
            for case in cases
        ]
        metafunc.parametrize("outcome", parameters, indirect=True)

    def _list_marked_cases(
        self, node: pytest.Collector | pytest.Item | Any, marks: list[pytest.Mark], given: Mapping[str, Any]
    ) -> list[SelectedCase]:
        """Return the cases of the eval sets that are named in `marks`, the `evalgate` markers of `node`.

        If several markers have eval sets, the last of them counts. If none has, return the cases of the eval
        sets in the thresholds file. An option in a later marker replaces the same option in an earlier one,
        and an option in `given`, such as `agent`, replaces that of every marker.

        Raises:
            CollectError: an eval set, an option or the thresholds file is invalid.
        """
        options = {name: value for mark in marks for name, value in mark.kwargs.items()} | dict(given)
        arguments = next((mark.args for mark in reversed(marks) if mark.args), ())
        path = Path(node.path)
        try:
            group = self._get_group(node.nodeid if options else "", options)
            sources = locate_sources(self.project, arguments or self.project.files, path.parent)
            return self._list_source_cases(group, sources, options.get("format"), path)
        except InvalidInputError as error:
            raise pytest.Collector.CollectError(f"@pytest.mark.evalgate: {error}") from None

    def _list_source_cases(
        self, group: EvaluationGroup, sources: Sequence[object], format_name: str | None, path: Path
    ) -> list[SelectedCase]:
        patterns, objects = split_sources(sources, format_name)
        loaded = (self.project.load_files([pattern], format_name) for pattern in patterns)
        found = []
        for eval_set in (*chain.from_iterable(loaded), *objects):
            file = self.project.folder / eval_set.path if eval_set.path else path
            is_whole = eval_set.is_whole
            whole = eval_set if is_whole else self.project.load_files([str(file)], format_name)[0]
            found += list_cases(group, whole, eval_set.cases, file)
        return found

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember an eval-set file that could not be collected, also in the controller of pytest-xdist."""
        if report.failed and report.nodeid.endswith(".json"):
            self.uncollected.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Move cases to the end, group by group, so that no other test runs at the same time as agents.

        If the project has no agent, items of an eval-set file cannot be run. They are dropped if a marked
        function has the same cases. Tests that take `outcome` get the tags of their cases.
        """
        cases = {item: case for item in items if (case := find_case(item)) is not None}
        for item, case in cases.items():
            if not isinstance(item, CaseItem):
                add_tags(item, case.tags)
        if not self.project.has_agent:
            # The agent of these files is a marked function, and its items have the same cases.
            marked = {case.path for case in cases.values() if case.group.name}
            items[:] = [
                item
                for item in items
                if not (item in cases and not cases[item].group.name and cases[item].path in marked)
            ]
        order = {name: number for number, name in enumerate(self.groups, 1)}
        items.sort(key=lambda item: order[cases[item].group.name] if item in cases else 0)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Add to each group the cases that remain after `-k`, `-m`, `--lf` and similar options."""
        for case in filter(None, map(find_case, session.items)):
            case.group.selected.add(case.key)

    # --- running --------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a test that takes `outcome` if its case failed, even though all its assertions hold."""
        result = yield
        if OUTCOME in item.stash:
            check_outcome(item, item.stash[CASE], item.stash[OUTCOME])
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Decide the verdicts after the last test. Fail the session if a gate is not open.

        If the session ends early, the agents are stopped, and groups that are not finished get no verdict.
        """
        try:
            result = yield
        except BaseException:
            self._cancel()
            raise
        if not self.in_worker and not session.config.option.collectonly:
            self._conclude()
        if not all(each.is_open for each in self.conclusions):
            session.testsfailed = session.testsfailed or 1  # the exit status of pytest
        return result

    def _cancel(self) -> None:
        for group in self.groups.values():
            group.cancel()
            if group.selected:
                self.conclusions.append(Conclusion(group.name, problem=_INTERRUPTED))
        if self.has_worker_cases:
            self.conclusions.append(Conclusion("", problem=_INTERRUPTED))

    def _conclude(self) -> None:
        if self.uncollected:
            # pytest goes on with pytest-xdist, or with `--continue-on-collection-errors`.
            problem = f"the cases of {', '.join(self.uncollected)} are missing: see the errors above"
            self.conclusions.append(Conclusion("", problem=problem))
            self.messages.pop("", None)
        for group in self.groups.values():
            if self.uncollected and not group.name:
                group.cancel()
            elif group.was_attempted:
                self.conclusions.append(self._conclude_group(group.name, group.finish))
        if self.has_lost_worker and self.has_worker_cases:
            self.conclusions.append(Conclusion("", problem="a worker crashed, and its results are lost"))
            return
        for name, messages in self.messages.items():
            conclude = partial(merge_messages, self.project, messages, self.began)
            self.conclusions.append(self._conclude_group(name, conclude))

    def _conclude_group(self, name: str, conclude: Callable[[], Record]) -> Conclusion:
        try:
            record = conclude()
        except EvalgateError as error:
            return Conclusion(name, problem=str(error))
        try:
            self._write_reports(name, record)
        except EvalgateError as error:
            return Conclusion(name, record, str(error))
        return Conclusion(name, record)

    def _write_reports(self, name: str, record: Record) -> None:
        if name:
            self.project.write_reports(record, to_folder_name(name))
        else:
            again = ("--out", f"{self.project.report_folder}/again")
            self.project.write_reports(replace(record, options=(*self.project.run_options, *again)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Store in each report whether its item is a case, for the controller of pytest-xdist."""
        report = yield
        vars(report)["evalgate"] = find_case(item) is not None
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember in the controller that a worker of pytest-xdist has run a case."""
        has_case = bool(getattr(report, "evalgate", False))
        self.has_worker_cases = self.has_worker_cases or (has_case and hasattr(report, "node"))

    def pytest_sessionfinish(self) -> None:
        """Send the runs of a worker of pytest-xdist to its controller."""
        if self.in_worker:
            begun = [group for group in self.groups.values() if group.was_attempted]
            output: dict[str, Any] = self.config.workeroutput  # type: ignore[attr-defined]
            output["evalgate"] = dump_messages(map(build_message, begun))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Read the runs that a worker of pytest-xdist sent when it ended. Remember a worker that crashed."""
        output = getattr(node, "workeroutput", None) or {}
        self.has_lost_worker = self.has_lost_worker or bool(error) or "evalgate" not in output
        for message in load_messages(output["evalgate"]) if "evalgate" in output else ():
            self.messages.setdefault(message.name, []).append(message)

    # --- the verdict ----------------------------------------------------------------------------------------

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print the verdict of each evaluation, or the reason why there is no verdict."""
        from evalgate.reporting.terminal import TerminalReport

        report = TerminalReport(terminalreporter.hasmarkup, has_cases=False)
        has_failed = bool(terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"))
        for each in self.conclusions:
            name = f" {each.group}" if each.group else ""
            terminalreporter.section(f"evalgate{name}")
            if each.record is None:
                terminalreporter.write_line(f"NO VERDICT: {each.problem}", yellow=True)
            else:
                terminalreporter.write(report.render(each.record))
                if each.problem:
                    terminalreporter.write_line(each.problem, red=True)
        # A session that ended early does not fail because of its verdict, and pytest says what ended it.
        has_ended_early = any(each.problem == _INTERRUPTED for each in self.conclusions)
        if not (has_failed or has_ended_early or all(each.is_open for each in self.conclusions)):
            is_verdict = any(each.record is None or not each.record.passed for each in self.conclusions)
            why = "the verdict" if is_verdict else "reports that could not be written"
            terminalreporter.write_line(f"The session fails because of {why}: no test failed.", red=True)


def find_case(item: pytest.Item) -> SelectedCase | None:
    """Return the case of a `CaseItem` or of a test that takes `outcome`. Return None for any other item."""
    if isinstance(item, CaseItem):
        return item.case
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("outcome") if callspec else None
    return found if isinstance(found, SelectedCase) else None
