"""A model that answers by a script, and a clock that moves only when somebody sleeps."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from evalgate.config.schema.prices import Tokens
from evalgate.llm.client import ModelAnswer, ModelRequest
from evalgate.llm.errors import FailureKind, JudgeError
from evalgate.system.throttling.backoff import Clock

Turn = str | ModelAnswer | JudgeError


def answered(text: str, given: int = 10, made: int = 5) -> ModelAnswer:
    """An answer of a model `judge-1`."""
    return ModelAnswer(text, "judge-1", Tokens(given, made))


def failed(kind: FailureKind, message: str = "it broke", retry_after: float | None = None) -> JudgeError:
    """A failure."""
    return JudgeError(kind, message, retry_after=retry_after)


class ScriptedModel:
    """Answers in order; a function answers each request by what is in it. Keeps what it was asked."""

    def __init__(self, *turns: Turn, script: Callable[[ModelRequest], Turn] | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self._turns = iter(turns)
        self._script = script

    @classmethod
    def by_sample(cls, turns: Iterable[Iterable[Turn]]) -> "ScriptedModel":
        """For sample 1, 2, …: what each of its attempts gives."""
        table = [list(each) for each in turns]
        return cls(script=lambda request: table[request.sample - 1][request.attempt - 1])

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The script's next answer, in a later step of the event loop."""
        self.requests.append(request)
        turn = self._script(request) if self._script else next(self._turns)
        await asyncio.sleep(0)
        if isinstance(turn, JudgeError):
            raise turn
        return answered(turn) if isinstance(turn, str) else turn


@dataclass
class FakeTime:
    """Time that passes only by sleeping."""

    seconds: float = 1000.0
    slept: list[float] = field(default_factory=list)
    wall_at_start: float = 1_795_000_000.0  # a day in November 2026

    def now(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.wall_at_start + self.seconds - 1000.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)

    @property
    def clock(self) -> Clock:
        """All clocks of it."""
        return Clock(self.now, self.wall, self.sleep)
