"""The catalogue: every plugin by the name that users write, one line each.

Plugins are named by module path and imported when they are used, so that a run loads only what it needs.
"""

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import Any

from evalgate.errors import InvalidInput, Problem
from evalgate.model import EvalSet
from evalgate.protocols import (
    Agent,
    AgentOptions,
    AgentPlace,
    AgentType,
    BaselinePlace,
    BaselineStore,
    EvalFormat,
    EvalSetWriter,
    Lint,
    Metric,
    MetricType,
    NamesFiles,
    Reporter,
    Suspicion,
)
from evalgate.reading.validation import did_you_mean, listed
from evalgate.thirdparty import Family, blamed, load, third_party

FORMATS: Mapping[str, str] = {
    "trpc": "evalgate.formats.trpc:TrpcEvalSet",
    "adk-rs": "evalgate.formats.adk_rs:AdkRsEvalSet",
    "adk": "evalgate.formats.adk:AdkEvalSet",
    "adk-legacy": "evalgate.formats.adk_legacy:AdkLegacy",
    "orchestrate": "evalgate.formats.orchestrate:OrchestrateDataset",
}

WRITERS: Mapping[str, str] = {
    "adk": "evalgate.formats.adk_writer:AdkWriter",
    "adk-rs": "evalgate.formats.adk_rs_writer:AdkRsWriter",
    "trpc": "evalgate.formats.trpc_writer:TrpcWriter",
    "orchestrate": "evalgate.formats.orchestrate_writer:OrchestrateWriter",
}
"""Formats that eval sets can be converted to."""

METRICS: Mapping[str, str] = {
    "tool_trajectory_avg_score": "evalgate.metrics.tool_trajectory:ToolTrajectory",
    "response_match_score": "evalgate.metrics.response_match:ResponseMatch",
    "trpc/tool_trajectory_avg_score": "evalgate.metrics.trpc_tool_trajectory:TrpcToolTrajectory",
    "trpc/final_response_avg_score": "evalgate.metrics.trpc_final_response:TrpcFinalResponse",
    "final_response_match_v2": "evalgate.metrics.final_response_match_v2:FinalResponseMatch",
    "rubric_based_final_response_quality_v1": "evalgate.metrics.rubric_based:FinalResponseQuality",
    "rubric_based_tool_use_quality_v1": "evalgate.metrics.rubric_based:ToolUseQuality",
    "rubric_based_multi_turn_trajectory_quality_v1": (
        "evalgate.metrics.rubric_based:MultiTurnTrajectoryQuality"
    ),
    "hallucinations_v1": "evalgate.metrics.hallucinations:Hallucinations",
    "safety_v1": "evalgate.metrics.hosted_turns:Safety",
    "response_evaluation_score": "evalgate.metrics.hosted_turns:ResponseEvaluation",
    "multi_turn_task_success_v1": "evalgate.metrics.hosted_conversations:TaskSuccess",
    "multi_turn_trajectory_quality_v1": "evalgate.metrics.hosted_conversations:TrajectoryQuality",
    "multi_turn_tool_use_quality_v1": "evalgate.metrics.hosted_conversations:ToolUse",
    "per_turn_user_simulator_quality_v1": "evalgate.metrics.user_simulator_quality:UserSimulatorQuality",
    "trpc/llm_final_response": "evalgate.metrics.trpc_llm_final_response:TrpcLlmFinalResponse",
    "trpc/llm_rubric_response": "evalgate.metrics.trpc_llm_rubrics:TrpcLlmRubricResponse",
    "trpc/llm_rubric_critic": "evalgate.metrics.trpc_llm_rubrics:TrpcLlmRubricCritic",
    "trpc/llm_rubric_reference_critic": "evalgate.metrics.trpc_llm_rubrics:TrpcLlmRubricReferenceCritic",
    "trpc/llm_rubric_knowledge_recall": (
        "evalgate.metrics.trpc_llm_rubric_knowledge_recall:TrpcLlmRubricKnowledgeRecall"
    ),
    "trpc/llm_hallucinations": "evalgate.metrics.trpc_llm_hallucinations:TrpcLlmHallucinations",
    "trpc/llm_judge_template": "evalgate.metrics.trpc_llm_judge_template:TrpcLlmJudgeTemplate",
    "trpc/llm_verifier_pairwise": "evalgate.metrics.trpc_llm_verifier_pairwise:TrpcLlmVerifierPairwise",
    "final_session_state": "evalgate.metrics.final_state:FinalSessionState",
    "trajectory_exact_match": "evalgate.metrics.trajectory_family:TrajectoryExactMatch",
    "trajectory_in_order_match": "evalgate.metrics.trajectory_family:TrajectoryInOrderMatch",
    "trajectory_any_order_match": "evalgate.metrics.trajectory_family:TrajectoryAnyOrderMatch",
    "trajectory_precision": "evalgate.metrics.trajectory_family:TrajectoryPrecision",
    "trajectory_recall": "evalgate.metrics.trajectory_family:TrajectoryRecall",
    "trajectory_single_tool_use": "evalgate.metrics.trajectory_family:TrajectorySingleToolUse",
    "adk-rs/tool_trajectory_avg_score": "evalgate.metrics.adk_rs_tool_trajectory:AdkRsToolTrajectory",
    "adk-rs/final_response_match_v1": "evalgate.metrics.adk_rs_response_match:AdkRsResponseMatch",
    "orchestrate/journey_success": "evalgate.metrics.orchestrate_journey:JourneySuccess",
    "orchestrate/journey_completion": "evalgate.metrics.orchestrate_journey:JourneyCompletion",
    "orchestrate/tool_call_precision": "evalgate.metrics.orchestrate_tool_calls:ToolCallPrecision",
    "orchestrate/tool_call_recall": "evalgate.metrics.orchestrate_tool_calls:ToolCallRecall",
    "orchestrate/keyword_match": "evalgate.metrics.orchestrate_texts:KeywordMatch",
    "orchestrate/text_match": "evalgate.metrics.orchestrate_texts:TextMatch",
}

