"""Read and write the JSON documents (eval sets and results) of `adk_managers` and `adk_result_managers`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.alias_generators import to_snake

from evalgate.api.adk_results import ModelName, get_adk_type
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.installation import describe_install
from evalgate.documents.strict_json import parse_json
from evalgate.documents.validation_errors import validate_model
from evalgate.system.files import read_input_text, write_atomically


def parse_content(text: str, shown_as: str) -> Any:
    """Parse a JSON text and return its value. Errors show `shown_as` as the name of the text.

    Raises:
        InvalidInputError: the text is not valid JSON; the message has line and column.
    """
    return parse_json(text.encode(), shown_as).value


def build_model(name: ModelName, content: object, shown_as: str) -> Any:
    """Convert `content` to Google ADK's type `name`, or to evalgate's type if ADK is not installed.

    Errors show `shown_as` as the name of the content.

    Raises:
        InvalidInputError: the content does not fit the type; the error lists every problem.
    """
    if name == "EvalSet" and isinstance(content, Mapping):
        # Google ADK's guide writes these keys in camelCase, which its own type does not read.
        content = {to_snake(key): value for key, value in content.items()}
    problems: list[Problem] = []
    model = validate_model(get_adk_type(name), content, problems, file=shown_as, position=lambda _: (0, 0))
    if problems:
        raise InvalidInputError(problems)
    return model


def dump_content(content: dict[str, Any]) -> str:
    """Return a document as JSON text, indented by 2 spaces. Characters outside of ASCII are not escaped."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def dump_model(model: Any) -> dict[str, Any]:
    """Convert an eval set or a case to the JSON object that Google ADK writes for it.

    Fields are left out if they are not set, are None or have their default value.
    """
    found: dict[str, Any] = model.model_dump(
        mode="json", exclude_unset=True, exclude_defaults=True, exclude_none=True
    )
    return found


def get_cases(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the list of cases in an eval set's JSON: the value of `eval_cases` or `evalCases`."""
    cases: list[dict[str, Any]] = content["eval_cases" if "eval_cases" in content else "evalCases"]
    return cases


def find_case(content: dict[str, Any], eval_case_id: str) -> int | None:
    """Return the index of the first case with this id in an eval set's JSON, or None."""
    for index, case in enumerate(get_cases(content)):
        if case.get("eval_id", case.get("evalId")) == eval_case_id:
            return index
    return None


class NotFoundError(InvalidInputError, LookupError):
    """Error for a requested eval set, case or result that does not exist.

    >>> from evalgate.api.adk import InMemoryEvalSetsManager
    >>> try:
    ...     InMemoryEvalSetsManager().delete_eval_case("my_app", "suite", "greets")
    ... except NotFoundError as error:
    ...     print(error)
    Eval set `suite` not found.
    """


def check_name(name: str) -> str:
    """Return `name` unchanged if it can be the name of a file or folder.

    Raises:
        ValueError: the name is empty, `.` or `..`, or holds a slash, a backslash or NUL.
    """
    if not name or name in {".", ".."} or any(each in name for each in "/\\\0"):
        raise ValueError(f"{name!r} is no name of an app, an eval set or a result")
    return name


def read_file(path: Path) -> str | None:
    """Return the text of a file; None if the file does not exist.

    Raises:
        InvalidInputError: the file cannot be read, or its name is too long.
    """
    try:
        return read_input_text(path, str(path)) if path.is_file() else None
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None


def write_file(path: Path, text: str) -> None:
    """Write `text` to a file atomically; create the file or replace it.

    Raises:
        InvalidInputError: the file cannot be written.
    """
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from None


class Folder:
    """Text files below a local folder. Paths are relative to this folder.

    Methods raise InvalidInputError if a file cannot be read or written.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read_text(self, path: str) -> str | None:
        """Return the text of a file; None if the file does not exist."""
        return read_file(self._root / path)

    def write_text(self, path: str, text: str) -> None:
        """Write `text` to a file. The file is created if it does not exist; otherwise it is replaced."""
        write_file(self._root / path, text)


class Bucket:
    """Text files in a bucket of Google Cloud Storage. Errors of `gcsfs` are raised unchanged.

    `options` are passed to `gcsfs.GCSFileSystem`. The constructor raises InvalidInputError if `gcsfs` is not
    installed, and ValueError if the bucket does not exist.
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
        """Return the text of a file; None if the file does not exist."""
        full = f"{self._root}/{path}"
        return bytes(self._files.cat_file(full)).decode() if self._files.exists(full) else None

    def write_text(self, path: str, text: str) -> None:
        """Write `text` to a file. The file is created if it does not exist; otherwise it is replaced."""
        self._files.pipe_file(f"{self._root}/{path}", text.encode())

    def list_names(self, folder: str, ending: str) -> list[str]:
        """Return the names of a folder's files that end in `ending`, sorted. The ending itself is cut off.

        Return [] if the folder does not exist.
        """
        full = f"{self._root}/{folder}"
        if not self._files.exists(full):
            return []
        names = (str(path).rpartition("/")[2] for path in self._files.ls(full, detail=False))
        return sorted(name.removesuffix(ending) for name in names if name.endswith(ending))
