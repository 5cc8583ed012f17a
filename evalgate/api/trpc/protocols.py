"""The parts that users can implement themselves, with the methods of tRPC-Agent-Go's interfaces."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from evalgate.api.trpc.criteria import EvalMetric
from evalgate.api.trpc.datasets import EvalCase, EvalSet, Invocation
from evalgate.api.trpc.requests import EvaluateRequest, EvaluateResult, InferenceRequest, InferenceResult
from evalgate.api.trpc.results import EvalSetResult


class EvalSetManager(Protocol):
    """Storage for eval sets. Methods return copies: a changed copy does not change the stored eval set."""

    def get(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Return an eval set.

        Raises:
            NotFoundError: no eval set has this name.
        """
        ...

    def create(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Keep and return an eval set without cases.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        ...

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all eval sets of an app, sorted."""
        ...

    def delete(self, app_name: str, eval_set_id: str) -> None:
        """Remove an eval set.

        Raises:
            NotFoundError: no eval set has this name.
        """
        ...

    def get_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> EvalCase:
        """Return a case.

        Raises:
            NotFoundError: there is no such eval set or case.
        """
        ...

    def add_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Add a case at the end of an eval set.

        Raises:
            NotFoundError: there is no such eval set.
            AlreadyExistsError: the eval set has a case with this id.
        """
        ...

    def update_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Replace the case of the same id.

        Raises:
            NotFoundError: there is no such eval set or case.
        """
        ...

    def delete_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Remove a case.

        Raises:
            NotFoundError: there is no such eval set or case.
        """
        ...


class MetricManager(Protocol):
    """Storage for the metrics of eval sets; an eval set without metrics needs no entry."""

    def list(self, app_name: str, eval_set_id: str) -> list[str]:
        """Return the names of an eval set's metrics in their order."""
        ...

    def get(self, app_name: str, eval_set_id: str, metric_name: str) -> EvalMetric:
        """Return a metric.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...

    def add(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Add a metric.

        Raises:
            AlreadyExistsError: the name is taken.
        """
        ...

    def delete(self, app_name: str, eval_set_id: str, metric_name: str) -> None:
        """Remove a metric.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...

    def update(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Replace the metric of the same name.

        Raises:
            NotFoundError: no metric has this name.
        """
        ...


class EvalResultManager(Protocol):
    """Storage for results."""

    def save(self, app_name: str, eval_set_result: EvalSetResult) -> str:
        """Keep a result, complete its id, name and time, and return its id."""
        ...

    def get(self, app_name: str, eval_set_result_id: str) -> EvalSetResult:
        """Return a result.

        Raises:
            NotFoundError: no result has this id.
        """
        ...

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all results of an app, sorted."""
        ...


class EvalSetLocator(Protocol):
    """Rule for the paths of the files of eval sets."""

    def build(self, base_dir: str, app_name: str, eval_set_id: str, /) -> str:
        """Return the path of an eval set's file."""
        ...

    def list(self, base_dir: str, app_name: str, /) -> Sequence[str]:
        """Return the ids of all eval sets that have a file."""
        ...


class MetricLocator(Protocol):
    """Rule for the paths of the files of metrics."""

    def build(self, base_dir: str, app_name: str, eval_set_id: str, /) -> str:
        """Return the path of the file with an eval set's metrics."""
        ...


class EvalResultLocator(Protocol):
    """Rule for the paths of the files of results."""

    def build(self, base_dir: str, app_name: str, eval_set_result_id: str, /) -> str:
        """Return the path of a result's file."""
        ...

    def list(self, base_dir: str, app_name: str, /) -> Sequence[str]:
        """Return the ids of all results that have a file."""
        ...


class Evaluator(Protocol):
    """Scorer of the turns of one run of a case."""

    @property
    def name(self) -> str:
        """Return the name that metrics refer to."""
        ...

    @property
    def description(self) -> str:
        """Return a sentence about what is scored."""
        ...

    def evaluate(
        self, actuals: Sequence[Invocation], expecteds: Sequence[Invocation], metric: EvalMetric, /
    ) -> EvaluateResult | Awaitable[EvaluateResult]:
        """Return the scores of one run, with one result for each actual turn. May be asynchronous.

        `actuals` and `expecteds` have the same length. An exception fails the case without scores, as in
        tRPC-Agent-Go, and its text becomes part of the case's error message.
        """
        ...


class Service(Protocol):
    """Service for the two phases of an evaluation, inference and scoring, each usable alone."""

    async def inference_async(self, request: InferenceRequest) -> list[InferenceResult]:
        """Run the agent on the cases of an eval set, in their order."""
        ...

    async def evaluate_async(self, request: EvaluateRequest) -> EvalSetResult:
        """Score the results of the inference, and keep and return the result."""
        ...