LINTS: Mapping[str, str] = {
    "references": "evalgate.lints.references:References",
    "repeats": "evalgate.lints.repeats:Repeats",
    "tools": "evalgate.lints.tools:Tools",
    "journeys": "evalgate.lints.journeys:Journeys",
    "rubrics": "evalgate.lints.rubrics:Rubrics",
    "passed_over": "evalgate.lints.passed_over:PassedOver",
}
"""What `evalgate validate` looks for in eval sets that can be read."""

FINAL_STATE = "final_session_state"

AGENTS: Mapping[str, str] = {
    "python": "evalgate.agents.python:PythonAgent",
    "adk": "evalgate.agents.adk:AdkAgent",
    "command": "evalgate.agents.command:CommandAgent",
    "http": "evalgate.agents.http:HttpAgent",
    "docker": "evalgate.agents.docker:DockerAgent",
    "replay": "evalgate.agents.replay:Replay",
}

REPORTERS: Mapping[str, str] = {
    "json": "evalgate.reporters.results_json:ResultsJson",
    "junit": "evalgate.reporters.junit:JUnit",
    "comment": "evalgate.reporters.comment:Comment",
    "codequality": "evalgate.reporters.codequality:CodeQuality",
    "html": "evalgate.reporters.page:Page",
}

ON_REQUEST = frozenset({"html"})
"""Reporters that a run uses only when it is told to: they take time that not everybody has a use for."""


BASELINES: Mapping[str, str] = {
    "branch": "evalgate.baselines.branch:branch_baseline",
    "artifact": "evalgate.baselines.artifact:artifact_baseline",
    "url": "evalgate.baselines.objects:object_baseline",
}
"""Stores beside the plain file, which needs no name."""


