"""Registry of plugins. It lists evalgate's own plugins, and finds those of other packages by entry point.

A family is a kind of plugins, such as `metrics` or `agents`. Installed packages are searched only for a name
that evalgate does not have, or to list all plugins of a family, and at most once per family. A plugin is
imported when it is used, so that a run loads only what it needs.
"""

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evalgate.core.errors import EvalgateError, InvalidInputError, Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.protocols import (
    AgentType,
    AnyReporter,
    BaselineStore,
    EvalFormat,
    EvalSetEditor,
    EvalSetWriter,
    MetricType,
    StoreContext,
)
from evalgate.core.score_ranges import BUDGETS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Family: TypeAlias = Literal["formats", "metrics", "agents", "reporters", "baselines"]


def find_third_party_plugins(family: Family, own: Collection[str]) -> Mapping[str, "EntryPoint"]:
    """Return the entry points of other packages for `family` by plugin name, in alphabetical order.

    Raises:
        InvalidInputError: two packages provide different plugins of the same name, or a package provides a
            plugin with a name in `own`, the names of evalgate's own plugins.
    """
    points = list_entry_points(family)
    if not points:
        return {}
    from evalgate.core.foreign_plugins import index_entry_points

    return index_entry_points(points, family, own)


@contextmanager
def translate_plugin_errors(
    family: Family, own: Collection[str], name: str, where: Problem
) -> Iterator[None]:
    """Turn an exception of another package's plugin `name` into an InvalidInputError that names the package.

    The plugin is called in the `with` block. `own` lists evalgate's own plugins: if `name` is one of them,
    exceptions are raised unchanged. `where` has the place of the user's setting, and a text that begins the
    message.

    Raises:
        EvalgateError: the block raised this error.
        InvalidInputError: the block raised any other exception, and the plugin is of another package.
    """
    try:
        yield
    except EvalgateError:
        raise
    except Exception as error:
        point = None if name in own else find_third_party_plugins(family, own).get(name)
        if point is None:
            raise
        from evalgate.core.foreign_plugins import describe_error, describe_plugin

        sentence = f"{where.message}: {describe_plugin(point)} cannot be used: {describe_error(error)}"
        raise InvalidInputError([replace(where, message=sentence)]) from error


@cache
def list_entry_points(family: Family) -> tuple["EntryPoint", ...]:
    """Return all entry points of installed packages for `family`, sorted by name; () if there are none."""
    if not _may_have_plugins():
        return ()
    from importlib.metadata import entry_points

    return tuple(
        sorted(entry_points(group=f"evalgate.{family}"), key=lambda point: (point.name, point.value))
    )


