"""Everything that can be wrong is found here, before anything runs: files, names, options, folders.

The command line and the thresholds file become one `Plan`; nothing after it asks what the user wrote.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evalgate.agents.factory import ChosenAgent, choose_agent, find_agent_problems, sample_notice
from evalgate.config.cli_overrides import Overrides, override, with_user
from evalgate.config.loader import InvalidThresholdsError
from evalgate.config.schema.agent import LOCAL, ExecutorConfig
from evalgate.config.schema.budget import Meter
from evalgate.config.schema.gate import DEFAULT_BASELINE, GateConfig
from evalgate.config.schema.judge import UserConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core import registry
from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.extras import describe_install
from evalgate.core.formatting import counted
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselinePlace, BaselineStore, Metric, UserOf
from evalgate.core.types import Baseline
from evalgate.llm.resolver import Bench, JudgePlace, Judges
from evalgate.llm.simulated_user.scripted import written_user
from evalgate.redaction.live_redactor import Hiding
from evalgate.redaction.redactor import Redactor
from evalgate.runner.base_branch import BaseRules
from evalgate.runner.metric_binding import describe_ignored_options, find_criterion_problems
from evalgate.runner.suites import Suite, default_criteria_notice, is_part, plan_suites
from evalgate.runner.user_factory import choose_users
from evalgate.system.workspace import Workspace, list_socket_notices, open_workspace

if TYPE_CHECKING:
    from evalgate.runner.judge_calibration import Anchors


MEASURED_RUNS = 3
"""Stored runs of a case from which on they measure luck, so that `runs: auto` pays."""


@frozen
class Plan:
    """What one run of the gate does."""

    workspace: Workspace
    suites: tuple[Suite, ...]
    agent: ChosenAgent
    runs: int | Literal["auto"]
    """`with_default_runs` decides where the user did not."""
    policy: GateConfig
    baseline: BaselineStore | None
    environ: Mapping[str, str]
    """The gate's own environment, of which the agent gets an allow-listed part."""
    bench: Bench
    """The judges of the run, not opened yet."""
    anchors: "Anchors | None" = None
    """What the judge is held against first."""
    users: UserOf = written_user
    """Who talks to the agent."""
    user: UserConfig | None = None
    """What the thresholds file and the command line say of simulated users."""
    thresholds_file: str = ""
    """Where the rules stand, relative to the workspace; "" when nowhere."""
    executor: ExecutorConfig = LOCAL
    """Where it runs."""
    notices: tuple[str, ...] = ()
    """What a reader should know of how it was made."""
    masks: tuple[str, ...] = field(default=(), repr=False)
    """Secrets to hide beside those of the environment."""
    needs_baseline: bool = False
    """The command line names the baseline, so that there must be one."""
    runs_given: bool = True
    """Whether the user said how often each case is run."""
    is_part: bool = False
    """Whether there may be eval sets or cases that the user did not ask for now."""

    @property
    def whole_sets(self) -> frozenset[str] | None:
        """The eval sets of which every case is run, where the user picked some; None: all that there are."""
        if not self.is_part:
            return None
        found = (suite.eval_set for suite in self.suites)
        return frozenset(each.eval_set_id for each in found if each.is_whole)

    def with_default_runs(self, baseline: Baseline | None) -> "Plan":
        """Return the plan with `runs: auto` if the user named no number and the baseline is deep enough.

        A recording says the same each time, and so does a deterministic agent: one run is all there is.
        """
        repeats_itself = self.agent.settings.kind == "replay" or self.policy.deterministic
        if self.runs_given or baseline is None or repeats_itself:
            return self
        stored = {(case.eval_set_id, case.eval_id): len(case.runs) for case in baseline.cases}
        cases = [
            (suite.eval_set.eval_set_id, head.eval_id)
            for suite in self.suites
            for head in suite.eval_set.heads
        ]
        deep = sum(stored.get(case, 0) >= MEASURED_RUNS for case in cases)
        held = f"the baseline holds {MEASURED_RUNS} runs or more of {deep:,} of {counted(len(cases), 'case')}"
        if 2 * deep >= len(cases):
            notice = f"`runs: auto` was chosen, as {held}. Say `runs` to choose otherwise."
            return replace(self, runs="auto", notices=(*self.notices, notice))
        notice = f"Each case was run once, as {held}. From half of them on `runs: auto` is the default."
        return replace(self, notices=(*self.notices, notice))

    @property
    def thresholds(self) -> Mapping[tuple[str, str], Mapping[str, float]]:
        """Eval set and case, metric, and the score that a run of the case must reach."""
        return {
            (suite.eval_set.eval_set_id, head.eval_id): {
                bound.name: bound.criterion.threshold for bound in suite.metrics_of(head)
            }
            for suite in self.suites
            for head in suite.eval_set.heads
        }

    @property
    def fixed_runs(self) -> int:
        """Runs of every case that are made in any event."""
        return 1 if self.runs == "auto" else self.runs


