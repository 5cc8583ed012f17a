"""Storage for the managers' documents (texts of files) in memory, in files, or in services of fsspec."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from evalgate.api.trpc.errors import StorageError
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install
from evalgate.system.files import make_folder, read_input_file, write_atomically
from evalgate.system.folder_lock import lock_folder

Change: TypeAlias = Callable[[bytes | None], str | None]
"""Function that gets the content of a document (None if absent) and returns the new text.

If the function returns None, the document is deleted.
"""


class DocumentStore(Protocol):
    """Storage for documents (texts of files). App name and document name identify a document."""

    def read(self, app_name: str, name: str) -> bytes | None:
        """Return the text of a document in UTF-8, or None if the document does not exist.

        Raises:
            StorageError: the storage cannot be read.
        """
        ...

    def change(self, app_name: str, name: str, update: Change) -> None:
        """Replace a document with the text that `update` returns. If `update` returns None, delete it.

        `update` gets the current text, or None if the document does not exist. It may be called more than
        once. If it raises an exception, the document is unchanged and the exception is raised.

        Raises:
            StorageError: the storage cannot be read or written.
        """
        ...

    def list(self, app_name: str) -> Sequence[str]:
        """Return the names of an app's documents."""
        ...

    def describe(self, app_name: str, name: str) -> str:
        """Return a name of the document for error messages, such as its path."""
        ...

    def close(self) -> None:
        """Close the connections that the store opened."""
        ...


class MemoryStore:
    """Documents in memory. They are lost when the process ends."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def read(self, app_name: str, name: str) -> bytes | None:
        """Return the text of a document in UTF-8, or None if the document does not exist."""
        text = self._texts.get((app_name, name))
        return None if text is None else text.encode()

    def change(self, app_name: str, name: str, update: Change) -> None:
        """Replace a document with the text that `update` returns. If `update` returns None, delete it.

        `update` gets the current text, or None if the document does not exist.
        """
        with self._lock:
            text = update(self.read(app_name, name))
            if text is None:
                self._texts.pop((app_name, name), None)
            else:
                self._texts[app_name, name] = text

    def list(self, app_name: str) -> Sequence[str]:
        """Return the names of an app's documents."""
        return [name for app, name in list(self._texts) if app == app_name]

    def describe(self, app_name: str, name: str) -> str:
        """Return the name of a document for errors: `APP/NAME`."""
        return f"{app_name}/{name}"

    def close(self) -> None:
        """Do nothing: the memory is released together with the store."""


class SuffixLocator:
    """Default rule for the paths of files: `<base_dir>/<app_name>/<id><suffix>`.

    >>> SuffixLocator(".evalset.json").build("data", "math-eval-app", "math-basic")
    'data/math-eval-app/math-basic.evalset.json'
    """

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def build(self, base_dir: str, app_name: str, name: str) -> str:
        """Return the path of the file with the id `name`."""
        return os.path.join(base_dir, app_name, f"{name}{self.suffix}")  # noqa: PTH118  locators build texts

    def list(self, base_dir: str, app_name: str) -> Sequence[str]:
        """Return the ids of the app's files with this suffix, or [] if the app's folder does not exist."""
        folder = Path(base_dir, app_name)
        if not folder.is_dir():
            return []
        names = [each.name for each in folder.iterdir() if not each.is_dir()]
        return [name.removesuffix(self.suffix) for name in names if name.endswith(self.suffix)]


class _PathBuilder(Protocol):
    def build(self, base_dir: str, app_name: str, name: str, /) -> str: ...


