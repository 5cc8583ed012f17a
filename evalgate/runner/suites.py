"""Build the suites of a run: each is an eval set with its metrics, tool mocks and case policies."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from evalgate.agents.factory import AgentSpec
from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import LlmJudged, MetricCode, MetricContext, MetricEnvironment
from evalgate.core.types import CaseKey, CasePolicy, EvalCase, EvalSet
from evalgate.datasets.cases import fingerprint_cases
from evalgate.datasets.eval_set_paths import find_adjacent_thresholds_file
from evalgate.datasets.loading import load_eval_sets
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.metrics.scoring import DEFAULT_CASE_POLICY, BoundMetric
from evalgate.runner import metric_binding
from evalgate.runner.base_branch import RuleFiles
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.workspace import Workspace


@dataclass(frozen=True)
class Suite:
    """Eval set with the metrics that score it and the policies of its cases."""

    eval_set: EvalSet
    metrics: tuple[BoundMetric, ...]
    thresholds: Thresholds
    """Thresholds file from which the metrics were built."""
    case_policies: Mapping[CaseKey, CasePolicy] = field(default_factory=dict)
    """Policies of cases of all suites; a case without an entry has the default policy."""
    note_thresholds: tuple[Thresholds, ...] = ()
    """Checks that are written with the cases: one `Thresholds` object for each case that has checks."""

    def get_case_policy(self, case: EvalCase) -> CasePolicy:
        """Return the policy of a case of the eval set; a case without an entry has the default policy."""
        return self.case_policies.get((self.eval_set.eval_set_id, case.eval_id), DEFAULT_CASE_POLICY)

    def select_cases(self, keys: Collection[CaseKey]) -> "Suite":
        """Return the suite with only the cases in `keys`.

        If cases were left out, the eval set of the returned suite has `is_whole=False`.
        """
        eval_set = self.eval_set
        cases = tuple([case for case in eval_set.cases if (eval_set.eval_set_id, case.eval_id) in keys])
        if len(cases) == len(eval_set.cases):
            return self
        return replace(self, eval_set=replace(eval_set, cases=cases, is_whole=False))

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """Return the fingerprint of each case of the eval set, in the order of the cases."""
        return fingerprint_cases(self.eval_set.cases)

    def get_metrics(self, case: EvalCase) -> tuple[BoundMetric, ...]:
        """Return the metrics that score the case, with the thresholds of the case's policy applied."""
        metrics = self.metrics
        if self.has_metrics_for_some_cases:
            metrics = self._metrics_by_case.get(case.eval_id, self._metrics_of_all_cases)
        case_thresholds = self.get_case_policy(case).thresholds
        if not case_thresholds:
            return metrics
        return tuple(bound.apply_threshold(case_thresholds.get(bound.name)) for bound in metrics)

    def drop_other_sets_metrics(self) -> "Suite":
        """Return the suite without metrics that score only cases of other eval sets."""
        name = self.eval_set.eval_set_id
        kept = [
            each for each in self.metrics if each.cases is None or any(key[0] == name for key in each.cases)
        ]
        return self if len(kept) == len(self.metrics) else replace(self, metrics=tuple(kept))

    @cached_property
    def has_metrics_for_some_cases(self) -> bool:
        """Return True if a metric scores only some of the cases, so that cases differ in their metrics."""
        return any(bound.cases is not None for bound in self.metrics)

    @cached_property
    def _metrics_of_all_cases(self) -> tuple[BoundMetric, ...]:
        return tuple([bound for bound in self.metrics if bound.cases is None])

    @cached_property
    def _metrics_by_case(self) -> Mapping[str, tuple[BoundMetric, ...]]:
        """Return the metrics of each case that has metrics of its own, by case id.

        A metric is a case's own if `BoundMetric.cases` names the case. The metrics that score all cases are
        included. A case that is not in the mapping has only these.
        """
        # A mapping by case, because checks of single cases may make as many metrics as there are cases.
        everywhere, places = list[int](), dict[str, list[int]]()
        for at, bound in enumerate(self.metrics):
            if bound.cases is None:
                everywhere.append(at)
            for eval_set_id, eval_id in bound.cases or ():
                if eval_set_id == self.eval_set.eval_set_id:
                    places.setdefault(eval_id, []).append(at)
        return {
            eval_id: tuple([self.metrics[at] for at in sorted(everywhere + own)])
            for eval_id, own in places.items()
        }


@frozen
class GivenObjects:
    """Objects that a Python program passes instead of files and options."""

    eval_sets: tuple[EvalSet, ...] = ()
    """Eval sets to run, in addition to files that the user names. If there are any, the `eval_sets` in the
    thresholds file are ignored."""
    agent: AgentSpec | None = None
    """Agent to run; None: the agent that the options or the thresholds file name."""
    thresholds: Thresholds | None = None
    """Thresholds of the run; None: they are read from a thresholds file."""
    scores: bool = True
    """False: only the conversations are wanted, so no criteria are read."""


