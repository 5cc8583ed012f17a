"""Who talks to the agent."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from evalgate.model import (
    EvalCase,
    Failure,
    Reply,
    Usage,
    UserMessage,
)


class UserFailed(Exception):
    """The user cannot go on, through no fault of the agent: the simulated one left its script or is down."""

    def __init__(self, failure: Failure, usage: Usage | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.usage = usage


class User(Protocol):
    """Who talks to the agent, in one run of one case."""

    async def next(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        """What is said after these replies of the agent; None when the conversation is over.

        Raises:
            UserFailed: there is nothing to say, and that is nobody's wish.
        """
        ...

    @property
    def usage(self) -> Usage | None:
        """What it consumed so far."""
        ...


UserOf: TypeAlias = Callable[[EvalCase, int], User]
"""Who plays the user in a case, and in which run (1-based) of it. May raise UserFailed."""
