"""A request that was understood, and what an endpoint makes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.github.world import Grant, World

DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True)
class Asked:
    """One request that was understood."""

    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    who: Grant
    base: str
    """Where the API is, as the client sees it."""


Answer: TypeAlias = tuple[int, Any]
Endpoint: TypeAlias = Callable[[World, Asked], Answer]


class Refused(Exception):
    """GitHub says no."""

    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status), **more}


@dataclass(frozen=True)
class Page:
    """A list, of which a part is answered."""

    items: Sequence[Any]
    total: bool = False
    """Whether the answer is an object with `total_count` and the list under this name."""
    name: str = ""


@dataclass(frozen=True)
class Redirect:
    """The answer is somewhere else."""

    location: str
