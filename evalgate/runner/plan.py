"""Build the plan of a run from the command line and the thresholds file.

Errors in files, names and options are found here, before anything runs. Errors in the journal, the folder of
the reports, the agent's own code and most baselines are found only when the run begins. But a baseline of the
base branch is read here. Later steps read only the `Plan`, never the user's input.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evalgate.agents.factory import AgentSpec, check_executor, resolve_agent
from evalgate.config.cli_overrides import Overrides, apply_overrides
from evalgate.config.loader import add_env_files
from evalgate.config.schema.agent import LOCAL, AgentConfig, ExecutorConfig
from evalgate.config.schema.criteria import list_recordings
from evalgate.config.schema.gate import DEFAULT_BASELINE, GateConfig
from evalgate.config.schema.judge import UserConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselineStore, CreateUser
from evalgate.core.types import EVAL_SET_TRACES, CaseKey, CaseSelection
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.judge_resolver import JudgeResolver, LlmContext, ModelPool
from evalgate.llm.users.scripted import create_scripted_user
from evalgate.metrics.scoring import BoundMetric
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.runner.base_branch import RuleFiles
from evalgate.runner.plan_notices import iter_plan_notices, iter_setup_notices
from evalgate.runner.suites import (
    NOTHING_GIVEN,
    GivenObjects,
    PlanInput,
    Suite,
    are_all_recorded,
    build_suites,
)
from evalgate.system.workspace import Workspace, resolve_workspace

if TYPE_CHECKING:
    from evalgate.gating.affected_suites import AffectedSuites
    from evalgate.runner.calibration_cases import CalibrationSet
    from evalgate.runner.control.base_commit import ControlSource
    from evalgate.runner.judge_assessment import LabelCheck


@frozen
class Plan:
    """Checked input of one run of the gate."""

    workspace: Workspace
    suites: tuple[Suite, ...]
    agent: AgentSpec
    runs: int | Literal["auto"]
    """Number of runs of each case. If the user gave none, `run_strategy.apply_default_runs` chooses it."""
    gate: GateConfig
    baseline_store: BaselineStore | None
    agent_environ: Mapping[str, str]
    """The gate's environment with the variables of the agent's env files. The agent gets an allow-listed part
    of these variables. Judges get the gate's environment without the env files."""
    judge_resolver: JudgeResolver
    """The judges of the run, not opened yet."""
    judge_calibration: "CalibrationSet | None" = None
    """Labelled responses of `judge.anchors` that test the judge before it scores runs; None without them."""
    anchor_store: BaselineStore | None = None
    """Store of the baseline that `gate.anchor` names and that stays fixed for months; None without it."""
    label_check: "LabelCheck | None" = None
    """Comparison of the judges with people's labels, which tells if they reach the minima in `judge.floor`.
    None if no minimum needs labels."""
    create_user: CreateUser = create_scripted_user
    """Function that creates the user who talks to the agent in a run."""
    user_config: UserConfig | None = None
    """Section `user` (settings of simulated users), with the options of the command line applied."""
    thresholds_file: str = ""
    """Path of the thresholds file, relative to the workspace; "" if there is no file."""
    executor: ExecutorConfig = LOCAL
    """Settings of the machine or cluster that runs the agent."""
    recordings: tuple[Path, ...] = ()
    """Files or folders with recorded results that answer tool calls."""
    notices: tuple[str, ...] = ()
    """Notices about how the plan was made."""
    masks: tuple[str, ...] = field(default=(), repr=False)
    """Secrets to redact in addition to secrets in the environment."""
    needs_baseline: bool = False
    """True if the command line names the baseline, so that the baseline must exist."""
    runs_given: bool = True
    """True if the user gave the number of runs of each case."""
    is_part: bool = False
    """True if there may be eval sets or cases that the user did not select."""
    selection: CaseSelection | None = None
    """Options such as `--tag` that selected cases, with the number of cases before and after. None without
    such options."""
    varied: Mapping[str, str] = field(default_factory=dict)
    """Values of this variant in a matrix (comparison of variants), by name such as `env.MODEL`; else {}."""
    affected: "AffectedSuites | None" = None
    """The suites that the change affects; None without `--affected`."""
    control_source: "ControlSource | None" = None
    """Source of control runs (runs of the base commit's agent); None if no control runs are made."""

    @property
    def whole_sets(self) -> frozenset[str] | None:
        """Return the ids of the eval sets that run with all their cases; None if all eval sets do.

        All eval sets are those that the thresholds file lists. If the file lists none (`eval_sets`), the
        result is never None, because there may be eval sets that do not run.
        """
        if not self.is_part:
            return None
        found = (suite.eval_set for suite in self.suites)
        return frozenset(each.eval_set_id for each in found if each.is_whole)

    def select_cases(self, keys: Collection[CaseKey]) -> "Plan":
        """Return the plan with only the cases in `keys`, which are pairs (eval set id, case id).

        The other cases count as not selected by the user, so they are not compared with the baseline. Suites
        without a case in `keys` are dropped. If then no eval set is complete, `min_cases` is lowered to the
        number of cases.
        """
        suites = tuple(each for suite in self.suites if (each := suite.select_cases(keys)).eval_set.cases)
        is_part = self.is_part or suites != self.suites
        return replace(self, suites=suites, gate=_limit_min_cases(self.gate, suites), is_part=is_part)

    def drop_baseline(self) -> "Plan":
        """Return the plan without a baseline and an anchor, for runs that are not compared."""
        gate = self.gate.model_copy(update={"baseline": None, "anchor": None})
        return replace(self, baseline_store=None, anchor_store=None, gate=gate)

    @property
    def bound_metrics(self) -> tuple[BoundMetric, ...]:
        """Return the metrics of all suites; a metric of several suites occurs several times."""
        return tuple(bound for suite in self.suites for bound in suite.metrics)

    @property
    def case_thresholds(self) -> Mapping[tuple[str, str], Mapping[str, float | None]]:
        """Return the threshold of each metric of each case, by (eval set id, case id) and then by metric.

        The threshold is None for metrics that are only reported.
        """
        return {
            (suite.eval_set.eval_set_id, case.eval_id): {
                bound.name: bound.criterion.threshold if bound.criterion.gates else None
                for bound in suite.get_metrics(case)
            }
            for suite in self.suites
            for case in suite.eval_set.cases
        }

    @property
    def first_runs(self) -> int:
        """Return the number of runs of each case that are made before any result is known.

        If `runs` is `auto`, this is the largest k of the criteria with pass^k or pass@k; 1 if there are none.
        """
        if self.runs != "auto":
            return self.runs
        from evalgate.metrics.pass_at_k import find_least_runs

        return find_least_runs(bound.criterion for bound in self.bound_metrics)


