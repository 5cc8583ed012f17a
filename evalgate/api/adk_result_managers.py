"""Google ADK's managers of evaluation results, with the signatures of release 2.3.0.

`adk_managers` has the managers of eval sets.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Sequence
from pathlib import Path
from typing import Any

from evalgate.api.adk_documents import (
    Bucket,
    Folder,
    NotFoundError,
    build_model,
    check_name,
    parse_content,
)
from evalgate.api.adk_results import get_adk_type
from evalgate.api.record import Record
from evalgate.core.sanitize import to_file_name
from evalgate.integrations.adk.report import HISTORY_FOLDER, RESULT_ENDING, build_eval_set_results

_BUCKET_HISTORY = "evals/eval_history"


class _Done:
    """Awaitable that returns None at once.

    `save_eval_set_result` is not asynchronous, but returns a `_Done`, so that code may await the call. ADK's
    guide does so.
    """

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class EvalSetResultsManager(ABC):
    """Storage for the results of eval sets, by app. Subclasses choose the place: files or a bucket.

    Every method raises ValueError if the name of the app is empty, `.` or `..`, or holds a slash, a backslash
    or NUL.

    >>> issubclass(LocalEvalSetResultsManager, EvalSetResultsManager)
    True
    """

    _files: Folder | Bucket

    @abstractmethod
    def _locate(self, app_name: str, name: str) -> str:
        """Return the path of the file that stores the result `name`, relative to the root of `_files`."""

    @abstractmethod
    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results. An unknown app has none."""

    def save_eval_set_result(
        self, app_name: str | Record, eval_set_id: str = "", eval_case_results: Sequence[Any] = ()
    ) -> Awaitable[None]:
        """Store the results of an eval set under a new id, `<app>_<eval set>_<time>`.

        The results are stored before the method returns. You may await the returned object, but need not. If
        the first argument is a `Record`, the results of each of its eval sets get an id of their own.

        Args:
            app_name: Name of the app. Or, as in ADK's guide, the `Record` that
                `AgentEvaluator.evaluate_eval_set` returned; the other two arguments are then ignored.
            eval_set_id: Id of the eval set.
            eval_case_results: An `EvalCaseResult`, Google's or evalgate's, for each run of each case.

        Raises:
            InvalidInputError: the file cannot be written.
            pydantic.ValidationError: a result has the wrong form.
        """
        if isinstance(app_name, Record):
            save_record(self, app_name, app_name.agent.app_name)
        else:
            self._save_results(app_name, eval_set_id, eval_case_results)
        return _Done()

    def _save_results(self, app_name: str, eval_set_id: str, eval_case_results: Sequence[Any]) -> None:
        timestamp = time.time()
        result_id = f"{app_name}_{eval_set_id}_{timestamp}"
        name = result_id.replace("/", "_")
        content = {
            "eval_set_result_id": result_id,
            "eval_set_result_name": name,
            "eval_set_id": eval_set_id,
            "eval_case_results": [result.model_dump(mode="json") for result in eval_case_results],
            "creation_timestamp": timestamp,
        }
        # Google ADK's type, if it is installed, checks and writes the content: the file is exactly ADK's.
        text = get_adk_type("EvalSetResult").model_validate(content).model_dump_json(indent=2)
        self._files.write_text(self._locate(app_name, name), text)

    def get_eval_set_result(self, app_name: str, eval_set_result_id: str) -> Any:
        """Return the result with the given id as an `EvalSetResult`.

        An id may hold slashes. In the name of the result's file, each slash is replaced by `_`.

        Raises:
            NotFoundError: the result does not exist.
            InvalidInputError: the file cannot be read or is invalid; the error lists every problem in the
                file.
            ValueError: the id is empty, `.` or `..`, or holds a backslash or NUL.
        """
        name = check_name(eval_set_result_id.replace("/", "_"))
        text = self._files.read_text(self._locate(app_name, name))
        if text is None:
            raise NotFoundError(f"Eval set result `{eval_set_result_id}` not found.")
        shown_as = f"{app_name}/{eval_set_result_id}"
        content = parse_content(text, shown_as)
        if isinstance(content, str):  # the first releases wrote the JSON as one text in JSON
            content = parse_content(content, shown_as)
        return build_model("EvalSetResult", content, shown_as)


