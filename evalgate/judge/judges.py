"""Every model that a run asks, opened once: they share meter, cache and the limits of their endpoints."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import SecretStr

from evalgate.budget import Meter, Spent
from evalgate.judge.asking import ModelClient
from evalgate.judge.cache import AnswerFile
from evalgate.judge.clock import REAL, Clock
from evalgate.judge.endpoint import Endpoint, endpoint_of
from evalgate.judge.limits import LimitedModel, RateLimiter, Turnstile
from evalgate.judge.metering import MeteredModel
from evalgate.judge.openai_model import OpenAIModel
from evalgate.judge.pauses import RetryPolicy
from evalgate.judge.remembering import RememberingModel
from evalgate.judge.retrying import RetryingModel
from evalgate.judge.settings import CacheConfig, JudgeConfig
from evalgate.numbers import counted
from evalgate.prices import PriceTable, known_prices


@dataclass(frozen=True, slots=True)
class JudgePlace:
    """Where judges live: what the plan decides."""

    folder: Path
    """Of the thresholds file; the cache's path is relative to it."""
    environ: Mapping[str, str] = field(repr=False)
    """The gate's own environment, which holds the keys."""
    meter: Meter = field(default_factory=Meter)
    prices: PriceTable = field(default_factory=known_prices)
    clock: Clock = REAL


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """What a run asked its judges."""

    spent: Spent = field(default_factory=Spent)
    spared: int = 0
    """Calls that the cache of answers spared."""
    notices: tuple[str, ...] = ()
    """What a reader of the report should know."""

    @property
    def sentence(self) -> str:
        """`12 judge calls (3,400 tokens, $0.02), 8 spared by the cache`."""
        spent = self.spent
        cost = f"${spent.usd:,.2f}" if spent.calls > spent.unpriced else "cost unknown"
        if spent.unpriced and spent.calls > spent.unpriced:
            cost += f" and the unknown cost of {counted(spent.unpriced, 'call')}"
        used = f" ({counted(spent.tokens.total, 'token')}, {cost})" if spent.calls else ""
        return f"{counted(spent.calls, 'judge call')}{used}, {self.spared:,} spared by the cache"


class Judges:
    """Opens a model for each configuration that is asked for; leaving closes them all.

    The same configuration gives the same model. Configurations with one endpoint and one key share the
    limits of the first that is opened; those with one cache file share it.
    """

    def __init__(self, place: JudgePlace) -> None:
        self._place = place
        self._models: dict[str, ModelClient] = {}
        self._turnstiles: dict[tuple[str, SecretStr | None], Turnstile] = {}
        self._files: dict[tuple[Path, bool], AnswerFile] = {}
        self._metered: list[MeteredModel] = []
        self._remembering: list[RememberingModel] = []
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close what is open. What was used stays known."""
        await self._open.aclose()

    def model(self, config: JudgeConfig) -> ModelClient:
        """The model that a configuration names, ready to be asked. Asks nothing yet.

        Raises:
            InvalidInput: a variable is not set, or the package `openai` is not installed.
        """
        name = config.model_dump_json()
        if name not in self._models:
            self._models[name] = self._opened(config)
        return self._models[name]

    @property
    def use(self) -> JudgeUse:
        """What was used until now."""
        notices = [notice for file in self._files.values() for notice in file.notices]
        return JudgeUse(
            sum((model.spent for model in self._metered), Spent()),
            sum(model.spared for model in self._remembering),
            tuple(dict.fromkeys(notices)),
        )

    def _opened(self, config: JudgeConfig) -> ModelClient:
        place, endpoint = self._place, endpoint_of(config, self._place.environ)
        wire = OpenAIModel(
            endpoint, timeout=config.timeout, parameters=config.parameters(), clock=place.clock
        )
        self._open.push_async_callback(wire.aclose)
        policy = RetryPolicy(config.retries, config.give_up_after)
        patient = RetryingModel(LimitedModel(wire, self._turnstile(config, endpoint)), policy, place.clock)
        metered = MeteredModel(patient, place.meter, place.prices, endpoint.priced_as, place.clock.wall)
        self._metered.append(metered)
        return self._remembered(metered, config, endpoint)

    def _turnstile(self, config: JudgeConfig, endpoint: Endpoint) -> Turnstile:
        limiter = RateLimiter(config.requests_per_minute, config.tokens_per_minute)
        new = Turnstile(
            limiter,
            concurrency=config.concurrency,
            longest_hold=config.give_up_after,
            clock=self._place.clock,
        )
        return self._turnstiles.setdefault((endpoint.base_url, endpoint.key), new)

    def _remembered(self, inner: ModelClient, config: JudgeConfig, endpoint: Endpoint) -> ModelClient:
        if config.cache.mode == "off":
            return inner
        model = RememberingModel(
            inner,
            self._file(config.cache),
            base_url=endpoint.base_url,
            model=endpoint.model,
            parameters=config.parameters(),
        )
        self._remembering.append(model)
        return model

    def _file(self, cache: CacheConfig) -> AnswerFile:
        path, writes = self._place.folder / cache.path, cache.mode == "read-write"
        if (path, writes) not in self._files:
            file = AnswerFile(path, writes=writes, wall=self._place.clock.wall)
            self._files[path, writes] = self._open.enter_context(file)
            self._open.callback(
                file.prune, max_age_days=cache.max_age_days, max_bytes=int(cache.max_megabytes * 1_000_000)
            )
        return self._files[path, writes]
