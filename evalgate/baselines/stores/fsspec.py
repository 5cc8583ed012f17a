"""Store a baseline anywhere that fsspec reaches: `s3://BUCKET/FOLDER`, `gs://…`, `az://…` and other URLs.

The folder holds an object for each gate run. The object's name consists of the run's time and a hash of the
content. No object is ever overwritten: a writer adds the object of its run, and removes the objects of runs
that are not kept any more. So any number of writers can save at once without losing a run. They need no locks
or conditional writes, which some services lack.

Credentials come from the environment variables that the service defines; the URL must not hold credentials.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import Any
from urllib.parse import urlsplit

from evalgate.baselines.history import join_baselines, split_baseline
from evalgate.baselines.serialization import dump_baseline, is_baseline, load_baseline_or_results
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.core.protocols import StoreContext
from evalgate.core.sanitize import to_log_line
from evalgate.core.types import Baseline
from evalgate.documents.strict_json import parse_json
from evalgate.redaction.redactor import Redactor

PACKAGES: Mapping[str, str] = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "adl": "adlfs",
    "sftp": "fsspec paramiko",
    "ssh": "fsspec paramiko",
    "http": "fsspec aiohttp",
    "https": "fsspec aiohttp",
}
"""Names of the packages that a URL needs, separated by spaces, by the scheme of the URL."""

EXTRAS: Mapping[str, str] = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure", "fsspec": "fsspec"}
"""Extra of evalgate that installs each package."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s?#*\[\]{}\x00-\x1f\x7f]+")
_WITH_ACCOUNT = frozenset({"abfs", "abfss", "sftp", "ssh"})
"""URL schemes with a container or a user before the `@`; with other schemes this may be a secret."""
_WITH_FOLDERS = frozenset({"file", "local", "sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"})
"""URL schemes of services in which folders must be created, and readers can see incomplete files."""
_S3 = ("s3://", "s3a://")
_OBJECT = re.compile(r"[0-9A-Za-z]{1,20}-[0-9a-f]{16}\.json")
_LARGEST = 256 * 1024 * 1024
_MOST_OBJECTS = 2000
_ATTEMPTS = 10


def build_fsspec_store(url: str, context: StoreContext) -> "FsspecStore":
    """Build the store for a URL, which names a folder, or a single `.json` file that is only read.

    Raises:
        InvalidInputError: the URL cannot be used, or holds a secret.
    """
    parts = urlsplit(url)
    shown_as = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc and (parts.password is not None or parts.scheme not in _WITH_ACCOUNT):
        raise InvalidInputError(f"{shown_as}: a baseline's URL holds no credentials: the environment does")
    if not _URL.fullmatch(url) or "::" in url or ".." in parts.path.split("/"):
        raise InvalidInputError(
            f"{to_log_line(shown_as, 200)}: a baseline's URL is SCHEME://PLACE/FOLDER, without "
            f"`?`, `#`, `..`, "
            "blanks and wildcards"
        )
    return FsspecStore(url.rstrip("/"), context)


