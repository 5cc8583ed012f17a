"""Google ADK's managers of eval sets and of results, with the signatures of release 2.3.0.

They read and write the same files at the same places. Where Google ADK is installed, they return its own
types. Unlike there, files are written atomically, and a name cannot lead out of its folder.
"""

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalgate.api.adk_results import get_adk_type
from evalgate.api.record import Record
from evalgate.core.errors import InvalidInputError
from evalgate.core.extras import describe_install
from evalgate.core.sanitize import to_file_name
from evalgate.integrations.adk.report import HISTORY_FOLDER, RESULT_ENDING, build_eval_set_results
from evalgate.system.files import read_input_text, write_atomically

_EVAL_SET_ENDING = ".evalset.json"
_VALID_ID = re.compile(r"[a-zA-Z0-9_]+")
_BUCKET_HISTORY = "evals/eval_history"
_BUCKET_SETS = "evals/eval_sets"


class NotFoundError(InvalidInputError, LookupError):
    """There is no such eval set, case or result."""


def _check_name(name: str) -> str:
    """Return the name of an app or set.

    Raises:
        ValueError: it would lead out of its folder.
    """
    if not name or name in {".", ".."} or any(each in name for each in "/\\\0"):
        raise ValueError(f"{name!r} is no name of an app, an eval set or a result")
    return name


# --- eval sets ----------------------------------------------------------------------------------------------


class EvalSetsManager(ABC):
    """A place of eval sets, by app; subclasses read and write whole sets.

    >>> issubclass(InMemoryEvalSetsManager, EvalSetsManager)
    True
    """

    @abstractmethod
    def get_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Return an eval set; None if there is none."""

    @abstractmethod
    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets.

        For an unknown app, `LocalEvalSetsManager` raises NotFoundError; the others return an empty list.
        """

    @abstractmethod
    def _save_eval_set(self, app_name: str, eval_set: Any) -> None:
        """Store an eval set in the place of that with the same id."""

    def create_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Create an empty eval set and return it.

        Raises:
            ValueError: the id has other characters than letters, digits and `_`, or the set exists.
        """
        if not _VALID_ID.fullmatch(eval_set_id):
            raise ValueError("Invalid Eval Set ID. Eval Set ID should have the `^[a-zA-Z0-9_]+$` format")
        if self.get_eval_set(app_name, eval_set_id) is not None:
            raise ValueError(f"EvalSet {eval_set_id} already exists for app {app_name}.")
        eval_set = get_adk_type("EvalSet")(
            eval_set_id=eval_set_id, name=eval_set_id, eval_cases=[], creation_timestamp=time.time()
        )
        self._save_eval_set(app_name, eval_set)
        return eval_set

    def get_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> Any:
        """Return a case; None if there is none."""
        eval_set = self.get_eval_set(app_name, eval_set_id)
        cases = eval_set.eval_cases if eval_set is not None else ()
        return next((case for case in cases if case.eval_id == eval_case_id), None)

    def add_eval_case(self, app_name: str, eval_set_id: str, eval_case: Any) -> None:
        """Add a case to an eval set.

        Raises:
            NotFoundError: there is no such eval set.
            ValueError: the set has a case with this id.
        """
        eval_set = self._require_eval_set(app_name, eval_set_id)
        if any(case.eval_id == eval_case.eval_id for case in eval_set.eval_cases):
            raise ValueError(f"Eval id `{eval_case.eval_id}` already exists in `{eval_set_id}` eval set.")
        self._replace_cases(app_name, eval_set, [*eval_set.eval_cases, eval_case])

    def update_eval_case(self, app_name: str, eval_set_id: str, updated_eval_case: Any) -> None:
        """Replace the case with the same id; it keeps its place.

        Raises:
            NotFoundError: there is no such eval set or case.
        """
        eval_set = self._require_eval_set(app_name, eval_set_id)
        self._require_case(eval_set, updated_eval_case.eval_id)
        cases = [
            updated_eval_case if case.eval_id == updated_eval_case.eval_id else case
            for case in eval_set.eval_cases
        ]
        self._replace_cases(app_name, eval_set, cases)

    def delete_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Delete a case.

        Raises:
            NotFoundError: there is no such eval set or case.
        """
        eval_set = self._require_eval_set(app_name, eval_set_id)
        self._require_case(eval_set, eval_case_id)
        cases = [case for case in eval_set.eval_cases if case.eval_id != eval_case_id]
        self._replace_cases(app_name, eval_set, cases)

    def _require_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        eval_set = self.get_eval_set(app_name, eval_set_id)
        if eval_set is None:
            raise NotFoundError(f"Eval set `{eval_set_id}` not found.")
        return eval_set

    @staticmethod
    def _require_case(eval_set: Any, eval_case_id: str) -> None:
        if all(case.eval_id != eval_case_id for case in eval_set.eval_cases):
            raise NotFoundError(f"Eval case `{eval_case_id}` not found in eval set `{eval_set.eval_set_id}`.")

    def _replace_cases(self, app_name: str, eval_set: Any, cases: Sequence[Any]) -> None:
        model = type(eval_set)
        # As JSON: a case may be Google's type, and the set the library's, or the reverse.
        content = eval_set.model_dump(mode="json") | {"eval_cases": [_to_json(case) for case in cases]}
        self._save_eval_set(app_name, model.model_validate(content))


