"""Keep what fails in the capture away from the agent."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, TypeVar

_Result = TypeVar("_Result")
_told: set[str] = set()


def guarded(function: Callable[..., _Result]) -> Callable[..., Any]:
    """Return `function` with every exception told on stderr, once for each kind, and None in its place."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:  # noqa: BLE001  foreign objects may raise anything
            _tell(f"{function.__name__}: {type(error).__name__}: {error}")
            return None

    return call


def _tell(what: str) -> None:
    if what not in _told:
        _told.add(what)
        sys.stderr.write(f"evalgate: something that the agent did could not be captured ({what})\n")