def make_plan(said: Overrides, *, thresholds: str | None, folder: Path, environ: Mapping[str, str]) -> Plan:
    """The plan for a command line in `folder`.

    Raises:
        InvalidInput: with every problem of the input that was found.
    """
    workspace = workspace_at(folder)
    with BaseRules(workspace.folder, environ, said.policy) as base, _naming_all_problems(said) as known:
        rules = known.rules = _thresholds(thresholds, workspace, base)
        return _plan(said, base, rules, workspace, environ)


@dataclass
class _Known:
    """What was read of the thresholds file until now."""

    rules: Thresholds | None = None


@contextmanager
def _naming_all_problems(said: Overrides) -> Iterator[_Known]:
    """Add to an error all that is wrong with the thresholds file, so that it is mended in one go.

    Its sections are checked one after the other, each by whoever uses it, and the first error ends that.
    """
    known = _Known()
    try:
        yield known
    except InvalidInput as error:
        rules = error.rest if isinstance(error, InvalidThresholdsError) else known.rules
        if rules is None or not rules.file:
            raise
        agent = override(rules.config, said).agent
        more = [*find_agent_problems(agent, said.kind_and_what[1], rules), *find_criterion_problems(rules)]
        if not set(more) - set(error.problems):
            raise
        raise InvalidInput(sorted({*error.problems, *more})) from None


def _plan(
    said: Overrides,
    base: BaseRules,
    rules: Thresholds,
    workspace: Workspace,
    environ: Mapping[str, str],
) -> Plan:
    config = _with_default_baseline(override(rules.config, said), base)
    agent = _agent(said, rules, config)
    bench = _bench(said, rules, config, environ)
    suites = plan_suites(rules, config, workspace, environ, bench, base=base)
    suites, notices = _quarantined(suites, rules, config, workspace, base)
    users = _users(said, rules, config, suites, bench, base)
    base.check_plugins()
    _check_judges(bench, rules)
    _check_executor(config.executor, rules)
    return Plan(
        workspace=workspace,
        suites=suites,
        agent=agent,
        runs=config.runs,
        runs_given=config.runs_given,
        policy=_for_selection(config.gate, suites),
        baseline=_baseline(config.gate, workspace, base),
        environ=environ,
        bench=bench,
        anchors=_anchors(config, rules, base, suites),
        users=users,
        user=config.user,
        thresholds_file=rules.file,
        executor=config.executor,
        notices=(
            *filter(None, [sample_notice(agent, rules)]),
            *base.notices,
            *list_socket_notices(workspace),
            *notices,
            *filter(None, map(default_criteria_notice, suites)),
            *_read_notices(suites),
        ),
        masks=said.mask,
        needs_baseline=said.baseline is not None,
        is_part=not rules.config.eval_sets or is_part(rules, config, workspace),
    )


def _agent(said: Overrides, rules: Thresholds, config: Config) -> ChosenAgent:
    if config.agent is None:
        raise InvalidInput(
            "no agent: give --agent KIND:WHAT (as --agent python:agent.py:answer) or an `agent` section in "
            "the thresholds file. `evalgate init` writes one."
        )
    return choose_agent(config.agent, said.kind_and_what[1], rules)


