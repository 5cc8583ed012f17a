"""Build the metrics that a thresholds file names, with their options."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from pydantic import BaseModel, ValidationError

from evalgate.config.schema.criteria import CheckConfig, CriterionConfig
from evalgate.config.schema.thresholds import NEWEST_ADK, Config, Thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.plugin_registry import find_third_party_plugins, translate_plugin_errors
from evalgate.core.protocols import (
    AsyncCloseable,
    DescribesOptions,
    LlmJudged,
    Metric,
    MetricCode,
    MetricContext,
    MetricEnvironment,
    MetricType,
)
from evalgate.core.types import Criterion
from evalgate.datasets.fingerprint import compute_metric_fingerprint
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import format_location, translate_validation_error
from evalgate.llm.judge_resolver import JudgeNotConfiguredError, JudgeResolver
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.base_branch import RuleFiles
from evalgate.system.workspace import Workspace

_TRPC_PREFIX = "trpc/"


def build_metric_context(
    thresholds: Thresholds,
    config: Config,
    workspace: Workspace,
    judge_resolver: JudgeResolver,
    rule_files: RuleFiles,
) -> MetricContext:
    """Build the context with which all metrics of a run are built.

    `config` is the config of `thresholds` with the options of the command line applied. In the
    context, the fields `folder` and `is_literal` keep their defaults: `bind_metrics` sets these fields for
    each thresholds file.
    """

    def load_personas() -> Mapping[str, object]:
        from evalgate.runner import user_factory  # only if a metric judges simulated users

        return user_factory.load_personas(config.user, thresholds, rule_files.choose_version)

    return MetricContext(
        config.adk_release,
        judge_resolver,
        locate=rule_files.choose_version,
        workspace=workspace.folder,
        is_recording=config.is_replay,
        load_personas=load_personas,
    )


def bind_metrics(
    thresholds: Thresholds, context: MetricContext, environment: MetricEnvironment
) -> tuple[BoundMetric, ...]:
    """Build the metrics of a thresholds file, one for each criterion.

    Raises:
        InvalidInputError: a metric is unknown, or an option is wrong. The error lists all such problems.
    """
    problems: list[Problem] = []
    bound = []
    context = replace(context, folder=thresholds.folder, is_literal=thresholds.dialect != "evalgate")
    for criterion in thresholds.effective_criteria:
        name = criterion.implementation
        place = thresholds.locate_criterion(criterion)
        asked_for = Problem(thresholds.file, *thresholds.find_position(place), f"`{format_location(place)}`")
        try:
            problems += _check_threshold_reachable(criterion, thresholds)
            with translate_plugin_errors("metrics", plugin_registry.METRICS, name, asked_for):
                code = _read_code(criterion, thresholds, environment)
                metric = _build_metric(criterion, thresholds, context, environment, code)
                bound.append(_bind_metric(criterion, metric, code.digest if code else ""))
        except InvalidInputError as error:
            problems += error.problems
    if problems:
        raise InvalidInputError(sorted(problems))
    return tuple(bound)


@asynccontextmanager
async def close_metrics(bound_metrics: Iterable[BoundMetric]) -> AsyncIterator[None]:
    """Return a context manager; the end of its `with` block closes each metric that holds resources.

    A metric that is bound several times is closed once.
    """
    metrics = {id(bound.metric): bound.metric for bound in bound_metrics}
    async with AsyncExitStack() as stack:
        for metric in metrics.values():
            if isinstance(metric, AsyncCloseable):
                stack.push_async_callback(metric.aclose)
        yield


def find_criterion_problems(thresholds: Thresholds) -> Iterator[Problem]:
    """Yield the problems in criteria that can be found from the thresholds file alone.

    Custom metrics, metrics of other packages, and the settings of judges are not checked.
    """
    context = MetricContext(NEWEST_ADK, folder=thresholds.folder, is_literal=thresholds.dialect != "evalgate")
    for criterion in thresholds.effective_criteria:
        name = criterion.implementation
        if _is_registered(name, thresholds):
            yield from _check_threshold_reachable(criterion, thresholds)
            try:
                _build_registered_metric(
                    plugin_registry.get_own_metric_type(name), criterion, thresholds, context
                )
            except JudgeNotConfiguredError:
                continue
            except InvalidInputError as error:
                yield from error.problems
        elif name not in {
            *thresholds.config.custom_metrics,
            *find_third_party_plugins("metrics", plugin_registry.METRICS),
        }:
            yield _build_unknown_metric_problem(criterion, thresholds)


def describe_ignored_options(thresholds: Thresholds) -> tuple[str, ...]:
    """Return sentences about keys of criteria that Google ADK accepts, but that the metric does not read.

    Return () unless the file is a `test_config.json` of Google ADK.
    """
    if thresholds.dialect != "adk":
        return ()
    from evalgate.datasets.ignored_keys import IgnoredKey, KeyChecker

    check = KeyChecker(thresholds.file, thresholds.find_position, [])
    context = MetricContext(NEWEST_ADK, folder=thresholds.folder)
    for criterion in thresholds.criteria:
        if criterion.metric not in plugin_registry.METRICS or not criterion.options:
            continue
        metric_type = plugin_registry.get_own_metric_type(criterion.metric)
        known = tuple(getattr(metric_type, "model_fields", ()))
        try:
            metric_type.build(criterion, context)
        except ValidationError as error:
            check.add_keys(
                IgnoredKey(("criteria", criterion.metric, *found["loc"]), is_refused=False, known=known)
                for found in error.errors()
                if found["type"] == "extra_forbidden" and len(found["loc"]) == 1
            )
        except (JudgeNotConfiguredError, InvalidInputError):
            continue
    return check.build_notices()


def _check_threshold_reachable(criterion: Criterion, thresholds: Thresholds) -> list[Problem]:
    """Return a problem if a threshold in a `test_config.json` is so low that every score reaches it.

    Return [] otherwise. evalgate's own files need no check: thresholds outside of the metric's range are
    refused when such a file is read. Metrics of other packages are not checked: their range is not known.
    """
    # Google ADK accepts any threshold. A threshold above all scores fails every case, which users notice. A
    # threshold below all scores passes every agent.
    low, high = min(criterion.range), max(criterion.range)
    if (
        thresholds.dialect != "adk"
        or criterion.threshold >= low
        or criterion.metric not in plugin_registry.METRICS
    ):
        return []
    message = (
        f"`criteria.{criterion.metric}`: no score misses the threshold {criterion.threshold:g}: "
        f"its scores are between {low:g} and {high:g}"
    )
    return [Problem(thresholds.file, *thresholds.find_position(("criteria", criterion.metric)), message)]


def build_final_state_metric() -> BoundMetric:
    """Build the metric that compares final session states, for eval sets without a criterion for it."""
    criterion = Criterion(plugin_registry.FINAL_STATE, 1.0)
    metric_type = plugin_registry.get_own_metric_type(plugin_registry.FINAL_STATE)
    return _bind_metric(criterion, metric_type.build(criterion, MetricContext(NEWEST_ADK)))


def _bind_metric(criterion: Criterion, metric: Metric, code: str = "") -> BoundMetric:
    if isinstance(metric, DescribesOptions):
        own: object = metric.describe_options()
    else:
        own = metric.model_dump(mode="json") if isinstance(metric, BaseModel) else dict(criterion.options)
    options = [own, code] if code else own
    judge = metric.judged_by if isinstance(metric, LlmJudged) else None
    fingerprint = compute_metric_fingerprint(criterion.implementation, options, judge)
    return BoundMetric(criterion, metric, fingerprint)


def _build_metric(
    criterion: Criterion,
    thresholds: Thresholds,
    context: MetricContext,
    environment: MetricEnvironment,
    code: MetricCode | None,
) -> Metric:
    if code is not None:
        from evalgate.metrics.custom_metric_process import build_custom_metric

        config = thresholds.config.custom_metrics[criterion.implementation]
        return build_custom_metric(criterion, config, environment, code)
    name = criterion.implementation
    is_of_other_dialect = name in plugin_registry.METRICS and not _is_registered(name, thresholds)
    metric_type = None if is_of_other_dialect else plugin_registry.find_metric_type(name)
    if metric_type is None:
        raise InvalidInputError([_build_unknown_metric_problem(criterion, thresholds)])
    try:
        return _build_registered_metric(metric_type, criterion, thresholds, context)
    except JudgeNotConfiguredError as error:
        where = thresholds.find_position(thresholds.locate_criterion(criterion))
        message = f"`{criterion.metric}` is judged by a model; {error}"
        raise InvalidInputError([Problem(thresholds.file, *where, message)]) from None


def _build_registered_metric(
    metric_type: MetricType,
    criterion: Criterion,
    thresholds: Thresholds,
    context: MetricContext,
) -> Metric:
    try:
        return metric_type.build(criterion, context)
    except ValidationError as error:
        unknown = {str(found["loc"][-1]) for found in error.errors() if found["type"] == "extra_forbidden"}
        if thresholds.dialect != "adk" or not unknown & criterion.options.keys():
            problems = _convert_option_errors(error, metric_type, criterion, thresholds)
            raise InvalidInputError(problems) from None
    # Again without the keys that the metric does not read, which Google ADK accepts.
    known = {name: value for name, value in criterion.options.items() if name not in unknown}
    return _build_registered_metric(metric_type, replace(criterion, options=known), thresholds, context)


def _read_code(
    criterion: Criterion, thresholds: Thresholds, environment: MetricEnvironment
) -> MetricCode | None:
    """Return the code of a custom metric; None for any other metric.

    Raises:
        InvalidInputError: evalgate has a metric of the same name, or the code cannot be read.
    """
    name = criterion.implementation
    config = thresholds.config.custom_metrics.get(name)
    if config is None:
        return None
    if name in plugin_registry.METRICS:
        where = thresholds.find_position(("custom_metrics", name))
        message = f"`{name}` is a metric of evalgate's own: give yours another name"
        raise InvalidInputError([Problem(thresholds.file, *where, message)])
    from evalgate.metrics.custom_metric_code import read_current_code

    return read_current_code(environment, config.entry)


def adopt_custom_metrics(adjacent: Thresholds, thresholds: Thresholds) -> Thresholds:
    """Return `adjacent`, the thresholds of a `.metrics.json`, with the custom metrics of `thresholds` added.

    A `.metrics.json` of tRPC-Agent-Go may name evaluators in Go code, which evalgate cannot call. Custom
    metrics (Python functions) of the same names replace them. If `adjacent` is the content of another kind of
    file, it is returned unchanged.
    """
    if adjacent.dialect != "trpc" or not thresholds.config.custom_metrics:
        return adjacent
    config = adjacent.config.model_copy(update={"custom_metrics": thresholds.config.custom_metrics})
    criteria = tuple(
        replace(each, range=config.get_score_range(each.evaluator))
        if each.evaluator in config.custom_metrics
        else each
        for each in adjacent.criteria
    )
    return replace(adjacent, config=config, criteria=criteria)


def _is_registered(name: str, thresholds: Thresholds) -> bool:
    """Return True if `name` is a metric of evalgate's own, and a file like `thresholds` may name it.

    A `.metrics.json` may name only metrics with the prefix `trpc/`, and metrics of sections such as `checks`.
    Any other thresholds file may name every metric.
    """
    if name in plugin_registry.SECTION_METRICS:
        return True
    return name in plugin_registry.METRICS and (thresholds.dialect != "trpc" or name.startswith(_TRPC_PREFIX))


def _build_unknown_metric_problem(criterion: Criterion, thresholds: Thresholds) -> Problem:
    position = thresholds.find_position(("criteria", criterion.metric))
    from evalgate.core.did_you_mean import did_you_mean

    own = [*thresholds.config.custom_metrics, *find_third_party_plugins("metrics", plugin_registry.METRICS)]
    if thresholds.dialect == "trpc":
        name = criterion.evaluator
        theirs = [
            each.removeprefix(_TRPC_PREFIX)
            for each in plugin_registry.METRICS
            if each.startswith(_TRPC_PREFIX)
        ]
        # tRPC-Agent-Go silently skips a metric without an evaluator; evalgate reports it as a problem.
        hint = did_you_mean(name, [*theirs, *own]) or (
            f" Define a Python function as `custom_metrics.{name}` in evalgate.yaml, which is read unless "
            "--thresholds names another file."
        )
        text = f"`{name}` is no evaluator of tRPC-Agent-Go's own, and Go code cannot be called.{hint}"
        return Problem(thresholds.file, *position, text)
    known = [*plugin_registry.METRICS, *own]
    hint = did_you_mean(criterion.metric, known) or f" Known metrics: {join_quoted(sorted(known))}."
    return Problem(
        thresholds.file, *position, f"`{criterion.metric}` is not a metric that evalgate knows.{hint}"
    )


def _convert_option_errors(
    error: ValidationError, metric_type: MetricType, criterion: Criterion, thresholds: Thresholds
) -> list[Problem]:
    prefix = thresholds.locate_criterion(criterion)
    model: object = getattr(metric_type, "options_type", metric_type)
    settings = CheckConfig if criterion.evaluator in plugin_registry.SECTION_METRICS else CriterionConfig
    common = settings.model_fields if thresholds.dialect == "evalgate" else ()

    def list_known_keys(location: Location) -> Iterable[str]:
        return common if location == prefix else ()

    return translate_validation_error(
        error,
        file=thresholds.file,
        position=thresholds.find_position,
        known_keys=list_known_keys,
        model=model if isinstance(model, type) and issubclass(model, BaseModel) else None,
        prefix=prefix,
    )


def check_runs(thresholds: Thresholds, config: Config) -> None:
    """Check that each case is run often enough for the criteria with pass^k or pass@k.

    Raises:
        InvalidInputError: the k of a criterion is greater than the number of runs, or greater than
            `max_runs` if the number of runs is `auto`.
    """
    runs = config.gate.max_runs if config.runs == "auto" else config.runs
    problems = [
        Problem(
            thresholds.file,
            *thresholds.find_position(thresholds.locate_criterion(criterion)),
            f"{rule.kind} with k = {rule.k} needs as many `runs`, not {runs}",
        )
        for criterion in thresholds.criteria
        if (rule := criterion.reliability) is not None and rule.k > runs
    ]
    if problems:
        raise InvalidInputError(problems)
