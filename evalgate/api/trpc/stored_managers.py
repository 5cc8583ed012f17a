"""Managers of eval sets, metrics and results that work with any `DocumentStore`."""

import json
import time
import uuid
from collections.abc import Callable
from typing import TypeAlias

from evalgate.api.arguments import require_instance, require_text
from evalgate.api.trpc.criteria import EvalMetric, require_threshold
from evalgate.api.trpc.datasets import EvalCase, EvalSet
from evalgate.api.trpc.errors import AlreadyExistsError, NotFoundError
from evalgate.api.trpc.results import EvalSetResult
from evalgate.api.trpc.stores import DocumentStore
from evalgate.api.trpc.wire import dump_wire, parse_wire, parse_wire_list
from evalgate.core.errors import InvalidInputError

Metrics: TypeAlias = list[EvalMetric]  # an alias, because `list` is a method in the managers


def require_names(**names: str) -> None:
    """Raise InvalidInputError if a name is empty, no text, `.` or `..`, or holds a slash, backslash or NUL.

    Each keyword is the name of an argument, which the error shows. tRPC-Agent-Go does not check names: there,
    `../x` leads to another folder.
    """
    for what, name in names.items():
        require_text(what, name)
        if name in {".", ".."} or any(character in name for character in "/\\\0"):
            raise InvalidInputError(f"`{what}` is {name!r}: it must not contain a slash, nor be `.` or `..`")


def _require_case(eval_case: EvalCase) -> None:
    require_instance("eval_case", eval_case, EvalCase)
    try:
        json.dumps(eval_case.to_wire(), allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"`eval_case` {eval_case.eval_id!r} is no JSON: {error}") from None


class _StoredManager:
    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def close(self) -> None:
        """Close the database connections that this manager opened."""
        self._store.close()