@frozen
class FsspecStore:
    """Baseline store in the folder at `url`. If `url` names a `.json` file, the store can only read it."""

    url: str
    context: StoreContext = field(repr=False)

    def read(self) -> Baseline | None:
        """Read all gate runs (calls of the gate) as one baseline, or return None if there is no gate run.

        Raises:
            InvalidInputError: the driver or the bucket is missing, access is refused, or an object is not a
                gate run.
            NoVerdictError: the service cannot be reached, or other writers change the folder too fast.
        """
        folder = self._open_folder()
        found = folder.read_single_file()
        if found is not None:
            return replace(load_baseline_or_results(found, self.url), path=self.url)
        return self._join_stored(folder.read_runs())

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Replace the stored gate runs by the gate runs in the result of `change`, and return this result.

        `change` gets None if there are no gate runs yet. First, new and changed gate runs are written. Then
        the gate runs that are not in the result are removed.

        Raises:
            InvalidInputError: the driver or the bucket is missing, the baseline cannot be read, access is
                refused, or the URL names a file.
            OSError: the service cannot be reached.
        """
        try:
            return self._update_folder(self._open_folder(), change)
        except NoVerdictError as error:
            raise OSError(str(error)) from None

    def _update_folder(
        self, folder: "_ObjectFolder", change: Callable[[Baseline | None], Baseline]
    ) -> Baseline:
        if folder.read_single_file() is not None:
            raise InvalidInputError(f"{self.url}: this is one file, which is left as it is. Name a folder.")
        stored = folder.read_runs()
        before = self._join_stored(stored)
        after = change(before)
        names = {part.sources[0]: name for name, part in stored.items()}
        known = {part.sources[0]: _index_runs(part) for part in split_baseline(before)} if before else {}
        kept = {
            names[part.sources[0]]
            if known.get(part.sources[0]) == _index_runs(part)
            else folder.write_run(part)
            for part in split_baseline(after)
        }
        # Removed last: a reader in between finds too many runs rather than too few.
        folder.remove_objects(stored.keys() - kept)
        return replace(after, path=self.url, version="")

    def _join_stored(self, stored: Mapping[str, Baseline]) -> Baseline | None:
        found = join_baselines(stored.values())
        if found is None:
            return None
        return replace(found, path=self.url, version=f"up to {max(stored).removesuffix('.json')}")

    def _open_folder(self) -> "_ObjectFolder":
        scheme = urlsplit(self.url).scheme
        redactor = Redactor.from_environment(self.context.environ)
        try:
            from fsspec.core import url_to_fs

            with _translate_errors(self.url, redactor):
                system, root = url_to_fs(self.url, skip_instance_cache=True)
        except ImportError:
            missing = PACKAGES.get(scheme, "fsspec")
            how = describe_install(EXTRAS[missing]) if missing in EXTRAS else f"`pip install {missing}`"
            raise InvalidInputError(
                f"{self.url}: {scheme}:// needs a driver that is not installed: {how}"
            ) from None
        return _ObjectFolder(
            system, str(root).rstrip("/"), self.url, redactor, has_folders=scheme in _WITH_FOLDERS
        )


def _index_runs(part: Baseline) -> Mapping[tuple[str, str], object]:
    """Return (fingerprint, runs) by case key. An object is written again only if this mapping differs."""
    return {case.key: (case.fingerprint, case.runs) for case in part.cases}


@contextmanager
def _translate_errors(url: str, redactor: Redactor) -> Iterator[None]:
    """Convert errors of a driver in the block to InvalidInputError or NoVerdictError, without secrets.

    FileNotFoundError, IsADirectoryError and ImportError pass through.
    """
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001  drivers raise what their clients raise
        message = to_log_line(redactor.redact_text(f"{type(error).__name__}: {error}"), 300)
        if (
            isinstance(error, PermissionError | ValueError | TypeError)
            or "Credential" in type(error).__name__
        ):
            raise InvalidInputError(f"{url}: it cannot be used: {message}") from None
        raise NoVerdictError(f"{url}: the baseline cannot be reached: {message}") from None


@frozen
class _ObjectFolder:
    """Folder of objects, read and written through fsspec."""

    system: Any
    """The file system object of fsspec (`Any`, because fsspec has no type hints)."""
    root: str
    """Path of the folder in `system`."""
    url: str
    redactor: Redactor
    has_folders: bool
    """True if the service has real folders: they must be created, and readers can see incomplete files."""

    def read_single_file(self) -> bytes | None:
        """Return the content of the file at `root`; None if there is no such file.

        Return None, too, if `root` does not end in `.json`.

        Raises:
            InvalidInputError: access is refused, or the file is too large.
            NoVerdictError: the service cannot be reached.
        """
        if not self.root.endswith(".json"):
            return None
        try:
            [content] = self._read_contents([self.root])
        except (FileNotFoundError, IsADirectoryError):
            return None
        return content

    def read_runs(self) -> dict[str, Baseline]:
        """Return the gate runs by the name of their object, the oldest first; at most the newest 2,000.

        Raises:
            InvalidInputError: access is refused, the bucket is missing, or an object is not a gate run.
            NoVerdictError: the service cannot be reached, or other writers change the folder too fast.
        """
        for _ in range(_ATTEMPTS):
            names = self._list_names()
            try:
                contents = self._read_contents([f"{self.root}/{name}" for name in names])
            except FileNotFoundError:  # another writer added an object and removed this one
                continue
            return {
                name: self._load_run(name, content) for name, content in zip(names, contents, strict=True)
            }
        raise NoVerdictError(f"{self.url}: the baseline changes faster than it can be read")

    def write_run(self, part: Baseline) -> str:
        """Write a gate run, and return the name of its object.

        Raises:
            InvalidInputError: access is refused.
            NoVerdictError: the service cannot be reached.
        """
        text = dump_baseline(part).encode()
        # Names sort by time, and contents that differ have different names.
        made = re.sub(r"[^0-9A-Za-z]", "", part.sources[0].created_at or "")[:20] or "0"
        name = f"{made}-{hashlib.sha256(text).hexdigest()[:16]}.json"
        path = f"{self.root}/{name}"
        with _translate_errors(self.url, self.redactor):
            if not self.has_folders:  # an object store shows an object only once it is complete
                self.system.pipe_file(path, text)
                return name
            self.system.makedirs(self.root, exist_ok=True)
            # A reader must not see half a file, so only the complete file gets the final name.
            whole = f"{path}.{secrets.token_hex(4)}.part"
            self.system.pipe_file(whole, text)
            self.system.mv(whole, path)
            return name

    def remove_objects(self, names: Iterable[str]) -> None:
        """Remove the objects with these names, except objects that another writer has removed already.

        Raises:
            InvalidInputError: access is refused.
            NoVerdictError: the service cannot be reached.
        """
        for name in sorted(names):
            with suppress(FileNotFoundError), _translate_errors(self.url, self.redactor):
                self.system.rm_file(f"{self.root}/{name}")

    def _list_names(self) -> list[str]:
        try:
            with _translate_errors(self.url, self.redactor):
                # Drivers cache listings, and would not show new objects of other writers.
                self.system.invalidate_cache()
                listed = self.system.ls(self.root, detail=False)
        except FileNotFoundError:
            self._check_bucket()
            return []
        names = {str(path).rsplit("/", 1)[-1] for path in listed}
        return sorted(filter(_OBJECT.fullmatch, names))[-_MOST_OBJECTS:]

    def _check_bucket(self) -> None:
        """Raise InvalidInputError if S3 has no such bucket, for example because its name is misspelt.

        Raise nothing if access to the bucket itself is refused: whether it exists is unknown.
        """
        if not self.url.startswith(_S3):
            return
        bucket = self.root.partition("/")[0]
        try:
            self.system.info(bucket)
        except FileNotFoundError:
            raise InvalidInputError(
                f"{self.url}: there is no bucket {bucket}: correct its name, or create it"
            ) from None
        except Exception:  # noqa: BLE001  drivers raise what their clients raise
            return

    def _load_run(self, name: str, content: bytes) -> Baseline:
        where = f"{self.url}/{name}"
        found = load_baseline_or_results(content, where) if is_baseline(parse_json(content, where)) else None
        if found is None or len(found.sources) != 1:
            raise InvalidInputError(f"{where}: this is no gate run that evalgate saved: remove it")
        return found

    def _read_contents(self, paths: list[str]) -> list[bytes]:
        """Return the contents of the objects, fetched in parallel if the service allows it.

        Raises:
            FileNotFoundError: one of the objects is gone.
            InvalidInputError: access is refused, or an object is too large.
            NoVerdictError: the service cannot be reached.
        """
        with _translate_errors(self.url, self.redactor):
            found = self.system.cat_ranges(paths, 0, _LARGEST + 1, on_error="return") if paths else []
            for each in found:
                if isinstance(each, Exception):
                    raise each
        if any(len(each) > _LARGEST for each in found):
            raise InvalidInputError(f"{self.url}: a file in it is larger than {_LARGEST:,} bytes")
        return [bytes(each) for each in found]
