"""Writing files so that a reader, or the next run, never meets half of one."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Owner: TypeAlias = tuple[int, int]
"""User id and group id."""


def atomic_write(path: Path, text: str | Iterable[str], owner: Owner | None = None) -> None:
    """Replace `path` by `text`, whole or in pieces, in UTF-8, readable by all, or leave everything as it was.

    Missing folders are created. A symbolic link at `path` is replaced, not followed. With `owner`, the file
    and the created folders belong to it: a container's root writes into its user's checkout.

    Raises:
        OSError: it cannot be written; no temporary file is left behind.
    """
    make_folder(path.parent, owner)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines((text,) if isinstance(text, str) else text)
            file.flush()
            os.fchmod(descriptor, 0o644)
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def make_folder(folder: Path, owner: Owner | None = None) -> None:
    """Create `folder` and its missing parents; those that are created belong to `owner`.

    Raises:
        OSError: it cannot be created, or something that is no folder is in the way.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    if owner is not None:
        for place in missing:
            # Not through a link: an agent that swaps the folder for one must not be given what it points at.
            os.chown(place, *owner, follow_symlinks=False)
