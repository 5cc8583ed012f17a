"""The code of a custom metric, read as a whole before the first process of an agent starts.

Its digest says whether scores of two versions compare; its files are what the metric's process runs.
"""

import ast
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from evalgate.frozen import frozen
from evalgate.system.codefiles import CodeFiles, FolderFiles
from evalgate.worker.verifiedcode import MANIFEST

_DIGITS = 16
_MOST_OF_FILE = 8 * 1024 * 1024
_MOST_OF_FOLDER = 32 * 1024 * 1024
"""Bytes of files next to the module that are kept; what is imported always is."""


@frozen
class MetricCode:
    """The files of a metric, which are read once."""

    entry: str
    """As the thresholds file has it."""
    files: Mapping[str, bytes]
    """Path in the workspace and content; empty if the metric's module is not in the workspace."""
    imported: frozenset[str] = frozenset()
    """Those of them that hold the metric and what it imports; the others stand next to it."""
    roots: tuple[str, ...] = ("",)
    """Folders of the workspace in which Python looks for modules."""
    digest: str = ""
    """16 hexadecimal digits over the module and what it imports; "" if it is not in the workspace."""
    left_out: tuple[str, ...] = ()
    """Files next to the module that are too large to keep."""

    def write_files(self, folder: Path) -> str:
        """Write the files into an empty folder, readable by everybody and writable by nobody.

        Returns:
            SHA-256 of the manifest there, by which the metric's process sees what an agent of the same user
            changed all the same.
        """
        digests = {path: hashlib.sha256(content).hexdigest() for path, content in self.files.items()}
        manifest = json.dumps(digests).encode()
        (folder / MANIFEST).write_bytes(manifest)
        for path, content in self.files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(0o444)
        for place in sorted({folder, *folder.rglob("*")}, reverse=True):
            if place.is_dir():
                place.chmod(0o555)
        return hashlib.sha256(manifest).hexdigest()


def hash_metric_code(entry: str, folder: Path) -> str:
    """Return the digest of the code of a metric; "" if its module is not below `folder`."""
    return read_metric_code(entry, folder, FolderFiles(folder)).digest


def read_metric_code(entry: str, home: Path, files: CodeFiles, roots: Sequence[str] = ()) -> MetricCode:
    """Read the code of a metric: its module, what it imports, and the folder that the module stands in.

    For the digest counts the content of the module's file and of every file of the workspace that it imports,
    directly or not, by an `import` statement anywhere in it. Installed packages do not count, nor does what
    is imported by a computed name or read as data: the statements alone tell that, without running anything.

    Args:
        entry: of the metric.
        home: the workspace, which an absolute path in the entry starts with.
        files: those of the workspace, or of the same folder at a commit.
        roots: folders of the workspace beside itself in which Python looks for modules.
    """
    reader = _Reader(files, ("", *roots))
    first = reader.find_entry(entry, home)
    if not first:
        return MetricCode(entry, {}, roots=reader.roots)
    imported = reader.close_over(first, with_packages=True)
    left_out = reader.read_folder(os.path.dirname(first))  # noqa: PTH120  of a path in a commit
    counting = _Reader(files, ("",), reader.contents).close_over(first, with_packages=False)
    digest = _digest({path: reader.contents[path] for path in counting})
    in_workspace = first if reader.found_in_workspace else ""
    return MetricCode(
        entry, reader.contents, imported, reader.roots, digest if in_workspace else "", left_out
    )


def find_code_roots(home: Path, python_path: str) -> tuple[str, ...]:
    """Return the folders below the workspace in which Python looks: those of PYTHONPATH, and `src`.

    `src` is where an editable installation of the workspace's own package points to.
    """
    said = (os.path.relpath(home / each, home) for each in python_path.split(os.pathsep) if each)
    inner = (each for each in said if each != "." and not each.startswith(".."))
    return tuple(dict.fromkeys([*inner, "src"]))


def strip_python_path(home: Path, python_path: str) -> str:
    """Return PYTHONPATH without the workspace and the folders below it, which an agent can write to."""
    entries = [each for each in python_path.split(os.pathsep) if each]
    return os.pathsep.join(each for each in entries if os.path.relpath(home / each, home).startswith(".."))


