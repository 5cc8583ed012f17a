"""Describe how a change edits a file with rules. The version of the base branch applies nevertheless."""

import difflib
import io
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evalgate.core.sanitize import to_one_line
from evalgate.system.git import run_git
from evalgate.system.inner_files import read_inner_file

_SHOWN_CHANGES = 6


def describe_edit(folder: Path, shown: str, content: bytes) -> str:
    """Return a sentence with the lines that a change edits in a file; "" if it edits none.

    `content` is the version of the base branch, and `shown` is the path of the file relative to `folder`.
    """
    now = _read_own_version(folder, shown)
    then = content.decode("utf-8", "replace").removesuffix("\n")
    if now == then:
        return ""
    lines = " ".join(islice(_diff_lines(then, now), _SHOWN_CHANGES))
    how = "edits" if now else "removes"
    return (
        f"This change {how} {shown}, but the gate goes by the version of the base branch: "
        f"{to_one_line(lines, 300)}"
    )


def _read_own_version(folder: Path, shown: str) -> str:
    """Return the text of a file as the change has it, to show it; "" if it cannot be read.

    A link that leads out of the repository is not followed: it could make the gate show a file that only the
    gate may read, such as `/proc/self/environ`.
    """
    path, top = folder / shown, run_git(folder, "rev-parse", "--show-toplevel")
    if not Path(os.path.realpath(path)).is_relative_to(top):
        return "a link that leads out of the repository"
    try:
        text = read_inner_file(path, Path(top)).decode("utf-8", "replace")
    except OSError:
        return ""
    return io.StringIO(text, newline=None).read().removesuffix("\n")


def _diff_lines(then: str, now: str) -> Iterator[str]:
    """Yield the changed lines as `[- old]` and `[+ new]`."""
    found = difflib.unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
    lines = (line for line in islice(found, 2, None) if not line.startswith("@@"))
    yield from (f"[{line[0]} {line[1:].strip()}]" for line in lines)
