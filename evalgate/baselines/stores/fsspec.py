"""A baseline wherever fsspec reaches: `s3://BUCKET/FOLDER`, `gs://…`, `az://…`, any URL that it knows.

The folder holds an object for each gate run, named by time and content. Nothing is ever overwritten: whoever
saves a run adds an object, and removes those that the newest runs have pushed out. So writers need no lock
and no conditional writes, which not every service has: of any number at once, none loses its run.

Credentials are the service's own business, in the environment; none may stand in the URL.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import Any
from urllib.parse import urlsplit

from evalgate.baselines.history import parted, together
from evalgate.baselines.serialization import dump_baseline, is_baseline, read_standard
from evalgate.core.errors import InvalidInput, NoVerdict
from evalgate.core.extras import describe_install
from evalgate.core.frozen import frozen
from evalgate.core.protocols import BaselinePlace
from evalgate.core.sanitize import log_line
from evalgate.core.types import Baseline, BaselineSource
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
"""What has to be installed for a kind of URL."""

EXTRAS: Mapping[str, str] = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "azure", "fsspec": "fsspec"}
"""The extra of evalgate that brings a package."""

_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\s?#*\[\]{}\x00-\x1f\x7f]+")
_WITH_ACCOUNT = frozenset({"abfs", "abfss", "sftp", "ssh"})
"""Where the part before an `@` is no secret, but a container or a user."""
_WITH_FOLDERS = frozenset({"file", "local", "sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"})
"""Where a folder must be made, and a file can be seen before it is whole."""
_OBJECT = re.compile(r"[0-9A-Za-z]{1,20}-[0-9a-f]{16}\.json")
_LARGEST = 256 * 1024 * 1024
_MOST_OBJECTS = 2000
_ATTEMPTS = 10


def object_baseline(url: str, place: BaselinePlace) -> "BaselineObjects":
    """The store at a URL.

    Raises:
        InvalidInput: it is no URL that can be used, or holds a secret.
    """
    parts = urlsplit(url)
    shown_as = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc and (parts.password is not None or parts.scheme not in _WITH_ACCOUNT):
        raise InvalidInput(f"{shown_as}: a baseline's URL holds no credentials: the environment does")
    if not _URL.fullmatch(url) or "::" in url or ".." in parts.path.split("/"):
        raise InvalidInput(
            f"{log_line(shown_as, 200)}: a baseline's URL is SCHEME://PLACE/FOLDER, without `?`, `#`, `..`, "
            "blanks and wildcards"
        )
    return BaselineObjects(url.rstrip("/"), place)


@frozen
class BaselineObjects:
    """The gate runs below `url`; or one file, if that is what is there."""

    url: str
    place: BaselinePlace = field(repr=False)

    def read(self) -> Baseline | None:
        """The gate runs that are there, as one baseline; None when there is none."""
        folder = self._folder()
        found = folder.single()
        if found is not None:
            return replace(read_standard(found, self.url), path=self.url)
        return self._as_one(folder.parts())

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Read and change; then add what is new and remove what is gone."""
        try:
            return self._updated(self._folder(), change)
        except NoVerdict as error:
            raise OSError(str(error)) from None

    def _updated(self, folder: "_Folder", change: Callable[[Baseline | None], Baseline]) -> Baseline:
        if folder.single() is not None:
            raise InvalidInput(f"{self.url}: this is one file, which is left as it is. Name a folder.")
        stored = folder.parts()
        before = self._as_one(stored)
        after = change(before)
        names = {part.sources[0]: name for name, part in stored.items()}
        known = {part.sources[0]: _runs_in(part) for part in parted(before)} if before else {}
        kept = {
            names[part.sources[0]] if known.get(part.sources[0]) == _runs_in(part) else folder.add(part)
            for part in parted(after)
        }
        # whoever reads meanwhile finds too much rather than too little
        folder.remove(stored.keys() - kept)
        return replace(after, path=self.url, version="")

    def _as_one(self, stored: Mapping[str, Baseline]) -> Baseline | None:
        found = together(stored.values())
        if found is None:
            return None
        return replace(found, path=self.url, version=f"up to {max(stored).removesuffix('.json')}")

    def _folder(self) -> "_Folder":
        scheme = urlsplit(self.url).scheme
        redactor = Redactor.of(self.place.environ)
        try:
            from fsspec.core import url_to_fs

            with _sorted_out(self.url, redactor):
                system, root = url_to_fs(self.url, skip_instance_cache=True)
        except ImportError:
            missing = PACKAGES.get(scheme, "fsspec")
            how = describe_install(EXTRAS[missing]) if missing in EXTRAS else f"`pip install {missing}`"
            raise InvalidInput(
                f"{self.url}: {scheme}:// needs a driver that is not installed: {how}"
            ) from None
        return _Folder(system, str(root).rstrip("/"), self.url, redactor, has_folders=scheme in _WITH_FOLDERS)