def _quarantined(
    suites: tuple[Suite, ...],
    rules: Thresholds,
    config: Config,
    workspace: Workspace,
    base: BaseRules,
) -> tuple[tuple[Suite, ...], tuple[str, ...]]:
    """The suites, with those cases told that do not gate for now, and what is to be said of them."""
    if config.gate.quarantine is None:
        return suites, ()
    from evalgate.gating.quarantine import QuarantineFile, quarantined

    found = quarantined(
        QuarantineFile(workspace.folder, config.gate.quarantine),
        [suite.eval_set for suite in suites],
        {key: policy for suite in suites for key, policy in suite.policies.items()},
        today=datetime.now(UTC).date(),
        environ=base.environ,
        is_part=is_part(rules, config, workspace),
    )
    if not found.is_settled:
        base.read_unsettled(config.gate.quarantine)
    return tuple(replace(suite, policies=found.policies) for suite in suites), found.notices


def _users(
    said: Overrides,
    rules: Thresholds,
    config: Config,
    suites: Sequence[Suite],
    bench: Bench,
    base: BaseRules,
) -> UserOf:
    beside = {
        suite.eval_set.eval_set_id: replace(suite.rules, config=_with_user(suite.rules.config, said))
        for suite in suites
        if suite.rules is not rules
    }
    eval_sets = [suite.eval_set for suite in suites]
    return choose_users(rules, config, beside, bench, eval_sets, base.locate)


def _with_user(config: Config, said: Overrides) -> Config:
    return with_user(config, said) if config.user is not None else config


def _bench(said: Overrides, rules: Thresholds, config: Config, environ: Mapping[str, str]) -> Bench:
    hiding = Hiding(Redactor.of(environ, said.mask))
    place = JudgePlace(
        rules.base,
        environ,
        Meter(config.budget),
        config.prices,
        hiding=hiding,
        cache_mode=said.judge_cache,
    )
    return Bench(Judges(place), config.judge, is_decreed=said.judge is not None)


def _anchors(config: Config, rules: Thresholds, base: BaseRules, suites: Sequence[Suite]) -> "Anchors | None":
    if config.judge is None or config.judge.anchors is None:
        return None
    from evalgate.runner.judge_calibration import read_anchors

    metrics = {bound.name: bound for suite in suites for bound in suite.metrics}
    path = rules.base / config.judge.anchors
    return read_anchors(base.locate(path), base.shown(path), config.judge.floor, list(metrics.values()))


def _check_judges(bench: Bench, rules: Thresholds) -> None:
    """Nothing runs when a judge could not be asked in the end."""
    try:
        bench.judges.check()
    except InvalidInput as error:
        where = rules.position(("judge",)) if rules.config.judge else (0, 0)
        file = rules.file if rules.config.judge else ""
        raise InvalidInput(Problem(file, *where, found.message) for found in error.problems) from None


def _check_executor(executor: ExecutorConfig, rules: Thresholds) -> None:
    if executor.kind == "ray" and find_spec("ray") is None:
        message = (
            "the executor `ray` needs the package `ray`, in the release of Ray that the cluster has: "
            f"{describe_install('ray')}"
        )
        where = rules.position(("executor",)) if rules.config.executor.kind == "ray" else (0, 0)
        raise InvalidInput([Problem(rules.file if any(where) else "", *where, message)])


def check_files(said: Overrides, *, thresholds: str | None, folder: Path) -> Iterator[str]:
    """Check everything that can be checked without an agent; gives what was found, line by line.

    Raises:
        InvalidInput: with every problem of the input that was found.
    """
    workspace = workspace_at(folder)
    base = BaseRules(workspace.folder, {})
    with _naming_all_problems(said) as known:
        rules = known.rules = _thresholds(thresholds, workspace, base)
        yield from _check_files(said, rules, workspace, base)


