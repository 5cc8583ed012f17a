"""`evalgate init --from`: take over the evaluation of another tool's project.

Eval sets that evalgate can read stay in place, and so do the criteria next to them. Tests of promptfoo and
datasets of DeepEval are converted to files in `evals/`. Anything that evalgate cannot take over is listed.
docs/import-projects.md describes the command for users.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path

from evalgate.cli.agent_search import (
    build_patterns,
    find_adk_criteria,
    find_initial_sessions,
    find_project_files,
    find_script_variables,
    find_variables,
    read_or_empty,
    walk_folders,
)
from evalgate.cli.promptfoo_providers import ADAPTER, SCRIPT, adapt_provider
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalSet, JsonObject
from evalgate.datasets.eval_set_paths import TEST_CONFIG
from evalgate.system.workspace import Workspace

_PROMPTFOO = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
_KEPT_FORMATS = {"adk", "adk-legacy", "trpc"}
_DATA_SETS = (".json", ".jsonl", ".csv")
_LARGEST_DATA_SET = 20_000_000
_NO_EVAL_SETS = (
    "LangGraph has no eval sets: `evalgate generate --from questions.txt --to adk -o "
    "evals/first.evalset.json` makes one of questions, chat messages or a recorded run."
)
_JUDGED = "Statements and similarity by embeddings need a model: add a `judge` section to evalgate.yaml."
_EXTRA = "Regular expressions and JSON Schemas need evalgate's extra `trpc`."
_NO_AGENT = "add --agent KIND:WHAT, as python:agent.py:answer or http:http://localhost:8000"


@frozen
class ProjectImport:
    """Content for a thresholds file, imported from a project of another tool."""

    source: str
    """Tool and file, such as "promptfoo (promptfooconfig.yaml)"."""
    size: str = ""
    """Number of converted cases, such as ": 4 cases"; "" if no file is converted."""
    eval_sets: tuple[str, ...] = ()
    """Patterns for the thresholds file; () for the scaffold's patterns."""
    agents: tuple[str, ...] = ()
    """Values of `--agent`; the first is the default."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of the files to write, by path in the workspace."""
    criteria: Mapping[str, object] = field(default_factory=dict)
    """The section `criteria`. If `criteria` and `checks` are {}, the criteria next to the eval sets apply."""
    criteria_comment: str = ""
    """Text of a comment in the thresholds file: the origin of the criteria."""
    checks: Mapping[str, JsonObject] = field(default_factory=dict)
    case_rules: tuple[JsonObject, ...] = ()
    """The section `cases`."""
    agent_options: JsonObject = field(default_factory=dict)
    """Further keys of the section `agent`, for the first of `agents` only."""
    environment: tuple[str, ...] = ()
    """Names of the environment variables to pass to the agent."""
    lost: tuple[str, ...] = ()
    """Parts that are not carried over, with `file:line` first if known."""
    notes: tuple[str, ...] = ()
    """Next steps, one sentence each."""

    def choose_agent(self) -> str:
        """Return the first of the project's agents.

        Raises:
            InvalidInputError: the project names no agent that evalgate can run.
        """
        if not self.agents:
            raise InvalidInputError(f"no agent to run is named in {self.source}: {_NO_AGENT}")
        return self.agents[0]

    def get_agent_options(self, agent: str) -> JsonObject:
        """Return `agent_options` if `agent` is the first of `agents`; otherwise {}."""
        return self.agent_options if self.agents and agent == self.agents[0] else {}

    def list_files(self, agent: str | None) -> Mapping[str, str]:
        """Return `files`. Leave out the adapter for a promptfoo provider if another agent is chosen.

        The adapter belongs to the first of `agents`.
        """
        is_adapted = bool(self.agents) and agent == self.agents[0]
        return {path: text for path, text in self.files.items() if is_adapted or path != ADAPTER}

    def describe(self) -> Iterator[str]:
        """Yield sentences about the import and the next steps."""
        yield f"Taken over from {self.source}{self.size}."
        if len(self.agents) > 1:
            yield f"Further agents that are here: {', '.join(self.agents[1:])}."
        yield from (f"not carried over: {sentence}" for sentence in self.lost)
        yield from self.notes
        if self.eval_sets:
            yield "Next: `evalgate validate`, then `evalgate run`."


