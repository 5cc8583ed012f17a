"""Find entry points of installed packages; without any, `importlib.metadata` is not loaded.

That module loads the standard library's e-mail parser and opens files of every installed package: a tenth of
the time in which a run starts. Few installations have a plugin.
"""

import importlib
import os
import sys
import threading
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def list_entry_points(group: str) -> tuple["EntryPoint", ...]:
    """Return the entry points of a group, named `evalgate.…`, sorted by name."""
    if not _may_have_plugins(tuple(sys.path)):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))


@cache
def _may_have_plugins(folders: tuple[str, ...]) -> bool:
    """Return True if a package installed in the folders may have entry points of evalgate's groups."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True  # it finds packages that are in no folder
    return any(_may_hold_plugins(folder or ".") for folder in folders)


def _may_hold_plugins(folder: str) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208  pathlib makes an object of each
    except FileNotFoundError:
        return False
    except OSError:
        return True  # such as a ZIP file with packages
    for name in names:
        if name.lower().endswith((".dist-info", "egg-info")):
            try:
                with open(f"{folder}/{name}/entry_points.txt", "rb", buffering=0) as file:  # noqa: PTH123
                    if b"[evalgate." in file.read():
                        return True
            except OSError:
                continue
    return False


class _MetadataOnUse(ModuleType):
    """Stand-in for `importlib.metadata` that loads it at the first search, or read of another name."""

    def __init__(self) -> None:
        super().__init__(_METADATA)
        # What makes it a package: `from … import` asks for it first.
        self.__path__ = [f"{folder}/metadata" for folder in importlib.__path__]
        self.__spec__ = ModuleSpec(_METADATA, None, is_package=True)  # or `find_spec` raises an error

    def __getattr__(self, name: str) -> Any:
        if name in _SEARCHES:
            return partial(_call_metadata, name)
        return getattr(_load_metadata(), name)


_METADATA = "importlib.metadata"
_SEARCHES = ("distributions", "entry_points")
"""Functions of `importlib.metadata` that other packages import, but seldom call."""
_LOADING = threading.RLock()
"""Held while the stand-in is replaced, so that two threads do not load two modules."""


def defer_metadata_import() -> None:
    """Load `importlib.metadata` only once it is used.

    Pydantic imports it to search for plugins, even if the environment allows none.
    """
    if _METADATA not in sys.modules:
        module = sys.modules[_METADATA] = _MetadataOnUse()
        vars(importlib)["metadata"] = module  # as an import does


def _call_metadata(name: str, *arguments: Any, **options: Any) -> Any:
    return getattr(_load_metadata(), name)(*arguments, **options)


def _load_metadata() -> ModuleType:
    with _LOADING:
        if isinstance(sys.modules.get(_METADATA), _MetadataOnUse):
            del sys.modules[_METADATA]
        return importlib.import_module(_METADATA)
