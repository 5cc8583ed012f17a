"""Resolve the model that a metric asks for; every model of a run is opened once and shared."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import SecretStr

from evalgate.config.schema.budget import (
    MeteredUsage,
    Price,
    PriceTable,
    UsageMeter,
    compute_cost_usd,
    merge_own_prices,
)
from evalgate.config.schema.judge import PROVIDERS, CacheConfig, CacheMode, JudgeConfig, parse_model_name
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject, ModelUsage
from evalgate.llm.usage import build_model_usage
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.redactor import Redactor
from evalgate.throttling.rate_limiter import REAL_CLOCK, Clock

if TYPE_CHECKING:
    from evalgate.llm.caching import CachingModel, ResponseCache
    from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
    from evalgate.llm.endpoint import ModelEndpoint
    from evalgate.llm.retrying import EndpointLimiter, MeteredModel


# What it takes to ask a model is loaded when one is opened: most gates ask none.

Purpose: TypeAlias = Literal["judge", "user"]
"""What a model is asked for: to judge, or to play the user."""


@frozen
class LlmContext:
    """Where judges live: what the plan decides."""

    folder: Path
    """Of the thresholds file; the cache's path is relative to it."""
    environ: Mapping[str, str] = field(repr=False)
    """The gate's own environment, which holds the keys."""
    meter: UsageMeter = field(default_factory=UsageMeter)
    own_prices: Mapping[str, Price] = field(default_factory=dict)
    """The user's, before the known ones."""
    clock: Clock = REAL_CLOCK
    hiding: LiveRedactor = field(default_factory=lambda: LiveRedactor(Redactor()), repr=False)
    """What the cache must not hold."""
    cache_mode: CacheMode | None = None
    """What the command line says of the cache: it holds for every model, whatever a file says of one."""


@frozen
class JudgeCallTotals:
    """What a run asked its judges."""

    spent: MeteredUsage = field(default_factory=MeteredUsage)
    spared: MeteredUsage = field(default_factory=MeteredUsage)
    """Calls that the cache of answers spared, as they were paid for once."""
    notices: tuple[str, ...] = ()
    """What a reader of the report should know."""

    @property
    def totals(self) -> ModelUsage:
        """The same for the record."""
        return build_model_usage(self.spent, self.spared)