def _to_json(case: Any) -> dict[str, Any]:
    found: dict[str, Any] = case.model_dump(mode="json", exclude_none=True)
    return found


class InMemoryEvalSetsManager(EvalSetsManager):
    """Eval sets in memory.

    >>> manager = InMemoryEvalSetsManager()
    >>> _ = manager.create_eval_set("my_app", "suite")
    >>> manager.list_eval_sets("my_app")
    ['suite']
    """

    def __init__(self) -> None:
        self._eval_sets: dict[str, dict[str, Any]] = {}

    def get_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Return an eval set; None if there is none."""
        return self._eval_sets.get(app_name, {}).get(eval_set_id)

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets; none for an unknown app."""
        return list(self._eval_sets.get(app_name, {}))

    def _save_eval_set(self, app_name: str, eval_set: Any) -> None:
        self._eval_sets.setdefault(app_name, {})[eval_set.eval_set_id] = eval_set


class LocalEvalSetsManager(EvalSetsManager):
    """Eval sets in files `<agents_dir>/<app>/<id>.evalset.json`.

    >>> manager = LocalEvalSetsManager(agents_dir="agents")
    >>> _ = manager.create_eval_set("my_app", "suite")
    >>> manager.list_eval_sets("my_app")
    ['suite']
    """

    def __init__(self, agents_dir: str) -> None:
        self._agents_dir = Path(agents_dir)

    def get_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Return an eval set, also from an old list of turns; None if there is no file.

        Raises:
            InvalidInputError: with every problem of the file.
        """
        path = self._get_path(app_name, eval_set_id)
        if not path.is_file():
            return None
        from evalgate.api.inputs import load_sources
        from evalgate.integrations.adk.writer import AdkWriter

        text = read_input_text(path, str(path))
        content = json.loads(text)
        if isinstance(content, list):  # an old list of turns or cases
            (eval_set,) = load_sources(str(path), None, Path.cwd())
            content = json.loads(AdkWriter().write_eval_set(eval_set).text) | {"eval_set_id": eval_set_id}
        return get_adk_type("EvalSet").model_validate(content)

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets, sorted.

        Raises:
            NotFoundError: the app has no folder.
        """
        folder = self._agents_dir / _check_name(app_name)
        if not folder.is_dir():
            raise NotFoundError(f"Eval directory for app `{app_name}` not found.")
        return sorted(
            path.name.removesuffix(_EVAL_SET_ENDING) for path in folder.glob(f"*{_EVAL_SET_ENDING}")
        )

    def _get_path(self, app_name: str, eval_set_id: str) -> Path:
        return self._agents_dir / _check_name(app_name) / f"{_check_name(eval_set_id)}{_EVAL_SET_ENDING}"

    def _save_eval_set(self, app_name: str, eval_set: Any) -> None:
        write_atomically(self._get_path(app_name, eval_set.eval_set_id), _dump_eval_set(eval_set))


