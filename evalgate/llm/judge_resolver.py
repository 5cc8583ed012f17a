"""Resolve the judge of a metric, and open each model of a run once, with its limits, retries and cache."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import SecretStr

from evalgate.config.schema.judge import CacheMode, JudgeConfig
from evalgate.config.token_prices import Price, PriceTable, merge_own_prices
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import ProvidesJudges
from evalgate.core.types import JsonObject, ModelUsage
from evalgate.llm.budget_guard import UsageMeter
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.redactor import Redactor
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock
from evalgate.system.workspace import Workspace

if TYPE_CHECKING:
    from evalgate.llm.caching import CachingModel, ResponseCache
    from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
    from evalgate.llm.endpoint import ModelEndpoint
    from evalgate.llm.metering import MeteredModel
    from evalgate.llm.rate_limiting import EndpointLimiter


# The client, retries and cache are imported when a model is opened, because most runs open no model.

Purpose: TypeAlias = Literal["judge", "user"]
"""Use of a model: as a judge, or as a simulated user."""


@frozen
class LlmContext:
    """Environment and settings with which a `ModelPool` opens models."""

    folder: Path
    """Folder of the thresholds file; the cache's path is relative to it."""
    environ: Mapping[str, str] = field(repr=False)
    """Environment variables of evalgate itself, which hold the keys."""
    meter: UsageMeter = field(default_factory=UsageMeter)
    """Meter of the budget, which counts the usage of all models."""
    own_prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices that the user configured; they override the built-in ones."""
    clock: Clock = REAL_CLOCK
    redactor: LiveRedactor = field(default_factory=lambda: LiveRedactor(Redactor()), repr=False)
    """Redactor that finds secrets in answers, which the cache must not store."""
    workspace: Workspace | None = None
    """Workspace of the agent; None if no agent runs."""
    cache_mode: CacheMode | None = None
    """Mode of the cache from the command line, which overrides all configurations; None: not given."""


class ModelPool:
    """The open models of a run, one for each configuration and purpose (judge or simulated user).

    It is a context manager that closes the models. Models with the same base URL and key share one set of
    rate limits, which the configuration that is opened first decides. Configurations that name the same
    cache file, and write to it or only read it, share one cache.
    """

    def __init__(self, context: LlmContext) -> None:
        self._context = context
        self._models: dict[tuple[Purpose, str], ModelClient] = {}
        self._reserved: dict[str, JudgeConfig] = {}
        self._limiters: dict[tuple[str, SecretStr | None], EndpointLimiter] = {}
        self._caches: dict[tuple[Path, bool], ResponseCache] = {}
        self._open_caches: list[ResponseCache] = []
        self._metered: list[tuple[Purpose, MeteredModel]] = []
        self._caching: list[tuple[Purpose, CachingModel]] = []
        self._under_way: dict[Purpose, int] = {"judge": 0, "user": 0}
        self.default_notice = ""
        """Sentence about the default judge that a metric uses; "" if no metric uses one."""
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all models and caches; the usage can still be read."""
        await self._open.aclose()
        for cache in self._caches.values():  # caches that were prepared but never opened
            cache.close()

    def reserve_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> "ModelClient":
        """Return a model that is opened by its first request; `check_reserved` checks it before the run."""
        self._reserved[config.model_dump_json()] = config
        return _LazyModel(self, config, purpose)

    def check_reserved(self) -> None:
        """Check that every reserved model can be opened, without opening it.

        Raises:
            InvalidInputError: a setting is wrong, a variable is not set, or the package `openai` is missing.
        """
        if not self._reserved:
            return
        from evalgate.llm.endpoint import resolve_endpoint
        from evalgate.llm.openai_client import check_sdk

        problems: list[Problem] = []
        for config in self._reserved.values():
            try:
                resolve_endpoint(config, self._context.environ)
                check_sdk()
            except InvalidInputError as error:
                problems += error.problems
        if problems:
            if self.default_notice:
                problems.append(Problem("", 0, 0, self.default_notice))
            raise InvalidInputError(dict.fromkeys(problems))

    @property
    def reserved_caches(self) -> tuple["ResponseCache", ...]:
        """Return the caches of reserved models, opened or not, without duplicates."""
        found = (self._find_cache(config) for config in self._reserved.values())
        return tuple(dict.fromkeys(cache for cache in found if cache is not None))

    def trust_stored_answers(self) -> None:
        """Let the caches of reserved models return only the answers that they hold now or get from this pool.

        Answers that other processes store later are not returned. Call this method before the first process
        of an agent starts, because the agent may be able to write to the files.
        """
        for cache in self.reserved_caches:
            cache.trust_stored_answers()

    def resolve_model_name(self, config: JudgeConfig) -> tuple[str, str]:
        """Return (provider, model) of a configuration, with environment variables expanded."""
        from evalgate.documents.env_expansion import expand_go_env

        provider, model = (
            expand_go_env(text, self._context.environ) for text in (config.provider, config.model)
        )
        return provider.text, model.text

    def get_model(self, config: JudgeConfig, purpose: Purpose = "judge") -> "ModelClient":
        """Return the model of a configuration. Open the model if it is not open, but send no request.

        Raises:
            InvalidInputError: a setting is wrong, a variable is not set, or the package `openai` is missing.
        """
        key = purpose, config.model_dump_json()
        if key not in self._models:
            self._models[key] = self._open_model(config, purpose)
        return self._models[key]

    @cached_property
    def prices(self) -> PriceTable:
        """Return the built-in prices, overridden by the prices that the user configured."""
        return merge_own_prices(self._context.own_prices)

    @property
    def meter(self) -> UsageMeter:
        """Return the meter of the budget, which also counts the usage of the agent."""
        return self._context.meter

    @property
    def judge_usage(self) -> ModelUsage:
        """Return the usage of all judges so far."""
        return self.get_usage("judge")

    @property
    def under_way(self) -> Mapping[Purpose, int]:
        """Return the number of requests that wait for an answer now, by purpose."""
        return self._under_way

    def get_usage(self, purpose: Purpose) -> ModelUsage:
        """Return the usage so far of all models for `purpose`, including the usage that caches avoided."""
        models: list[MeteredModel | CachingModel] = [
            *(model for own, model in self._metered if own == purpose),
            *(model for own, model in self._caching if own == purpose),
        ]
        return sum((model.usage for model in models), ModelUsage())

    @property
    def notices(self) -> tuple[str, ...]:
        """Return sentences for the report about faults of caches, and about answers that were not stored."""
        notices = [notice for file in self._caches.values() for notice in file.notices]
        if withheld := sum(model.withheld for _, model in self._caching):
            answers = pluralize(withheld, "answer")
            notices.append(f"{answers} of models held a secret, and the judge's cache does not keep such.")
        return tuple(dict.fromkeys(notices))

    def _open_model(self, config: JudgeConfig, purpose: Purpose) -> "ModelClient":
        from evalgate.llm.endpoint import resolve_endpoint
        from evalgate.llm.metering import MeteredModel, WatchedModel, check_budget
        from evalgate.llm.openai_client import OpenAIModel
        from evalgate.llm.rate_limiting import LimitedModel
        from evalgate.llm.retrying import RetryingModel
        from evalgate.system.throttling.backoff import RetryPolicy

        context, endpoint = self._context, resolve_endpoint(config, self._context.environ)
        client = OpenAIModel(
            endpoint, timeout=config.timeout, parameters=config.build_parameters(), clock=context.clock
        )
        self._open.push_async_callback(client.aclose)
        policy = RetryPolicy(config.retries, config.give_up_after)
        watched = WatchedModel(client, self._under_way, purpose, context.meter.notify_listener)
        # The budget is checked again after the wait: other calls may have spent it in the meantime.
        limited = LimitedModel(
            watched, self._get_limiter(config, endpoint), partial(check_budget, context.meter)
        )
        retrying = RetryingModel(limited, policy, context.clock)
        metered = MeteredModel(
            retrying, context.meter, self.prices, endpoint.get_price_name, context.clock.wall
        )
        self._metered.append((purpose, metered))
        return self._wrap_in_cache(metered, config, endpoint, purpose)

    def _get_limiter(self, config: JudgeConfig, endpoint: "ModelEndpoint") -> "EndpointLimiter":
        from evalgate.llm.rate_limiting import EndpointLimiter
        from evalgate.system.throttling.rate_limiter import RateLimiter

        limiter = RateLimiter(config.requests_per_minute, config.tokens_per_minute)
        new = EndpointLimiter(
            limiter,
            concurrency=config.concurrency,
            longest_hold=config.give_up_after,
            clock=self._context.clock,
        )
        return self._limiters.setdefault((endpoint.base_url, endpoint.key), new)

    def _wrap_in_cache(
        self, inner: "MeteredModel", config: JudgeConfig, endpoint: "ModelEndpoint", purpose: Purpose
    ) -> "ModelClient":
        file = self._find_cache(config)
        if file is None:
            return inner
        from evalgate.llm.caching import CachingModel

        if file not in self._open_caches:
            self._open_caches.append(self._open.enter_context(file))
            size = int(config.cache.max_megabytes * 1_000_000)
            self._open.callback(file.prune, max_age_days=config.cache.max_age_days, max_bytes=size)
        model = CachingModel(
            inner,
            file,
            base_url=endpoint.base_url,
            model=endpoint.model,
            parameters=config.build_parameters(),
            redactor=self._context.redactor,
            compute_cost=inner.compute_cost,
        )
        self._caching.append((purpose, model))
        return model

    def _find_cache(self, config: JudgeConfig) -> "ResponseCache | None":
        """Return the response cache of a configuration, opened or not; None if caching is off."""
        mode = self._context.cache_mode or config.cache.mode
        if mode == "off":
            return None
        path, writes = self._context.folder / config.cache.path, mode == "read-write"
        if (path, writes) not in self._caches:
            self._caches[path, writes] = self._build_cache(path, writes=writes)
        return self._caches[path, writes]

    def _build_cache(self, path: Path, *, writes: bool) -> "ResponseCache":
        workspace, wall = self._context.workspace, self._context.clock.wall
        if workspace is None or workspace.owner is None:
            from evalgate.llm.caching import ResponseCache

            return ResponseCache(path, writes=writes, wall=wall)
        from evalgate.llm.private_cache import PrivateCache

        return PrivateCache(path, workspace.folder, workspace.owner, writes=writes, wall=wall)


