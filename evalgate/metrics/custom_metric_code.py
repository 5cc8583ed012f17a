"""Read the code of custom metrics before the agent starts, and write a copy for the metric's process.

Scores of two runs are comparable only if the digests of the metric's code are equal.
"""

import ast
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from evalgate.agents.host.verified_code import MANIFEST
from evalgate.core.protocols import (
    MetricCode,
    MetricEnvironment,
)
from evalgate.system.committed_files import CodeFiles, FolderFiles

_DIGITS = 16
_MOST_OF_FILE = 8 * 1024 * 1024
_MOST_OF_FOLDER = 32 * 1024 * 1024
"""Largest total size, in bytes, of copied files that the metric does not import.

These files are below the folder of the metric's module. `_MOST_OF_FILE` limits the size of each of them.
Imported files are copied, however large they are."""


def write_metric_code(code: MetricCode, folder: Path) -> str:
    """Write the files of a metric and a manifest of their digests into an empty folder.

    Return the SHA-256 of the manifest, in hexadecimal. With this digest the metric's process detects changes
    by an agent that runs as the same user. Finally make the metric's files and all folders read-only.
    """
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in code.files.items()}
    manifest = json.dumps(digests).encode()
    (folder / MANIFEST).write_bytes(manifest)
    for name, content in code.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o444)
    for path in sorted({folder, *folder.rglob("*")}, reverse=True):
        if path.is_dir():
            path.chmod(0o555)
    return hashlib.sha256(manifest).hexdigest()


def read_current_code(environment: MetricEnvironment, entry: str) -> MetricCode:
    """Read the code of the metric with an entry point; later changes of the files do not affect the result.

    Call `environment.read_code`, which reads the files of a commit. If `environment.read_code` is None, read
    the files in `environment.folder`.
    """
    roots = find_code_roots(environment.folder, environment.env.get("PYTHONPATH", ""))
    if environment.read_code is not None:
        return environment.read_code(entry, roots)
    return read_metric_code(entry, environment.folder, FolderFiles(environment.folder), roots)


def hash_metric_code(entry: str, folder: Path) -> str:
    """Return the digest of a metric's code: 16 hexadecimal digits, or "" if the module is not found.

    `folder` is the workspace. The module is searched for only there, not in `folder/src` or PYTHONPATH.
    """
    return read_metric_code(entry, folder, FolderFiles(folder)).digest


def read_metric_code(entry: str, home: Path, files: CodeFiles, roots: Sequence[str] = ()) -> MetricCode:
    """Read the code of a metric: its module, the files that it imports, and the other files of its folder.

    The code is not executed: only its `import` statements are followed, directly and indirectly. Imported
    modules are searched for next to the importing file or its outermost package, in the workspace, and in
    `roots`. Imports by a computed name, and installed packages, are not found.

    The digest covers the module and the files that it imports. It does not cover:

    - imported files that are found only in `roots`,
    - an `__init__.py` that no statement imports (Python runs it because a module is in its package),
    - the other files of the folder.

    If the module itself is found only in `roots`, the digest is "". If the module is not found at all, the
    digest is "", and the result has no files.

    Args:
        entry: Entry point of the metric, as `package.module:function` or `path/to/file.py:function`.
        home: Path of the workspace. A file path in `entry` must lead to a file in the workspace.
        files: Files of the workspace, or of the same folder at a commit.
        roots: Further folders of the workspace in which Python looks for modules, such as `src`.
    """
    reader = _CodeReader(files, ("", *roots))
    first = reader.find_entry(entry, home)
    if not first:
        return MetricCode(entry, {}, roots=reader.roots)
    imported = reader.find_imported_files(first, with_packages=True)
    left_out = reader.read_folder(os.path.dirname(first))  # noqa: PTH120  of a path in a commit
    counting = _CodeReader(files, ("",), reader.contents).find_imported_files(first, with_packages=False)
    digest = _compute_digest({path: reader.contents[path] for path in counting})
    in_workspace = first if reader.found_in_workspace else ""
    return MetricCode(
        entry, reader.contents, imported, reader.roots, digest if in_workspace else "", left_out
    )


def find_code_roots(home: Path, python_path: str) -> tuple[str, ...]:
    """Return the folders below the workspace in which Python looks for modules, relative to the workspace.

    These are the folders of PYTHONPATH that are in the workspace, and `src`. An editable installation of the
    workspace's own package usually points to `src`.
    """
    paths = (os.path.relpath(home / each, home) for each in python_path.split(os.pathsep) if each)
    inner = (each for each in paths if each != "." and not _leads_outside(each))
    return tuple(dict.fromkeys([*inner, "src"]))


def strip_python_path(home: Path, python_path: str) -> str:
    """Return `python_path` without the workspace and the folders in it, because an agent can write there."""
    entries = [each for each in python_path.split(os.pathsep) if each]
    return os.pathsep.join(each for each in entries if _leads_outside(os.path.relpath(home / each, home)))