NOTHING_GIVEN = GivenObjects()


@dataclass(frozen=True)
class PlanInput:
    """Settings, files and objects that a plan is built from."""

    overrides: Overrides
    """Options of the command line."""
    thresholds: Thresholds
    config: Config
    """Settings in the thresholds file, with the options of the command line applied."""
    workspace: Workspace
    agent_environ: Mapping[str, str]
    """The gate's environment with the agent's env files added."""
    judge_resolver: JudgeResolver
    rule_files: RuleFiles
    objects: GivenObjects = NOTHING_GIVEN
    needs_criteria: bool = True
    """True: an eval set without criteria and checks is an error."""

    @cached_property
    def is_partial_selection(self) -> bool:
        """Return True if the user chose only a part of the project's cases for this run.

        This is so if the eval sets differ from the list in the thresholds file, if it has one. It is also so
        if an eval set is given as `FILE:CASE`, which selects single cases.
        """
        listed, selected = self.thresholds.config.eval_sets, self.config.eval_sets
        if listed and selected != listed:
            return True
        return any(":" in each and not (self.workspace.folder / each).exists() for each in selected)


def build_suites(plan_input: PlanInput) -> tuple[Suite, ...]:
    """Build a suite with metrics for every eval set.

    If the thresholds file has criteria, they apply to every eval set. Otherwise an eval set gets the criteria
    of the `.metrics.json` or `test_config.json` next to it, and the checks and budgets of the thresholds
    file. An eval set with none of these gets the default criteria of its format (`default_criteria.py`). If
    `objects.scores` is False, the suites have no metrics.

    Raises:
        InvalidInputError: there is no eval set, a file has a problem, or (if `needs_criteria` is True) an
            eval set has neither criteria nor checks.
    """
    thresholds, config, is_part = plan_input.thresholds, plan_input.config, plan_input.is_partial_selection
    metric_binding.check_runs(thresholds, config)
    eval_sets = _complete_cases(_load_eval_sets(plan_input), plan_input)
    case_policies = _resolve_case_policies(eval_sets, plan_input)
    if not plan_input.objects.scores:
        return tuple(Suite(eval_set, (), thresholds, case_policies) for eval_set in eval_sets)
    context = metric_binding.build_metric_context(
        thresholds, config, plan_input.workspace, plan_input.judge_resolver, plan_input.rule_files
    )
    environment = _build_metric_environment(plan_input)
    metrics = metric_binding.bind_metrics(thresholds, context, environment)
    if thresholds.checks_and_budgets:
        from evalgate.runner.check_scopes import limit_checks

        metrics = limit_checks(metrics, thresholds, eval_sets, case_policies, is_part=is_part)
    if thresholds.names_criteria:
        suites = tuple(Suite(eval_set, metrics, thresholds, case_policies) for eval_set in eval_sets)
    else:
        suites = tuple(
            replace(suite, metrics=(*suite.metrics, *metrics), case_policies=case_policies)
            for suite in _build_suites_without_common_criteria(eval_sets, plan_input, context, environment)
        )
    suites = _add_case_checks(suites, plan_input, context, environment)
    return _complete_suites(suites)


def _complete_cases(eval_sets: tuple[EvalSet, ...], plan_input: PlanInput) -> tuple[EvalSet, ...]:
    """Apply the sections `tool_mocks`, `user.stories` and `session` to the cases; return the eval sets.

    Raises:
        InvalidInputError: a section does not fit the cases, or a recording of tools cannot be used.
    """
    config, is_part = plan_input.config, plan_input.is_partial_selection
    if config.tool_mocks:
        from evalgate.runner.tool_mocks import add_tool_mocks

        eval_sets = add_tool_mocks(
            eval_sets, config, plan_input.thresholds, plan_input.rule_files, is_part=is_part
        )
    if config.user is not None and config.user.stories == "played":
        from evalgate.runner.user_factory import play_stories

        eval_sets = play_stories(eval_sets)
    if config.session is not None:
        from evalgate.runner.case_sessions import complete_sessions

        eval_sets = complete_sessions(eval_sets, config.session, plan_input.workspace.folder, is_part=is_part)
    return eval_sets


def _resolve_case_policies(
    eval_sets: Sequence[EvalSet], plan_input: PlanInput
) -> Mapping[CaseKey, CasePolicy]:
    rules = plan_input.config.cases
    if not rules and not any(case.tags for each in eval_sets for case in each.cases):
        return {}  # the usual case, for which a module need not be loaded
    from evalgate.runner.case_policies import resolve_case_policies

    is_part = plan_input.is_partial_selection
    return resolve_case_policies(plan_input.thresholds, rules, eval_sets, is_part=is_part)