class StoredEvalSetManager(_StoredManager):
    """An `EvalSetManager` that keeps eval sets in a `DocumentStore`. Subclasses choose the store.

    Every method raises InvalidInputError if a name cannot be one part of a path, or if a stored file is
    invalid. It raises StorageError if the store cannot be used.
    """

    def get(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Return an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
            InvalidInputError: the stored file is invalid.
        """
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        return self._parse(app_name, eval_set_id, self._store.read(app_name, eval_set_id))

    def create(self, app_name: str, eval_set_id: str) -> EvalSet:
        """Create an eval set without cases, store it and return it.

        Raises:
            AlreadyExistsError: the eval set exists already.
        """
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        created = EvalSet(eval_set_id=eval_set_id, name=eval_set_id, creation_timestamp=time.time())

        def write_new(before: bytes | None) -> str:
            if before is not None:
                raise AlreadyExistsError(f"the eval set {app_name}/{eval_set_id} exists already")
            return dump_wire(created)

        self._store.change(app_name, eval_set_id, write_new)
        return created

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all eval sets of an app, sorted."""
        require_names(app_name=app_name)
        return sorted(self._store.list(app_name))

    def delete(self, app_name: str, eval_set_id: str) -> None:
        """Delete an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
        """
        require_names(app_name=app_name, eval_set_id=eval_set_id)

        def remove(before: bytes | None) -> None:
            if before is None:
                raise _build_missing_set_error(app_name, eval_set_id)

        self._store.change(app_name, eval_set_id, remove)

    def get_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> EvalCase:
        """Return a case of an eval set.

        Raises:
            NotFoundError: the eval set or the case does not exist.
        """
        eval_set = self.get(app_name, eval_set_id)
        return eval_set.eval_cases[_find_case(eval_set, eval_case_id)]

    def add_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Add a copy of a case at the end of an eval set.

        In the copy, the case and each turn of its `conversation` get the current time if they have no
        timestamp.

        Raises:
            NotFoundError: the eval set does not exist.
            AlreadyExistsError: the eval set has a case with this id.
            InvalidInputError: the case has no id, is no `EvalCase`, or holds a value that JSON cannot hold,
                such as NaN.
        """
        _require_case(eval_case)

        def add(eval_set: EvalSet) -> None:
            if eval_case.eval_id in [each.eval_id for each in eval_set.eval_cases]:
                raise AlreadyExistsError(f"{app_name}/{eval_set_id} has a case {eval_case.eval_id!r} already")
            added = eval_case.model_copy(deep=True)
            added.creation_timestamp = added.creation_timestamp or time.time()
            for turn in added.conversation:
                turn.creation_timestamp = turn.creation_timestamp or time.time()
            eval_set.eval_cases.append(added)

        self._change(app_name, eval_set_id, eval_case.eval_id, add)

    def update_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Replace the case that has the id of `eval_case`.

        Raises:
            NotFoundError: the eval set or the case does not exist.
            InvalidInputError: the stored file is invalid, or the case has no id, is no `EvalCase`, or holds a
                value that JSON cannot hold.
        """
        _require_case(eval_case)

        def update(eval_set: EvalSet) -> None:
            eval_set.eval_cases[_find_case(eval_set, eval_case.eval_id)] = eval_case

        self._change(app_name, eval_set_id, eval_case.eval_id, update)

    def delete_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Delete a case from an eval set.

        Raises:
            NotFoundError: the eval set or the case does not exist.
        """

        def delete(eval_set: EvalSet) -> None:
            del eval_set.eval_cases[_find_case(eval_set, eval_case_id)]

        self._change(app_name, eval_set_id, eval_case_id, delete)

    def _change(
        self, app_name: str, eval_set_id: str, eval_case_id: str, change: Callable[[EvalSet], None]
    ) -> None:
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        require_text("eval_id", eval_case_id)

        def rewrite(before: bytes | None) -> str:
            eval_set = self._parse(app_name, eval_set_id, before)
            change(eval_set)
            return dump_wire(eval_set)

        self._store.change(app_name, eval_set_id, rewrite)

    def _parse(self, app_name: str, eval_set_id: str, data: bytes | None) -> EvalSet:
        if data is None:
            raise _build_missing_set_error(app_name, eval_set_id)
        return parse_wire(EvalSet, data, self._store.describe(app_name, eval_set_id))


def _build_missing_set_error(app_name: str, eval_set_id: str) -> NotFoundError:
    return NotFoundError(f"there is no eval set {app_name}/{eval_set_id}")


def _find_case(eval_set: EvalSet, eval_case_id: str) -> int:
    for index, case in enumerate(eval_set.eval_cases):
        if case.eval_id == eval_case_id:
            return index
    raise NotFoundError(f"the eval set {eval_set.eval_set_id} has no case {eval_case_id!r}")


class StoredMetricManager(_StoredManager):
    """A `MetricManager` that keeps metrics in a `DocumentStore`. Subclasses choose the store.

    Every method raises InvalidInputError if a name cannot be one part of a path, or if a stored file is
    invalid. It raises StorageError if the store cannot be used.
    """

    def list(self, app_name: str, eval_set_id: str) -> list[str]:
        """Return the names of an eval set's metrics in the order in which they were added."""
        return [metric.metric_name for metric in self._read(app_name, eval_set_id)]

    def get(self, app_name: str, eval_set_id: str, metric_name: str) -> EvalMetric:
        """Return a metric of an eval set.

        Raises:
            NotFoundError: no metric has this name.
        """
        metrics = self._read(app_name, eval_set_id)
        return metrics[_find_metric(metrics, metric_name, f"{app_name}/{eval_set_id}")]

    def add(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Add a metric at the end of an eval set's metrics.

        Raises:
            AlreadyExistsError: the eval set has a metric with this name.
            InvalidInputError: `metric` is no `EvalMetric` or has no name, or its threshold is no finite
                number. Or its criterion has a function, which only an `InMemoryMetricManager` stores.
        """
        require_threshold(metric)

        def add(metrics: list[EvalMetric]) -> None:
            if metric.metric_name in [each.metric_name for each in metrics]:
                raise AlreadyExistsError(
                    f"{app_name}/{eval_set_id} has a metric {metric.metric_name!r} already"
                )
            metrics.append(metric)

        self._change(app_name, eval_set_id, metric.metric_name, add)

    def delete(self, app_name: str, eval_set_id: str, metric_name: str) -> None:
        """Delete a metric from an eval set.

        Raises:
            NotFoundError: no metric has this name.
        """

        def delete(metrics: list[EvalMetric]) -> None:
            del metrics[_find_metric(metrics, metric_name, f"{app_name}/{eval_set_id}")]

        self._change(app_name, eval_set_id, metric_name, delete)

    def update(self, app_name: str, eval_set_id: str, metric: EvalMetric) -> None:
        """Replace the metric that has the name of `metric`.

        Raises:
            NotFoundError: no metric has this name.
            InvalidInputError: `metric` is no `EvalMetric`, or its threshold is no finite number. Or its
                criterion has a function, which only an `InMemoryMetricManager` stores.
        """
        require_threshold(metric)

        def update(metrics: list[EvalMetric]) -> None:
            metrics[_find_metric(metrics, metric.metric_name, f"{app_name}/{eval_set_id}")] = metric

        self._change(app_name, eval_set_id, metric.metric_name, update)

    def _read(self, app_name: str, eval_set_id: str) -> Metrics:
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        return self._parse(app_name, eval_set_id, self._store.read(app_name, eval_set_id))

    def _change(
        self, app_name: str, eval_set_id: str, metric_name: str, change: Callable[[Metrics], None]
    ) -> None:
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        require_text("metric_name", metric_name)
        self._rewrite(app_name, eval_set_id, change)

    def _rewrite(self, app_name: str, eval_set_id: str, change: Callable[[Metrics], None]) -> None:
        def rewrite(before: bytes | None) -> str:
            metrics = self._parse(app_name, eval_set_id, before)
            change(metrics)
            for metric in metrics:
                if metric.to_wire() != metric.to_wire(functions=True):
                    raise InvalidInputError(
                        f"the criterion of {metric.metric_name!r} has a function in `compare`, which only an "
                        "InMemoryMetricManager can keep"
                    )
            return dump_wire(metrics)

        self._store.change(app_name, eval_set_id, rewrite)

    def _parse(self, app_name: str, eval_set_id: str, data: bytes | None) -> Metrics:
        if data is None:
            return []
        return parse_wire_list(EvalMetric, data, self._store.describe(app_name, eval_set_id))


def _find_metric(metrics: list[EvalMetric], name: str, where: str) -> int:
    for index, metric in enumerate(metrics):
        if metric.metric_name == name:
            return index
    raise NotFoundError(f"{where} has no metric {name!r}")


class StoredEvalResultManager(_StoredManager):
    """An `EvalResultManager` that keeps results in a `DocumentStore`. Subclasses choose the store.

    Every method raises InvalidInputError if a name cannot be one part of a path. It raises StorageError if
    the store cannot be used.
    """

    def save(self, app_name: str, eval_set_result: EvalSetResult) -> str:
        """Store a result and return its id. A stored result with the same id is replaced.

        A missing id, name or timestamp is set in `eval_set_result`, too.

        Raises:
            InvalidInputError: the result is no `EvalSetResult`, or has no `eval_set_id`.
        """
        require_instance("eval_set_result", eval_set_result, EvalSetResult)
        require_names(app_name=app_name, eval_set_id=eval_set_result.eval_set_id)
        result_id = eval_set_result.eval_set_result_id or (
            f"{app_name}_{eval_set_result.eval_set_id}_{uuid.uuid4()}"
        )
        require_names(eval_set_result_id=result_id)
        eval_set_result.eval_set_result_id = result_id
        eval_set_result.eval_set_result_name = eval_set_result.eval_set_result_name or result_id
        eval_set_result.creation_timestamp = eval_set_result.creation_timestamp or time.time()
        text = dump_wire(eval_set_result)
        self._store.change(app_name, result_id, lambda _: text)
        return result_id

    def get(self, app_name: str, eval_set_result_id: str) -> EvalSetResult:
        """Return the result with the given id.

        Raises:
            NotFoundError: no result has this id.
            InvalidInputError: the stored file is invalid.
        """
        require_names(app_name=app_name, eval_set_result_id=eval_set_result_id)
        data = self._store.read(app_name, eval_set_result_id)
        if data is None:
            raise NotFoundError(f"there is no result {app_name}/{eval_set_result_id}")
        return parse_wire(EvalSetResult, data, self._store.describe(app_name, eval_set_result_id))

    def list(self, app_name: str) -> list[str]:
        """Return the ids of all results of an app, sorted."""
        require_names(app_name=app_name)
        return sorted(self._store.list(app_name))