def read_project(workspace: Workspace, source: str) -> ProjectImport:
    """Read the project at `source`, a file or folder in the workspace, and return what can be imported.

    A thresholds file gates only one kind of tests. If a folder has several kinds, the first of these is
    imported:

    - eval sets that evalgate can read,
    - tests of promptfoo,
    - datasets of DeepEval.

    The other kinds are named in the field `lost` of the result. If the imported tests name no agent, the
    agents of a `langgraph.json` are taken, or else agents that are found in the folder. A `langgraph.json`
    without any tests is imported alone.

    Raises:
        InvalidInputError: there is nothing to import, or a file is damaged.
    """
    path = workspace.folder / source
    if path.is_file():
        return _read_file(workspace, path)
    if not path.is_dir():
        raise InvalidInputError(f"{source}: no such file or folder")
    readers = (_read_native, _read_promptfoo_folder, _read_deepeval_folder)
    found = [each for reader in readers if (each := reader(workspace, path)) is not None]
    with_graphs = _read_langgraph(workspace, path)
    if not found:
        if with_graphs is None:
            raise InvalidInputError(
                f"{source}: no project to take over: neither eval sets of Google ADK or tRPC-Agent-Go, nor "
                "`langgraph.json`, `promptfooconfig.yaml` or a DeepEval dataset"
            )
        return with_graphs
    first, others = found[0], found[1:]
    if with_graphs is not None and not first.agents:
        first = replace(first, agents=with_graphs.agents, environment=with_graphs.environment)
    if not first.agents:
        candidates = find_project_files(path).agents
        first = replace(first, agents=tuple(_prefix_agent(each, workspace, path) for each in candidates))
    more = [f"{each.source}: one thresholds file gates one kind of tests" for each in others]
    return replace(first, lost=(*first.lost, *more))


def suggest_import(workspace: Workspace) -> str:
    """Return the path of a promptfoo configuration that `--from` can import; "" if there is none."""
    for parent, names in walk_folders(workspace.folder):
        for name in _PROMPTFOO:
            if name in names:
                return (parent / name).relative_to(workspace.folder).as_posix()
    return ""


def _read_file(workspace: Workspace, path: Path) -> ProjectImport:
    if path.name == "langgraph.json":
        found = _read_langgraph(workspace, path.parent)
    elif (_find_kind(path, workspace) or "") == "a DeepEval dataset":
        found = _convert_data_sets(workspace, [path], path.parent)
    elif _detect_format(workspace, path) in _KEPT_FORMATS:
        folder = workspace.folder if path.is_relative_to(workspace.folder) else path.parent
        name = os.path.relpath(path, workspace.folder)
        found = _keep_eval_sets(workspace, folder, (name,), {path.parent}, find_project_files(folder).agents)
    else:
        found = _read_promptfoo(workspace, path)
    if found is None:
        raise InvalidInputError(f"{workspace.format_path(path)}: there is nothing in it to take over")
    return found


def _prefix_agent(agent: str, workspace: Workspace, folder: Path) -> str:
    kind, _, what = agent.partition(":")
    below = os.path.relpath(folder, workspace.folder)
    return agent if below == "." else f"{kind}:{below}/{what.removeprefix('./')}"


# --- eval sets that evalgate reads as they are --------------------------------------------------------------


def _detect_format(workspace: Workspace, path: Path) -> str:
    """Return the format of an eval set; "" for any other file."""
    from evalgate.documents.strict_json import read_json

    try:
        document = read_json(path, workspace.format_path(path))
    except InvalidInputError:
        return ""
    formats = plugin_registry.get_formats().items()
    return next((name for name, each in formats if each.matches_document(document)), "")


def _read_native(workspace: Workspace, folder: Path) -> ProjectImport | None:
    found = find_project_files(folder)
    if not found.eval_sets:
        return None
    below = os.path.relpath(folder, workspace.folder)
    patterns = tuple(str(Path(below, each)) for each in build_patterns(found.eval_sets))
    homes = {(folder / each).parent for each in found.eval_sets}
    return _keep_eval_sets(workspace, folder, patterns, homes, found.agents)


