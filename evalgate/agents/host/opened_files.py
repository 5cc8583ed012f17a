"""Files of the project that the agent imports and opens for reading, seen through audit hooks of Python."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, List, Optional, Set

_WRITES = os.O_WRONLY | os.O_TRUNC
_PROGRAMS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile"}
)
_OTHERS = frozenset({"site-packages", "dist-packages", "node_modules", ".git"})


class OpenedFiles:
    """Recorder of opened files, from its creation on. It can never be removed from the process."""

    def __init__(self, home: str) -> None:
        self._home = os.path.realpath(home)
        self._root = _find_root(self._home)
        self._seen: Set[str] = set()
        self._new: List[str] = []
        self._written: Set[str] = set()
        self._modules: Set[str] = set(sys.modules)
        self._programs: List[str] = []
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, args: Any) -> None:
        # Called for every event of the process, in any thread: it must be quick and must never raise.
        if event == "open":
            path, mode, flags = args
        elif event == "sqlite3.connect":
            path, mode, flags = args[0], "r", 0
        else:
            if event in _PROGRAMS:
                self._programs.append(event)
            return
        try:
            if isinstance(path, int):
                return
            name = os.path.abspath(os.fsdecode(path))
        except Exception:  # noqa: BLE001  an object may raise anything when it is asked for its path
            return
        if (mode and mode[:1] in "wx") or (not mode and isinstance(flags, int) and flags & _WRITES):
            if name not in self._seen:
                self._written.add(name)
        elif name not in self._seen and name not in self._written:
            self._seen.add(name)
            self._new.append(name)

    def take_message(self) -> Optional[dict[str, Any]]:
        """Return a message with the files since the last call, relative to `home`; None without any."""
        found: Set[str] = set()
        modules, self._modules = self._modules, set(sys.modules)
        names = [_get_source(sys.modules.get(name)) for name in self._modules - modules]
        opened, self._new = self._new, []
        for name in [*opened, *filter(None, names)]:
            # A link counts with both of its ends, since either of them may change.
            for path in {name, os.path.realpath(name)}:
                relative = self._find_relative(_get_uncompiled(path))
                if relative:
                    found.add(relative)
        programs, self._programs = self._programs, []
        if not found and not programs:
            return None
        return {"type": "files", "paths": sorted(found), "incomplete": bool(programs)}

    def _find_relative(self, path: str) -> str:
        """Return the path relative to `home`; "" for a file outside of the repository, or of a package."""
        if not path.startswith(self._root + os.sep) or not os.path.isfile(path):
            return ""
        below = os.path.relpath(path, self._root).split(os.sep)
        prefix = os.path.realpath(sys.prefix) + os.sep
        if not _OTHERS.isdisjoint(below) or (prefix != self._root + os.sep and path.startswith(prefix)):
            return ""
        return os.path.relpath(path, self._home).replace(os.sep, "/")


def _get_source(module: object) -> str:
    try:
        return os.path.abspath(getattr(module, "__file__", None) or "") if module is not None else ""
    except Exception:  # noqa: BLE001  a module may raise anything when it is asked for its file
        return ""


def _get_uncompiled(path: str) -> str:
    """Return the source of a file with bytecode, and every other path as it is."""
    if not path.endswith(".pyc"):
        return path
    try:
        return importlib.util.source_from_cache(path)
    except (ValueError, NotImplementedError):
        return path


def _find_root(home: str) -> str:
    """Return the root of the git repository around a folder, or the folder itself."""
    folder = home
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return home
        folder = parent
    return folder
