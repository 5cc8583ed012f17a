"""How much memory a worker and what it started use, and how much they may."""

import os
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from evalgate.system.seclusion import children_of

LOOK_S = 0.1
"""How often it is looked at."""

_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_in_bytes(text: str) -> int:
    """67108864 for `64m`; a bare number is bytes."""
    unit = text[-1].lower()
    return int(text[:-1]) * _UNITS[unit] if unit in _UNITS else int(text)


def _can_be_watched(text: str | None) -> str | None:
    if text is not None and not os.path.exists("/proc/self/statm"):  # noqa: PTH110  no Path is needed
        raise ValueError("needs Linux: elsewhere nobody says what a process uses; use the kind `docker`")
    return text


MemoryOption: TypeAlias = Annotated[
    str | None, Field(default=None, pattern="^[0-9]+[bkmgBKMG]?$"), AfterValidator(_can_be_watched)
]
"""As `512m`: what a worker process and its children may use."""


def memory_used(pid: int) -> int:
    """Bytes of a process and all its descendants that nothing else shares; 0 when it is gone."""
    found, left = 0, [pid]
    while left:
        current = left.pop()
        found += _private(current)
        left += children_of(current)
    return found


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123  ten times a second
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE  # resident, of which shared