def _keep_eval_sets(
    workspace: Workspace, folder: Path, patterns: tuple[str, ...], homes: set[Path], agents: tuple[str, ...]
) -> ProjectImport:
    """Return the import of a project with eval sets that stay in place.

    `patterns` select the eval sets, `homes` are the folders with eval sets, and `agents` are the agents of
    the project. Files of criteria, sessions and names of variables are searched in all of `folder`.
    """
    names = {path.name for each in homes for path in each.iterdir()}
    is_trpc = any(name.endswith(".metrics.json") for name in names)
    tool = "tRPC-Agent-Go" if is_trpc else "Google ADK"
    unread = () if is_trpc else _find_unread_criteria(workspace, folder, homes)
    sessions = (
        f"{workspace.format_path(path)}:{line}: `initial_session_file={value}`: set `file` of the section "
        "`session` to it"
        for path, line, value in find_initial_sessions(folder)
    )
    if is_trpc:
        own = "each eval set's `.metrics.json` applies"
    elif TEST_CONFIG in names:
        own = f"the `{TEST_CONFIG}` next to an eval set applies, without one Google ADK's defaults"
    else:
        own = "Google ADK's defaults apply, tool_trajectory_avg_score 1.0 and response_match_score 0.8"
    return ProjectImport(
        f"{tool} ({', '.join(patterns)})",
        "",
        patterns,
        tuple(_prefix_agent(each, workspace, folder) for each in agents),
        criteria_comment=own,
        environment=find_variables(folder),
        lost=(*unread, *sessions),
    )


def _find_unread_criteria(workspace: Workspace, folder: Path, homes: set[Path]) -> Iterator[str]:
    """Yield a sentence for each file of ADK's criteria that evalgate does not read.

    evalgate reads only the `test_config.json` in each of `homes`, the folders of the eval sets. Users pass
    any other file to `adk eval` with `--config_file_path`.
    """
    for path in find_adk_criteria(folder):
        if path.name != TEST_CONFIG or path.parent not in homes:
            yield (
                f"{workspace.format_path(path)}: criteria for Google ADK, which names the file with "
                "`--config_file_path`: copy them into `criteria`, or copy the file next to the eval sets as "
                f"`{TEST_CONFIG}`"
            )


# --- LangGraph ----------------------------------------------------------------------------------------------