class _LazyModel:
    """A model that is opened when the first request is sent to it."""

    def __init__(self, pool: ModelPool, config: JudgeConfig, purpose: Purpose) -> None:
        self._pool = pool
        self._config = config
        self._purpose = purpose

    async def ask(self, request: "ModelRequest") -> "ModelAnswer":
        """Return the model's answer; the first call opens the model.

        Raises:
            JudgeError: the model gave no answer.
            InvalidInputError: the model cannot be opened; `ModelPool.check_reserved` finds this earlier.
        """
        return await self._pool.get_model(self._config, self._purpose).ask(request)


HOW_TO_CONFIGURE = (
    "name one in the thresholds file (`judge: {provider: openai, model: gpt-4.1-mini}`) or with "
    "--judge PROVIDER/MODEL"
)


class JudgeNotConfiguredError(Exception):
    """Error: a metric needs a judge, but none is configured."""

    def __init__(self) -> None:
        super().__init__(f"no judging model is configured: {HOW_TO_CONFIGURE}")


@frozen
class Judge:
    """A model that judges, with its configuration and identity."""

    client: "ModelClient"
    config: JudgeConfig
    identity: JsonObject
    """Provider, model and parameters, without the key. Scores of different identities are not comparable."""

    @property
    def name(self) -> str:
        """Return provider and model in one text, such as `openai/gpt-4.1-mini`."""
        return f"{self.identity['provider']}/{self.identity['model']}"