def build_plan(
    overrides: Overrides,
    *,
    thresholds_file: str | None,
    folder: Path,
    environ: Mapping[str, str],
    objects: GivenObjects = NOTHING_GIVEN,
) -> Plan:
    """Build the plan for a command line that was called in `folder`, or for `objects` of a Python program.

    `overrides` are the options of the command line.

    Raises:
        InvalidInputError: the input is wrong; the error lists every problem that was found.
    """
    workspace = resolve_workspace(folder)
    with RuleFiles(workspace.folder, environ, overrides.policy) as rule_files:
        thresholds = objects.thresholds
        try:
            thresholds = thresholds or rule_files.load_chosen_thresholds(thresholds_file)
            plan_input = _build_plan_input(overrides, rule_files, thresholds, workspace, environ, objects)
            plan = _build_plan_from_input(plan_input)
        except InvalidInputError as error:
            from evalgate.runner.plan_errors import add_agent_and_criteria_problems

            raise add_agent_and_criteria_problems(error, thresholds, overrides) from None
        if rule_files.applies_base_rules:
            from evalgate.runner.edit_notices import distrust_committed_caches

            cache_notices = distrust_committed_caches(plan.judge_resolver, rule_files)
            plan = replace(plan, notices=(*plan.notices, *cache_notices))
    if not overrides.selection_options.words:
        return plan
    from evalgate.runner.selection_options import select_plan_cases

    return select_plan_cases(plan, overrides.selection_options, thresholds, rule_files)


def _build_plan_input(
    overrides: Overrides,
    rule_files: RuleFiles,
    thresholds: Thresholds,
    workspace: Workspace,
    environ: Mapping[str, str],
    objects: GivenObjects,
) -> PlanInput:
    config = _choose_config(overrides, rule_files, thresholds, objects)
    resolver = build_judge_resolver(overrides, thresholds, config, environ, workspace)
    config, agent_environ = add_env_files(config, environ, workspace.folder)
    return PlanInput(overrides, thresholds, config, workspace, agent_environ, resolver, rule_files, objects)