def _read_langgraph(workspace: Workspace, folder: Path) -> ProjectImport | None:
    """Return the agents in `langgraph.json`, without eval sets; None if the file does not exist."""
    if not (folder / "langgraph.json").is_file():
        return None
    graphs = [each for each in find_project_files(folder).agents if each.startswith("python:")]
    try:
        config = json.loads(read_or_empty(folder / "langgraph.json"))
    except ValueError as error:
        raise InvalidInputError(f"langgraph.json: is no JSON: {error}") from None
    env = config.get("env") if isinstance(config, Mapping) else None
    names = tuple(env) if isinstance(env, Mapping | list) else find_variables(folder)
    return ProjectImport(
        f"LangGraph ({workspace.format_path(folder / 'langgraph.json')})",
        agents=tuple(_prefix_agent(each, workspace, folder) for each in graphs),
        criteria={"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}},
        criteria_comment="the expected tool calls, in their order; add `response_match_score` for texts",
        environment=tuple(map(str, names)),
        notes=(_NO_EVAL_SETS,),
    )


# --- promptfoo ----------------------------------------------------------------------------------------------


def _read_promptfoo_folder(workspace: Workspace, folder: Path) -> ProjectImport | None:
    found = [parent / name for parent, names in walk_folders(folder) for name in names if name in _PROMPTFOO]
    if not found:
        return None
    project = _read_promptfoo(workspace, found[0])
    more = [f"{workspace.format_path(each)}: a gate takes one configuration" for each in found[1:]]
    return replace(project, lost=(*project.lost, *more))


def _read_promptfoo(workspace: Workspace, path: Path) -> ProjectImport:
    from evalgate.datasets.promptfoo import read_promptfoo

    shown_as = workspace.format_path(path)
    project = read_promptfoo(path, shown_as)
    if not project.eval_set.cases:
        raise InvalidInputError("; ".join([f"{shown_as}: no test can be carried over", *project.lost]))
    out = _choose_name(project.eval_set.eval_set_id, {})
    files = {out: _render_eval_set(project.eval_set, out, "adk")[0]}
    agents: list[str] = []
    options: JsonObject = {}
    lost = list(project.lost)
    variables: tuple[str, ...] = ()
    for provider in project.providers:
        adapted = None if agents else adapt_provider(provider, path.parent, workspace)
        if adapted is None:
            why = ": a gate has one agent" if agents else ""
            lost.append(f"{shown_as}: provider `{provider['id']}`{why}")
            continue
        agent, options, adapter = adapted
        agents.append(agent)
        script = SCRIPT.fullmatch(str(provider["id"]))
        variables = find_script_variables(read_or_empty(path.parent / script[1])) if script else ()
        files |= {ADAPTER: adapter} if adapter else {}
    written = json.dumps(project.checks)
    notes = [_JUDGED] if '"semantic":' in written or '"embeddings"' in written else []
    notes += [_EXTRA] if '"matches":' in written or '"json_schema":' in written else []
    return ProjectImport(
        f"promptfoo ({shown_as})",
        f": {pluralize(len(project.eval_set.cases), 'case')}",
        (out,),
        tuple(agents),
        files,
        criteria_comment="the assertions of promptfoo's tests",
        criteria=project.budgets,
        checks=project.checks,
        case_rules=project.case_rules,
        agent_options=options,
        environment=tuple(dict.fromkeys([*find_variables(path.parent), *variables])),
        lost=tuple(lost),
        notes=tuple(notes),
    )


# --- DeepEval -----------------------------------------------------------------------------------------------


def _find_kind(path: Path, workspace: Workspace) -> str | None:
    from evalgate.datasets.foreign_datasets import detect_dataset

    # A folder may have many links to files that do not exist: `is_file` leaves them out.
    if path.suffix.lower() not in _DATA_SETS or not path.is_file() or path.stat().st_size > _LARGEST_DATA_SET:
        return None
    try:
        dataset = detect_dataset(path, workspace.format_path(path))
    except InvalidInputError:
        return None
    return dataset.kind if dataset and dataset.is_known and dataset.rows else None


def _read_deepeval_folder(workspace: Workspace, folder: Path) -> ProjectImport | None:
    paths = [
        parent / name
        for parent, names in walk_folders(folder)
        for name in sorted(names)
        if name.endswith(_DATA_SETS) and name not in {"package.json", "tsconfig.json", "langgraph.json"}
    ]
    data_sets = [path for path in paths if _find_kind(path, workspace) == "a DeepEval dataset"]
    return _convert_data_sets(workspace, data_sets, folder) if data_sets else None


def _convert_data_sets(workspace: Workspace, paths: list[Path], folder: Path) -> ProjectImport | None:
    from evalgate.datasets.deepeval_metrics import read_metrics
    from evalgate.datasets.foreign_datasets import convert_dataset, detect_dataset

    files: dict[str, str] = {}
    lost: list[str] = []
    eval_sets: list[EvalSet] = []
    for path in paths:
        shown_as = workspace.format_path(path)
        dataset = detect_dataset(path, shown_as)
        if dataset is None:
            continue
        converted = convert_dataset(dataset, shown_as)
        out = _choose_name(path.stem, files)
        files[out], unwritten = _render_eval_set(converted.eval_set, out, "adk")
        eval_sets.append(converted.eval_set)
        lost += [*converted.missing, *converted.lost, *unwritten]
    sources = [
        parent / name for parent, names in walk_folders(folder) for name in names if name.endswith(".py")
    ]
    metrics = read_metrics(sources, workspace.format_path)
    criteria = dict(metrics.criteria)
    cases = [case for each in eval_sets for case in each.cases]
    if any(case.expects_tool_calls for case in cases) and not criteria:
        criteria["trajectory_recall"] = {"threshold": 0.5, "ignore_args": True}
    has_responses = any(turn.expected.response for case in cases for turn in case.turns)
    if has_responses and "exact_match" not in metrics.checks:
        criteria["response_match_score"] = 0.8
    lost += [*metrics.lost]
    checks = dict(metrics.checks)
    if not has_responses and "exact_match" in checks:
        del checks["exact_match"]
        lost.append("metric ExactMatchMetric: no golden has an expected output")
    return ProjectImport(
        f"DeepEval ({', '.join(map(workspace.format_path, paths))})",
        f": {pluralize(len(cases), 'case')}",
        tuple(files),
        files=files,
        criteria=criteria,
        criteria_comment="DeepEval's metrics; `trajectory_recall` is its ToolCorrectnessMetric",
        checks=checks,
        environment=find_variables(folder),
        lost=tuple(lost),
        notes=(_EXTRA,) if "pattern_match" in checks else (),
    )


def _choose_name(stem: str, taken: Mapping[str, str]) -> str:
    names: Callable[[int], str] = lambda n: f"evals/{stem}{f'-{n}' if n > 1 else ''}.evalset.json"  # noqa: E731
    return next(name for number in range(1, len(taken) + 2) if (name := names(number)) not in taken)


def _render_eval_set(eval_set: EvalSet, out: str, to: str) -> tuple[str, list[str]]:
    """Return the text of the new file `out` in the format `to`, and sentences about content that is lost."""
    from evalgate.datasets.eval_set_paths import build_eval_set_id

    name = build_eval_set_id(Path(out).name)
    written = plugin_registry.get_writer(to).write_eval_set(replace(eval_set, eval_set_id=name, path=out))
    return written.text, [f"{out}: {sentence}" for sentence in written.lost]