@cache
def _may_have_plugins() -> bool:
    """Return False if no installed package can have plugins; this is faster than `importlib.metadata`."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True  # it may find packages that are in no folder
    return any(_may_hold_plugins(folder or ".") for folder in sys.path)


def _may_hold_plugins(folder: str) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208  pathlib makes an object of each
    except FileNotFoundError:
        return False
    except OSError:
        return True  # such as a ZIP file with packages
    for name in names:
        if name.lower().endswith((".dist-info", "egg-info")):
            with suppress(OSError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                if b"[evalgate." in file.read():
                    return True
    return False


FORMATS: Mapping[str, str] = {
    "trpc": "evalgate.integrations.trpc.evalset:TrpcFormat",
    "adk-rs": "evalgate.integrations.adk_rs.evalset:AdkRsFormat",
    "adk": "evalgate.integrations.adk.evalset:AdkFormat",
    "adk-legacy": "evalgate.integrations.adk.legacy_evalset:AdkLegacyFormat",
    "orchestrate": "evalgate.integrations.orchestrate.evalset:OrchestrateFormat",
}

WRITERS: Mapping[str, str] = {
    "adk": "evalgate.integrations.adk.writer:AdkWriter",
    "adk-rs": "evalgate.integrations.adk_rs.writer:AdkRsWriter",
    "trpc": "evalgate.integrations.trpc.writer:TrpcWriter",
    "orchestrate": "evalgate.integrations.orchestrate.writer:OrchestrateWriter",
}
"""Writers of the formats that eval sets can be converted to, by format name."""

EDITORS: Mapping[str, str] = {
    "adk": "evalgate.integrations.adk.editing:AdkEditor",
    "adk-rs": "evalgate.integrations.adk_rs.editing:AdkRsEditor",
    "trpc": "evalgate.integrations.trpc.editing:TrpcEditor",
    "orchestrate": "evalgate.integrations.orchestrate.editing:OrchestrateEditor",
}
"""Editors of the formats that evalgate can edit in place, by format name."""

METRICS: Mapping[str, str] = {
    "tool_trajectory_avg_score": "evalgate.integrations.adk.metrics.tool_trajectory:ToolTrajectory",
    "response_match_score": "evalgate.integrations.adk.metrics.response_match:ResponseMatch",
    "trpc/tool_trajectory_avg_score": "evalgate.integrations.trpc.metrics.tool_trajectory:TrpcToolTrajectory",
    "trpc/final_response_avg_score": "evalgate.integrations.trpc.metrics.final_response:TrpcFinalResponse",
    "final_response_match_v2": "evalgate.integrations.adk.metrics.judged:FinalResponseMatch",
    "rubric_based_final_response_quality_v1": "evalgate.integrations.adk.metrics.judged:FinalResponseQuality",
    "rubric_based_tool_use_quality_v1": "evalgate.integrations.adk.metrics.judged:ToolUseQuality",
    "rubric_based_multi_turn_trajectory_quality_v1": (
        "evalgate.integrations.adk.metrics.judged:MultiTurnTrajectoryQuality"
    ),
    "hallucinations_v1": "evalgate.integrations.adk.metrics.judged:Hallucinations",
    "safety_v1": "evalgate.integrations.adk.metrics.judged:Safety",
    "response_evaluation_score": "evalgate.integrations.adk.metrics.judged:ResponseEvaluation",
    "multi_turn_task_success_v1": "evalgate.integrations.adk.metrics.judged:TaskSuccess",
    "multi_turn_trajectory_quality_v1": "evalgate.integrations.adk.metrics.judged:TrajectoryQuality",
    "multi_turn_tool_use_quality_v1": "evalgate.integrations.adk.metrics.judged:ToolUse",
    "per_turn_user_simulator_quality_v1": "evalgate.integrations.adk.metrics.judged:UserSimulatorQuality",
    "trpc/llm_final_response": "evalgate.integrations.trpc.metrics.judged:TrpcLlmFinalResponse",
    "trpc/llm_rubric_response": "evalgate.integrations.trpc.metrics.judged:TrpcLlmRubricResponse",
    "trpc/llm_rubric_critic": "evalgate.integrations.trpc.metrics.judged:TrpcLlmRubricCritic",
    "trpc/llm_rubric_reference_critic": (
        "evalgate.integrations.trpc.metrics.judged:TrpcLlmRubricReferenceCritic"
    ),
    "trpc/llm_rubric_knowledge_recall": (
        "evalgate.integrations.trpc.metrics.judged:TrpcLlmRubricKnowledgeRecall"
    ),
    "trpc/llm_hallucinations": "evalgate.integrations.trpc.metrics.judged:TrpcLlmHallucinations",
    "trpc/llm_judge_template": "evalgate.integrations.trpc.metrics.judged:TrpcLlmJudgeTemplate",
    "trpc/llm_verifier_pairwise": "evalgate.integrations.trpc.metrics.judged:TrpcLlmVerifierPairwise",
    "final_session_state": "evalgate.metrics.final_state:FinalSessionState",
    "trajectory_exact_match": "evalgate.integrations.adk.metrics.trajectory_scores:TrajectoryExactMatch",
    "trajectory_in_order_match": (
        "evalgate.integrations.adk.metrics.trajectory_scores:TrajectoryInOrderMatch"
    ),
    "trajectory_any_order_match": (
        "evalgate.integrations.adk.metrics.trajectory_scores:TrajectoryAnyOrderMatch"
    ),
    "trajectory_precision": "evalgate.integrations.adk.metrics.trajectory_scores:TrajectoryPrecision",
    "trajectory_recall": "evalgate.integrations.adk.metrics.trajectory_scores:TrajectoryRecall",
    "trajectory_single_tool_use": (
        "evalgate.integrations.adk.metrics.trajectory_scores:TrajectorySingleToolUse"
    ),
    "adk-rs/tool_trajectory_avg_score": "evalgate.integrations.adk_rs.metrics:AdkRsToolTrajectory",
    "adk-rs/final_response_match_v1": "evalgate.integrations.adk_rs.metrics:AdkRsResponseMatch",
    "orchestrate/journey_success": "evalgate.integrations.orchestrate.metrics:JourneySuccess",
    "orchestrate/journey_completion": "evalgate.integrations.orchestrate.metrics:JourneyCompletion",
    "orchestrate/tool_call_precision": "evalgate.integrations.orchestrate.metrics:ToolCallPrecision",
    "orchestrate/tool_call_recall": "evalgate.integrations.orchestrate.metrics:ToolCallRecall",
    "orchestrate/keyword_match": "evalgate.integrations.orchestrate.metrics:KeywordMatch",
    "orchestrate/text_match": "evalgate.integrations.orchestrate.metrics:TextMatch",
    **dict.fromkeys(BUDGETS, "evalgate.metrics.budgets:BudgetMetric"),
}

SECTION_METRICS: Mapping[str, str] = {"check/*": "evalgate.metrics.checks.check:Check"}
"""Metrics with options in a section of their own in the thresholds file; `criteria` cannot name them."""

FINAL_STATE = "final_session_state"

AGENTS: Mapping[str, str] = {
    "python": "evalgate.agents.adapters.python:PythonAgentOptions",
    "adk": "evalgate.agents.adapters.python:AdkAgentOptions",
    "command": "evalgate.agents.adapters.command:CommandAgentOptions",
    "http": "evalgate.agents.adapters.http:HttpAgentOptions",
    "docker": "evalgate.agents.adapters.docker:DockerAgentOptions",
    "replay": "evalgate.agents.replay:ReplayAgentOptions",
}

REPORTERS: Mapping[str, str] = {
    "json": "evalgate.reporting.report_files:ResultsJsonReport",
    "junit": "evalgate.reporting.junit:JUnitReport",
    "comment": "evalgate.reporting.comment.reporter:CommentReport",
    "codequality": "evalgate.reporting.codequality:CodeQualityReport",
    "html": "evalgate.reporting.html.reporter:HtmlReport",
    "adk": "evalgate.integrations.adk.report:AdkReport",
    "adk-rs": "evalgate.integrations.adk_rs.report:AdkRsReport",
    "trpc": "evalgate.integrations.trpc.report:TrpcReport",
    "orchestrate": "evalgate.integrations.orchestrate.report:OrchestrateReport",
}

ON_REQUEST: Mapping[str, str] = {
    "html": "report.html",
    "adk": "adk",
    "adk-rs": "adk-rs.json",
    "trpc": "trpc",
    "orchestrate": "orchestrate",
}
"""Reporters that are used only on request, and the names of their files or folders.