class ModelPool:
    """Opens a model for each configuration that is asked for; leaving closes them all.

    The same configuration gives the same model. Configurations with one endpoint and one key share the
    limits of the first that is opened; those with one cache file share it.
    """

    def __init__(self, place: LlmContext) -> None:
        self._place = place
        self._models: dict[tuple[Purpose, str], ModelClient] = {}
        self._reserved: dict[str, JudgeConfig] = {}
        self._limiters: dict[tuple[str, SecretStr | None], EndpointLimiter] = {}
        self._caches: dict[tuple[Path, bool], ResponseCache] = {}
        self._metered: list[tuple[Purpose, MeteredModel]] = []
        self._caching: list[tuple[Purpose, CachingModel]] = []
        self._under_way: dict[Purpose, int] = {"judge": 0, "user": 0}
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close what is open. What was used stays known."""
        await self._open.aclose()

    def reserve_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> "ModelClient":
        """A model that is opened when it is asked for the first time."""
        self._reserved[config.model_dump_json()] = config
        return _LazyModel(self, config, purpose)

    def check_reserved(self) -> None:
        """Look whether everything that was reserved can be opened, without opening it.

        Raises:
            InvalidInputError: a variable is not set, or the package `openai` is not installed.
        """
        if not self._reserved:
            return
        from evalgate.llm.endpoint import resolve_endpoint
        from evalgate.llm.openai_client import check_sdk

        problems: list[Problem] = []
        for config in self._reserved.values():
            try:
                resolve_endpoint(config, self._place.environ)
                check_sdk()
            except InvalidInputError as error:
                problems += error.problems
        if problems:
            raise InvalidInputError(dict.fromkeys(problems))

    def compute_cost(self, config: JudgeConfig, answer: "ModelAnswer") -> float | None:
        """US dollars that an answer of that model cost now: 0.0 when it was kept, None when nobody knows."""
        if answer.cached:
            return 0.0
        if answer.tokens is None:
            return None
        from evalgate.llm.endpoint import resolve_endpoint

        name = resolve_endpoint(config, self._place.environ).get_price_name()
        today = datetime.fromtimestamp(self._place.clock.wall(), UTC).date()
        return compute_cost_usd(self._prices, name, answer.tokens, today)

    def resolve_model_name(self, config: JudgeConfig) -> tuple[str, str]:
        """Provider and model as the environment fills them in."""
        from evalgate.documents.env_expansion import expand_go_env

        provider, model = (
            expand_go_env(text, self._place.environ) for text in (config.provider, config.model)
        )
        return provider.text, model.text

    def get_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> "ModelClient":
        """The model that a configuration names, ready to be asked. Asks nothing yet.

        Raises:
            InvalidInputError: a variable is not set, or the package `openai` is not installed.
        """
        key = purpose, config.model_dump_json()
        if key not in self._models:
            self._models[key] = self._open_model(config, purpose)
        return self._models[key]

    @cached_property
    def _prices(self) -> PriceTable:
        return merge_own_prices(self._place.own_prices)

    @property
    def meter(self) -> UsageMeter:
        """What is counted here and elsewhere against the budget."""
        return self._place.meter

    @property
    def judge_usage(self) -> JudgeCallTotals:
        """What judges used until now."""
        return self.get_usage("judge")

    @property
    def under_way(self) -> Mapping[Purpose, int]:
        """How many questions are on their way now, by what they are for."""
        return self._under_way

    def get_usage(self, purpose: Purpose) -> JudgeCallTotals:
        """What models that are asked for one purpose used until now; the notices are of all."""
        notices = [notice for file in self._caches.values() for notice in file.notices]
        if withheld := sum(model.withheld for _, model in self._caching):
            answers = pluralize(withheld, "answer")
            notices.append(f"{answers} of models held a secret, and the judge's cache does not keep such.")
        return JudgeCallTotals(
            sum((model.spent for own, model in self._metered if own == purpose), MeteredUsage()),
            sum((model.spared for own, model in self._caching if own == purpose), MeteredUsage()),
            tuple(dict.fromkeys(notices)),
        )

    def _open_model(self, config: JudgeConfig, purpose: Purpose) -> "ModelClient":
        from evalgate.llm.endpoint import resolve_endpoint
        from evalgate.llm.openai_client import OpenAIModel
        from evalgate.llm.retrying import (
            LimitedModel,
            MeteredModel,
            RetryingModel,
            WatchedModel,
            check_budget,
        )
        from evalgate.throttling.rate_limiter import RetryPolicy

        place, endpoint = self._place, resolve_endpoint(config, self._place.environ)
        wire = OpenAIModel(
            endpoint, timeout=config.timeout, parameters=config.build_parameters(), clock=place.clock
        )
        self._open.push_async_callback(wire.aclose)
        policy = RetryPolicy(config.retries, config.give_up_after)
        # Asked about once more when its turn comes: others may have spent the budget in the meantime.
        watched = WatchedModel(wire, partial(self._begin_call, purpose), partial(self._end_call, purpose))
        limited = LimitedModel(
            watched, self._get_limiter(config, endpoint), partial(check_budget, place.meter)
        )
        patient = RetryingModel(limited, policy, place.clock)
        metered = MeteredModel(patient, place.meter, self._prices, endpoint.get_price_name, place.clock.wall)
        self._metered.append((purpose, metered))
        return self._wrap_in_cache(metered, config, endpoint, purpose)

    def _begin_call(self, purpose: Purpose) -> None:
        self._under_way[purpose] += 1
        self._notify_call()

    def _end_call(self, purpose: Purpose, is_answered: bool) -> None:
        self._under_way[purpose] -= 1
        if not is_answered:  # otherwise the meter tells of it, once it is counted
            self._notify_call()

    def _notify_call(self) -> None:
        if self._place.meter.on_call is not None:
            self._place.meter.on_call()

    def _get_limiter(self, config: JudgeConfig, endpoint: "ModelEndpoint") -> "EndpointLimiter":
        from evalgate.llm.retrying import EndpointLimiter
        from evalgate.throttling.rate_limiter import RateLimiter

        limiter = RateLimiter(config.requests_per_minute, config.tokens_per_minute)
        new = EndpointLimiter(
            limiter,
            concurrency=config.concurrency,
            longest_hold=config.give_up_after,
            clock=self._place.clock,
        )
        return self._limiters.setdefault((endpoint.base_url, endpoint.key), new)

    def _wrap_in_cache(
        self, inner: "MeteredModel", config: JudgeConfig, endpoint: "ModelEndpoint", purpose: Purpose
    ) -> "ModelClient":
        mode = self._place.cache_mode or config.cache.mode
        if mode == "off":
            return inner
        from evalgate.llm.caching import CachingModel

        model = CachingModel(
            inner,
            self._get_cache(config.cache.model_copy(update={"mode": mode})),
            base_url=endpoint.base_url,
            model=endpoint.model,
            parameters=config.build_parameters(),
            hiding=self._place.hiding,
            compute_cost=inner.compute_cost,
        )
        self._caching.append((purpose, model))
        return model

    def _get_cache(self, cache: CacheConfig) -> "ResponseCache":
        from evalgate.llm.caching import ResponseCache

        path, writes = self._place.folder / cache.path, cache.mode == "read-write"
        if (path, writes) not in self._caches:
            file = ResponseCache(path, writes=writes, wall=self._place.clock.wall)
            self._caches[path, writes] = self._open.enter_context(file)
            self._open.callback(
                file.prune, max_age_days=cache.max_age_days, max_bytes=int(cache.max_megabytes * 1_000_000)
            )
        return self._caches[path, writes]


class _LazyModel:
    """A model that is opened when it is needed."""

    def __init__(self, judges: ModelPool, config: JudgeConfig, purpose: Purpose) -> None:
        self._judges = judges
        self._config = config
        self._purpose = purpose

    async def ask(self, request: "ModelRequest") -> "ModelAnswer":
        """The model's answer.

        Raises:
            JudgeError: there is none.
            InvalidInputError: it cannot be opened; `check` would have told.
        """
        return await self._judges.get_model(self._config, self._purpose).ask(request)


HOW_TO_CONFIGURE = (
    "name one in the thresholds file (`judge: {provider: openai, model: gpt-4.1-mini}`) or with "
    "--judge PROVIDER/MODEL"
)


class JudgeNotConfiguredError(Exception):
    """A model should judge, and none is configured."""

    def __init__(self) -> None:
        super().__init__(f"no judging model is configured: {HOW_TO_CONFIGURE}")


@frozen
class Judge:
    """A model that judges, and what it is known by."""

    client: "ModelClient"
    config: JudgeConfig
    identity: JsonObject
    """Provider, model and parameters: scores compare only when they are equal. Holds no key."""

    @property
    def name(self) -> str:
        """`openai/gpt-4.1-mini`."""
        return f"{self.identity['provider']}/{self.identity['model']}"


@frozen
class JudgeResolver:
    """Where metrics find their judges."""

    judges: ModelPool
    config: JudgeConfig | None = None
    """What the run is configured with; None: nothing."""
    forced_by_cli: bool = False
    """The command line names the model, which no file overrules then."""

    def resolve_judge(self, model: str = "", **changes: object) -> Judge:
        """The judge of a metric, which is asked nothing yet.

        `model` is what the metric's own options call it, in Google ADK's or LiteLLM's words; "": as the run
        is configured. `changes` are other values of the configuration.

        Raises:
            JudgeNotConfiguredError: neither the run nor the metric says which.
            pydantic.ValidationError: a value is wrong.
        """
        config = self._resolve_config("" if self.forced_by_cli else model).apply_changes(**changes)
        provider, name = self.judges.resolve_model_name(config)
        identity = {"provider": provider, "model": name, "parameters": config.build_parameters()}
        return Judge(self.judges.reserve_model(config), config, identity)

    def _resolve_config(self, model: str) -> JudgeConfig:
        config = self.config
        if not model:
            if config is None:
                raise JudgeNotConfiguredError
            return config
        own = parse_model_name(model)
        if config is None:
            if own is None:
                raise JudgeNotConfiguredError
            return JudgeConfig(provider=own[0], model=own[1])
        return config.apply_changes(**_build_model_changes(config, model, own))


def _build_model_changes(
    config: JudgeConfig, model: str, own: tuple[str, str] | None
) -> Mapping[str, object]:
    """Another model: at the same endpoint, unless it is a model of a provider with an endpoint of its own."""
    serves_any = config.base_url is not None or PROVIDERS.get(config.provider) is None
    if own is None or serves_any or config.provider in _SERVE_ANY:
        return {"model": model}
    if own[0] == config.provider:
        return {"model": own[1]}
    return {"provider": own[0], "model": own[1], "api_key": None}


_SERVE_ANY = frozenset({"azure", "openrouter", "ollama", "vllm", "custom"})
"""Providers of anybody's models."""
