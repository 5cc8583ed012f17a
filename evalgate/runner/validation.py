"""Read the files of a run without running a case, for `evalgate validate` and other commands."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evalgate.agents.factory import resolve_agent
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import add_env_files
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import Lint, LintWarning, Metric
from evalgate.core.types import REPORT_ONLY, EvalSet
from evalgate.runner.base_branch import RuleFiles
from evalgate.runner.plan import (
    build_judge_resolver,
    build_plan_user_factory,
    check_judge_labels,
    mark_quarantined_cases,
    read_judge_calibration,
)
from evalgate.runner.plan_notices import describe_default_criteria, index_metrics, iter_suite_notices
from evalgate.runner.suites import GivenObjects, PlanInput, Suite, build_suites
from evalgate.system.workspace import resolve_workspace

LINTS: Mapping[str, str] = {
    "references": "evalgate.datasets.lints.cases:MissingReferencesLint",
    "repeats": "evalgate.datasets.lints.cases:DuplicateLint",
    "tools": "evalgate.datasets.lints.cases:UndeclaredToolsLint",
    "journeys": "evalgate.integrations.orchestrate.lint:JourneyLint",
    "rubrics": "evalgate.datasets.lints.cases:UnusedRubricsLint",
    "passed_over": "evalgate.datasets.lints.cases:IgnoredFeaturesLint",
}
"""Checks for likely mistakes in eval sets (`evalgate validate`): maps a name to the class's import path."""


def load_suites(
    overrides: Overrides,
    *,
    thresholds_file: str | None,
    folder: Path,
    marks_quarantined: bool = False,
    scores: bool = False,
) -> tuple[Suite, ...]:
    """Return the suites of a run: eval sets with mocks, sessions and case policies.

    They have metrics only if `scores` is True. Then an eval set without criteria and checks is an error.
    `thresholds_file` is None if the user named none; then the file in `folder` is read, if there is one. If
    `marks_quarantined` is True, the quarantine file is read too, and the policies say which cases it names.

    Raises:
        InvalidInputError: there is no eval set, a file has a problem, or `folder` is no usable folder.
    """
    workspace = resolve_workspace(folder)
    rule_files = RuleFiles(workspace.folder, {})
    thresholds = rule_files.load_chosen_thresholds(thresholds_file)
    config = apply_overrides(thresholds.config, overrides)
    resolver = build_judge_resolver(overrides, thresholds, config, {}, workspace)
    given = GivenObjects(scores=scores)
    plan_input = PlanInput(overrides, thresholds, config, workspace, {}, resolver, rule_files, given)
    suites = build_suites(plan_input)
    return mark_quarantined_cases(plan_input, suites)[0] if marks_quarantined else suites


def check_files(overrides: Overrides, *, thresholds_file: str | None, folder: Path) -> Iterator[str]:
    """Check the files of a run without starting the agent.

    Yield one line for each eval set, then each warning and notice, and at the end a summary. All files are
    read before the first line is yielded.

    Raises:
        InvalidInputError: the input is wrong; the error lists every problem that was found.
    """
    workspace = resolve_workspace(folder)
    rule_files = RuleFiles(workspace.folder, {})
    thresholds = None
    try:
        thresholds = rule_files.load_chosen_thresholds(thresholds_file)
        config, _ = add_env_files(apply_overrides(thresholds.config, overrides), {}, workspace.folder)
        if config.agent is not None:
            resolve_agent(config.agent, overrides.agent_name, thresholds)
        resolver = build_judge_resolver(overrides, thresholds, config, {}, workspace)
        plan_input = PlanInput(
            overrides, thresholds, config, workspace, {}, resolver, rule_files, needs_criteria=False
        )
        suites, notices = mark_quarantined_cases(plan_input, build_suites(plan_input))
        build_plan_user_factory(plan_input, suites)
        read_judge_calibration(plan_input, suites)
        check_judge_labels(plan_input, suites)
        _refuse_empty_sets(suites)
        yield from map(_describe_suite, suites)
        found = list(_iter_warnings(suites, thresholds, workspace.folder))
        yield from found
        yield from filter(None, [*map(describe_default_criteria, suites), resolver.models.default_notice])
        yield from notices
        verdict = f"{pluralize(len(found), 'warning')}, no error." if found else "no problem found."
        yield f"{pluralize(len(suites), 'eval set')}: {verdict}"
    except InvalidInputError as error:
        from evalgate.runner.plan_errors import add_agent_and_criteria_problems

        raise add_agent_and_criteria_problems(error, thresholds, overrides) from None


def _refuse_empty_sets(suites: Sequence[Suite]) -> None:
    if empty := [suite.eval_set.path for suite in suites if not suite.eval_set.cases]:
        raise InvalidInputError(Problem(path, 1, 1, "the eval set has no cases") for path in empty)


def _describe_suite(suite: Suite) -> str:
    """Return a line with the path of the eval set, the number of its cases and the names of its metrics."""
    named = (each.name + ("" if each.criterion.gates else f" ({REPORT_ONLY})") for each in suite.metrics)
    metrics = ", ".join(dict.fromkeys(named))
    scoring = f"scored with {metrics}" if metrics else "with no criteria yet"
    return f"{suite.eval_set.path}: {pluralize(len(suite.eval_set.cases), 'case')}, {scoring}"


def _iter_warnings(suites: Sequence[Suite], thresholds: Thresholds, folder: Path) -> Iterator[str]:
    """Yield the notices about the suites, then the warnings about thresholds files, checks and eval sets.

    A warning about an eval set begins with `file:line`. `thresholds` is the thresholds file of the run, and
    `folder` is the working folder.
    """
    from evalgate.datasets.lints.thresholds import lint_extra_calls, lint_thresholds

    yield from iter_suite_notices(suites, thresholds.config.session)
    for suite in {id(suite.thresholds): suite for suite in suites}.values():
        yield from lint_thresholds(suite.thresholds)
        yield from lint_extra_calls(suite.thresholds, index_metrics(suite))
    for suite in suites:
        for each in suite.note_thresholds:
            yield from lint_thresholds(each)
    yield from _lint_checks(suites, thresholds)
    if thresholds.config.suites:
        from evalgate.runner.affected import find_unmatched_globs

        yield from find_unmatched_globs(thresholds, folder)
    for suite in suites:
        for found in _find_lint_warnings(suite.eval_set, index_metrics(suite)):
            yield f"{suite.eval_set.path}:{found.line}: {found.eval_id}: {found.message}"


def _find_lint_warnings(eval_set: EvalSet, metrics: Mapping[str, Metric]) -> list[LintWarning]:
    """Return the warnings of all `LINTS` about an eval set, sorted by line; `metrics` are by name."""
    lints: Iterator[Lint] = (plugin_registry.load_object(path)() for path in LINTS.values())
    looks = [lint.build_checker(eval_set, metrics) for lint in lints]
    found = [
        LintWarning(case.line, case.eval_id, sentence)
        for case in eval_set.cases
        for look in looks
        for sentence in look(case)
    ]
    return sorted(found, key=lambda each: each.line)


def _lint_checks(suites: Sequence[Suite], thresholds: Thresholds) -> Iterator[str]:
    files = [thresholds, *(each for suite in suites for each in suite.note_thresholds)]
    if any(each.checks for each in files):
        from evalgate.metrics.checks.lint import lint_checks

        names = {bound.name for suite in suites for bound in suite.metrics}
        yield from lint_checks(files, names, [suite.eval_set for suite in suites])
