"""Parsed requests, and the results of endpoints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.github.world import Grant, World

DOCUMENTATION = "https://docs.github.com/rest"


@dataclass(frozen=True)
class Asked:
    """One request with the values of its path, query and body, and the token's owner."""

    values: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    who: Grant
    base: str
    """Base URL of the API, as the client sees it."""


Answer: TypeAlias = tuple[int, Any]
Endpoint: TypeAlias = Callable[[World, Asked], Answer]


class Refused(Exception):
    """Raised by an endpoint to answer with an error status."""

    def __init__(self, status: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "documentation_url": DOCUMENTATION, "status": str(status), **more}


@dataclass(frozen=True)
class Page:
    """List as the result of an endpoint, of which the answer has one page."""

    items: Sequence[Any]
    total: bool = False
    """True: the answer is an object with `total_count`, and with the list under the key `name`."""
    name: str = ""


@dataclass(frozen=True)
class Redirect:
    """Redirect to another URL, as the result of an endpoint."""

    location: str
