"""Google ADK's `AgentEvaluator`, with the signatures, defaults and assertions of release 2.3.0."""

import importlib
import inspect
import os
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalgate.api.adk_documents import write_file
from evalgate.api.adk_result_managers import save_record
from evalgate.api.adk_results import EvalConfig, get_adk_type
from evalgate.api.evaluation import evaluate_plan
from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan, load_sources
from evalgate.api.record import Record
from evalgate.config.loader import parse_adk_config
from evalgate.core import plugin_registry
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import format_score
from evalgate.core.plugin_registry import FINAL_STATE
from evalgate.core.types import EvalSet, RunMetric, RunResult, SessionInput, TurnResult
from evalgate.reporting.detailed_results import build_invocation_cells, format_grid
from evalgate.runner.default_criteria import DEFAULT_THRESHOLDS

NUM_RUNS = 2
"""Default number of runs of each case."""
_AT_ONCE = 4  # conversations: the default of `parallelism` in Google ADK's InferenceConfig
_MESSAGES = {
    True: "Following are all the test failures.",
    False: "Following are all the test failures. If you looking to get more details on the failures, then "
    "please re-run this test with `print_detailed_results` set to `True`.",
}
"""First line of the AssertionError, in Google's own words, by the value of `print_detailed_results`."""


class AgentEvaluator:
    """Evaluator of Google ADK agents in tests. Every method is static, as in Google's class.

    >>> AgentEvaluator.find_config_for_test_file("tests/weather.test.json").criteria
    {'tool_trajectory_avg_score': 1.0, 'response_match_score': 0.8}
    """

    @staticmethod
    def find_config_for_test_file(test_file: str) -> Any:
        """Return the `test_config.json` next to a test file. If there is none, return Google ADK's defaults.

        The result is an `EvalConfig`: Google's if Google ADK is installed, otherwise evalgate's.

        Args:
            test_file: Path of the test file, which is not read.

        Raises:
            InvalidInputError: `test_config.json` cannot be read or is no JSON object. Or it has an unknown
                key but no `criteria`: the key may be a misspelt `criteria`.
            pydantic.ValidationError: a value in `test_config.json` has the wrong form.
        """
        path = Path(test_file).parent / "test_config.json"
        _, defaults = DEFAULT_THRESHOLDS["adk"]
        value: dict[str, Any] = {"criteria": {each.metric: each.threshold for each in defaults.criteria}}
        if path.is_file():
            value = _read_json_object(path)
            _check_criteria(value, path)
        return get_adk_type("EvalConfig").model_validate(value)

    @staticmethod
    async def evaluate_eval_set(
        agent_module: str,
        eval_set: Any,
        criteria: Mapping[str, float] | None = None,
        eval_config: Any = None,
        num_runs: int = NUM_RUNS,
        agent_name: str | None = None,
        print_detailed_results: bool = True,
        *,
        app_name: str | None = None,
        eval_set_results_manager: Any = None,
    ) -> Record:
        """Run an eval set against a module's agent; return the record if every threshold is reached.

        As in Google's class, the mean of a metric over all turns and runs of a case must reach the threshold.
        Unlike in Google's class, the evaluation also fails in these situations:

        - The eval set has no cases, or a case is evaluated by no metric.
        - The agent crashed, or a metric raised an error, in a run of a case.
        - A metric set the status `failed` in a run for another reason than the threshold.

        Args:
            agent_module: Dotted path of a module with the agent: an object `root_agent`, or a function
                `get_agent_async` that returns the agent. Both are searched in the module's member `agent`,
                then in the module itself.
            eval_set: An `EvalSet`, Google's or evalgate's.
            criteria: Deprecated: a threshold for each metric name. If it is not empty, it replaces
                `eval_config`.
            eval_config: The criteria: an `EvalConfig`, Google's or evalgate's. May be None only if `criteria`
                are given.
            num_runs: Runs of each case.
            agent_name: Name of a sub-agent to evaluate in place of the root agent.
            print_detailed_results: Whether to print a table for each metric that fails.
            app_name: Name of the app that the results are stored under, as in newer releases of ADK.
            eval_set_results_manager: Manager that stores the results, Google's or evalgate's. It stores them
                before a failure is raised. None: they are not stored.

        Raises:
            AssertionError: a case fails; the message has a line for each failed run, and for each metric that
                failed in a case. Or the agent has no sub-agent `agent_name`.
            ValueError: neither `eval_config` nor `criteria` is given, the module has no agent, or a manager
                is given without an `app_name`.
            ImportError: the module cannot be imported.
            InvalidInputError: the eval set or the configuration is invalid.
            EvalgateError: the agent cannot be set up.
        """
        if criteria:
            warnings.warn("`criteria` is deprecated: use `eval_config`", DeprecationWarning, stacklevel=2)
            eval_config = EvalConfig(criteria=dict(criteria))
        if eval_config is None:
            raise ValueError("`eval_config` is required.")
        _check_app_name(app_name, eval_set_results_manager)
        agent = await _load_agent(agent_module, agent_name)
        thresholds = parse_adk_config(_to_json_object(eval_config), Path.cwd())
        options = EvaluationOptions(built_thresholds=thresholds, runs=num_runs, concurrency=_AT_ONCE)
        record = await evaluate_plan(build_evaluation_plan(eval_set, agent, options))
        # Results are stored under the name of the module, not under that of an object in it.
        record = replace(record, agent=replace(record.agent, what=agent_module))
        if eval_set_results_manager is not None:
            save_record(eval_set_results_manager, record, app_name or "")
        failures = list(_find_failures(record, agent_name, show=print_detailed_results))
        if failures:
            raise AssertionError("\n".join([_MESSAGES[print_detailed_results], *failures]))
        return record

    @staticmethod
    async def evaluate(
        agent_module: str,
        eval_dataset_file_path_or_dir: str,
        num_runs: int = NUM_RUNS,
        agent_name: str | None = None,
        initial_session_file: str | None = None,
        print_detailed_results: bool = True,
        *,
        app_name: str | None = None,
        eval_set_results_manager: Any = None,
    ) -> list[Record]:
        """Evaluate one file, or every `*.test.json` of a folder and its subfolders, one after the other.

        The criteria come from the `test_config.json` next to each file. If there is none, Google ADK's
        defaults apply. The first file that fails ends the evaluation, as in Google's class.

        Args:
            agent_module: Dotted path of a module with the agent: an object `root_agent`, or a function
                `get_agent_async` that returns the agent. Both are searched in the module's member `agent`,
                then in the module itself.
            eval_dataset_file_path_or_dir: A `.test.json` or `.evalset.json` file, or a folder.
            num_runs: Runs of each case.
            agent_name: Name of a sub-agent to evaluate in place of the root agent.
            initial_session_file: JSON file with the session that every case starts with; only for files in
                ADK's old format, a list of turns. None: no session.
            print_detailed_results: Whether to print a table for each metric that fails.
            app_name: Name of the app that the results are stored under, as in newer releases of ADK.
            eval_set_results_manager: Manager that stores the results, Google's or evalgate's. It stores them
                before a failure is raised. None: they are not stored.

        Raises:
            AssertionError: a case fails; the message has a line for each failed run, and for each metric that
                failed in a case. Or the agent has no sub-agent `agent_name`. Or `initial_session_file` is
                given for an eval set.
            ValueError: the module has no agent, or a manager is given without an `app_name`.
            ImportError: the module cannot be imported.
            InvalidInputError: the folder has no `*.test.json`, a file cannot be read, or an eval set or a
                `test_config.json` is invalid.
            pydantic.ValidationError: a value in a `test_config.json` has the wrong form.
            EvalgateError: the agent cannot be set up.
        """
        _check_app_name(app_name, eval_set_results_manager)
        return [
            await AgentEvaluator.evaluate_eval_set(
                agent_module,
                _load_test_file(file, initial_session_file),
                eval_config=AgentEvaluator.find_config_for_test_file(file),
                num_runs=num_runs,
                agent_name=agent_name,
                print_detailed_results=print_detailed_results,
                app_name=app_name,
                eval_set_results_manager=eval_set_results_manager,
            )
            for file in _list_test_files(eval_dataset_file_path_or_dir)
        ]

    @staticmethod
    def migrate_eval_data_to_new_schema(
        old_eval_data_file: str, new_eval_data_file: str, initial_session_file: str | None = None
    ) -> None:
        """Convert a test file in ADK's old format, a list of turns, to an eval set.

        Args:
            old_eval_data_file: File in the old format.
            new_eval_data_file: File to write, which is created or replaced. Its folder must exist.
            initial_session_file: JSON file with the session that every case starts with; None: no session.

        Raises:
            ValueError: the path of the old or the new file is empty.
            AssertionError: a session file is given, but the old file holds an eval set already.
            InvalidInputError: the old file or the session file is invalid, or the new file cannot be written.
        """
        if not old_eval_data_file or not new_eval_data_file:
            raise ValueError("One of old_eval_data_file or new_eval_data_file is empty.")
        eval_set = _load_test_file(old_eval_data_file, initial_session_file, warns=False)
        folder = Path(new_eval_data_file).parent
        if not folder.is_dir():
            raise InvalidInputError(f"{new_eval_data_file}: there is no folder {folder}")
        text = plugin_registry.get_writer("adk").write_eval_set(eval_set).text
        write_file(Path(new_eval_data_file), text)


