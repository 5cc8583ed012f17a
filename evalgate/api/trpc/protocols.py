"""Protocols of the parts that users can implement, with the methods of tRPC-Agent-Go's interfaces."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.datasets import EvalCase, EvalSet, Invocation
from evalgate.api.trpc.requests import EvaluateRequest, EvaluateResult, InferenceRequest, InferenceResult
from evalgate.api.trpc.results import EvalSetResult


class EvalSetManager(Protocol):
    """Storage for eval sets. Methods return copies: a change of a copy does not change the stored object."""

    def get(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Return an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
        """
        ...

    def create(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Create an eval set without cases, store it and return it.

        Raises:
            AlreadyExistsError: the eval set exists already.
        """
        ...

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all eval sets of an app, sorted."""
        ...

    def delete(self, app_name: str, eval_set_id: str) -> None:
        """Delete an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
        """
        ...

    def get_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> EvalCase:
        """Return a case of an eval set.

        Raises:
            NotFoundError: the eval set or the case does not exist.
        """
        ...

    def add_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Add a case at the end of an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
            AlreadyExistsError: the eval set has a case with this id.
        """
        ...

    def update_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Replace the case that has the id of `eval_case`.

        Raises:
            NotFoundError: the eval set or the case does not exist.
        """
        ...

    def delete_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Delete a case from an eval set.

        Raises:
            NotFoundError: the eval set or the case does not exist.
        """
        ...


class MetricManager(Protocol):
    """Storage for the metrics of eval sets."""

    def list(self, app_name: str, eval_set_id: str) -> list[str]:
        """Return the names of an eval set's metrics in the order in which they were added."""
        ...

    def get(self, app_name: str, eval_set_id: str, metric_name: str) -> EvalMetric:
        """Return a metric of an eval set.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...

    def add(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Add a metric to an eval set.

        Raises:
            AlreadyExistsError: the eval set has a metric with this name.
        """
        ...

    def delete(self, app_name: str, eval_set_id: str, metric_name: str) -> None:
        """Delete a metric from an eval set.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...

    def update(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Replace the metric that has the name of `metric`.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...


class EvalResultManager(Protocol):
    """Storage for the results of evaluations."""

    def save(self, app_name: str, eval_set_result: EvalSetResult) -> str:
        """Store a result and return its id. First set a missing id, name or timestamp in the result."""
        ...

    def get(self, app_name: str, eval_set_result_id: str) -> EvalSetResult:
        """Return the result with the given id.

        Raises:
            NotFoundError: no result has this id.
        """
        ...

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all results of an app, sorted."""
        ...


class EvalSetLocator(Protocol):
    """Rule for the file paths of the eval sets in a `LocalEvalSetManager`."""

    def build(self, base_dir: str, app_name: str, eval_set_id: str, /) -> str:
        """Return the path of an eval set's file."""
        ...

    def list(self, base_dir: str, app_name: str, /) -> Sequence[str]:
        """Return the ids of an app's eval sets for which a file exists."""
        ...


class MetricLocator(Protocol):
    """Rule for the file paths of the metrics in a `LocalMetricManager`."""

    def build(self, base_dir: str, app_name: str, eval_set_id: str, /) -> str:
        """Return the path of the file with an eval set's metrics."""
        ...


class EvalResultLocator(Protocol):
    """Rule for the file paths of the results in a `LocalEvalResultManager`."""

    def build(self, base_dir: str, app_name: str, eval_set_result_id: str, /) -> str:
        """Return the path of a result's file."""
        ...

    def list(self, base_dir: str, app_name: str, /) -> Sequence[str]:
        """Return the ids of an app's results for which a file exists."""
        ...


class Evaluator(Protocol):
    """Object that scores one run of a case. The `evaluator_name` of a metric chooses its evaluator."""

    @property
    def name(self) -> str:
        """Return the name under which metrics refer to the evaluator."""
        ...

    @property
    def description(self) -> str:
        """Return a sentence that describes the score."""
        ...

    def evaluate(
        self, actuals: Sequence[Invocation], expecteds: Sequence[Invocation], metric: EvalMetric, /
    ) -> EvaluateResult | Awaitable[EvaluateResult]:
        """Score one run, with one result for each actual turn. The method may be asynchronous.

        `actuals` and `expecteds` have the same length. If the method raises an exception, the case fails
        without scores, as in tRPC-Agent-Go. The error message of the case has the exception's text.
        """
        ...


class Service(Protocol):
    """Service for inference and scoring, the two phases of an evaluation. A caller may use only one phase."""

    async def inference_async(self, request: InferenceRequest) -> list[InferenceResult]:
        """Run the agent on the cases of an eval set. Return one result for each case, in the cases' order."""
        ...

    async def evaluate_async(self, request: EvaluateRequest) -> EvalSetResult:
        """Score the results of an inference. Store the scores and return them."""
        ...
