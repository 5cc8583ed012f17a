"""Files of the project that the agent imports or opens for reading, as Python's audit events show them."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any, Iterator, List, Optional, Set
from urllib.parse import unquote

_WRITES = os.O_WRONLY | os.O_TRUNC | os.O_EXCL
_PROGRAMS = frozenset(
    {
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "os.forkpty",
        "os.startfile",
        "cpython.PyInterpreterState_New",  # an interpreter has hooks of its own
    }
)
_UNAUDITED_STARTERS = (".popen_spawn_posix", ".popen_forkserver", ".popen_loky_posix")
"""Endings of the names of modules that start processes without an audit event.

Python imports such a module when it starts the first process with the module. So if one of these modules is
imported, processes may have started.
"""
_MOST_LINKS = 40
_FOREIGN_FOLDERS = frozenset({"site-packages", "dist-packages", "node_modules", ".git"})


class FileRecorder:
    """Recorder of the files that this process imports or opens for reading, and of the processes it starts.

    Creating the recorder installs an audit hook, which cannot be removed.
    """

    def __init__(self, home: str) -> None:
        self._home = os.path.realpath(home)
        self._root = _find_root(self._home)
        self._seen: Set[str] = set()
        self._new: List[str] = []
        self._written: Set[str] = set()
        # Empty, so that modules imported before count as new, such as the project's `sitecustomize`.
        self._modules: Set[str] = set()
        self._programs: List[str] = []
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, args: Any) -> None:
        # Called for every event of the process, in any thread: it must be quick and must never raise.
        if event == "open":
            path, mode, flags = args
        elif event in ("sqlite3.connect", "ctypes.dlopen"):
            path, mode, flags = args[0], "r", 0
        else:
            if event in _PROGRAMS:
                self._programs.append(event)
            return
        try:
            if isinstance(path, int):
                return
            text = os.fsdecode(path)
            # Not normalized: after a link to a folder, `..` is the parent of the link's target.
            name = os.path.join(os.getcwd(), _get_database_path(text) if event == "sqlite3.connect" else text)
        except Exception:  # noqa: BLE001  an object may raise anything when it is asked for its path
            return
        if (mode and mode[:1] in "wx") or (not mode and isinstance(flags, int) and flags & _WRITES):
            if name not in self._seen:
                self._written.add(os.path.normpath(name))
        elif name not in self._seen and os.path.normpath(name) not in self._written:
            self._seen.add(name)
            self._new.append(name)

    def take_message(self) -> Optional[dict[str, Any]]:
        """Return a `files` message with the project's files that were read since the last call.

        Paths are relative to `home`. `incomplete` is True if files may be missing. There are two reasons: the
        process started other programs or interpreters since the last call, or it has imported a module that
        starts processes without an audit event. Return None if there are no files and `incomplete` is False.
        """
        found: Set[str] = set()
        modules, self._modules = self._modules, set(sys.modules)
        names = [_get_module_file(sys.modules.get(name)) for name in self._modules - modules]
        opened, self._new = self._new, []
        for name in [*opened, *filter(None, names)]:
            plain = _get_uncompiled(name)
            if self._is_package_file(os.path.normpath(plain)):
                continue
            found.update(filter(None, map(self._find_relative, follow_links(plain))))
        programs, self._programs = self._programs, []
        programs += [name for name in self._modules if name.endswith(_UNAUDITED_STARTERS)]
        if not found and not programs:
            return None
        return {"type": "files", "paths": sorted(found), "incomplete": bool(programs)}

    def _find_relative(self, path: str) -> str:
        """Return the path relative to `home`; "" if the file does not exist or is not in the project.

        The project is the git repository around `home`, or `home` if there is no repository. Files of the
        interpreter, of installed packages, of `node_modules` and of `.git` are not in the project.
        """
        if not path.startswith(self._root + os.sep) or self._is_package_file(path):
            return ""
        if not os.path.isfile(path) and not os.path.islink(path):
            return ""
        return os.path.relpath(path, self._home).replace(os.sep, "/")

    def _is_package_file(self, path: str) -> bool:
        """Return True for a file of the interpreter, an installed package, `node_modules` or `.git`."""
        below = path[len(self._root) :] if path.startswith(self._root + os.sep) else path
        if not _FOREIGN_FOLDERS.isdisjoint(below.split(os.sep)):
            return True
        prefixes = {each + os.sep for each in (sys.prefix, os.path.realpath(sys.prefix))}
        # If a prefix contains the repository (/usr contains /usr/src/app), its files are not package files.
        return path.startswith(tuple(each for each in prefixes if not (self._root + os.sep).startswith(each)))


def follow_links(path: str) -> Iterator[str]:
    """Yield the absolute paths of the links on the way to a file, then the path of the file itself.

    Folders above the file may be links, too. The links count as files that were read: if one of them changes,
    the path leads to another file. At most 40 links are followed, since links may form a cycle.
    """
    at, rest, links = os.sep, path.split(os.sep)[::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            at = os.path.dirname(at)
        elif part not in ("", "."):
            inner = os.path.join(at, part)
            target = _read_link(inner) if links < _MOST_LINKS else ""
            if target:
                yield inner
                links += 1
                at = os.sep if os.path.isabs(target) else at
                rest += target.split(os.sep)[::-1]
            else:
                at = inner
    yield at


def _read_link(path: str) -> str:
    """Return the target of a link; "" if the path is not a link or cannot be read."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return ""


def _get_database_path(name: str) -> str:
    """Return the path of an SQLite database from its name, which may be a URI: `file:a.db?mode=ro`."""
    if not name.startswith("file:"):
        return name
    path = name[len("file:") :].partition("#")[0].partition("?")[0]
    if path.startswith("//"):
        path = os.sep + path[2:].partition("/")[2]
    return unquote(path)


def _get_module_file(module: object) -> str:
    """Return the absolute path of a module's file; "" if the module has no file."""
    try:
        return os.path.abspath(getattr(module, "__file__", None) or "") if module is not None else ""
    except Exception:  # noqa: BLE001  a module may raise anything when it is asked for its file
        return ""


def _get_uncompiled(path: str) -> str:
    """Return the source file of a `.pyc` file in `__pycache__`; return any other path unchanged."""
    if not path.endswith(".pyc"):
        return path
    try:
        return importlib.util.source_from_cache(path)
    except (ValueError, NotImplementedError):
        return path


def _find_root(home: str) -> str:
    """Return the root of the git repository around a folder, or the folder if there is no repository."""
    folder = home
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return home
        folder = parent
    return folder
