"""The settings of the project in which pytest runs: folder, thresholds, eval sets, agent and options."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalgate.api.evaluation import evaluate_plan, run_blocking
from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan, list_sources
from evalgate.api.record import Record, write_record
from evalgate.config.loader import find_thresholds_file, load_thresholds_or_default, parse_thresholds
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.sanitize import to_file_name
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.eval_set_paths import EvalFile, find_eval_files
from evalgate.datasets.loading import load_eval_sets
from evalgate.runner.case_policies import CasePolicies, resolve_case_policies
from evalgate.runner.plan import Plan

if TYPE_CHECKING:
    import pytest


class Project:
    """Settings of a pytest run, from its options, its ini file and the thresholds file."""

    def __init__(self, config: "pytest.Config") -> None:
        self._config = config
        thresholds = self.get_option("thresholds")
        self.folder = self._find_folder(thresholds)
        """Folder that paths are relative to: the current folder if it has the thresholds file, or the rootdir
        if that has it. If neither has it: the rootdir if pytest has an ini file, else the current folder.
        """
        runs = self.get_option("runs")
        self.options = EvaluationOptions(
            thresholds=thresholds,
            runs=int(runs) if runs and runs.isdecimal() else runs,  # type: ignore[arg-type]  # is checked later
            baseline=self.get_option("baseline"),
            folder=self.folder,
        )
        self.agent = self.get_option("agent")
        self.report_folder = self.get_option("report")

    def get_option(self, name: str) -> str | None:
        """Return the value of `--evalgate-NAME` or, if the option is absent, of the ini key `evalgate_NAME`.

        Return None if neither is set.
        """
        return self._config.getoption(f"--evalgate-{name}") or self._config.getini(f"evalgate_{name}") or None

    def _find_folder(self, thresholds_file: str | None) -> Path:
        here, root = self._config.invocation_params.dir, self._config.rootpath
        for folder in (here, root):
            if (folder / thresholds_file).is_file() if thresholds_file else find_thresholds_file(folder):
                return folder
        return root if self._config.inipath else here

    @cached_property
    def thresholds(self) -> Thresholds:
        """Return the content of the thresholds file, or the defaults if the project has none.

        Raises:
            InvalidInputError: the file is invalid; the error lists every problem.
        """
        given = self.options.thresholds
        return load_thresholds_or_default(self.folder, None if given is None else str(given))

    @property
    def run_options(self) -> tuple[str, ...]:
        """Return the options `-C` and `-c` that make `evalgate run` use the settings of the project."""
        folder, thresholds = os.path.relpath(self.folder), self.get_option("thresholds")
        return (*(() if folder == "." else ("-C", folder)), *(("-c", thresholds) if thresholds else ()))

    @property
    def has_agent(self) -> bool:
        """Return True if an option, an ini key or the thresholds file names an agent."""
        return bool(self.agent or self.thresholds.config.agent)

    @cached_property
    def files(self) -> Mapping[Path, EvalFile]:
        """Return the files that the key `eval_sets` of the thresholds file names, by their absolute path.

        Raises:
            InvalidInputError: the thresholds file or one of its patterns is invalid; the error lists every
                problem.
        """
        if not self.thresholds.config.eval_sets:
            return {}
        problems: list[Problem] = []
        found = find_eval_files(self.thresholds.config.eval_sets, folder=self.folder, problems=problems)
        if problems:
            raise InvalidInputError(problems)
        return {file.path: file for file in found}

    def load_files(self, patterns: Sequence[str], format_name: str | None = None) -> tuple[EvalSet, ...]:
        """Load the eval sets of the files that match `patterns`.

        If `format_name` is None, the format in the thresholds file applies. If the file names none, the
        format is detected.

        Raises:
            InvalidInputError: a file is invalid; the error lists every problem.
        """
        name = format_name or self.thresholds.config.format
        return load_eval_sets(patterns, plugin_registry.get_formats(), folder=self.folder, format_name=name)

    def resolve_policies(self, eval_set: EvalSet) -> CasePolicies:
        """Return the policies of an eval set's cases, such as tags and weights, by case key.

        Raises:
            InvalidInputError: a rule of the thresholds file names a metric that is not among the criteria.
        """
        return resolve_case_policies(self.thresholds, self.thresholds.config.cases, (eval_set,), is_part=True)

    def locate_pattern(self, pattern: str, folder: Path) -> str:
        """Return `pattern` as an absolute path if it matches files in `folder`, otherwise unchanged."""
        problems: list[Problem] = []
        find_eval_files([str(folder / pattern)], folder=self.folder, problems=problems)
        return pattern if problems else str(folder / pattern)

    def write_reports(self, record: Record, name: str = "") -> None:
        """Write the reports of a record to the project's report folder, or to its subfolder `name`.

        Do nothing if the project has no report folder.

        Raises:
            InvalidInputError: the folder cannot be written, or a plugin fails.
            ReportWriteError: some files could not be written; the message names each of them.
        """
        if self.report_folder:
            folder = self.folder / self.report_folder / name
            write_record(record, folder, option="--evalgate-report")

    def build_plan(self, sources: object, agent: object, options: EvaluationOptions) -> Plan:
        """Build the plan of an evaluation with the project's settings.

        Criteria and checks in `options` replace those of the project's thresholds file.

        Raises:
            InvalidInputError: the input is invalid; the error lists every problem found. If there is no
                agent, the error names the options of pytest that set one.
        """
        try:
            # Criteria and checks of a call replace those of the project's thresholds file. If the call names
            # another thresholds file, `build_evaluation_plan` refuses the combination.
            is_given = isinstance(options.criteria, Mapping) or isinstance(options.checks, Mapping)
            if is_given and options.thresholds == self.options.thresholds:
                options = replace(options, built_thresholds=self._replace_criteria(options))
            return build_evaluation_plan(sources, agent, options)
        except InvalidInputError as error:
            raise InvalidInputError(map(_name_option, error.problems)) from None

    def _replace_criteria(self, options: EvaluationOptions) -> Thresholds:
        """Return the project's thresholds, with criteria and checks from `options` instead of the file's.

        If `options` has only one of the two, the other stays as in the file. If `options` has criteria, the
        criteria for single cases in the file's section `cases` no longer apply.

        Raises:
            InvalidInputError: the criteria, the checks or the file are invalid; the error lists every
                problem.
        """
        config, sections = self.thresholds.config, {"criteria": options.criteria, "checks": options.checks}
        given = {name: dict(value) for name, value in sections.items() if isinstance(value, Mapping)}
        custom = {
            name: metric.model_dump(mode="json", exclude_unset=True)
            for name, metric in config.custom_metrics.items()
        }
        own = parse_thresholds({**given, "custom_metrics": custom}, self.folder)
        changes: dict[str, object] = {name: getattr(own.config, name) for name in given}
        if "criteria" in given:
            changes["cases"] = tuple(rule.model_copy(update={"criteria": {}}) for rule in config.cases)
        criteria = own if "criteria" in given else self.thresholds
        checks = own if "checks" in given else self.thresholds
        plain = (each for each in criteria.criteria if each not in criteria.checks)
        return replace(
            own,
            criteria=(*plain, *checks.checks),
            config=config.model_copy(update=changes),
            folder=self.thresholds.folder,
        )


def _name_option(problem: Problem) -> Problem:
    if not problem.message.startswith("no agent: "):
        return problem
    return replace(
        problem,
        message="no agent: give --evalgate-agent KIND:WHAT (as python:agent.py:answer), the ini key "
        "`evalgate_agent`, or an `agent` section in the thresholds file. `evalgate init` writes one.",
    )


class ProjectEvaluator:
    """Evaluator with the settings of the project. The fixture `evalgate` returns one.

    >>> def test_greeting(evalgate):
    ...     case = {"query": "Hi", "reference": "Hello"}
    ...     record = evalgate.evaluate([case], lambda text: "Hello", criteria={"response_match_score": 1.0})
    ...     record.assert_passed()
    """

    def __init__(
        self, project: Project, name: str, node_id: str, folder: Path, defaults: Mapping[str, Any]
    ) -> None:
        """Store the settings; nothing is loaded or run.

        Args:
            project: Settings of the pytest run.
            name: Name of the test. It becomes the id of the eval set that holds single `EvalCase` objects.
            node_id: Node id of the test. The name of its report folder is made from it.
            folder: Folder of the test, in which eval sets are searched first.
            defaults: Options of the test's marker, which apply to calls that do not set them.
        """
        self.name = name
        """Name of the test."""
        self._node_id = node_id
        self._project = project
        self._folder = folder
        self._defaults = defaults
        self._written = 0
        """Number of records of this test whose reports have been written."""

    @classmethod
    def from_node(cls, node: "pytest.Item") -> "ProjectEvaluator":
        """Return the evaluator of a test, with the options of the test's `evalgate` markers."""
        marks = reversed(list(node.iter_markers("evalgate")))
        defaults = {name: value for mark in marks for name, value in mark.kwargs.items()}
        return cls(Project(node.config), node.name, node.nodeid, node.path.parent, defaults)

    def evaluate(self, eval_sets: object = (), agent: object = None, **options: Any) -> Record:
        """Run eval sets against an agent and return the record, as `evalgate.evaluate` does.

        Agent, thresholds file, baseline and runs come from the project if they are not given. `criteria`
        replaces only the section `criteria` of the project's thresholds file, and `checks` only the section
        `checks`. Files are searched in the folder of the test, then in the folder of the project. `EvalCase`
        objects are put into an eval set with the name of the test. If the project has a report folder,
        reports are written into a subfolder for the test.

        Args:
            eval_sets: Files, folders or globs, eval sets, cases or decoded JSON; one or a list. Empty: the
                eval sets of the thresholds file.
            agent: A function, an object, a framework's agent or `KIND:WHAT`. None: the agent of the test's
                marker. If the marker has none: the agent of the project.
            options: Options of `evalgate.evaluate` that `OPTIONS` lists; they override the marker's.

        Raises:
            InvalidInputError: the input is invalid, or an option is not in `OPTIONS`.
            EvalgateError: the evaluation is not possible for another reason, or reports cannot be written.
        """
        __tracebackhide__ = True
        try:
            return self._write(run_blocking(partial(evaluate_plan, self._plan(eval_sets, agent, options))))
        except EvalgateError as error:
            raise error.with_traceback(None) from None  # only the line of the test is shown

    async def evaluate_async(self, eval_sets: object = (), agent: object = None, **options: Any) -> Record:
        """Run eval sets in the event loop of the test; otherwise like `evaluate`.

        Raises:
            InvalidInputError: the input is invalid, or an option is not in `OPTIONS`.
            EvalgateError: the evaluation is not possible for another reason, or reports cannot be written.
        """
        __tracebackhide__ = True
        try:
            return self._write(await evaluate_plan(self._plan(eval_sets, agent, options)))
        except EvalgateError as error:
            raise error.with_traceback(None) from None

    def _plan(self, eval_sets: object, agent: object, options: Mapping[str, Any]) -> Plan:
        given = dict(self._defaults) | dict(options)
        agent = given.pop("agent", None) if agent is None else agent
        return self._project.build_plan(
            self._name_cases(locate_sources(self._project, (eval_sets,), self._folder)),
            self._project.agent if agent is None else agent,
            apply_options(self._project.options, given),
        )

    def _name_cases(self, sources: list[object]) -> list[object]:
        """Return `sources` with one eval set, named like the test, in place of all `EvalCase` objects."""
        cases = tuple(each for each in sources if isinstance(each, EvalCase))
        others = [each for each in sources if not isinstance(each, EvalCase)]
        return [*others, EvalSet(self.name, cases)] if cases else sources

    def _write(self, record: Record) -> Record:
        if self._project.report_folder:
            self._written += 1
            name = to_folder_name(self._node_id) + (f"_{self._written}" if self._written > 1 else "")
            self._project.write_reports(record, name)
        return record


