"""The eval sets of a run, with the metrics, tool mocks and case policies that apply to each."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from evalgate.config.schema.criteria import CaseRule, ToolMockConfig
from evalgate.config.schema.thresholds import NEWEST_ADK, Config, Thresholds, parse_adk_version
from evalgate.core import registry
from evalgate.core.errors import InvalidInput, Problem
from evalgate.core.formatting import did_you_mean
from evalgate.core.protocols import Judged, MetricContext, MetricPlace
from evalgate.core.types import CaseHead, CasePolicy, Criterion, EvalCase, EvalSet, ScopedThreshold, ToolMock
from evalgate.datasets.large.lazy_cases import fingerprints_of, mapped
from evalgate.datasets.loading import find_rules_file, load_eval_sets
from evalgate.documents.validation import names_of
from evalgate.llm.resolver import Bench
from evalgate.metrics.scoring import ORDINARY, BoundMetric
from evalgate.runner.base_branch import BaseRules
from evalgate.runner.metric_binding import bind_metrics, final_state_metric
from evalgate.runner.user_factory import as_played
from evalgate.system.workspace import Workspace, agent_environment


def with_mocks(
    eval_sets: Iterable[EvalSet], mocks: Sequence[ToolMockConfig], rules: Thresholds
) -> tuple[EvalSet, ...]:
    """The eval sets, their cases with the mocks that are for them, after those that they bring along.

    Raises:
        InvalidInput: a mock is for no case.
    """
    eval_sets = tuple(eval_sets)
    if not mocks:
        return eval_sets
    problems = [
        Problem(rules.file, *rules.position(("tool_mocks", index)), f"no case is {_selection(mock)}")
        for index, mock in enumerate(mocks)
        if not any(_is_for(mock, each, case) for each in eval_sets for case in each.heads)
    ]
    if problems:
        raise InvalidInput(problems)
    return tuple(
        replace(each, cases=mapped(each.cases, partial(_mocked, each, mocks), same_heads=True))
        for each in eval_sets
    )


def _mocked(eval_set: EvalSet, mocks: Sequence[ToolMockConfig], case: EvalCase) -> EvalCase:
    found = [
        ToolMock(mock.tool, mock.result, mock.args, mock.exact)
        for mock in mocks
        if _is_for(mock, eval_set, case)
    ]
    return replace(case, tool_mocks=(*case.tool_mocks, *found)) if found else case


def _is_for(mock: ToolMockConfig, eval_set: EvalSet, case: CaseHead) -> bool:
    names = (case.eval_id, f"{eval_set.eval_set_id}:{case.eval_id}", f"{eval_set.path}:{case.eval_id}")
    return not mock.ids or any(fnmatchcase(name, pattern) for pattern in mock.ids for name in names)


def _selection(mock: ToolMockConfig) -> str:
    return " or ".join(f"called `{pattern}`" for pattern in mock.ids) or "there to mock tools for"


Policies: TypeAlias = Mapping[tuple[str, str], CasePolicy]
"""Eval set and case → what holds for it; cases of which no rule speaks are left out."""


def policies(
    rules: Thresholds, case_rules: Sequence[CaseRule], eval_sets: Iterable[EvalSet], *, is_part: bool = False
) -> Policies:
    """What the rules say of each case; where they disagree the later one wins, and tags add up.

    `is_part`: the user picked some of the cases for now, so a rule may speak of others.

    Raises:
        InvalidInput: a rule speaks of no case, or of a metric that is not among the criteria.
    """
    eval_sets = tuple(eval_sets)
    tagged = ((each, case) for each in eval_sets for case in each.heads if case.tags)
    found = {(each.eval_set_id, case.eval_id): CasePolicy(tags=case.tags) for each, case in tagged}
    problems: list[Problem] = []
    for index, rule in enumerate(case_rules):
        problems += _unknown_metrics(rule, index, rules)
        chosen = list(_chosen(rule, eval_sets, found))
        if not chosen and not is_part:
            place = rules.position(("cases", index))
            problems.append(Problem(rules.file, *place, f"no case is {_select_cases(rule)}"))
        found |= {key: _with(found.get(key, _NOTHING_SAID), rule) for key in chosen}
    if problems:
        raise InvalidInput(sorted(problems))
    return {key: policy for key, policy in found.items() if policy != _NOTHING_SAID}


_NOTHING_SAID = CasePolicy()


def _chosen(rule: CaseRule, eval_sets: Sequence[EvalSet], found: Policies) -> Iterator[tuple[str, str]]:
    for eval_set, case in ((each, case) for each in eval_sets for case in each.heads):
        key = (eval_set.eval_set_id, case.eval_id)
        names = names_of(eval_set.eval_set_id, eval_set.path, case.eval_id)
        by_id = any(fnmatchcase(name, pattern) for pattern in rule.ids for name in names)
        if by_id or not set(rule.tags).isdisjoint(found.get(key, _NOTHING_SAID).tags):
            yield key


def _with(policy: CasePolicy, rule: CaseRule) -> CasePolicy:
    scope = _scope(rule)
    thresholds = {
        name: ScopedThreshold(held.threshold, scope, held.min_mean) for name, held in rule.criteria.items()
    }
    return replace(
        policy,
        tags=tuple(dict.fromkeys((*policy.tags, *rule.tag))),
        weight=policy.weight if rule.weight is None else rule.weight,
        protected=policy.protected if rule.protected is None else rule.protected,
        thresholds={**policy.thresholds, **thresholds},
    )


def _scope(rule: CaseRule) -> str:
    tags = [f"tag {name}" for name in rule.tags]
    return ", ".join([*rule.ids, *tags])


def _select_cases(rule: CaseRule) -> str:
    ids = [f"called `{pattern}`" for pattern in rule.ids]
    return " or ".join([*ids, *(f"tagged `{name}`" for name in rule.tags)])


def _unknown_metrics(rule: CaseRule, index: int, rules: Thresholds) -> Iterator[Problem]:
    known = [criterion.metric for criterion in rules.criteria]
    for name in rule.criteria:
        if name not in known:
            place = rules.position(("cases", index, "criteria", name))
            hint = did_you_mean(name, known)
            yield Problem(rules.file, *place, f"`{name}` is not among the file's `criteria`.{hint}")


@dataclass(frozen=True)
class Suite:
    """An eval set and the metrics that it is held to."""

    eval_set: EvalSet
    metrics: tuple[BoundMetric, ...]
    rules: Thresholds
    """Where the metrics stand."""
    policies: Policies = field(default_factory=dict)
    """What holds for some of the cases."""

    def policy(self, case: CaseHead) -> CasePolicy:
        """What holds for a case of the set."""
        return self.policies.get((self.eval_set.eval_set_id, case.eval_id), ORDINARY)

    @cached_property
    def fingerprints(self) -> tuple[str, ...]:
        """One per case of the set, in its order."""
        return fingerprints_of(self.eval_set.cases)

    def metrics_of(self, case: CaseHead) -> tuple[BoundMetric, ...]:
        """The metrics, with the case's own thresholds."""
        own = self.policy(case).thresholds
        return tuple(bound.held_to(own.get(bound.name)) for bound in self.metrics) if own else self.metrics


