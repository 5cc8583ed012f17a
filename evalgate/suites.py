"""The eval sets of a run, each with the metrics that it is held to and what holds for some of its cases."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from evalgate import plugins
from evalgate.baserules import BaseRules
from evalgate.boundmetrics import bind_metrics, final_state_metric
from evalgate.caserules import Policies, policies
from evalgate.chosenusers import as_played
from evalgate.config import NEWEST_ADK, Config, Thresholds, parse_adk_version
from evalgate.errors import InvalidInput, Problem
from evalgate.judge.bench import Bench
from evalgate.load import find_rules_file, load_eval_sets
from evalgate.model import CaseHead, CasePolicy, Criterion, EvalCase, EvalSet
from evalgate.protocols import Judged, MetricContext, MetricPlace
from evalgate.reading.storedcases import fingerprints_of
from evalgate.score import ORDINARY, BoundMetric
from evalgate.system.environment import agent_environment
from evalgate.system.workspace import Workspace
from evalgate.toolmocks import with_mocks


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
    formats = plugins.formats()
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
    is_named = any(bound.name == plugins.FINAL_STATE for bound in suite.metrics)
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
