"""Metrics and criteria of tRPC-Agent-Go as objects.

The field `compare` of a criterion may hold a function, which replaces the built-in rules. If the function
raises an exception, the comparison fails with the exception's text as the reason. If `ignore` is True, it is
not called, because nothing is compared. The function is not written to files. Unlike in tRPC-Agent-Go, a case
also fails if the function does not return a bool.
"""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from evalgate.api.arguments import require_instance
from evalgate.api.trpc.wire import WireModel
from evalgate.core.errors import InvalidInputError


class TextCriterion(WireModel):
    """Rules for comparing two texts: `exact` (the default), `contains` or `regex`, or a function.

    >>> TextCriterion(match_strategy="contains", case_insensitive=True).to_wire()
    {'caseInsensitive': True, 'matchStrategy': 'contains'}
    >>> TextCriterion(compare=lambda actual, expected: actual.strip() == expected.strip()).to_wire()
    {}
    """

    ignore: bool = False
    case_insensitive: bool = False
    match_strategy: str = ""
    length: dict[str, Any] | None = None
    compare_name: str = ""
    compare: Callable[[str, str], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that gets the actual and the expected text, and returns True if they match."""


class JSONCriterion(WireModel):
    """Rules for comparing two JSON values.

    >>> JSONCriterion(ignore_tree={"metadata": {"updatedAt": True}}, number_tolerance=1e-6).to_wire()
    {'ignoreTree': {'metadata': {'updatedAt': True}}, 'numberTolerance': 1e-06}
    """

    ignore: bool = False
    ignore_tree: dict[str, Any] = Field(default_factory=dict)
    only_tree: dict[str, Any] = Field(default_factory=dict)
    match_strategy: str = ""
    number_tolerance: float | None = None
    """Greatest difference of two numbers that count as equal; None: 1e-6."""
    valid: bool = False
    schema_: Annotated[Any, Field(alias="schema")] = None
    """JSON Schema that the actual value must meet."""
    compare_name: str = ""
    compare: Callable[[Any, Any], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that gets the actual and the expected value, and returns True if they match."""


class ToolTrajectoryStrategy(WireModel):
    """Rules for comparing name, arguments and result of two tool calls. None: the part is not compared.

    >>> ToolTrajectoryStrategy(name=TextCriterion(), result=JSONCriterion(ignore=True)).to_wire()
    {'name': {}, 'result': {'ignore': True}}
    """

    name: TextCriterion | None = None
    arguments: JSONCriterion | None = None
    result: JSONCriterion | None = None


class ToolTrajectoryCriterion(WireModel):
    """Rules for comparing the tool calls of a turn.

    >>> ToolTrajectoryCriterion(order_sensitive=True).to_wire()
    {'orderSensitive': True}
    """

    default_strategy: ToolTrajectoryStrategy | None = None
    tool_strategy: dict[str, ToolTrajectoryStrategy] = Field(default_factory=dict)
    """Strategies for single tools, by tool name. All other tools are compared by `default_strategy`."""
    order_sensitive: bool = False
    subset_matching: bool = False
    compare_name: str = ""
    compare: Callable[[Any, Any], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that gets the actual and the expected `Invocation`, and returns True if they match."""


class FinalResponseCriterion(WireModel):
    """Rules for comparing final responses. Every rule that is not None must be met.

    >>> FinalResponseCriterion(text=TextCriterion(match_strategy="contains")).to_wire()
    {'text': {'matchStrategy': 'contains'}}
    """

    text: TextCriterion | None = None
    json_: Annotated[JSONCriterion | None, Field(alias="json")] = None
    rouge: dict[str, Any] | None = None
    xml: dict[str, Any] | None = None
    compare_name: str = ""
    compare: Callable[[Any, Any], object] | None = Field(default=None, exclude=True, repr=False)
    """Function that gets the actual and the expected `Invocation`, and returns True if they match."""


class RubricContent(WireModel):
    """The text of a rubric, which the judge model reads.

    >>> RubricContent(text="The final answer is correct.").text
    'The final answer is correct.'
    """

    text: str = ""


class Rubric(WireModel):
    """A statement that a judge model checks against the conversation.

    >>> Rubric(id="1", content=RubricContent(text="It is polite.")).to_wire()
    {'id': '1', 'content': {'text': 'It is polite.'}}
    """

    id: str = ""
    content: RubricContent | None = None
    description: str = ""
    type: str = ""


class JudgeModelOptions(WireModel):
    """The judge model. In its text fields, `${NAME}` is replaced by the environment variable NAME.

    Unlike in tRPC-Agent-Go, `api_key` must be a placeholder `${NAME}`. Files keep the placeholder, not the
    key.

    >>> JudgeModelOptions(provider_name="openai", model_name="gpt-4o", num_samples=3).to_wire()
    {'providerName': 'openai', 'modelName': 'gpt-4o', 'numSamples': 3}
    """

    provider_name: str = ""
    model_name: str = ""
    variant: str = ""
    base_url: Annotated[str, Field(alias="baseURL")] = ""
    api_key: str = Field(default="", repr=False)
    extra_fields: dict[str, Any] = Field(default_factory=dict)
    num_samples: int | None = None
    generation_config: dict[str, Any] | None = None


class LLMCriterion(WireModel):
    """The judge model of a metric, and its rubrics.

    >>> LLMCriterion(judge_model=JudgeModelOptions(model_name="gpt-4o")).to_wire()
    {'judgeModel': {'modelName': 'gpt-4o'}}
    """

    rubrics: list[Rubric] = Field(default_factory=list)
    judge_model: JudgeModelOptions | None = None
    template: dict[str, Any] | None = None


class Criterion(WireModel):
    """The criterion of a metric: rules for tool calls or for final responses, or a judge model with rubrics.

    An evaluator reads only the field that belongs to it. For example, an evaluator of tool calls reads only
    `tool_trajectory`.

    >>> Criterion(tool_trajectory=ToolTrajectoryCriterion()).to_wire()
    {'toolTrajectory': {}}
    """

    tool_trajectory: ToolTrajectoryCriterion | None = None
    final_response: FinalResponseCriterion | None = None
    llm_judge: LLMCriterion | None = None


class EvalMetric(WireModel):
    """A metric with the score that it must reach.

    >>> EvalMetric(metric_name="tool_trajectory_avg_score", threshold=1.0).to_wire()
    {'metricName': 'tool_trajectory_avg_score', 'threshold': 1.0}
    """

    metric_name: str = ""
    evaluator_name: str = ""
    """Name of the evaluator in the registry; "": the evaluator with the name of the metric."""
    threshold: float = Field(default=0.0, allow_inf_nan=False)
    criterion: Criterion | None = None
    extension: Any = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_null_threshold(cls, value: object) -> object:
        # Go reads null as 0, a threshold that every score reaches.
        if isinstance(value, Mapping) and "threshold" in value and value["threshold"] is None:
            raise ValueError("has no number as its `threshold`")
        return value


def require_threshold(metric: EvalMetric) -> None:
    """Raise InvalidInputError if `metric` is no `EvalMetric`, or its `threshold` is no finite number.

    Python code may have changed the threshold after the metric was validated.
    """
    require_instance("metric", metric, EvalMetric)
    threshold: object = metric.threshold
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not math.isfinite(metric.threshold):
        raise InvalidInputError(
            f"the threshold of {metric.metric_name!r} is {threshold!r}: it must be a finite number"
        )