class GcsEvalSetsManager(EvalSetsManager):
    """Eval sets in a bucket of Google Cloud Storage: `<app>/evals/eval_sets/<id>.evalset.json`.

    Needs the extra `gcs`. Keyword arguments go to `gcsfs.GCSFileSystem`.

    >>> manager = GcsEvalSetsManager("my-eval-sets")  # doctest: +SKIP
    """

    def __init__(self, bucket_name: str, **kwargs: Any) -> None:
        """Open the bucket.

        Raises:
            InvalidInputError: the extra `gcs` is not installed.
            ValueError: the bucket does not exist.
        """
        self.bucket_name = bucket_name
        self._bucket = _Bucket(bucket_name, "", kwargs)

    def get_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Return an eval set; None if there is none."""
        text = self._bucket.read_text(self._get_path(app_name, eval_set_id))
        return None if text is None else get_adk_type("EvalSet").model_validate_json(text)

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets, sorted; none for an unknown app."""
        return self._bucket.list_names(f"{_check_name(app_name)}/{_BUCKET_SETS}", _EVAL_SET_ENDING)

    @staticmethod
    def _get_path(app_name: str, eval_set_id: str) -> str:
        return f"{_check_name(app_name)}/{_BUCKET_SETS}/{_check_name(eval_set_id)}{_EVAL_SET_ENDING}"

    def _save_eval_set(self, app_name: str, eval_set: Any) -> None:
        self._bucket.write_text(self._get_path(app_name, eval_set.eval_set_id), _dump_eval_set(eval_set))


def _dump_eval_set(eval_set: Any) -> str:
    text: str = eval_set.model_dump_json(
        indent=2, exclude_unset=True, exclude_defaults=True, exclude_none=True
    )
    return text


class _Bucket:
    """Text files in a bucket of Google Cloud Storage."""

    def __init__(self, name: str, folder: str, options: Mapping[str, Any]) -> None:
        try:
            import fsspec

            self._files: Any = fsspec.filesystem("gcs", **options)
        except ImportError as error:
            raise InvalidInputError(
                f"Google Cloud Storage needs `gcsfs`: {describe_install('gcs')}"
            ) from error
        self._root = "/".join(filter(None, (name, folder.strip("/"))))
        if not self._files.exists(name):
            raise ValueError(f"Bucket `{name}` does not exist. Please create it before using it.")

    def read_text(self, path: str) -> str | None:
        full = f"{self._root}/{path}"
        return bytes(self._files.cat_file(full)).decode() if self._files.exists(full) else None

    def write_text(self, path: str, text: str) -> None:
        self._files.pipe_file(f"{self._root}/{path}", text.encode())

    def list_names(self, folder: str, ending: str) -> list[str]:
        full = f"{self._root}/{folder}"
        if not self._files.exists(full):
            return []
        names = (str(path).rpartition("/")[2] for path in self._files.ls(full, detail=False))
        return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))


