"""The state of the agent's code: what git has checked out, and the source files that git does not keep."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evalgate.system.checkout import git, git_bytes
from evalgate.system.files import read_file

_SOURCE = frozenset(
    {".c", ".cjs", ".cs", ".go", ".java", ".js", ".kt", ".mjs", ".php", ".py", ".rb", ".rs", ".sh", ".ts"}
)
_OTHERS_CODE = frozenset({"__pycache__", "node_modules", "site-packages"})
_DIGITS = 16


def code_state(folder: Path, beside: Sequence[Path] = ()) -> str:
    """16 hexadecimal digits over what git has checked out in `folder` and what differs from it.

    Where git keeps nothing: over the source files there. `beside`: files that do not count.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    paths = [":(top)", *_left_out(Path(top), beside)] if top else []
    kept = git_bytes(folder, "ls-files", "--stage", "-z", "--", *paths) if top else b""
    if not kept:
        return _digest(_files(folder, _sources(folder), beside))
    return _digest(
        [kept, git_bytes(folder, "diff", "--binary", "--no-ext-diff", "--no-textconv", "--", *paths)]
    )


def unkept_state(folder: Path, named: Sequence[Path] = (), beside: Sequence[Path] = ()) -> str:
    """The same over the source files that git neither keeps nor ignores, and over those that are `named`."""
    said = git_bytes(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = sorted(folder / os.fsdecode(name) for name in said.split(b"\0") if name)
    unkept = [name for name in names if name.suffix in _SOURCE]
    return _digest(_files(folder, [*named, *unkept], beside))


def _left_out(top: Path, beside: Iterable[Path]) -> Iterator[str]:
    found = (path.resolve() for path in beside)
    return (f":(top,exclude,literal){path.relative_to(top)}" for path in found if path.is_relative_to(top))


def _sources(folder: Path) -> Iterator[Path]:
    """Source files in `folder`, without hidden folders and those of installed packages, in a fixed order."""
    for place, folders, names in os.walk(folder):
        inner = (each for each in folders if not each.startswith(".") and each not in _OTHERS_CODE)
        folders[:] = sorted(each for each in inner if not Path(place, each, "pyvenv.cfg").exists())
        yield from (Path(place, name) for name in sorted(names) if Path(name).suffix in _SOURCE)


def _files(folder: Path, paths: Iterable[Path], beside: Sequence[Path]) -> Iterator[bytes]:
    left_out = {path.resolve() for path in beside}
    for path in paths:
        if path.resolve() not in left_out and path.is_file():
            yield os.fsencode(os.path.relpath(path, folder))
            yield _content(path)


def _content(path: Path) -> bytes:
    try:
        return hashlib.sha256(read_file(path)).digest()
    except OSError:  # what we cannot read
        return b""


def _digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:_DIGITS]