class _Reader:
    """Reads files of a workspace once, and follows what they import."""

    def __init__(
        self, files: CodeFiles, roots: tuple[str, ...], contents: dict[str, bytes] | None = None
    ) -> None:
        self._files = files
        self.roots = roots
        self.contents: dict[str, bytes] = {} if contents is None else contents
        self.found_in_workspace = True
        """Whether the entry is found without the further roots."""

    def find_entry(self, entry: str, home: Path) -> str:
        """Return the file of the module that an entry names; "" if it is not in the workspace."""
        where = entry.rpartition(":")[0]
        if where.endswith(".py"):
            path = os.path.relpath(home / where, home)
            return path if not path.startswith("..") and self._files.is_file(path) else ""
        for root in self.roots:
            if found := self._module(where.split("."), root):
                self.found_in_workspace = not root
                return found
        return ""

    def close_over(self, first: str, *, with_packages: bool) -> frozenset[str]:
        """Return the files that are imported from the first on; with the packages that each stands in."""
        found, open_ = {first}, [first]
        while open_:
            path = open_.pop()
            imported = list(self._imports(path, self._content(path)))
            packages = self._packages(path) if with_packages else ()
            for each in (*imported, *packages):
                if each not in found:
                    found.add(each)
                    open_.append(each)
        return frozenset(found)

    def read_folder(self, folder: str) -> tuple[str, ...]:
        """Read the other files of a folder; returns those that are too large."""
        sizes = {
            path: size for path, size in self._files.list_folder(folder).items() if path not in self.contents
        }
        kept, room = [], _MOST_OF_FOLDER
        for path, size in sizes.items():
            if size <= min(room, _MOST_OF_FILE):
                kept.append(path)
                room -= size
        self.contents.update(self._files.read(kept))
        return tuple(sorted(sizes.keys() - set(kept)))

    def _content(self, path: str) -> bytes:
        if path not in self.contents:
            self.contents.update(self._files.read([path]))
        return self.contents[path]

    def _imports(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the files of the workspace that the import statements of a file name."""
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # the metric tells when it is called
        for node in ast.walk(tree):
            for names, roots in self._named(node, path):
                for root in roots:
                    # `from package import name`: a module of the package, or something in it.
                    for end in range(1, len(names) + 1):
                        if found := self._module(names[:end], root):
                            yield found

    def _named(self, node: ast.AST, path: str) -> Iterator[tuple[list[str], tuple[str, ...]]]:
        """Yield the parts of each imported name, and the folders that it is looked for in."""
        if isinstance(node, ast.Import):
            yield from ((each.name.split("."), (self._top(path), *self.roots)) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            roots = (self._top(path), *self.roots)
            if node.level:
                above = PurePosixPath(path).parents
                roots = (_text(above[node.level - 1]),) if node.level <= len(above) else ()
            yield from (([*module, each.name], roots) for each in node.names)

    def _top(self, path: str) -> str:
        """Return the folder that Python looks in for the modules beside a file: above its packages."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            folder = folder.parent
        return _text(folder)

    def _packages(self, path: str) -> Iterator[str]:
        """Yield the files of the packages that a module stands in: Python runs them first."""
        folder = PurePosixPath(path).parent
        while folder.parts and self._files.is_file(str(folder / "__init__.py")):
            yield str(folder / "__init__.py")
            folder = folder.parent

    def _module(self, names: Sequence[str], root: str) -> str:
        place = PurePosixPath(root, *names)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if self._files.is_file(str(path)):
                return str(path)
        return ""


def _text(folder: PurePosixPath) -> str:
    return str(folder) if folder.parts else ""


def _digest(contents: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    # Folders are parts of a path: `own/a.py` comes before `own.py`, as it always did.
    for path in sorted(contents, key=PurePosixPath):
        content = contents[path].replace(b"\r\n", b"\n")  # a checkout of Windows is no other metric
        for part in (path.encode(), content):
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]
