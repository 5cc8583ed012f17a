"""List the links on the way to a file: a change of any of them leads to another file."""

import os
from collections.abc import Iterator
from pathlib import Path

from evalgate.agents.host.opened_files import follow_links


def iter_link_steps(folder: Path, path: str) -> Iterator[str]:
    """Yield a path, all links on the way to it, and the path of the file itself, relative to `folder`.

    The file need not exist.
    """
    folder = Path(os.path.realpath(folder))
    yield Path(os.path.normpath(path)).as_posix()
    for each in follow_links(str(folder / path)):
        yield Path(os.path.relpath(each, folder)).as_posix()
