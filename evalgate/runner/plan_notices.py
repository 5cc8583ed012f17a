"""Yield the notices of a plan: about its agent, eval sets, criteria, judges and recordings."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from evalgate.agents.factory import AgentSpec, describe_sample_agent
from evalgate.config.schema.agent import SessionConfig
from evalgate.config.schema.criteria import list_recordings
from evalgate.config.schema.thresholds import Config
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import AllowsExtraCalls, Metric, RequiresReference
from evalgate.core.types import EvalSet, ToolRecording
from evalgate.llm.judge_resolver import JudgeResolver
from evalgate.runner.metric_binding import describe_ignored_options
from evalgate.runner.suites import PlanInput, Suite
from evalgate.system.workspace import list_socket_notices


def iter_setup_notices(agent: AgentSpec, plan_input: PlanInput) -> Iterator[str]:
    """Yield notices about the agent, the rules that apply, and the working folder."""
    if sample := describe_sample_agent(agent, plan_input.thresholds):
        yield sample
    yield from plan_input.rule_files.notices
    yield from list_socket_notices(plan_input.workspace)


def iter_suite_notices(suites: Sequence[Suite], session: SessionConfig | None) -> Iterator[str]:
    """Yield the notices about the thresholds files and eval sets of all suites.

    They report ignored keys, old file formats, and metrics that compare tool calls if no case expects one.
    `session` is the section `session` of the thresholds file; None if there is no such section.
    """
    for thresholds in {id(suite.thresholds): suite.thresholds for suite in suites}.values():
        yield from thresholds.notices
        yield from describe_ignored_options(thresholds)
    for suite in suites:
        yield from suite.eval_set.notices
        yield from find_empty_trajectories(suite.eval_set, index_metrics(suite))
    yield from _describe_old_files([suite.eval_set for suite in suites], session)


def find_empty_trajectories(eval_set: EvalSet, metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Yield a sentence for each metric that compares tool calls, if no case of the eval set expects a call.

    Yield nothing if all cases have a simulated user, because such cases have no expected turns.
    """
    compared = {
        name: metric
        for name, metric in metrics.items()
        if isinstance(metric, RequiresReference) and metric.compares_with == "tools"
    }
    # any() nearly always stops at the first case, also in a set of a million.
    if not compared or any(case.expects_tool_calls for case in eval_set.cases):
        return
    written = sum(not case.is_simulated for case in eval_set.cases)
    if not written:
        return
    for name, metric in compared.items():
        is_lenient = isinstance(metric, AllowsExtraCalls) and metric.allows_extra_calls
        passes = "agent" if is_lenient else "agent that calls no tool"
        yield (
            f"`{name}` has nothing to compare in {eval_set.display_name}: of its "
            f"{pluralize(written, 'case')} none expects a tool call, so that any {passes} passes."
        )


def _describe_old_files(eval_sets: Sequence[EvalSet], session: SessionConfig | None) -> Iterator[str]:
    """Yield one notice if files have Google ADK's format from before eval sets (a JSON list).

    It states the command that converts the first file; `session` may name its initial session.
    """
    old = [each for each in eval_sets if each.format_name == "adk-legacy" and each.path]
    if not old:
        return
    from evalgate.integrations.adk.legacy_evalset import is_turn_list

    path = old[0].path
    stem = path.removesuffix(".json").removesuffix(".test").removesuffix(".evalset")
    file = session.file if session is not None and is_turn_list(old[0]) else None
    option = [] if file is None else ["--initial-session", file]
    names = shlex.join([path, "--to", "adk", "--out", f"{stem}.evalset.json", *option])
    force = " --force" if path == f"{stem}.evalset.json" else ""
    others = f" and {pluralize(len(old) - 1, 'other file')}" if old[1:] else ""
    yield (
        f"{path}{others}: a list as Google ADK read them before eval sets, and will stop reading. "
        f"`evalgate convert {names}{force}` writes an eval set."
    )


def index_metrics(suite: Suite) -> dict[str, Metric]:
    """Return the metrics of a suite by name."""
    return {bound.name: bound.metric for bound in suite.metrics}


def iter_plan_notices(
    config: Config, suites: Sequence[Suite], judge_resolver: JudgeResolver
) -> Iterator[str]:
    """Yield the notices of a run: about criteria, judges, eval sets, recorded tools and `track_files`."""
    yield from filter(None, [*map(describe_default_criteria, suites), judge_resolver.models.default_notice])
    yield from iter_suite_notices(suites, config.session)
    yield from _describe_recordings(config, suites)
    if config.agent is not None and config.agent.track_files:
        is_here = config.executor.kind == "local"
        if not is_here or config.agent.kind not in {"python", "adk"}:
            where = f"agents of the kind `{config.agent.kind}`" if is_here else "workers of a Ray cluster"
            yield f"`agent.track_files` has no effect: the files of {where} are not seen."


def _describe_recordings(config: Config, suites: Sequence[Suite]) -> tuple[str, ...]:
    """Return a notice for each tool recording: a file with recorded results that answer tool calls."""
    found: dict[str, ToolRecording] = {}
    for suite in suites if list_recordings(config.tool_mocks) else ():
        for case in suite.eval_set.cases:
            if case.tool_recording is not None:
                found.setdefault(case.tool_recording.source, case.tool_recording)
    return tuple(
        f"The calls of tools were answered from {each.source} (recording {each.digest})"
        + (f", except those of {', '.join(f'`{name}`' for name in each.live)}" if each.live else "")
        + ". Durations are without the time of tools, and cases are compared only with runs of the same "
        "recorded calls."
        for each in found.values()
    )


def describe_default_criteria(suite: Suite) -> str:
    """Return a notice if the eval set uses the default criteria of its format; "" otherwise."""
    if suite.thresholds.file:
        return ""
    from evalgate.runner.default_criteria import DEFAULT_THRESHOLDS

    owner, thresholds = DEFAULT_THRESHOLDS.get(suite.eval_set.format_name, ("", None))
    if thresholds is None or suite.thresholds is not thresholds:
        return ""
    defaults = " and ".join(f"`{each.metric}` {each.threshold:g}" for each in thresholds.criteria)
    return (
        f"{suite.eval_set.display_name} has no criteria, so {owner}'s defaults apply: {defaults}. "
        "Write `criteria` into a thresholds file to choose others."
    )