def _runs_in(part: Baseline) -> Mapping[tuple[str, str], object]:
    """What a gate run tells: all but how its cases stand today."""
    return {(case.eval_set_id, case.eval_id): (case.fingerprint, case.runs) for case in part.cases}


@contextmanager
def _sorted_out(url: str, redactor: Redactor) -> Iterator[None]:
    """Whatever a driver raises, as an error of ours without a secret in it; what is missing stays missing."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001  drivers raise what their clients raise
        said = log_line(redactor.text(f"{type(error).__name__}: {error}"), 300)
        if (
            isinstance(error, PermissionError | ValueError | TypeError)
            or "Credential" in type(error).__name__
        ):
            raise InvalidInput(f"{url}: it cannot be used: {said}") from None
        raise NoVerdict(f"{url}: the baseline cannot be reached: {said}") from None


@frozen
class _Folder:
    """A folder of objects behind fsspec, which has no types."""

    system: Any
    root: str
    url: str
    redactor: Redactor
    has_folders: bool

    def single(self) -> bytes | None:
        """The content of a file that has the folder's own name; None when there is none."""
        if not self.root.endswith(".json"):
            return None
        try:
            [content] = self._contents([self.root])
        except (FileNotFoundError, IsADirectoryError):
            return None
        return content

    def parts(self) -> dict[str, Baseline]:
        """Name → the gate run in it, the oldest first."""
        for _ in range(_ATTEMPTS):
            names = self._names()
            try:
                contents = self._contents([f"{self.root}/{name}" for name in names])
            except FileNotFoundError:  # somebody else removed it, and added another before
                continue
            return {name: self._part(name, content) for name, content in zip(names, contents, strict=True)}
        raise NoVerdict(f"{self.url}: the baseline changes faster than it can be read")

    def add(self, part: Baseline) -> str:
        """Write a gate run; gives its object's name."""
        text = dump_baseline(part).encode()
        name = _name(part.sources[0], text)
        path = f"{self.root}/{name}"
        with _sorted_out(self.url, self.redactor):
            if not self.has_folders:
                self.system.pipe_file(path, text)
                return name
            self.system.makedirs(self.root, exist_ok=True)
            whole = f"{path}.{secrets.token_hex(4)}.part"
            self.system.pipe_file(whole, text)
            self.system.mv(whole, path)
            return name

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that somebody else has removed are gone anyway."""
        for name in sorted(names):
            with suppress(FileNotFoundError), _sorted_out(self.url, self.redactor):
                self.system.rm_file(f"{self.root}/{name}")

    def _names(self) -> list[str]:
        with _sorted_out(self.url, self.redactor):
            self.system.invalidate_cache()
            try:
                listed = self.system.ls(self.root, detail=False)
            except FileNotFoundError:
                return []
        names = {str(path).rsplit("/", 1)[-1] for path in listed}
        return sorted(filter(_OBJECT.fullmatch, names))[-_MOST_OBJECTS:]

    def _part(self, name: str, content: bytes) -> Baseline:
        where = f"{self.url}/{name}"
        found = read_standard(content, where) if is_baseline(parse_json(content, where)) else None
        if found is None or len(found.sources) != 1:
            raise InvalidInput(f"{where}: this is no gate run that evalgate saved: remove it")
        return found

    def _contents(self, paths: list[str]) -> list[bytes]:
        """What is in the objects, at the same time where the service allows it."""
        with _sorted_out(self.url, self.redactor):
            found = self.system.cat_ranges(paths, 0, _LARGEST + 1, on_error="return") if paths else []
            for each in found:
                if isinstance(each, Exception):
                    raise each
        if any(len(each) > _LARGEST for each in found):
            raise InvalidInput(f"{self.url}: a file in it is larger than {_LARGEST:,} bytes")
        return [bytes(each) for each in found]


def _name(source: BaselineSource, text: bytes) -> str:
    """Sorts by time, and differs where anything does."""
    when = re.sub(r"[^0-9A-Za-z]", "", source.created_at or "")[:20] or "0"
    return f"{when}-{hashlib.sha256(text).hexdigest()[:16]}.json"