def _build_plan_from_input(plan_input: PlanInput) -> Plan:
    overrides, thresholds, config = plan_input.overrides, plan_input.thresholds, plan_input.config
    suites = build_suites(plan_input)
    agent = _resolve_plan_agent(plan_input, suites)
    suites, quarantine_notices = mark_quarantined_cases(plan_input, suites)
    create_user = build_plan_user_factory(plan_input, suites)
    _check_judges(plan_input)
    check_executor(config.executor, thresholds)
    plan = Plan(
        workspace=plan_input.workspace,
        suites=suites,
        agent=agent,
        runs=config.runs,
        gate=_limit_min_cases(config.gate, suites),
        baseline_store=_open_baseline_store(plan_input),
        agent_environ=plan_input.agent_environ,
        judge_resolver=plan_input.judge_resolver,
        judge_calibration=read_judge_calibration(plan_input, suites),
        anchor_store=_open_anchor_store(plan_input),
        label_check=check_judge_labels(plan_input, suites),
        create_user=create_user,
        user_config=config.user,
        thresholds_file=thresholds.file,
        executor=config.executor,
        recordings=tuple(thresholds.folder / each.source for each in list_recordings(config.tool_mocks)),
        masks=overrides.mask,
        needs_baseline=overrides.baseline is not None,
        runs_given=config.runs_given,
        # A file that lists no eval sets does not tell if there are others.
        is_part=not thresholds.config.eval_sets or plan_input.is_partial_selection,
        control_source=_resolve_control_source(plan_input),
    )
    # Last, because `rule_files` has collected a notice about each file that was read above.
    if plan_input.rule_files.base_commit:
        from evalgate.runner.edit_notices import note_local_plugins

        note_local_plugins(plan_input.rule_files)
    setup = iter_setup_notices(agent, plan_input)
    notices = iter_plan_notices(config, suites, plan_input.judge_resolver)
    return replace(plan, notices=(*setup, *quarantine_notices, *notices))


def _choose_config(
    overrides: Overrides, rule_files: RuleFiles, thresholds: Thresholds, objects: GivenObjects
) -> Config:
    """Return the settings of the thresholds file with the options of the command line applied.

    If the settings name no baseline, and there is a file at the default path of a baseline, this file is the
    baseline.
    """
    config = apply_overrides(thresholds.config, overrides)
    if config.gate.baseline is None and rule_files.has_file(Path(DEFAULT_BASELINE)):
        gate = config.gate.model_copy(update={"baseline": DEFAULT_BASELINE})
        config = config.model_copy(update={"gate": gate})
    # Eval sets given as objects replace the list in the thresholds file, like files on the command line.
    return config.model_copy(update={"eval_sets": overrides.eval_sets}) if objects.eval_sets else config


def _resolve_plan_agent(plan_input: PlanInput, suites: Sequence[Suite]) -> AgentSpec:
    config, given_agent = plan_input.config, plan_input.objects.agent
    if given_agent is not None:
        # Settings of the thresholds file apply to an agent object too, unless the program sets them.
        own = given_agent.settings.model_dump(exclude_unset=True)
        return replace(given_agent, settings=(config.agent or given_agent.settings).model_copy(update=own))
    if config.agent is None and are_all_recorded(suites):
        from evalgate.agents.replay import EmptyReplayOptions

        return AgentSpec(AgentConfig(kind="replay"), EmptyReplayOptions(), EVAL_SET_TRACES)
    if config.agent is None:
        raise InvalidInputError(
            "no agent: give --agent KIND:WHAT (as --agent python:agent.py:answer) or an `agent` section in "
            "the thresholds file. `evalgate init` writes one."
        )
    return resolve_agent(config.agent, plan_input.overrides.agent_name, plan_input.thresholds)


def mark_quarantined_cases(
    plan_input: PlanInput, suites: tuple[Suite, ...]
) -> tuple[tuple[Suite, ...], tuple[str, ...]]:
    """Return (suites with quarantined cases marked, notices about the quarantine).

    Raises:
        InvalidInputError: the quarantine file is wrong, or names a protected or unknown case.
    """
    quarantine = plan_input.config.gate.quarantine
    if quarantine is None:
        return suites, ()
    from evalgate.gating.quarantine import QuarantineFile, apply_quarantine

    found = apply_quarantine(
        QuarantineFile(plan_input.workspace.folder, quarantine),
        [suite.eval_set for suite in suites],
        {key: case_policy for suite in suites for key, case_policy in suite.case_policies.items()},
        today=datetime.now(UTC).date(),
        environ=plan_input.rule_files.environ,
        is_part=plan_input.is_partial_selection,
    )
    if not found.is_verified:
        plan_input.rule_files.note_unverified(quarantine)
    return tuple(replace(suite, case_policies=found.case_policies) for suite in suites), found.notices


def build_plan_user_factory(plan_input: PlanInput, suites: Sequence[Suite]) -> CreateUser:
    """Build the function that creates the user of a run.

    If no case needs a simulated user, the function creates users who send the messages of the case.
    """
    if not any(case.is_simulated for suite in suites for case in suite.eval_set.cases):
        return create_scripted_user
    from evalgate.runner.user_factory import build_user_factory_of_suites

    return build_user_factory_of_suites(plan_input, suites)


