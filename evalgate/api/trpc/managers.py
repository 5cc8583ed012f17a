"""Storage for eval sets, metrics and results in files, in memory, in object stores and in databases."""

import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from evalgate.api.trpc.protocols import EvalResultLocator, EvalSetLocator, MetricLocator
from evalgate.api.trpc.stored_managers import (
    Metrics,
    StoredEvalResultManager,
    StoredEvalSetManager,
    StoredMetricManager,
    require_names,
)
from evalgate.api.trpc.stores import FileStore, FsspecStore, MemoryStore, SuffixLocator

if TYPE_CHECKING:
    from sqlalchemy import Engine

SQLITE = "sqlite:///evalgate.db"
"""URL of the default database, a file in the working folder."""
EVAL_SET_SUFFIX, METRICS_SUFFIX, RESULT_SUFFIX = ".evalset.json", ".metrics.json", ".evalset_result.json"


class LocalEvalSetManager(StoredEvalSetManager):
    """Eval sets in files: `<base_dir>/<app_name>/<eval_set_id>.evalset.json`.

    `base_dir` is by default the working folder. A `locator` can choose other paths.

    >>> import tempfile
    >>> from evalgate.api.trpc import EvalCase
    >>> manager = LocalEvalSetManager(tempfile.mkdtemp())
    >>> manager.create("math-eval-app", "math-basic").name
    'math-basic'
    >>> manager.add_case("math-eval-app", "math-basic", EvalCase(eval_id="calc_add"))
    >>> manager.list("math-eval-app")
    ['math-basic']
    """

    def __init__(self, base_dir: str | Path = ".", locator: EvalSetLocator | None = None) -> None:
        super().__init__(FileStore(base_dir, locator or SuffixLocator(EVAL_SET_SUFFIX)))


class InMemoryEvalSetManager(StoredEvalSetManager):
    """Eval sets in memory. They are lost when the process ends.

    >>> manager = InMemoryEvalSetManager()
    >>> manager.create("math-eval-app", "math-basic").eval_set_id
    'math-basic'
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore())


class FsspecEvalSetManager(StoredEvalSetManager):
    """Eval sets below an fsspec URL, such as `s3://bucket/folder`. `options` are passed to fsspec's driver.

    The constructor raises InvalidInputError if fsspec or the driver is missing, or the URL is invalid.

    >>> FsspecEvalSetManager("memory://sets").create("math-eval-app", "math-basic").eval_set_id
    'math-basic'
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(FsspecStore(url, EVAL_SET_SUFFIX, options))


class SqlEvalSetManager(StoredEvalSetManager):
    """Eval sets in the table `<table_prefix>evalgate_eval_sets` of a database supported by SQLAlchemy.

    The table is evalgate's own; tRPC-Agent-Go's MySQL managers use other tables. The constructor creates the
    table if necessary. It raises InvalidInputError if SQLAlchemy or the driver is missing or the URL is
    invalid. It raises StorageError if the database cannot be used.

    `database` is a URL or an engine of SQLAlchemy. The default is the file `evalgate.db` in the working
    folder.

    >>> sets = SqlEvalSetManager("sqlite://")
    >>> sets.create("math-eval-app", "math-basic").eval_set_id
    'math-basic'
    >>> sets.close()
    """

    def __init__(self, database: "str | Engine" = SQLITE, *, table_prefix: str = "") -> None:
        from evalgate.api.trpc.sql_store import SqlStore

        super().__init__(SqlStore(database, f"{table_prefix}evalgate_eval_sets"))


class LocalMetricManager(StoredMetricManager):
    """Metrics in files: `<base_dir>/<app_name>/<eval_set_id>.metrics.json`.

    `base_dir` is by default the working folder. A `locator` can choose other paths.

    >>> import tempfile
    >>> from evalgate.api.trpc import EvalMetric
    >>> manager = LocalMetricManager(tempfile.mkdtemp())
    >>> manager.add("app", "set", EvalMetric(metric_name="final_response_avg_score", threshold=1.0))
    >>> manager.list("app", "set")
    ['final_response_avg_score']
    """

    def __init__(self, base_dir: str | Path = ".", locator: MetricLocator | None = None) -> None:
        super().__init__(FileStore(base_dir, locator or SuffixLocator(METRICS_SUFFIX)))


