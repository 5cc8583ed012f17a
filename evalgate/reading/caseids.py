"""What every eval-set format demands of ids: that they say something, can be shown, and name one thing."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from evalgate.errors import Problem

_control_character = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def checked_id(name: str) -> str:
    """`name` itself. Paths, blanks within and any script are fine: real files use them all.

    Raises:
        ValueError: it is blank or holds control characters.
    """
    if not name.strip():
        raise ValueError("must not be empty")
    if _control_character.search(name):
        raise ValueError(f"must not hold control characters: {name!r}")
    return name


Id: TypeAlias = Annotated[str, AfterValidator(checked_id)]
"""The id of a case or an eval set, for pydantic models of files."""


def names_of(eval_set_id: str, path: str, eval_id: str) -> tuple[str, str, str]:
    """What a thresholds file may call a case: `id`, `eval set:id` or `file:id`."""
    return eval_id, f"{eval_set_id}:{eval_id}", f"{path}:{eval_id}"


Location: TypeAlias = tuple[str | int, ...]


def repeated_ids(
    ids: Iterable[tuple[object, Location]], *, file: str, position: Callable[[Location], tuple[int, int]]
) -> Iterator[Problem]:
    """A problem for each id that stands at a second location. What is no text is somebody else's problem."""
    first: dict[str, Location] = {}
    for name, location in ids:
        if isinstance(name, str) and first.setdefault(name, location) != location:
            line, _ = position(first[name])
            message = f"{name!r} is the id of another case already, in line {line}"
            yield Problem(file, *position(location), message)