@frozen
class DefaultJudge:
    """Judge model that another tool uses by default. It judges if neither run nor criterion names a model."""

    model: str
    """Name of the provider and the model, in Google ADK's or LiteLLM's notation."""
    owner: str
    """Name of the tool that has this default, for the notice about its use."""


@frozen
class JudgeResolver:
    """Resolver that chooses a metric's judge from the run's configuration and the metric's options."""

    models: ModelPool
    """The models of the run: judges and simulated users."""
    config: JudgeConfig | None = None
    """Configuration of the run's judge; None if no judge is configured."""
    forced_by_cli: bool = False
    """True if the command line names the model, which then overrides the metrics' options."""

    def resolve_judge(
        self, model: str = "", default: DefaultJudge | None = None, /, **changes: object
    ) -> Judge:
        """Return the judge of a metric, without sending a request.

        `model` is the name in the metric's options, in Google ADK's or LiteLLM's notation; "" selects the
        run's model, or `default` if the run has none. If the command line names the judge, `model` is
        ignored. `changes` are fields of `JudgeConfig` that override the run's configuration.

        The model is opened by the first request. If `default` is used, a notice about it is stored.

        Raises:
            JudgeNotConfiguredError: the run has no judge, and neither `model` nor `default` is given. Or the
                run has no judge, and the given name identifies no known provider.
            pydantic.ValidationError: a changed value is invalid.
        """
        config = self._resolve_config("" if self.forced_by_cli else model, default).apply_changes(**changes)
        provider, name = self.models.resolve_model_name(config)
        identity = {"provider": provider, "model": name, "parameters": config.build_parameters()}
        return Judge(self.models.reserve_model(config), config, identity)

    def _resolve_config(self, model: str, default: DefaultJudge | None) -> JudgeConfig:
        config = self.config
        if not model and config is not None:
            return config
        if not model:
            if default is None:
                raise JudgeNotConfiguredError
            model = default.model
            self.models.default_notice = (
                f"No criterion names a judge, so {default.owner}'s default judges: {model}. "
                "Name another as `judge_model_options.judge_model` or with --judge PROVIDER/MODEL."
            )
        from evalgate.config.schema.providers import parse_model_name

        own = parse_model_name(model)
        if config is None:
            if own is None:
                raise JudgeNotConfiguredError
            return JudgeConfig(provider=own[0], model=own[1])
        return config.apply_changes(**_build_model_changes(config, model, own))


def get_judge_resolver(judges: ProvidesJudges | None) -> JudgeResolver:
    """Return `judges` as a `JudgeResolver`, or raise an error if the metric's context has no judges.

    Raises:
        JudgeNotConfiguredError: `judges` is None, or is no `JudgeResolver`.
    """
    if not isinstance(judges, JudgeResolver):
        raise JudgeNotConfiguredError
    return judges


def _build_model_changes(
    config: JudgeConfig, model: str, own: tuple[str, str] | None
) -> Mapping[str, object]:
    """Return the fields of `config` to change, with their new values, so that `model` becomes the judge.

    `own` is (provider, model), parsed from the text `model`; None if this text names no known provider.
    """
    from evalgate.config.schema.providers import PROVIDERS

    serves_any = config.base_url is not None or PROVIDERS.get(config.provider) is None
    # A provider that serves models of any vendor gets the name of the model as it is written.
    if own is None or serves_any or config.provider in _SERVE_ANY:
        return {"model": model}
    if own[0] == config.provider:
        return {"model": own[1]}
    return {"provider": own[0], "model": own[1], "api_key": None}


_SERVE_ANY = frozenset({"azure", "openrouter", "ollama", "vllm", "custom"})
"""Providers that serve models of any vendor."""