def _add_case_checks(
    suites: tuple[Suite, ...],
    plan_input: PlanInput,
    context: MetricContext,
    environment: MetricEnvironment,
) -> tuple[Suite, ...]:
    """Add the checks that case notes define for single cases to the metrics; return the new suites.

    Raises:
        InvalidInputError: a check is wrong, or needs more runs of a case than are made.
    """
    if not any(suite.eval_set.checks for suite in suites):
        return suites
    from evalgate.runner.case_checks import add_case_checks

    suites = add_case_checks(suites, plan_input.thresholds, context, environment)
    for each in chain.from_iterable(suite.note_thresholds for suite in suites):
        metric_binding.check_runs(each, plan_input.config)
    return suites


def _complete_suites(suites: Sequence[Suite]) -> tuple[Suite, ...]:
    """Drop metrics of other eval sets, add the metric of final states where needed, and check the suites.

    Raises:
        InvalidInputError: a rubric is judged by no model, a case has no metric, or a suite has no gating
            metric. The error lists every problem.
    """
    found = tuple(_add_final_state(suite.drop_other_sets_metrics()) for suite in suites)
    if problems := list(_find_suite_problems(found)):
        raise InvalidInputError(sorted(problems))
    return found


def _find_suite_problems(suites: Sequence[Suite]) -> Iterator[Problem]:
    """Yield a problem for each rubric without a judge, case without a metric, and suite that cannot fail.

    A suite cannot fail if all of its metrics are only reported (`gates: false`).
    """
    for suite in suites:
        yield from find_unjudged_rubrics(suite)
        if suite.has_metrics_for_some_cases:
            from evalgate.runner.check_scopes import find_unscored_cases

            yield from find_unscored_cases(suite.eval_set, suite.get_metrics, suite.thresholds)
        if suite.metrics and not any(bound.criterion.gates for bound in suite.metrics):
            message = (
                f"no metric gates {suite.eval_set.display_name}: all of its criteria have `gates: false`, so "
                "that no score could fail a case"
            )
            yield Problem(suite.thresholds.file, *suite.thresholds.find_position(("criteria",)), message)


def _suggest_suite(problem: Problem, config: Config) -> Problem:
    """Add a suggestion to a problem about a missing eval set file: the most similar name in `suites`.

    Return the problem unchanged if it is about something else, suggests a file already, or no name is
    similar.
    """
    from evalgate.core.did_you_mean import did_you_mean

    is_missing = problem.file in config.eval_sets and problem.message.startswith("no ")
    hint = did_you_mean(problem.file, config.suites) if is_missing else ""
    if not hint or problem.message.endswith("?"):  # it suggests a file already
        return problem
    return replace(problem, message=f"{problem.message}.{hint}")


def _load_eval_sets(plan_input: PlanInput) -> tuple[EvalSet, ...]:
    """Return the eval sets of the user's files, then the eval sets that a Python program gave as objects.

    Raises:
        InvalidInputError: there is no eval set, a file has a problem, or a file and an object have the same
            eval set id.
    """
    config, objects, rule_files = plan_input.config, plan_input.objects, plan_input.rule_files
    if not config.eval_sets:
        if not objects.eval_sets:
            raise InvalidInputError("no eval sets: name files, folders or globs, or list them as `eval_sets`")
        return objects.eval_sets
    formats = plugin_registry.get_formats()
    try:
        loaded = load_eval_sets(
            config.eval_sets, formats, folder=rule_files.folder, format_name=config.format
        )
    except InvalidInputError as error:
        raise InvalidInputError(_suggest_suite(each, config) for each in error.problems) from None
    if rule_files.base_commit:
        from evalgate.runner.edit_notices import note_changed_eval_sets

        note_changed_eval_sets(rule_files, [each.path for each in loaded], config.eval_sets)
    if both := {each.eval_set_id for each in loaded} & {each.eval_set_id for each in objects.eval_sets}:
        raise InvalidInputError(
            Problem("", 0, 0, f"{name!r} is the id of an eval set in a file and of another that is an object")
            for name in sorted(both)
        )
    return (*loaded, *objects.eval_sets)


def find_unjudged_rubrics(suite: Suite) -> Iterator[Problem]:
    """Yield a problem for each rubric of a case that no judge model would score.

    The rubric names a metric that the suite does not have, or that does not use a judge model. Rubrics of the
    same case and metric are one problem. Only suites with thresholds from a `.metrics.json` (of
    tRPC-Agent-Go) are checked.
    """
    if suite.thresholds.dialect != "trpc":
        return
    judged = {bound.name for bound in suite.metrics if isinstance(bound.metric, LlmJudged)}
    named = {bound.name for bound in suite.metrics}
    for case in suite.eval_set.cases:
        for name in case.rubric_metrics:
            if name not in judged:
                why = "no model judges" if name in named else f"{suite.thresholds.file} does not name"
                text = f"case {case.eval_id!r} has rubrics for the metric `{name}`, which {why}"
                yield Problem(suite.eval_set.path, case.line, 1, text)


