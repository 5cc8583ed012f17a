"""A model with scripted answers, and a clock that advances only by sleeping."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from evalgate.config.token_prices import Tokens
from evalgate.llm.client import ModelAnswer, ModelRequest
from evalgate.llm.errors import FailureKind, JudgeError
from evalgate.system.throttling.backoff import Clock

Turn = str | ModelAnswer | JudgeError


def answered(text: str, given: int = 10, made: int = 5) -> ModelAnswer:
    """Return an answer of a model `judge-1` with `given` input and `made` output tokens."""
    return ModelAnswer(text, "judge-1", Tokens(given, made))


def failed(kind: FailureKind, message: str = "it broke", retry_after: float | None = None) -> JudgeError:
    """Return an error of a model."""
    return JudgeError(kind, message, retry_after=retry_after)


class ScriptedModel:
    """Model that returns `turns` in order, or the result of `script` for each request. Requests are recorded."""

    def __init__(self, *turns: Turn, script: Callable[[ModelRequest], Turn] | None = None) -> None:
        self.requests: list[ModelRequest] = []
        self._turns = iter(turns)
        self._script = script

    @classmethod
    def by_sample(cls, turns: Iterable[Iterable[Turn]]) -> "ScriptedModel":
        """Return a model with a list of answers for each sample: the answer to attempt 1, 2, and so on."""
        table = [list(each) for each in turns]
        return cls(script=lambda request: table[request.sample - 1][request.attempt - 1])

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return or raise the next scripted answer, after one step of the event loop."""
        self.requests.append(request)
        turn = self._script(request) if self._script else next(self._turns)
        await asyncio.sleep(0)
        if isinstance(turn, JudgeError):
            raise turn
        return answered(turn) if isinstance(turn, str) else turn


@dataclass
class FakeTime:
    """Fake time in seconds, which advances only by `sleep`."""

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
        """Return a `Clock` that uses this time."""
        return Clock(self.now, self.wall, self.sleep)