class Places:
    """The cases of several suites, each called by its index among all."""

    def __init__(self, suites: Sequence[Suite]) -> None:
        self._suites = suites
        self._starts = list(accumulate((len(suite.eval_set.cases) for suite in suites), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def heads(self) -> Iterator[tuple[Suite, CaseHead]]:
        """What is known of each case, in order."""
        return ((suite, head) for suite in self._suites for head in suite.eval_set.heads)

    def suite(self, index: int) -> Suite:
        """Where a case belongs."""
        return self._suites[bisect_right(self._starts, index) - 1]

    def case(self, index: int) -> EvalCase:
        """The case itself; quickest in order."""
        at = bisect_right(self._starts, index) - 1
        return self._suites[at].eval_set.cases[index - self._starts[at]]


def plan_suites(
    rules: Thresholds,
    config: Config,
    workspace: Workspace,
    environ: Mapping[str, str],
    bench: Bench,
    *,
    needs_criteria: bool = True,
    base: BaseRules,
) -> tuple[Suite, ...]:
    """Every eval set with its metrics: of the thresholds file, else of the `test_config.json` beside it.

    Without either, a set of Google ADK takes ADK's defaults. `needs_criteria`: refuse any other set that has
    no criteria; else it has no metrics.
    """
    if not config.eval_sets:
        raise InvalidInput("no eval sets: name files, folders or globs, or list them as `eval_sets`")
    _check_runs(rules, config)
    formats = registry.formats()
    eval_sets = load_eval_sets(config.eval_sets, formats, base=workspace.folder, format_name=config.format)
    base.check_eval_sets(eval_set.path for eval_set in eval_sets)
    eval_sets = as_played(with_mocks(eval_sets, config.tool_mocks, rules), config)
    version = parse_adk_version(config.adk_version) if config.adk_version else NEWEST_ADK
    context = MetricContext(version, bench, locate=base.locate)
    place = _metric_place(config, workspace, environ, base)
    own = policies(rules, config.cases, eval_sets, is_part=is_part(rules, config, workspace))
    if rules.criteria:
        metrics = bind_metrics(rules, context, place)
        suites = [Suite(eval_set, metrics, rules, own) for eval_set in eval_sets]
    else:
        suites = [
            replace(suite, policies=own)
            for suite in _beside(eval_sets, context, base, place, rules, needs_criteria=needs_criteria)
        ]
    if problems := [problem for suite in suites for problem in unjudged_rubrics(suite)]:
        raise InvalidInput(sorted(problems))
    return tuple(map(_with_final_state, suites))


def unjudged_rubrics(suite: Suite) -> Iterator[Problem]:
    """Rubrics of cases for metrics that the set's `.metrics.json` does not name, or that no model judges."""
    if suite.rules.dialect != "trpc":
        return
    judged = {bound.name for bound in suite.metrics if isinstance(bound.metric, Judged)}
    named = {bound.name for bound in suite.metrics}
    for head in suite.eval_set.heads:
        for name in head.rubric_metrics:
            if name not in judged:
                why = "no model judges" if name in named else f"{suite.rules.file} does not name"
                text = f"case {head.eval_id!r} has rubrics for the metric `{name}`, which {why}"
                yield Problem(suite.eval_set.path, head.line, 1, text)


def is_part(rules: Thresholds, config: Config, workspace: Workspace) -> bool:
    """Whether the user picked some cases: other sets than the file names, or `file:case_a,case_b`."""
    if rules.config.eval_sets and config.eval_sets != rules.config.eval_sets:
        return True
    return any(":" in each and not (workspace.folder / each).exists() for each in config.eval_sets)


def _check_runs(rules: Thresholds, config: Config) -> None:
    """Reliability needs as many runs as it speaks of."""
    runs = config.gate.max_runs if config.runs == "auto" else config.runs
    problems = [
        Problem(
            rules.file,
            *rules.position(("criteria", criterion.metric)),
            f"{wanted.kind} with k = {wanted.k} needs as many `runs`, not {runs}",
        )
        for criterion in rules.criteria
        if (wanted := criterion.reliability) is not None and wanted.k > runs
    ]
    if problems:
        raise InvalidInput(problems)


def _metric_place(
    config: Config, workspace: Workspace, environ: Mapping[str, str], base: BaseRules
) -> MetricPlace:
    """Custom metrics are as trusted as the agent: they get its environment, and run as its user."""
    uid, gid = workspace.agent_user or (None, None)
    env = agent_environment(environ, config.agent.env if config.agent else ())
    return MetricPlace(workspace.folder, env, uid, gid, base.read_metric_code)


def _with_final_state(suite: Suite) -> Suite:
    """The suite, held to the final states that its cases expect: an expectation is never passed over."""
    is_named = any(bound.name == registry.FINAL_STATE for bound in suite.metrics)
    if is_named or not any(case.expects_state for case in suite.eval_set.heads):
        return suite
    return replace(suite, metrics=(*suite.metrics, final_state_metric()))


ADK_DEFAULTS = Thresholds(
    Config(),
    Path(),
    dialect="adk",
    criteria=(Criterion("tool_trajectory_avg_score", 1.0), Criterion("response_match_score", 0.8)),
)
"""What Google ADK holds an eval set to that has no configuration."""
_OF_ADK = {"adk", "adk-legacy"}


def default_criteria_notice(suite: Suite) -> str:
    """Return the sentence for a set that is held to ADK's defaults; "" for any other."""
    if suite.rules is not ADK_DEFAULTS:
        return ""
    held = " and ".join(f"`{each.metric}` {each.threshold:g}" for each in ADK_DEFAULTS.criteria)
    return (
        f"{suite.eval_set.path} has no criteria, so it is held to Google ADK's defaults: {held}. "
        "Write `criteria` into a thresholds file to choose others."
    )


_OWN_FILE = "evalgate.yaml (`evalgate init` writes one)"


def _beside(
    eval_sets: Sequence[EvalSet],
    context: MetricContext,
    base: BaseRules,
    place: MetricPlace,
    rules: Thresholds,
    *,
    needs_criteria: bool,
) -> Iterator[Suite]:
    bound: dict[Path | None, tuple[tuple[BoundMetric, ...], Thresholds]] = {}
    for eval_set in eval_sets:
        file = base.folder / eval_set.path
        path = find_rules_file(file, eval_set.eval_set_id, base.exists_at_base)
        path = path or find_rules_file(file, eval_set.eval_set_id)
        if path is None and eval_set.format_name not in _OF_ADK:
            if needs_criteria:
                raise InvalidInput(
                    f"{eval_set.path}: no thresholds. Write `criteria` into {rules.file or _OWN_FILE}, "
                    "give --thresholds FILE, or put the set's own .metrics.json beside it."
                )
            yield Suite(eval_set, (), rules)
            continue
        if path not in bound:
            own = base.load_thresholds(path, base.shown(path)) if path else ADK_DEFAULTS
            bound[path] = bind_metrics(own, context, place), own
        yield Suite(eval_set, *bound[path])