def build_judge_resolver(
    overrides: Overrides,
    thresholds: Thresholds,
    config: Config,
    environ: Mapping[str, str],
    workspace: Workspace,
) -> JudgeResolver:
    """Build the resolver of a run's judges. It reads API keys from `environ`, and opens no judge yet."""
    context = LlmContext(
        thresholds.folder,
        environ,
        UsageMeter(config.budget),
        config.prices,
        redactor=LiveRedactor.from_environment(environ, overrides.mask),
        workspace=workspace,
        cache_mode=overrides.judge_cache,
    )
    return JudgeResolver(ModelPool(context), config.judge, forced_by_cli=overrides.judge is not None)


def read_judge_calibration(plan_input: PlanInput, suites: Sequence[Suite]) -> "CalibrationSet | None":
    """Read the labelled responses of `judge.anchors`; return None if `judge.anchors` is not set.

    Raises:
        InvalidInputError: the file cannot be read or is wrong.
    """
    judge, rule_files = plan_input.config.judge, plan_input.rule_files
    if judge is None or judge.anchors is None:
        return None
    from evalgate.runner.calibration_cases import read_calibration_set

    metrics = {bound.name: bound for suite in suites for bound in suite.metrics}
    path = plan_input.thresholds.folder / judge.anchors
    return read_calibration_set(
        rule_files.choose_version(path),
        rule_files.format_relative_path(path),
        judge.floor.anchors,
        list(metrics.values()),
    )


def check_judge_labels(plan_input: PlanInput, suites: Sequence[Suite]) -> "LabelCheck | None":
    """Compare judges with people's labels; return None if `judge.floor` has no minimum for labels.

    Raises:
        InvalidInputError: the file with the labels cannot be read or is wrong.
    """
    judge, rule_files = plan_input.config.judge, plan_input.rule_files
    floors = judge.floor.label_floors if judge else {}
    if not floors:
        return None
    from evalgate.datasets.judge_labels import STORE_NAME, read_store
    from evalgate.runner.judge_assessment import check_label_floors

    path = plan_input.thresholds.folder / STORE_NAME
    store = read_store(rule_files.choose_version(path), rule_files.format_relative_path(path))
    return check_label_floors(store, floors, [bound for suite in suites for bound in suite.metrics])


def _check_judges(plan_input: PlanInput) -> None:
    """Check that each judge model has its settings, its environment variables and its SDK.

    No request is made.

    Raises:
        InvalidInputError: a setting, a variable or an SDK is missing.
    """
    thresholds = plan_input.thresholds
    try:
        plan_input.judge_resolver.models.check_reserved()
    except InvalidInputError as error:
        where = thresholds.find_position(("judge",)) if thresholds.config.judge else (0, 0)
        file = thresholds.file if thresholds.config.judge else ""
        raise InvalidInputError(Problem(file, *where, found.message) for found in error.problems) from None


def _open_baseline_store(plan_input: PlanInput) -> BaselineStore | None:
    name = plan_input.config.gate.baseline
    if name is None:
        return None
    from evalgate.runner.baseline_stores import open_baseline_store

    return open_baseline_store(name, plan_input.workspace, plan_input.rule_files)


def _open_anchor_store(plan_input: PlanInput) -> BaselineStore | None:
    anchor = plan_input.config.gate.anchor
    if anchor is None or not anchor.baseline:
        return None
    from evalgate.runner.baseline_stores import open_anchor_store

    return open_anchor_store(anchor.baseline, plan_input.workspace, plan_input.rule_files)


def _resolve_control_source(plan_input: PlanInput) -> "ControlSource | None":
    """Return the source of control runs (runs of the base commit's agent); None if `gate.control` is off."""
    if plan_input.config.gate.control.mode == "off":
        return None
    from evalgate.runner.control.base_commit import build_control_source

    return build_control_source(
        plan_input.config,
        plan_input.thresholds,
        plan_input.overrides,
        plan_input.rule_files.folder,
        plan_input.rule_files.environ,
        is_object=plan_input.objects.agent is not None,
    )


def _limit_min_cases(gate: GateConfig, suites: Sequence[Suite]) -> GateConfig:
    """Return `gate`; if no eval set is complete, lower `min_cases` to the number of selected cases.

    Then the user selected few cases on purpose, so that their small number is no reason to refuse a verdict.
    A `min_cases` that is smaller already is kept.
    """
    if any(suite.eval_set.is_whole for suite in suites):
        return gate
    cases = sum(len(suite.eval_set.cases) for suite in suites)
    return gate.model_copy(update={"min_cases": min(gate.min_cases, cases)})