def _leads_outside(path: str) -> bool:
    """Return True if a normalized relative path leads out of its starting folder: `../lib`, not `..lib`."""
    return path == os.pardir or path.startswith(os.pardir + os.sep)


class _CodeReader:
    """Reader of a workspace's files, which reads each file at most once and follows import statements."""

    def __init__(
        self, files: CodeFiles, roots: tuple[str, ...], contents: dict[str, bytes] | None = None
    ) -> None:
        self._files = files
        self.roots = roots
        self.contents: dict[str, bytes] = {} if contents is None else contents
        self.found_in_workspace = True
        """False: the entry's module was found in a root other than the workspace itself."""

    def find_entry(self, entry: str, home: Path) -> str:
        """Return the file of the module in `entry`, relative to the workspace; "" if it is not found.

        Also set `found_in_workspace` to False if the module was found only in a further root, such as `src`.
        """
        module = entry.rpartition(":")[0]
        if module.endswith(".py"):
            path = os.path.relpath(home / module, home)
            return path if not _leads_outside(path) and self._files.is_file(path) else ""
        for root in self.roots:
            if found := self._find_module(module.split("."), root):
                self.found_in_workspace = not root
                return found
        return ""

    def find_imported_files(self, first: str, *, with_packages: bool) -> frozenset[str]:
        """Read `first` and all files that it imports, directly or indirectly, and return their paths.

        If `with_packages` is True, include the `__init__.py` of each package that contains one of these
        files, and the files that this `__init__.py` imports.
        """
        found, open_ = {first}, [first]
        while open_:
            path = open_.pop()
            if path not in self.contents:
                self.contents.update(self._files.read_files([path]))
            imported = list(self._find_imports(path, self.contents[path]))
            packages = self._find_packages(path) if with_packages else ()
            for each in (*imported, *packages):
                if each not in found:
                    found.add(each)
                    open_.append(each)
        return frozenset(found)

    def read_folder(self, folder: str) -> tuple[str, ...]:
        """Read the files below a folder that are not read yet; return the paths of files that are too large.

        A file may have at most `_MOST_OF_FILE` bytes, and all files that are read here together at most
        `_MOST_OF_FOLDER`. Files beyond these limits are not read. Their paths are returned, sorted.
        """
        sizes = {
            path: size for path, size in self._files.list_folder(folder).items() if path not in self.contents
        }
        kept, room = [], _MOST_OF_FOLDER
        for path, size in sizes.items():
            if size <= min(room, _MOST_OF_FILE):
                kept.append(path)
                room -= size
        self.contents.update(self._files.read_files(kept))
        return tuple(sorted(sizes.keys() - set(kept)))

    def _find_imports(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the paths of the workspace's modules that a file imports.

        Yield nothing if the file has a syntax error.
        """
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # the metric fails with this error when it is called
        for node in ast.walk(tree):
            for names, roots in self._find_import_names(node, path):
                for root in roots:
                    # In `from package import name`, the name may be a module or an object of the package.
                    for end in range(1, len(names) + 1):
                        if found := self._find_module(names[:end], root):
                            yield found

    def _find_import_names(self, node: ast.AST, path: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
        """Yield (parts of the name, folders to search) for each name that an import statement imports.

        `node` is any node of the syntax tree of the file `path`; yield nothing if it is no import statement.
        The folders are relative to the workspace; "" is the workspace itself.
        """
        if isinstance(node, ast.Import):
            yield from (
                (each.name.split("."), (self._find_import_root(path), *self.roots)) for each in node.names
            )
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            roots = (self._find_import_root(path), *self.roots)
            if node.level:
                above = PurePosixPath(path).parents
                roots = (_to_text(above[node.level - 1]),) if node.level <= len(above) else ()
            yield from (([*module, each.name], roots) for each in node.names)

    def _find_import_root(self, path: str) -> str:
        """Return the folder that contains a file's outermost package; the file's folder if it is in none."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            folder = folder.parent
        return _to_text(folder)

    def _find_packages(self, path: str) -> Iterator[str]:
        """Yield the `__init__.py` of each package that contains the file; Python runs these first."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            yield str(folder / "__init__.py")
            folder = folder.parent

    def _find_module(self, names: Sequence[str], root: str) -> str:
        module = PurePosixPath(root, *names)
        for path in (module.with_name(f"{module.name}.py"), module / "__init__.py"):
            if self._files.is_file(str(path)):
                return str(path)
        return ""


def _to_text(folder: PurePosixPath) -> str:
    return str(folder) if folder.parts else ""


def _compute_digest(contents: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    # Sorted as paths, not as texts: `own/a.py` comes before `own.py`. Stored digests depend on this order.
    for path in sorted(contents, key=PurePosixPath):
        content = contents[path].replace(b"\r\n", b"\n")  # a checkout on Windows has the same digest
        for part in (path.encode(), content):
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]