class _Formats(Mapping[str, EvalFormat]):
    """Formats by name, each loaded when it is reached: those of other packages after all of ours."""

    def __getitem__(self, name: str) -> EvalFormat:
        found = _plugin("formats", FORMATS, name)
        if found is None:
            raise KeyError(name)
        read: EvalFormat = found()
        return read

    def __iter__(self) -> Iterator[str]:
        yield from FORMATS
        yield from third_party("formats", FORMATS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def formats() -> Mapping[str, EvalFormat]:
    """Every eval-set format, in the order in which a file is tried."""
    return _Formats()


def writer(name: str) -> EvalSetWriter:
    """What writes eval sets of that format.

    Raises:
        InvalidInput: nothing does.
    """
    if name not in WRITERS:
        hint = did_you_mean(name, WRITERS) or f" Known here: {listed(sorted(WRITERS))}."
        raise InvalidInput(f"`{name}` is not a format that evalgate writes.{hint}")
    found: EvalSetWriter = _loaded(WRITERS[name])()
    return found


def baseline_store(text: str, place: BaselinePlace) -> BaselineStore | None:
    """The store that `KIND:WHAT` or a URL names; None when it is a path.

    Raises:
        InvalidInput: the kind is misspelt, or its store cannot be made.
    """
    kind, colon, what = text.partition(":")
    build = _plugin("baselines", BASELINES, kind) if colon else None
    if build is None and what.startswith("//"):
        build, kind, what = _loaded(BASELINES["url"]), "url", text
    if build is None:
        _check_path(text, kind if colon else "", place)
        return None
    with blamed("baselines", BASELINES, kind, Problem("", 0, 0, f"baseline {text}")):
        store: BaselineStore = build(what, place)
        return store


def _check_path(text: str, kind: str, place: BaselinePlace) -> None:
    """Nothing that was meant as a store is taken for the path of a file that is not there yet."""
    hint = did_you_mean(kind, BASELINES) if kind else ""
    if (hint or "://" in text) and not (place.folder / text).exists():
        raise InvalidInput(f"`{kind}` is no kind of baseline that evalgate knows.{hint}")


def built_agent(kind: str, options: AgentOptions, place: AgentPlace) -> Agent:
    """The agent, not started yet.

    Raises:
        InvalidInput: what the options name cannot be used, or another package's kind of agent is broken.
    """
    with blamed("agents", AGENTS, kind, Problem("", 0, 0, f"agent {kind}")):
        return options.build(place)


def _plugin(family: Family, own: Mapping[str, str], name: str) -> Any:
    """The plugin of that name, ours or another package's; None when nobody has it."""
    if name in own:
        return _loaded(own[name])
    point = third_party(family, own).get(name)
    return load(point) if point else None


def suspicions(eval_set: EvalSet, metrics: Mapping[str, Metric]) -> list[Suspicion]:
    """What every lint says of an eval set, in the order of the file."""
    lints: Iterator[Lint] = (_loaded(path)() for path in LINTS.values())
    looks = [lint.begin(eval_set, metrics) for lint in lints]
    found = [
        Suspicion(case.line, case.eval_id, sentence)
        for case in eval_set.cases
        for look in looks
        for sentence in look(case)
    ]
    return sorted(found, key=lambda each: each.line)


def reporters(folder: str = "", *, but: Collection[str] = ()) -> tuple[Reporter, ...]:
    """Every reporter but those named, those of other packages last.

    `folder` is where the paths of the record start, as the repository's root sees it.
    """
    others = (load(point)() for point in third_party("reporters", REPORTERS).values())
    found = (*(reporter(name) for name in REPORTERS if name not in but), *others)
    return tuple(each.seen_from_root(folder) if isinstance(each, NamesFiles) else each for each in found)


def reporter(name: str) -> Reporter:
    """The reporter of that name."""
    found: Reporter = _loaded(REPORTERS[name])()
    return found


def agent_type(kind: str) -> AgentType:
    """What the catalogue holds for that kind of agent.

    Raises:
        InvalidInput: there is no such kind.
    """
    found: AgentType | None = _plugin("agents", AGENTS, kind)
    if found is None:
        known = sorted([*AGENTS, *third_party("agents", AGENTS)])
        hint = did_you_mean(kind, known) or f" Known kinds: {listed(known)}."
        raise InvalidInput(f"`{kind}` is not a kind of agent.{hint}")
    return found


def metric_type(name: str) -> MetricType | None:
    """What the catalogue holds for that metric; None when nobody has it."""
    found: MetricType | None = _plugin("metrics", METRICS, name)
    return found


def own_metric_type(name: str) -> MetricType:
    """One of evalgate's own, by its name."""
    found: MetricType = _loaded(METRICS[name])
    return found


def _loaded(path: str) -> Any:
    """The object that a catalogue line names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
