"""Google ADK's managers of eval sets, with the signatures of release 2.3.0.

The managers use the same files and folders as Google's. They return Google's own types if Google ADK is
installed. Unlike in ADK, files are written atomically, and no app or eval set can be stored outside its
folder.
"""

import copy
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import override

from evalgate.api.adk_documents import (
    Bucket,
    NotFoundError,
    build_model,
    check_name,
    dump_content,
    dump_model,
    find_case,
    get_cases,
    parse_content,
    read_file,
    write_file,
)
from evalgate.api.adk_results import get_adk_type
from evalgate.core.errors import InvalidInputError
from evalgate.system.files import make_folder
from evalgate.system.folder_lock import lock_folder

_EVAL_SET_ENDING = ".evalset.json"
_VALID_ID = re.compile(r"[a-zA-Z0-9_]+")
_BUCKET_SETS = "evals/eval_sets"


class EvalSetsManager(ABC):
    """Storage for the eval sets of apps. Subclasses read and write whole eval sets.

    Methods take the name of an app, the id of an eval set and the id of a case. They accept cases of Google's
    type and of evalgate's. They return Google's types if Google ADK is installed.

    Managers of files and of buckets use app names and eval set ids as names of files or folders. So their
    methods raise ValueError if a name or id is empty, `.` or `..`, or holds a slash, a backslash or NUL.

    >>> issubclass(InMemoryEvalSetsManager, EvalSetsManager)
    True
    """

    @abstractmethod
    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets.

        For an unknown app, `LocalEvalSetsManager` raises NotFoundError. The other managers return an empty
        list.
        """

    @abstractmethod
    def _read_content(self, app_name: str, eval_set_id: str) -> dict[str, Any] | None:
        """Return the JSON object of an eval set; None if the set does not exist."""

    @abstractmethod
    def _write_content(self, app_name: str, eval_set_id: str, content: dict[str, Any]) -> None:
        """Store the JSON object of an eval set."""

    @abstractmethod
    def _lock(self, app_name: str, *, creates: bool = False) -> AbstractContextManager[object]:
        """Return a context manager that keeps other threads from changing the app's eval sets.

        Files are also locked against other processes; buckets are not, because they have no locks.

        `creates` matters only for files, if the app has no folder yet. True: the folder is created and
        locked. False: nothing is locked, because an app without a folder has no eval set to change.
        """

    def get_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Return an eval set; None if the set does not exist.

        `LocalEvalSetsManager` also reads files in ADK's old formats, a list of turns or of cases.

        Raises:
            InvalidInputError: the file cannot be read or is invalid; the error lists every problem.
        """
        content = self._read_content(app_name, eval_set_id)
        return None if content is None else build_model("EvalSet", content, f"{app_name}/{eval_set_id}")

    def create_eval_set(self, app_name: str, eval_set_id: str) -> Any:
        """Create an empty eval set and return it.

        Raises:
            ValueError: the set exists already. Or the id is empty or has other characters than `a-z`, `A-Z`,
                `0-9` and `_`.
            InvalidInputError: the file or its folder cannot be written. Or a file with this name exists, but
                is no valid eval set.
        """
        if not _VALID_ID.fullmatch(eval_set_id):
            raise ValueError("Invalid Eval Set ID. Eval Set ID should have the `^[a-zA-Z0-9_]+$` format")
        eval_set = get_adk_type("EvalSet")(
            eval_set_id=eval_set_id, name=eval_set_id, eval_cases=[], creation_timestamp=time.time()
        )
        with self._lock(app_name, creates=True):
            if self._read_content(app_name, eval_set_id) is not None:
                raise ValueError(f"EvalSet {eval_set_id} already exists for app {app_name}.")
            self._write_content(app_name, eval_set_id, dump_model(eval_set))
        return eval_set

    def get_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> Any:
        """Return a case; None if the eval set or the case does not exist.

        Raises:
            InvalidInputError: the eval set's file cannot be read or is invalid; the error lists all problems.
        """
        eval_set = self.get_eval_set(app_name, eval_set_id)
        cases = eval_set.eval_cases if eval_set is not None else ()
        return next((case for case in cases if case.eval_id == eval_case_id), None)

    def add_eval_case(self, app_name: str, eval_set_id: str, eval_case: Any) -> None:
        """Add a case at the end of an eval set.

        Raises:
            NotFoundError: the eval set does not exist.
            ValueError: the set has a case with this id.
            InvalidInputError: the case or the set's file is invalid, or the file has the id of another set or
                cannot be read or written.
        """

        def add(content: dict[str, Any]) -> None:
            if find_case(content, eval_case.eval_id) is not None:
                raise ValueError(f"Eval id `{eval_case.eval_id}` already exists in `{eval_set_id}` eval set.")
            get_cases(content).append(_to_json(eval_case))

        self._change_eval_set(app_name, eval_set_id, add)

    def update_eval_case(self, app_name: str, eval_set_id: str, updated_eval_case: Any) -> None:
        """Replace the case that has the id of `updated_eval_case`. Its position in the eval set is kept.

        Raises:
            NotFoundError: the eval set or the case does not exist.
            InvalidInputError: the case or the set's file is invalid, or the file has the id of another set or
                cannot be read or written.
        """

        def update(content: dict[str, Any]) -> None:
            index = _require_case(content, eval_set_id, updated_eval_case.eval_id)
            get_cases(content)[index] = _to_json(updated_eval_case)

        self._change_eval_set(app_name, eval_set_id, update)

    def delete_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Delete a case from an eval set.

        Raises:
            NotFoundError: the eval set or the case does not exist.
            InvalidInputError: the set's file is invalid, has the id of another set, or cannot be read or
                written.
        """

        def delete(content: dict[str, Any]) -> None:
            del get_cases(content)[_require_case(content, eval_set_id, eval_case_id)]

        self._change_eval_set(app_name, eval_set_id, delete)

    def _change_eval_set(
        self, app_name: str, eval_set_id: str, change: Callable[[dict[str, Any]], None]
    ) -> None:
        """Apply `change` to the JSON of an eval set and store the result. Keys unknown to ADK are kept.

        Raises:
            NotFoundError: the eval set does not exist.
            InvalidInputError: the set's file is invalid, has the id of another set, or cannot be read or
                written.
            Exception: any exception that `change` raises.
        """
        with self._lock(app_name):
            content = self._read_content(app_name, eval_set_id)
            if content is None:
                raise NotFoundError(f"Eval set `{eval_set_id}` not found.")
            own_id = build_model("EvalSet", content, f"{app_name}/{eval_set_id}").eval_set_id
            if own_id != eval_set_id:
                raise InvalidInputError(
                    f"{app_name}/{eval_set_id}: the file has the id `{own_id}`, and is left as it is. Rename "
                    "the file, or correct its `eval_set_id`."
                )
            change(content)
            self._write_content(app_name, eval_set_id, content)


def _require_case(content: dict[str, Any], eval_set_id: str, eval_case_id: str) -> int:
    index = find_case(content, eval_case_id)
    if index is None:
        raise NotFoundError(f"Eval case `{eval_case_id}` not found in eval set `{eval_set_id}`.")
    return index


def _to_json(case: Any) -> dict[str, Any]:
    # As JSON: a case may be the library's type where Google ADK is installed, or the reverse.
    content = case.model_dump(mode="json", exclude_none=True)
    return dump_model(build_model("EvalCase", content, f"eval case {case.eval_id}"))


class InMemoryEvalSetsManager(EvalSetsManager):
    """Eval sets in memory. They are lost when the process ends.

    >>> manager = InMemoryEvalSetsManager()
    >>> _ = manager.create_eval_set("my_app", "suite")
    >>> manager.list_eval_sets("my_app")
    ['suite']
    """

    def __init__(self) -> None:
        self._contents: dict[str, dict[str, dict[str, Any]]] = {}
        self._changes = threading.Lock()

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets, the oldest set first; [] for an unknown app."""
        return list(self._contents.get(app_name, {}))

    @override
    def _lock(self, app_name: str, *, creates: bool = False) -> AbstractContextManager[object]:
        return self._changes

    def _read_content(self, app_name: str, eval_set_id: str) -> dict[str, Any] | None:
        content = self._contents.get(app_name, {}).get(eval_set_id)
        return None if content is None else copy.deepcopy(content)

    def _write_content(self, app_name: str, eval_set_id: str, content: dict[str, Any]) -> None:
        self._contents.setdefault(app_name, {})[eval_set_id] = content