def save_record(manager: Any, record: Record, app_name: str) -> None:
    """Store the results of one evaluation, which are in `record`, in a results manager.

    `manager` may be a results manager of this library or of Google ADK. It stores one result for each eval
    set, under the app name `app_name`.

    Raises:
        InvalidInputError: a manager of this library cannot write a file.
        ValueError: `app_name` cannot be the name of a folder.
    """
    model = get_adk_type("EvalCaseResult")
    for result in build_eval_set_results(record, app_name):
        cases = [model.model_validate(each) for each in result["eval_case_results"]]
        manager.save_eval_set_result(app_name, result["eval_set_id"], cases)


class LocalEvalSetResultsManager(EvalSetResultsManager):
    """Results in files `<agents_dir>/<app>/.adk/eval_history/<id>.evalset_result.json`.

    The argument `agents_dir` has a second name, `results_dir`, which is the name in ADK's guide. The
    constructor raises TypeError if both are given, or neither.

    >>> manager = LocalEvalSetResultsManager(agents_dir="agents")
    >>> _ = manager.save_eval_set_result("my_app", "suite", [])
    >>> [result_id] = manager.list_eval_set_results("my_app")
    >>> manager.get_eval_set_result("my_app", result_id).eval_set_id
    'suite'
    """

    def __init__(self, agents_dir: str | None = None, *, results_dir: str | None = None) -> None:
        if (agents_dir is None) == (results_dir is None):
            raise TypeError("give `agents_dir`, or `results_dir` as its other name")
        self._agents_dir = Path(agents_dir if agents_dir is not None else str(results_dir))
        self._files = Folder(self._agents_dir)

    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results, the oldest file first. An unknown app has none."""
        found = (self._agents_dir / check_name(app_name) / HISTORY_FOLDER).glob(f"*{RESULT_ENDING}")
        by_age = sorted(found, key=lambda path: (path.stat().st_mtime, path.name))
        return [path.name.removesuffix(RESULT_ENDING) for path in by_age]

    def _locate(self, app_name: str, name: str) -> str:
        return f"{check_name(app_name)}/{HISTORY_FOLDER}/{to_file_name(name, 200)}{RESULT_ENDING}"


class GcsEvalSetResultsManager(EvalSetResultsManager):
    """Results in a bucket of Google Cloud Storage: `<app>/evals/eval_history/<id>.evalset_result.json`.

    Needs evalgate's extra `gcs`. `eval_storage_dir` (a name from ADK's guide) is the folder in the bucket
    that contains the folders of the apps; "" means the root of the bucket. Other keyword arguments are passed
    to `gcsfs.GCSFileSystem`; Google's class passes them to its own client.

    >>> manager = GcsEvalSetResultsManager("my-results", eval_storage_dir="runs/")  # doctest: +SKIP
    """

    def __init__(self, bucket_name: str, *, eval_storage_dir: str = "", **kwargs: Any) -> None:
        """Open the bucket `bucket_name`.

        Raises:
            InvalidInputError: the extra `gcs` is not installed.
            ValueError: the bucket does not exist.
        """
        self.bucket_name = bucket_name
        self._files = self._bucket = Bucket(bucket_name, eval_storage_dir, kwargs)

    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results, sorted. An unknown app has none."""
        return self._bucket.list_names(f"{check_name(app_name)}/{_BUCKET_HISTORY}", RESULT_ENDING)

    def _locate(self, app_name: str, name: str) -> str:
        return f"{check_name(app_name)}/{_BUCKET_HISTORY}/{name}{RESULT_ENDING}"