class FileStore:
    """Documents in files. A lock keeps two processes on this machine from changing a folder at once."""

    def __init__(self, base_dir: str | Path, locator: _PathBuilder) -> None:
        self._base_dir = str(base_dir)
        self._locator = locator
        self._lock = threading.Lock()

    def read(self, app_name: str, name: str) -> bytes | None:
        """Return the text of a document in UTF-8, or None if the document does not exist.

        Raises:
            StorageError: the file cannot be read.
        """
        path = self.describe(app_name, name)
        try:
            return read_input_file(Path(path), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{path}: cannot be read: {error.strerror}") from error

    def change(self, app_name: str, name: str, update: Change) -> None:
        """Replace a document with the text that `update` returns. If `update` returns None, delete it.

        `update` gets the current text, or None if the document does not exist. If the folder does not exist,
        `update` is called twice: before and after the folder is created. If the first call raises an
        exception, no folder is created.

        Raises:
            StorageError: the file cannot be read or written.
        """
        path = Path(self.describe(app_name, name))
        try:
            if not path.parent.exists():
                update(None)  # raises its error for a missing eval set before a folder is created
            make_folder(path.parent)
            with self._lock, lock_folder(path.parent):
                text = update(self.read(app_name, name))
                if text is None:
                    path.unlink(missing_ok=True)
                else:
                    write_atomically(path, text)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error

    def list(self, app_name: str) -> Sequence[str]:
        """Return the names of an app's documents, or [] if the locator has no method `list`."""
        find: Callable[[str, str], Sequence[str]] | None = getattr(self._locator, "list", None)
        return [] if find is None else find(self._base_dir, app_name)

    def describe(self, app_name: str, name: str) -> str:
        """Return the path of the document."""
        return self._locator.build(self._base_dir, app_name, name)

    def close(self) -> None:
        """Do nothing: the store keeps no file open."""


class FsspecStore:
    """Documents as objects below an fsspec URL: `<url>/<app_name>/<id><suffix>`.

    If two processes change a document at the same time, the last change wins, because not every service has
    conditional writes.
    """

    def __init__(self, url: str, suffix: str, options: dict[str, Any]) -> None:
        """Open the file system of the URL.

        Raises:
            InvalidInputError: fsspec or the driver of the URL is missing, or the URL is invalid.
        """
        try:
            from fsspec.core import url_to_fs

            self._system, root = url_to_fs(url, **options)
        except ImportError:
            raise InvalidInputError(f"{url}: needs fsspec: {describe_install('fsspec')}") from None
        except ValueError as error:
            raise InvalidInputError(f"{url}: {error}") from None
        self._root = str(root).rstrip("/")
        self._suffix = suffix
        self._lock = threading.Lock()

    def read(self, app_name: str, name: str) -> bytes | None:
        """Return the text of a document in UTF-8, or None if the document does not exist.

        Raises:
            StorageError: the object cannot be read.
        """
        path = self.describe(app_name, name)
        with _translate_errors(path):
            try:
                return bytes(self._system.cat_file(path))
            except FileNotFoundError:
                return None

    def change(self, app_name: str, name: str, update: Change) -> None:
        """Replace a document with the text that `update` returns. If `update` returns None, delete it.

        `update` gets the current text, or None if the document does not exist.

        Raises:
            StorageError: the object cannot be read or written.
        """
        path = self.describe(app_name, name)
        with self._lock:
            text = update(self.read(app_name, name))
            with _translate_errors(path):
                if text is None:
                    self._system.rm_file(path)
                else:
                    self._write(path, text)

    def _write(self, path: str, text: str) -> None:
        folder, own = path.rpartition("/")[0], getattr(self._system, "protocol", "")
        if "file" not in own and "local" not in own:  # writing an object is atomic in an object store
            self._system.makedirs(folder, exist_ok=True)
            self._system.pipe_file(path, text.encode())
            return
        make_folder(Path(folder))
        write_atomically(Path(path), text)

    def list(self, app_name: str) -> Sequence[str]:
        """Return the names of an app's documents.

        Raises:
            StorageError: the service cannot list the objects.
        """
        folder = f"{self._root}/{app_name}"
        with _translate_errors(folder):
            self._system.invalidate_cache()  # cached listings lack the objects that other processes wrote
            try:
                paths = self._system.ls(folder, detail=False)
            except FileNotFoundError:
                return []
        names = [str(path).rstrip("/").rsplit("/", 1)[-1] for path in paths]
        return [name.removesuffix(self._suffix) for name in names if name.endswith(self._suffix)]

    def describe(self, app_name: str, name: str) -> str:
        """Return the full path of the object that stores the document."""
        return f"{self._root}/{app_name}/{name}{self._suffix}"

    def close(self) -> None:
        """Do nothing: the connections belong to fsspec, which shares them with other users."""


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # drivers raise what their clients raise
        raise StorageError(f"{path}: {type(error).__name__}: {error}") from error