The names are known here so that a run can remove the files of earlier runs without loading the reporters.
"""

BASELINES: Mapping[str, str] = {
    "branch": "evalgate.baselines.stores.branch:build_branch_store",
    "artifact": "evalgate.baselines.stores.artifact:build_artifact_store",
    "url": "evalgate.baselines.stores.fsspec:build_fsspec_store",
}
"""Kind of a baseline store to the `module:name` of the function that builds the store.

A baseline in a plain file has no kind.
"""


class _Formats(Mapping[str, EvalFormat]):
    """Formats by name, each loaded on access; formats of other packages come after evalgate's own."""

    def __getitem__(self, name: str) -> EvalFormat:
        if name in FORMATS:
            own: EvalFormat = load_object(FORMATS[name])()
            return own
        from evalgate.core.foreign_plugins import (
            ForeignFormat,
            build_plugin,
            describe_plugin,
            load_entry_point,
        )

        point = find_third_party_plugins("formats", FORMATS)[name]
        plugin = describe_plugin(point)
        return ForeignFormat(build_plugin(load_entry_point(point), plugin), plugin)

    def __iter__(self) -> Iterator[str]:
        yield from FORMATS
        yield from find_third_party_plugins("formats", FORMATS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def get_formats() -> Mapping[str, EvalFormat]:
    """Return every eval-set format by name. A file belongs to the first format that matches it.

    Reading the mapping raises InvalidInputError for a format of another package that cannot be loaded, and
    KeyError for an unknown name.
    """
    return _Formats()


def get_writer(name: str) -> EvalSetWriter:
    """Return the writer of eval sets in the format `name`.

    Raises:
        InvalidInputError: evalgate does not write the format.
    """
    if name not in WRITERS:
        from evalgate.core.did_you_mean import did_you_mean

        hint = did_you_mean(name, WRITERS) or f" Known here: {join_quoted(sorted(WRITERS))}."
        raise InvalidInputError(f"`{name}` is not a format that evalgate writes.{hint}")
    found: EvalSetWriter = load_object(WRITERS[name])()
    return found


def get_editor(name: str) -> EvalSetEditor | None:
    """Return the editor of files in the format `name`; None if evalgate cannot edit such files."""
    found: EvalSetEditor | None = load_object(EDITORS[name])() if name in EDITORS else None
    return found


def resolve_baseline_store(text: str, context: StoreContext) -> BaselineStore | None:
    """Return the baseline store that `text` names as `KIND:WHAT` or as a URL; None if `text` is a path.

    Raises:
        InvalidInputError: the kind is misspelt, or its store cannot be made.
    """
    kind, colon, what = text.partition(":")
    build = _find_plugin("baselines", BASELINES, kind) if colon else None
    if build is None and what.startswith("//"):
        build, kind, what = load_object(BASELINES["url"]), "url", text
    if build is None:
        _check_path(text, kind if colon else "", context)
        return None
    with translate_plugin_errors("baselines", BASELINES, kind, Problem("", 0, 0, f"baseline {text}")):
        store: BaselineStore = build(what, context)
        return store


def _check_path(text: str, kind: str, context: StoreContext) -> None:
    """Raise InvalidInputError if `text` looks like a store with a misspelt kind, and not like a path.

    `kind` is the part of `text` before the first colon; "" without a colon. If a file or folder with the path
    `text` exists, do nothing.
    """
    from evalgate.core.did_you_mean import did_you_mean

    hint = did_you_mean(kind, BASELINES) if kind else ""
    if (hint or "://" in text) and not (context.folder / text).exists():
        raise InvalidInputError(f"`{kind}` is no kind of baseline that evalgate knows.{hint}")


def _find_plugin(family: Family, own: Mapping[str, str], name: str) -> Any:
    """Return the plugin `name` of evalgate or another package; None if the name is unknown."""
    if name in own:
        return load_object(own[name])
    point = find_third_party_plugins(family, own).get(name)
    if point is None:
        return None
    from evalgate.core.foreign_plugins import load_entry_point

    return load_entry_point(point)


def get_reporters(requested: Collection[str] = ()) -> tuple[AnyReporter, ...]:
    """Return the standard reporters, the optional reporters in `requested`, and those of other packages.

    Raises:
        InvalidInputError: a reporter of another package cannot be loaded or created, has no file name, or
            writes another reporter's file.
    """
    wanted = [name for name in REPORTERS if name in requested or name not in ON_REQUEST]
    own = tuple(map(get_reporter, wanted))
    taken = {*(each.file_name for each in own), *ON_REQUEST.values()}
    others = find_third_party_plugins("reporters", REPORTERS).values()
    return (*own, *[_build_reporter(each, taken) for each in others])


def _build_reporter(point: "EntryPoint", taken: set[str]) -> AnyReporter:
    from evalgate.core.foreign_plugins import build_plugin, check_file_name, describe_plugin, load_entry_point

    plugin = describe_plugin(point)
    found: AnyReporter = build_plugin(load_entry_point(point), plugin)
    return check_file_name(found, taken, plugin)


def list_report_files() -> list[str]:
    """Return the file or folder name of every report, optional reports included.

    Raises:
        InvalidInputError: a reporter of another package cannot be loaded or created, has no file name, or
            writes another reporter's file.
    """
    return [*(each.file_name for each in get_reporters()), *ON_REQUEST.values()]


def get_reporter(name: str) -> AnyReporter:
    """Return evalgate's own reporter `name`.

    Raises:
        KeyError: evalgate has no such reporter.
    """
    found: AnyReporter = load_object(REPORTERS[name])()
    return found


def find_reporter(name: str) -> AnyReporter | None:
    """Return the reporter `name` of evalgate or another package; None if the name is unknown.

    Raises:
        InvalidInputError: a package's reporter cannot be loaded or created, or has no file name.
    """
    if name in REPORTERS:
        return get_reporter(name)
    point = find_third_party_plugins("reporters", REPORTERS).get(name)
    return _build_reporter(point, set()) if point else None


def get_agent_type(kind: str) -> AgentType:
    """Return the class that validates the options of agents of a kind, such as `python` or `http`.

    Raises:
        InvalidInputError: the kind is unknown, or its package cannot be loaded.
    """
    found: AgentType | None = _find_plugin("agents", AGENTS, kind)
    if found is None:
        known = sorted([*AGENTS, *find_third_party_plugins("agents", AGENTS)])
        from evalgate.core.did_you_mean import did_you_mean

        hint = did_you_mean(kind, known) or f" Known kinds: {join_quoted(known)}."
        raise InvalidInputError(f"`{kind}` is not a kind of agent.{hint}")
    return found


def find_metric_type(name: str) -> MetricType | None:
    """Return the class of the metric `name`, of evalgate or another package; None if the name is unknown.

    Raises:
        InvalidInputError: the metric's package cannot be loaded.
    """
    found: MetricType | None = _find_plugin("metrics", {**METRICS, **SECTION_METRICS}, name)
    return found


def get_own_metric_type(name: str) -> MetricType:
    """Return the class of one of evalgate's own metrics.

    Raises:
        KeyError: evalgate has no such metric.
    """
    found: MetricType = load_object({**METRICS, **SECTION_METRICS}[name])
    return found


def load_object(path: str) -> Any:
    """Import and return the object at `path`, which is `module:name`.

    No type checker can find its type, so callers annotate the variable.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