class LocalEvalSetsManager(EvalSetsManager):
    """Eval sets in files: `<agents_dir>/<app>/<id>.evalset.json`.

    >>> manager = LocalEvalSetsManager(agents_dir="agents")
    >>> _ = manager.create_eval_set("my_app", "suite")
    >>> manager.list_eval_sets("my_app")
    ['suite']
    """

    def __init__(self, agents_dir: str) -> None:
        self._agents_dir = Path(agents_dir)

    def _read_content(self, app_name: str, eval_set_id: str) -> dict[str, Any] | None:
        path = self._get_path(app_name, eval_set_id)
        text = read_file(path)
        if text is None:
            return None
        content = parse_content(text, str(path))
        if isinstance(content, list):  # an old list of turns or cases
            from evalgate.api.evaluation_plan import load_sources
            from evalgate.integrations.adk.writer import AdkWriter

            (eval_set,) = load_sources(str(path), None, Path.cwd())
            content = json.loads(AdkWriter().write_eval_set(eval_set).text) | {"eval_set_id": eval_set_id}
        build_model("EvalSet", content, str(path))  # raises every problem with the file's path
        found: dict[str, Any] = content
        return found

    @contextmanager
    def _lock(self, app_name: str, *, creates: bool = False) -> Iterator[None]:
        folder = self._agents_dir / check_name(app_name)
        if creates:
            try:
                make_folder(folder)
            except OSError as error:
                raise InvalidInputError(f"{folder}: cannot be created: {error.strerror}") from None
        elif not folder.is_dir():  # the app has no eval set that could change
            yield
            return
        with lock_folder(folder):
            yield

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets, sorted.

        Raises:
            NotFoundError: the app has no folder.
        """
        folder = self._agents_dir / check_name(app_name)
        if not folder.is_dir():
            raise NotFoundError(f"Eval directory for app `{app_name}` not found.")
        return sorted(
            path.name.removesuffix(_EVAL_SET_ENDING) for path in folder.glob(f"*{_EVAL_SET_ENDING}")
        )

    def _get_path(self, app_name: str, eval_set_id: str) -> Path:
        return self._agents_dir / check_name(app_name) / f"{check_name(eval_set_id)}{_EVAL_SET_ENDING}"

    def _write_content(self, app_name: str, eval_set_id: str, content: dict[str, Any]) -> None:
        write_file(self._get_path(app_name, eval_set_id), dump_content(content))


class GcsEvalSetsManager(EvalSetsManager):
    """Eval sets in a bucket of Google Cloud Storage: `<app>/evals/eval_sets/<id>.evalset.json`.

    Needs evalgate's extra `gcs`. Keyword arguments are passed to `gcsfs.GCSFileSystem`.

    >>> manager = GcsEvalSetsManager("my-eval-sets")  # doctest: +SKIP
    """

    def __init__(self, bucket_name: str, **kwargs: Any) -> None:
        """Open the bucket `bucket_name`.

        Raises:
            InvalidInputError: the extra `gcs` is not installed.
            ValueError: the bucket does not exist.
        """
        self.bucket_name = bucket_name
        self._bucket = Bucket(bucket_name, "", kwargs)
        self._changes = threading.Lock()

    @override
    def _lock(self, app_name: str, *, creates: bool = False) -> AbstractContextManager[object]:
        return self._changes  # if two processes change a set, the later change wins: buckets have no locks

    def _read_content(self, app_name: str, eval_set_id: str) -> dict[str, Any] | None:
        path = self._get_path(app_name, eval_set_id)
        text = self._bucket.read_text(path)
        if text is None:
            return None
        content = parse_content(text, path)
        build_model("EvalSet", content, path)  # raises every problem with the file's path
        found: dict[str, Any] = content
        return found

    def list_eval_sets(self, app_name: str) -> list[str]:
        """Return the ids of an app's eval sets, sorted; [] for an unknown app."""
        return self._bucket.list_names(f"{check_name(app_name)}/{_BUCKET_SETS}", _EVAL_SET_ENDING)

    @staticmethod
    def _get_path(app_name: str, eval_set_id: str) -> str:
        return f"{check_name(app_name)}/{_BUCKET_SETS}/{check_name(eval_set_id)}{_EVAL_SET_ENDING}"

    def _write_content(self, app_name: str, eval_set_id: str, content: dict[str, Any]) -> None:
        self._bucket.write_text(self._get_path(app_name, eval_set_id), dump_content(content))
