"""Import of a metric's code, with a check that each file is the one that the gate read.

An agent that runs as the gate's own user can rewrite the copy from which a metric runs. The gate therefore
records the digest of each file in the copy, and the host checks each file when it is imported. A Python file
is executed from the bytes that were checked. An extension module is checked just before it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from types import ModuleType
from typing import Any, NoReturn

from .errors import UnusableEntryError

MANIFEST = ".evalgate-digests.json"
"""Name of the file in a metric's folder that holds the SHA-256 of each other file by relative path."""

_homes: dict[str, dict[str, str]] = {}
"""SHA-256 digests of the files in each metric's folder: by folder, and by path relative to the folder."""


def verify_code(home: str, digest: str) -> None:
    """Check all files of a metric's folder against the manifest, and make imports check each file again.

    Args:
        home: Absolute path of the folder with the metric's code and its manifest.
        digest: SHA-256 of the manifest, in hexadecimal.

    Raises:
        UnusableEntryError: a file in the manifest, or the manifest itself, was changed or removed.
    """
    manifest = _read_bytes(os.path.join(home, MANIFEST))
    if manifest is None or hashlib.sha256(manifest).hexdigest() != digest:
        _raise_changed(MANIFEST)
    digests: dict[str, str] = json.loads(manifest)
    _homes[home] = digests
    for path in digests:
        _read_verified(os.path.join(home, path))
    # Finders that are cached already would go on reading files unchecked.
    sys.path_hooks.insert(0, _create_verified_finder)
    sys.path_importer_cache.clear()


def create_verified_loader(name: str, file: str) -> SourceFileLoader | None:
    """Return a loader that checks `file`; None if `verify_code` was not called for a folder around `file`."""
    return _VerifiedSourceLoader(name, file) if _find_home(file) else None


class _VerifiedSourceLoader(SourceFileLoader):
    """Loader that compiles a Python file only if its bytes have the digest in the manifest."""

    def get_data(self, path: str) -> bytes:
        return _read_verified(path) if _find_home(path) else super().get_data(path)

    def path_stats(self, path: str) -> NoReturn:
        # Without path statistics Python uses no `.pyc` file, which the agent could have written.
        raise OSError(path)


class _VerifiedExtensionLoader(ExtensionFileLoader):
    """Loader of extension modules that checks the digest of the file just before the file is loaded."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        # The dynamic linker reads the file itself, so it cannot get the bytes that were checked.
        _read_verified(self.path)
        return super().create_module(spec)


def _create_verified_finder(path: str) -> Any:
    """Return a finder of modules with loaders that check each file. Used as a hook in `sys.path_hooks`.

    Raises:
        ImportError: `path` is neither a metric's folder nor in one. Python then uses its own finders.
    """
    if path not in _homes and not _find_home(path):
        raise ImportError("not a folder of the metric")
    loaders = ((_VerifiedExtensionLoader, EXTENSION_SUFFIXES), (_VerifiedSourceLoader, SOURCE_SUFFIXES))
    return FileFinder(path, *loaders)


def _find_home(path: str) -> str:
    return next((home for home in _homes if path.startswith(home + os.sep)), "")


def _read_verified(path: str) -> bytes:
    """Return the content of a file in a metric's folder, after checking its digest.

    Raises:
        UnusableEntryError: the file cannot be read, or its digest is not the digest in the manifest.
    """
    home = _find_home(path)
    inner = os.path.relpath(path, home)
    data = _read_bytes(path)
    if data is None or hashlib.sha256(data).hexdigest() != _homes[home].get(inner):
        _raise_changed(inner)
    return data


def _read_bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _raise_changed(path: str) -> NoReturn:
    raise UnusableEntryError(
        f"{path} in the copy that it runs from is not what the gate read before it started an agent: "
        "something that runs as the same user changed it. Run the gate as another user, as the container does"
    )