def _check_app_name(app_name: str | None, eval_set_results_manager: object) -> None:
    if eval_set_results_manager is not None and not app_name:
        raise ValueError("app_name is required when eval_set_results_manager is provided.")


def _list_test_files(path: str) -> list[str]:
    if not Path(path).is_dir():
        return [path]
    found = [
        str(Path(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
        if name.endswith(".test.json")
    ]
    if not found:
        raise InvalidInputError(f"{path}: this folder has no `*.test.json` file")
    return found


def _load_test_file(path: str, session_file: str | None, *, warns: bool = True) -> EvalSet:
    """Read a test file: an eval set, or a list of turns in ADK's old format.

    If `warns` is True, the old format causes a DeprecationWarning.

    Raises:
        AssertionError: the file is an eval set and `session_file` is given. As in Google ADK, only the old
            format takes a session file.
        InvalidInputError: a file is invalid.
    """
    (eval_set,) = load_sources(path, None, Path.cwd())
    is_old = eval_set.format_name != "adk"
    if is_old and warns:
        warnings.warn(
            f"Contents of {path} appear to be in older format. To avoid this warning, please update your "
            "test files to contain data in EvalSet schema. You can use `migrate_eval_data_to_new_schema` for "
            "migrating your old test files.",
            DeprecationWarning,
            stacklevel=3,
        )
    if session_file is None:
        return eval_set
    if not is_old:
        raise AssertionError(
            "Initial session should be specified as a part of EvalSet file. Explicit initial session is only "
            "needed, when specifying data in the older schema."
        )
    read_session: Callable[[Path, str], SessionInput] = plugin_registry.load_object(
        "evalgate.integrations.adk.legacy_evalset:read_session_file"
    )
    session = read_session(Path(session_file), session_file)
    return replace(eval_set, cases=tuple(replace(case, session=session) for case in eval_set.cases))


async def _load_agent(module_name: str, agent_name: str | None) -> Any:
    """Import a module and return its agent; with `agent_name`, return the sub-agent of this name.

    As in Google ADK, the agent is `root_agent` or the result of `get_agent_async()`. Either name is searched
    in the module's member `agent`, then in the module itself.

    Raises:
        ImportError: the module cannot be imported.
        ValueError: the module has no agent.
        AssertionError: the root agent has no sub-agent `agent_name`.
    """
    module: Any = importlib.import_module(module_name)
    holders: list[Any] = [getattr(module, "agent", None), module]
    # ADK's code requires a member or module `agent`; ADK's guide passes `my_package.travel_agent`.
    for holder in holders:
        if hasattr(holder, "root_agent"):
            root = holder.root_agent
            break
        if hasattr(holder, "get_agent_async"):
            found = holder.get_agent_async()
            found = await found if inspect.isawaitable(found) else found
            # ADK's code expects the agent and its exit stack; in ADK's guide, the agent alone is returned.
            root = found[0] if isinstance(found, tuple) else found
            break
    else:
        raise ValueError(f"Module {module_name} does not have a root_agent or get_agent_async method.")
    if not agent_name:
        return root
    find_agent = getattr(root, "find_agent", None)  # a function has no agents below it
    agent = None if find_agent is None else find_agent(agent_name)
    if not agent:
        raise AssertionError(f"Sub-Agent `{agent_name}` not found.")
    return agent


def _find_failures(record: Record, agent_name: str | None, *, show: bool) -> Iterator[str]:
    if not record.cases:
        yield f"Nothing was evaluated for {agent_name}: the eval set has no cases."
    for case in record.cases:
        for run in case.runs:
            if run.failure is not None:
                yield f"{case.eval_id} for {agent_name} {run.outcome}: {run.failure.message}"
        # Google's metrics must have a score. evalgate's own metric of the final state is left out if it has
        # none, because the case expects no state.
        metrics = [
            each for each in case.metrics if (each.name, each.status) != (FINAL_STATE, "not_evaluated")
        ]
        if not metrics:
            yield f"{case.eval_id} for {agent_name} was not evaluated."
        for metric in metrics:
            results = [each for run in case.runs for each in run.metrics if each.name == metric.name]
            turns = list(_iter_scored_turns(case.runs, metric.name))
            # A metric that scores the whole conversation has no scores of single turns.
            scores = [score for _, score in turns] if turns else [each.score for each in results]
            found = [score for score in scores if score is not None]
            mean = statistics.mean(found) if found else None
            # The rows of the table say why, but there are none without scores of turns.
            why = "" if turns else next((f" ({each.reason})" for each in results if each.reason), "")
            problem = _find_problem(results, mean, metric.threshold, why)
            if problem is None:
                continue
            if show:
                _print_table(metric.name, metric.threshold, mean, turns)
            yield f"{metric.name} for {agent_name} Failed. {problem}"


def _find_problem(results: Sequence[RunMetric], mean: float | None, threshold: float, why: str) -> str | None:
    """Return the reason why a metric fails on a case, or None if the metric passes.

    `results` has the metric's result in each run of the case. `mean` is the mean of the metric's scores over
    all turns and runs; None if there are no scores. `why` is the explanation that the metric gave for its
    score, in parentheses, or "". The text about a missing or too low mean ends with `why`.
    """
    errors = [each.reason for each in results if each.status == "errored"]
    if errors:
        return f"It was errored in {len(errors)} of {len(results)} runs: {errors[0]}"
    if mean is None or mean < threshold:
        return f"Expected {threshold}, but got {mean}{why}."
    # If `literal` is True, only the threshold decided the status of the run. That status is ignored, because
    # the mean decides, as in Google's class. A status that another rule of the metric decided counts.
    refused = [each.reason for each in results if each.status == "failed" and not each.literal]
    if refused:
        reason = f": {refused[0]}" if refused[0] else ""
        return f"Its own status is failed in {len(refused)} of {len(results)} runs{reason}"
    return None


def _iter_scored_turns(runs: Sequence[RunResult], metric: str) -> Iterator[tuple[TurnResult, float | None]]:
    for run in runs:
        for turn in run.turns:
            for found in turn.metrics:
                if found.name == metric:
                    yield turn, found.score


def _print_table(
    metric: str, threshold: float, mean: float | None, turns: Sequence[tuple[TurnResult, float | None]]
) -> None:
    status = "NOT_EVALUATED" if mean is None else "FAILED"
    print(  # noqa: T201  the table is the function's result
        f"Summary: `EvalStatus.{status}` for Metric: `{metric}`. Expected threshold: `{threshold}`, actual "
        f"value: `{mean}`."
    )
    header = (
        "eval_status",
        "score",
        "threshold",
        "prompt",
        "expected_response",
        "actual_response",
        "expected_tool_calls",
        "actual_tool_calls",
    )
    rows = [_build_row(turn, score, threshold) for turn, score in turns]
    print(format_grid([header, *rows]))  # noqa: T201
    print("\n\n")  # noqa: T201


def _build_row(turn: TurnResult, score: float | None, threshold: float) -> tuple[str, ...]:
    passed = score is not None and score >= threshold
    status = "NOT_EVALUATED" if score is None else "PASSED" if passed else "FAILED"
    return (
        status,
        "" if score is None else format_score(score, beside=threshold),
        str(threshold),
        *build_invocation_cells(turn),
    )


def _to_json_object(config: Any) -> dict[str, Any]:
    dump = getattr(config, "model_dump", None)
    if not callable(dump):
        raise InvalidInputError(
            f"`eval_config` is a {type(config).__name__}; pass an `EvalConfig`, or what "
            "`AgentEvaluator.find_config_for_test_file` returns"
        )
    # Google's type would write a criterion without the fields of its subclass.
    found: dict[str, Any] = dump(mode="json", exclude_none=True, serialize_as_any=True)
    return found


def _read_json_object(path: Path) -> dict[str, Any]:
    from evalgate.documents.strict_json import read_json

    value = read_json(path, str(path)).value
    if not isinstance(value, dict):
        raise InvalidInputError(f"{path}: must be an object with `criteria`")
    return value


def _check_criteria(value: dict[str, Any], path: Path) -> None:
    # Google's type ignores unknown keys: a misspelt `criteria` would silently mean no criteria.
    known = {"criteria", "custom_metrics", "customMetrics", "user_simulator_config", "userSimulatorConfig"}
    unknown = [key for key in value if key not in known]
    if unknown and not value.get("criteria"):
        hint = did_you_mean(unknown[0], known)
        raise InvalidInputError(f"{path}: has no `criteria`, and an unknown key `{unknown[0]}`.{hint}")