def _check_files(said: Overrides, rules: Thresholds, workspace: Workspace, base: BaseRules) -> Iterator[str]:
    config = override(rules.config, said)
    if config.agent is not None:
        choose_agent(config.agent, said.kind_and_what[1], rules)
    bench = _bench(said, rules, config, {})
    suites = plan_suites(rules, config, workspace, {}, bench, needs_criteria=False, base=base)
    suites, notices = _quarantined(suites, rules, config, workspace, base)
    _users(said, rules, config, suites, bench, base)
    _anchors(config, rules, base, suites)
    empty = [suite.eval_set.path for suite in suites if not suite.eval_set.cases]
    if empty:
        raise InvalidInput(Problem(path, 1, 1, "the eval set has no cases") for path in empty)
    for suite in suites:
        metrics = ", ".join(bound.name for bound in suite.metrics)
        held = f"held to {metrics}" if metrics else "with no criteria yet"
        yield f"{suite.eval_set.path}: {counted(len(suite.eval_set.cases), 'case')}, {held}"
    found = list(_suspicions(suites))
    yield from found
    yield from filter(None, map(default_criteria_notice, suites))
    yield from notices
    verdict = f"{counted(len(found), 'warning')}, no error." if found else "no problem found."
    yield f"{counted(len(suites), 'eval set')}: {verdict}"


def _read_notices(suites: Sequence[Suite]) -> Iterator[str]:
    """Yield what the files of the eval sets say in vain, and which metrics they say nothing for."""
    from evalgate.datasets.lints.thresholds import find_empty_trajectories

    for rules in {id(suite.rules): suite.rules for suite in suites}.values():
        yield from rules.notices
        yield from describe_ignored_options(rules)
    for suite in suites:
        yield from suite.eval_set.notices
        yield from find_empty_trajectories(suite.eval_set, _metrics_of(suite))


def _metrics_of(suite: Suite) -> dict[str, Metric]:
    return {bound.name: bound.metric for bound in suite.metrics}


def _suspicions(suites: Sequence[Suite]) -> Iterator[str]:
    from evalgate.datasets.lints.thresholds import lint_extra_calls, lint_thresholds

    yield from _read_notices(suites)
    for suite in {id(suite.rules): suite for suite in suites}.values():
        yield from lint_thresholds(suite.rules)
        yield from lint_extra_calls(suite.rules, _metrics_of(suite))
    for suite in suites:
        for found in registry.suspicions(suite.eval_set, _metrics_of(suite)):
            yield f"{suite.eval_set.path}:{found.line}: {found.eval_id}: {found.message}"


def workspace_at(folder: Path) -> Workspace:
    """The workspace that a user named.

    Raises:
        InvalidInput: there is no such folder, or it may not be entered.
    """
    try:
        return open_workspace(folder)
    except OSError as error:
        raise InvalidInput(f"{folder}: cannot work there: {error.strerror or 'not a folder'}") from None


def _thresholds(given: str | None, workspace: Workspace, base: BaseRules) -> Thresholds:
    if given is not None:
        return base.load_thresholds(workspace.folder / given, given)
    found = base.find_thresholds_file()
    if found is not None:
        return base.load_thresholds(found, workspace.shown(found))
    return Thresholds(Config(), workspace.folder)


def _for_selection(policy: GateConfig, suites: Sequence[Suite]) -> GateConfig:
    """Return the policy; cases that are asked for by name are enough, however many `min_cases` wants."""
    if any(suite.eval_set.is_whole for suite in suites):
        return policy
    cases = sum(len(suite.eval_set.cases) for suite in suites)
    return policy.model_copy(update={"min_cases": min(policy.min_cases, cases)})


def _with_default_baseline(config: Config, base: BaseRules) -> Config:
    """Return `config` with the default place of a baseline, if none is named and one is there."""
    if config.gate.baseline is not None or not base.exists(Path(DEFAULT_BASELINE)):
        return config
    gate = config.gate.model_copy(update={"baseline": DEFAULT_BASELINE})
    return config.model_copy(update={"gate": gate})


def _baseline(policy: GateConfig, workspace: Workspace, base: BaseRules) -> BaselineStore | None:
    if policy.baseline is None:
        return None
    place = BaselinePlace(workspace.folder, base.environ, workspace.owner)
    if store := registry.baseline_store(policy.baseline, place):
        return store
    return base.baseline(policy.baseline, workspace.owner)
