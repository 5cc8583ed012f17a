"""tRPC-Agent-Go's `.metrics.json`: a list of metrics, each with its threshold and its criterion."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import Field

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import Criterion
from evalgate.datasets.ignored_keys import IgnoredKey, KeyChecker
from evalgate.documents.config_file import ConfigDocument
from evalgate.documents.env_expansion import expand_go_env
from evalgate.documents.key_spelling import get_member, match_spelling, normalize_key
from evalgate.documents.strict_json import Location
from evalgate.documents.validation_errors import validate_model
from evalgate.integrations.trpc.file_models import TrpcModel

_PREFIX = "trpc/"
EVALUATORS = (
    "tool_trajectory_avg_score",
    "final_response_avg_score",
    "llm_final_response",
    "llm_rubric_response",
    "llm_rubric_knowledge_recall",
    "llm_rubric_critic",
    "llm_rubric_reference_critic",
    "llm_hallucinations",
    "llm_judge_template",
    "llm_verifier_pairwise",
)
_EXPANDED = ("providerName", "modelName", "variant", "baseURL", "apiKey")
"""Fields of `judgeModel` in which tRPC-Agent-Go expands placeholders."""

_FIRST_RELEASE_CRITERION: Mapping[str, object] = {
    "toolTrajectory": {
        "orderSensitive": True,
        "defaultStrategy": {"name": {}, "arguments": {"numberTolerance": 0}},
    }
}
"""The rule of the first release, which had no criteria: names and arguments in order, no results."""


class _Metric(TrpcModel):
    metric_name: str = Field(alias="metricName", min_length=1)
    evaluator_name: str = Field(default="", alias="evaluatorName")
    # Go omits a threshold of 0 when it writes the file.
    threshold: float = Field(default=0.0, allow_inf_nan=False)
    criterion: dict[str, Any] = Field(default_factory=dict)


def parse_trpc_criteria(
    document: ConfigDocument, environ: Mapping[str, str] | None = None
) -> tuple[Criterion, ...]:
    """Convert each metric of the file to a criterion of the same name.

    A judge's settings may have placeholders such as `${KEY}`. The named variables must be set in `environ`,
    or in `os.environ` if `environ` is None. The placeholders are not expanded, because a record must not hold
    a key.

    Raises:
        InvalidInputError: the file is invalid. The error lists every problem.
    """
    items = document.value if isinstance(document.value, list) else []
    problems: list[Problem] = []
    criteria: dict[str, Criterion] = {}
    position = partial(_find_position, document)
    for index, item in enumerate(items):
        problems += _find_unset_variables(item, index, document, os.environ if environ is None else environ)
        metric = validate_model(
            _Metric, item, problems, file=document.path, position=position, prefix=(index,)
        )
        if metric is None:
            continue
        if fault := _find_fault(metric, criteria):
            problems.append(Problem(document.path, *_find_position(document, (index, "metricName")), fault))
        criteria.setdefault(metric.metric_name, _build_criterion(metric, item))
    if problems or not items:
        raise InvalidInputError(
            sorted(problems) or [Problem(document.path, 1, 1, "the list holds no metric")]
        )
    return tuple(criteria.values())


def find_criterion_position(document: ConfigDocument, location: Location) -> tuple[int, int]:
    """Return the line and column of `location`, which is ("criteria", metric name, key, …).

    Return (1, 1) if the file has no metric of that name.
    """
    items = document.value if isinstance(document.value, list) else []
    for index, item in enumerate(items):
        if location[1:2] == (get_member(item, "metricName"),):
            rest = ("criterion", *location[2:]) if location[2:] else ("metricName",)
            return _find_position(document, (index, *rest))
    return 1, 1


def _find_position(document: ConfigDocument, location: Location) -> tuple[int, int]:
    return document.find_position(match_spelling(document.value, location))


def _build_criterion(metric: _Metric, item: object) -> Criterion:
    name = metric.evaluator_name or metric.metric_name
    options: Mapping[str, object] = metric.criterion
    # Only the first release wrote `metric_name`.
    if not options and isinstance(item, dict) and "metric_name" in item:
        options = _FIRST_RELEASE_CRITERION
    # Any other name means the user's own evaluator, which is looked up when the metrics are built.
    evaluator = _PREFIX + name if name in EVALUATORS else name
    return Criterion(metric.metric_name, metric.threshold, options, evaluator)


def _find_fault(metric: _Metric, earlier: Mapping[str, Criterion]) -> str:
    name = metric.metric_name
    # tRPC-Agent-Go reads metrics by name, so that the first would be scored twice and the second never.
    if name in earlier:
        return f"`{name}` is given twice: give each metric a name, and its evaluator as `evaluatorName`"
    return ""


def _find_unset_variables(
    item: object, index: int, document: ConfigDocument, environ: Mapping[str, str]
) -> Iterator[Problem]:
    model = get_member(get_member(get_member(item, "criterion"), "llmJudge"), "judgeModel")
    for key in _EXPANDED:
        text = get_member(model, key)
        # `os.ExpandEnv` makes an unset variable empty: the judge would be asked without a key, or at
        # another address.
        for name in expand_go_env(text, environ).unset if isinstance(text, str) else ():
            position = _find_position(document, (index, "criterion", "llmJudge", "judgeModel", key))
            message = f"`{key}` names the environment variable `{name}`, which is not set"
            yield Problem(document.path, *position, message)


def describe_ignored_trpc_keys(document: ConfigDocument) -> tuple[str, ...]:
    """Return sentences about ignored keys of a `.metrics.json`, such as misspelt keys.

    Keys within criteria are left out: they depend on the metric and are checked elsewhere.
    """
    check = KeyChecker(document.path, document.find_position, [])
    known = _Metric.get_known_keys()
    check.add_keys(
        IgnoredKey((index, key), is_refused=False, known=tuple(known.values()))
        for index, item in enumerate(document.value if isinstance(document.value, list) else [])
        if isinstance(item, Mapping)
        for key in item
        if normalize_key(key) not in known
    )
    return check.build_notices()
