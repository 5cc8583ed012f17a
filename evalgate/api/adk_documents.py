"""The documents of Google ADK's managers: their JSON, in files and in buckets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalgate.api.adk_results import ModelName, get_adk_type
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.installation import describe_install
from evalgate.documents.strict_json import parse_json
from evalgate.documents.validation_errors import validate_model
from evalgate.system.files import read_input_text, write_atomically


def parse_content(text: str, shown_as: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        InvalidInputError: the text is no JSON; the message has line and column.
    """
    return parse_json(text.encode(), shown_as).value


def build_model(name: ModelName, content: object, shown_as: str) -> Any:
    """Return the content of a document as Google ADK's type, or as evalgate's if ADK is not installed.

    Raises:
        InvalidInputError: with every problem of the content.
    """
    problems: list[Problem] = []
    model = validate_model(get_adk_type(name), content, problems, file=shown_as, position=lambda _: (0, 0))
    if problems:
        raise InvalidInputError(problems)
    return model


def dump_content(content: dict[str, Any]) -> str:
    """Return the text of a document as pydantic writes it, indented by 2."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def dump_model(model: Any) -> dict[str, Any]:
    """Return an eval set or case as JSON, as Google ADK writes it.

    Fields that are not set, are None or have their default are left out.
    """
    found: dict[str, Any] = model.model_dump(
        mode="json", exclude_unset=True, exclude_defaults=True, exclude_none=True
    )
    return found


def get_cases(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the list of cases in a set's content, which has the key `eval_cases` or `evalCases`."""
    cases: list[dict[str, Any]] = content["eval_cases" if "eval_cases" in content else "evalCases"]
    return cases


def find_case(content: dict[str, Any], eval_case_id: str) -> int | None:
    """Return the index of the first case with this id in a set's content; None if there is no such case."""
    for index, case in enumerate(get_cases(content)):
        if case.get("eval_id", case.get("evalId")) == eval_case_id:
            return index
    return None


class NotFoundError(InvalidInputError, LookupError):
    """There is no such eval set, case or result.

    >>> from evalgate.api.adk import InMemoryEvalSetsManager
    >>> try:
    ...     InMemoryEvalSetsManager().delete_eval_case("my_app", "suite", "greets")
    ... except NotFoundError as error:
    ...     print(error)
    Eval set `suite` not found.
    """


def check_name(name: str) -> str:
    """Return the name of an app, an eval set or a result, if a file or folder can have this name.

    Raises:
        ValueError: the name is empty, `.` or `..`, or holds a slash, a backslash or NUL.
    """
    if not name or name in {".", ".."} or any(each in name for each in "/\\\0"):
        raise ValueError(f"{name!r} is no name of an app, an eval set or a result")
    return name


def read_file(path: Path) -> str | None:
    """Return the text of a file; None if there is no file.

    Raises:
        InvalidInputError: the file cannot be read, or its name is too long.
    """
    try:
        return read_input_text(path, str(path)) if path.is_file() else None
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None


def write_file(path: Path, text: str) -> None:
    """Write a text to a file, which is created or replaced.

    Raises:
        InvalidInputError: the file cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from None


class Folder:
    """Text files below a folder of this machine; a file that cannot be used raises InvalidInputError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read_text(self, path: str) -> str | None:
        """Return the text of a file; None if there is no file."""
        return read_file(self._root / path)

    def write_text(self, path: str, text: str) -> None:
        """Write a text to a file, which is created or replaced."""
        write_file(self._root / path, text)


class Bucket:
    """Text files in a bucket of Google Cloud Storage; errors of `gcsfs` are raised unchanged.

    The constructor raises InvalidInputError if `gcsfs` is not installed, and ValueError if there is no such
    bucket. Its `options` go to `gcsfs.GCSFileSystem`.
    """

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
        """Return the text of a file; None if there is no file."""
        full = f"{self._root}/{path}"
        return bytes(self._files.cat_file(full)).decode() if self._files.exists(full) else None

    def write_text(self, path: str, text: str) -> None:
        """Write a text to a file, which is created or replaced."""
        self._files.pipe_file(f"{self._root}/{path}", text.encode())

    def list_names(self, folder: str, ending: str) -> list[str]:
        """Return a folder's file names with `ending`, sorted and without `ending`; [] without a folder."""
        full = f"{self._root}/{folder}"
        if not self._files.exists(full):
            return []
        names = (str(path).rpartition("/")[2] for path in self._files.ls(full, detail=False))
        return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))