def are_all_recorded(suites: Sequence[Suite]) -> bool:
    """Return True if every case contains an agent's recorded replies, so that no agent is run."""
    return all(case.recorded is not None for suite in suites for case in suite.eval_set.cases)


def _build_metric_environment(plan_input: PlanInput) -> MetricEnvironment:
    """Build the environment of custom metrics: they run with the agent's variables, as the agent's user."""
    workspace, agent = plan_input.workspace, plan_input.config.agent
    uid, gid = workspace.agent_user or (None, None)
    env = build_agent_environment(plan_input.agent_environ, agent.env if agent else ())

    def read_code(entry: str, roots: Sequence[str]) -> MetricCode:
        from evalgate.runner.metric_code import read_metric_code

        return read_metric_code(plan_input.rule_files, entry, roots)

    return MetricEnvironment(workspace.folder, env, uid, gid, read_code)


def _add_final_state(suite: Suite) -> Suite:
    """Return the suite, with the metric of final states added if a case expects a final state.

    The suite is returned unchanged if it has this metric already.
    """
    is_named = any(bound.name == plugin_registry.FINAL_STATE for bound in suite.metrics)
    if is_named or not any(case.expects_state for case in suite.eval_set.cases):
        return suite
    return replace(suite, metrics=(*suite.metrics, metric_binding.build_final_state_metric()))


_OWN_FILE = "evalgate.yaml (`evalgate init` writes one)"


def _build_suites_without_common_criteria(
    eval_sets: Sequence[EvalSet],
    plan_input: PlanInput,
    context: MetricContext,
    environment: MetricEnvironment,
) -> Iterator[Suite]:
    thresholds, rule_files = plan_input.thresholds, plan_input.rule_files
    joins_checks = bool(thresholds.checks_and_budgets)
    loaded: dict[Path, Thresholds] = {}
    metrics_by_file: dict[int, tuple[BoundMetric, ...]] = {}
    for eval_set in eval_sets:
        path = _find_adjacent_file(eval_set, rule_files, thresholds.criteria_folder)
        set_thresholds: Thresholds | None
        if path is not None:
            if path not in loaded:
                loaded[path] = metric_binding.adopt_custom_metrics(
                    rule_files.load_version(path, rule_files.format_relative_path(path)), thresholds
                )
            set_thresholds = loaded[path]
        elif joins_checks:  # checks and budgets suffice, so the defaults of the format do not apply
            set_thresholds = None
        else:
            from evalgate.runner.default_criteria import find_default_thresholds

            set_thresholds = find_default_thresholds(eval_set)
        if set_thresholds is None and plan_input.needs_criteria and not (joins_checks or eval_set.checks):
            raise InvalidInputError(
                f"{eval_set.display_name}: no thresholds. Write `criteria` into "
                f"{thresholds.file or _OWN_FILE}, give --thresholds FILE, "
                "or put the set's own .metrics.json next to it."
            )
        if set_thresholds is None:
            yield Suite(eval_set, (), thresholds)
            continue
        key = id(set_thresholds)
        if key not in metrics_by_file:
            metrics_by_file[key] = metric_binding.bind_metrics(set_thresholds, context, environment)
        yield Suite(eval_set, metrics_by_file[key], set_thresholds)


def _find_adjacent_file(eval_set: EvalSet, rule_files: RuleFiles, folder: str | None) -> Path | None:
    """Return the path of the file with the criteria of one eval set; None if there is no such file.

    The file is searched in `folder`, which the user named. If `folder` is None, it is searched next to the
    file of the eval set.

    Raises:
        InvalidInputError: `folder` is not None and has no file for the eval set.
    """
    if folder is not None:
        file = rule_files.folder / folder / Path(eval_set.path).name
    elif eval_set.path:
        file = rule_files.folder / eval_set.path
    else:  # a set that was made in memory has no thresholds file next to it
        return None
    found = find_adjacent_thresholds_file(file, eval_set.eval_set_id, rule_files.has_base_file)
    found = found or find_adjacent_thresholds_file(file, eval_set.eval_set_id)
    if found is None and folder is not None:
        file_name = f"{eval_set.eval_set_id}.metrics.json"
        raise InvalidInputError(
            f"{eval_set.display_name}: no thresholds. The folder {folder} has no {file_name}"
        )
    return found