def to_folder_name(node_id: str) -> str:
    """Return the name of the report folder for a test or a marked function.

    >>> to_folder_name("tests/test_shop.py::test_refund")
    'tests_test_shop.py_test_refund'
    """
    return to_file_name(node_id.replace("::", "_"), limit=200)


def locate_sources(project: Project, arguments: Iterable[object], folder: Path) -> list[object]:
    """Return the eval sets in `arguments` as one list. An argument is an eval set or a list of eval sets.

    A path or glob that matches files in `folder` becomes absolute. Any other stays unchanged, and is relative
    to the folder of the project.
    """
    return [
        project.locate_pattern(str(each), folder) if isinstance(each, str | Path) else each
        for argument in arguments
        for each in list_sources(argument)
    ]


OPTIONS = frozenset(
    (
        "criteria",
        "checks",
        "thresholds",
        "runs",
        "baseline",
        "concurrency",
        "timeout",
        "judge",
        "env",
        "format",
    )
)
"""Options of `evalgate.evaluate` that the marker and the fixture take, besides the agent."""


def apply_options(options: EvaluationOptions, given: Mapping[str, Any]) -> EvaluationOptions:
    """Return a copy of `options` with the values of `given`, which come from a marker or a call.

    Raises:
        InvalidInputError: an option is unknown.
    """
    if unknown := sorted(given.keys() - OPTIONS):
        raise InvalidInputError(
            Problem("", 0, 0, f"{name!r} is no option of an evaluation: {', '.join(sorted(OPTIONS))}")
            for name in unknown
        )
    return replace(options, **given)