class InMemoryMetricManager(StoredMetricManager):
    """Metrics in memory. They are lost when the process ends.

    Criteria with a function in `compare` can be stored, too. Other managers refuse them, because they store
    metrics as JSON.

    >>> InMemoryMetricManager().list("app", "set")
    []
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        # Metrics are kept as objects, because the texts of a store cannot hold functions.
        self._metrics: dict[tuple[str, str], Metrics] = {}
        self._lock = threading.Lock()

    @override
    def _read(self, app_name: str, eval_set_id: str) -> Metrics:
        require_names(app_name=app_name, eval_set_id=eval_set_id)
        return deepcopy(self._metrics.get((app_name, eval_set_id), []))

    @override
    def _rewrite(self, app_name: str, eval_set_id: str, change: Callable[[Metrics], None]) -> None:
        with self._lock:
            metrics = self._read(app_name, eval_set_id)
            change(metrics)
            self._metrics[app_name, eval_set_id] = deepcopy(metrics)


class FsspecMetricManager(StoredMetricManager):
    """Metrics below an fsspec URL, such as `s3://bucket/folder`. `options` are passed to fsspec's driver.

    The constructor raises InvalidInputError if fsspec or the driver is missing, or the URL is invalid.

    >>> FsspecMetricManager("memory://metrics").list("app", "set")
    []
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(FsspecStore(url, METRICS_SUFFIX, options))


class SqlMetricManager(StoredMetricManager):
    """Metrics in the table `<table_prefix>evalgate_metrics` of a database supported by SQLAlchemy.

    `database` is a URL or an engine of SQLAlchemy. The default is the file `evalgate.db` in the working
    folder. The constructor creates the table if necessary. It raises InvalidInputError if SQLAlchemy or the
    driver is missing or the URL is invalid. It raises StorageError if the database cannot be used.

    >>> metrics = SqlMetricManager("sqlite://")
    >>> metrics.list("app", "set")
    []
    >>> metrics.close()
    """

    def __init__(self, database: "str | Engine" = SQLITE, *, table_prefix: str = "") -> None:
        from evalgate.api.trpc.sql_store import SqlStore

        super().__init__(SqlStore(database, f"{table_prefix}evalgate_metrics"))


class LocalEvalResultManager(StoredEvalResultManager):
    """Results in files: `<base_dir>/<app_name>/<id>.evalset_result.json`.

    `base_dir` is by default the working folder. A `locator` can choose other paths.

    >>> import tempfile
    >>> from evalgate.api.trpc import EvalSetResult
    >>> manager = LocalEvalResultManager(tempfile.mkdtemp())
    >>> manager.save("app", EvalSetResult(eval_set_id="set", eval_set_result_id="first"))
    'first'
    """

    def __init__(self, base_dir: str | Path = ".", locator: EvalResultLocator | None = None) -> None:
        super().__init__(FileStore(base_dir, locator or SuffixLocator(RESULT_SUFFIX)))


class InMemoryEvalResultManager(StoredEvalResultManager):
    """Results in memory. They are lost when the process ends.

    >>> InMemoryEvalResultManager().list("app")
    []
    """

    def __init__(self) -> None:
        super().__init__(MemoryStore())


class FsspecEvalResultManager(StoredEvalResultManager):
    """Results below an fsspec URL, such as `s3://bucket/folder`. `options` are passed to fsspec's driver.

    The constructor raises InvalidInputError if fsspec or the driver is missing, or the URL is invalid.

    >>> FsspecEvalResultManager("memory://results").list("app")
    []
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(FsspecStore(url, RESULT_SUFFIX, options))


class SqlEvalResultManager(StoredEvalResultManager):
    """Results in the table `<table_prefix>evalgate_eval_set_results` of a database supported by SQLAlchemy.

    `database` is a URL or an engine of SQLAlchemy. The default is the file `evalgate.db` in the working
    folder. The constructor creates the table if necessary. It raises InvalidInputError if SQLAlchemy or the
    driver is missing or the URL is invalid. It raises StorageError if the database cannot be used.

    >>> results = SqlEvalResultManager("sqlite://")
    >>> results.list("app")
    []
    >>> results.close()
    """

    def __init__(self, database: "str | Engine" = SQLITE, *, table_prefix: str = "") -> None:
        from evalgate.api.trpc.sql_store import SqlStore

        super().__init__(SqlStore(database, f"{table_prefix}evalgate_eval_set_results"))
