"""The code of a custom metric, as one short text: scores of two versions of it do not compare."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_DIGITS = 16


def hash_metric_code(entry: str, folder: Path) -> str:
    """Return 16 hexadecimal digits over the code of a metric; "" if its module is not below `folder`.

    Counts: the content of the module's file and of every file below `folder` that it imports, directly or
    not, by an `import` statement anywhere in it. Installed packages do not count, nor does what is imported
    by a computed name or read as data: the statements alone tell that, without running anything.
    """
    where = entry.rpartition(":")[0]
    home = folder.resolve()
    first = (home / where).resolve() if where.endswith(".py") else _module(where.split("."), home)
    if first is None or not first.is_file() or not first.is_relative_to(home):
        return ""
    found, open_ = {first: _content(first)}, [first]
    while open_:
        path = open_.pop()
        for imported in _imports(path, found[path], home):
            if imported not in found:
                found[imported] = _content(imported)
                open_.append(imported)
    whole = hashlib.sha256()
    for path in sorted(found):
        for part in (path.relative_to(home).as_posix().encode(), found[path]):
            whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes().replace(b"\r\n", b"\n")  # a checkout of Windows is no other metric
    except OSError:
        return b""


def _imports(path: Path, content: bytes, home: Path) -> Iterator[Path]:
    """Yield the files below `home` that the import statements of a file name."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the metric tells when it is called
    for node in ast.walk(tree):
        for names, roots in _named(node, path, home):
            for root in roots:
                # `from package import name`: a module of the package, or something in it.
                for end in range(1, len(names) + 1):
                    found = _module(names[:end], root)
                    if found is not None and found.is_relative_to(home):
                        yield found


def _named(node: ast.AST, path: Path, home: Path) -> Iterator[tuple[list[str], tuple[Path, ...]]]:
    """Yield the parts of each imported name, and the folders that it is looked for in."""
    if isinstance(node, ast.Import):
        yield from ((each.name.split("."), (_top(path), home)) for each in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module.split(".") if node.module else []
        roots = (_top(path), home) if not node.level else (path.parents[node.level - 1],)
        yield from (([*module, each.name], roots) for each in node.names)


def _top(path: Path) -> Path:
    """Return the folder that Python looks in for the modules beside a file: above its packages."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _module(names: list[str], root: Path) -> Path | None:
    place = root.joinpath(*names)
    for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if path.is_file():
            return path.resolve()
    return None