class _Done:
    """Awaitable that is done already."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


# --- results ------------------------------------------------------------------------------------------------


class EvalSetResultsManager(ABC):
    """A place of results, by app.

    >>> issubclass(LocalEvalSetResultsManager, EvalSetResultsManager)
    True
    """

    @abstractmethod
    def _write_text(self, app_name: str, name: str, text: str) -> None:
        """Store the text of a result."""

    @abstractmethod
    def _read_text(self, app_name: str, name: str) -> str | None:
        """Return the text of a result; None if there is none."""

    @abstractmethod
    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results; none for an unknown app."""

    def save_eval_set_result(
        self, app_name: str | Record, eval_set_id: str = "", eval_case_results: Sequence[Any] = ()
    ) -> Awaitable[None]:
        """Store the results of an eval set under a new id, `<app>_<eval set>_<time>`.

        `app_name` may be the `Record` of `AgentEvaluator.evaluate_eval_set` instead of all three arguments,
        as in ADK's guide. Awaiting the call is optional.
        """
        if isinstance(app_name, Record):
            for result in build_eval_set_results(app_name, app_name.agent.app_name):
                model = get_adk_type("EvalCaseResult")
                cases = [model.model_validate(each) for each in result["eval_case_results"]]
                self._save_results(app_name.agent.app_name, result["eval_set_id"], cases)
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
        # Validated, and written by the type itself, so that the file is exactly that of its owner.
        self._write_text(
            app_name, name, get_adk_type("EvalSetResult").model_validate(content).model_dump_json(indent=2)
        )

    def get_eval_set_result(self, app_name: str, eval_set_result_id: str) -> Any:
        """Return a result.

        Raises:
            NotFoundError: there is no such result.
        """
        text = self._read_text(app_name, eval_set_result_id)
        if text is None:
            raise NotFoundError(f"Eval set result `{eval_set_result_id}` not found.")
        content = json.loads(text)
        # The first releases wrote the JSON as one text in JSON.
        return get_adk_type("EvalSetResult").model_validate(
            json.loads(content) if isinstance(content, str) else content
        )


class LocalEvalSetResultsManager(EvalSetResultsManager):
    """Results in files `<agents_dir>/<app>/.adk/eval_history/<id>.evalset_result.json`.

    ADK's guide calls the folder `results_dir`; both names are accepted.

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

    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results, the oldest first; none for an unknown app."""
        found = self._get_folder(app_name).glob(f"*{RESULT_ENDING}")
        return [path.name.removesuffix(RESULT_ENDING) for path in sorted(found, key=_get_age)]

    def _get_folder(self, app_name: str) -> Path:
        return self._agents_dir / _check_name(app_name) / HISTORY_FOLDER

    def _write_text(self, app_name: str, name: str, text: str) -> None:
        write_atomically(self._get_folder(app_name) / f"{to_file_name(name, 200)}{RESULT_ENDING}", text)

    def _read_text(self, app_name: str, name: str) -> str | None:
        path = self._get_folder(app_name) / f"{_check_name(name)}{RESULT_ENDING}"
        return read_input_text(path, str(path)) if path.is_file() else None


def _get_age(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, path.name


class GcsEvalSetResultsManager(EvalSetResultsManager):
    """Results in a bucket of Google Cloud Storage: `<app>/evals/eval_history/<id>.evalset_result.json`.

    Needs the extra `gcs`. Keyword arguments go to `gcsfs.GCSFileSystem`, where Google's class passes them to
    its own client. `eval_storage_dir`, which ADK's guide shows, is a folder of the bucket before the app's.

    >>> manager = GcsEvalSetResultsManager("my-results", eval_storage_dir="runs/")  # doctest: +SKIP
    """

    def __init__(self, bucket_name: str, *, eval_storage_dir: str = "", **kwargs: Any) -> None:
        """Open the bucket.

        Raises:
            InvalidInputError: the extra `gcs` is not installed.
            ValueError: the bucket does not exist.
        """
        self.bucket_name = bucket_name
        self._bucket = _Bucket(bucket_name, eval_storage_dir, kwargs)

    def list_eval_set_results(self, app_name: str) -> list[str]:
        """Return the ids of an app's results, sorted; none for an unknown app."""
        return self._bucket.list_names(f"{_check_name(app_name)}/{_BUCKET_HISTORY}", RESULT_ENDING)

    def _write_text(self, app_name: str, name: str, text: str) -> None:
        self._bucket.write_text(f"{_check_name(app_name)}/{_BUCKET_HISTORY}/{name}{RESULT_ENDING}", text)

    def _read_text(self, app_name: str, name: str) -> str | None:
        path = f"{_check_name(app_name)}/{_BUCKET_HISTORY}/{_check_name(name)}{RESULT_ENDING}"
        return self._bucket.read_text(path)
