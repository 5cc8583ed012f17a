"""Agents behind a URL, in one of four wire formats."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeAlias
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

from evalgate.protocols import Agent, AgentPlace
from evalgate.remote.a2a import A2aDialect
from evalgate.remote.adkserver import AdkServerDialect, AdkServerOptions
from evalgate.remote.agent import RemoteAgent, RemoteOptions
from evalgate.remote.chat import ChatDialect, ChatOptions
from evalgate.remote.connection import Connection, Server
from evalgate.remote.conversation import Dialect
from evalgate.remote.placeholders import Filling
from evalgate.remote.turns import TurnDialect
from evalgate.telemetry.settings import OtelOption, otel_settings
from evalgate.telemetry.traced import TracedAgent

DialectName: TypeAlias = Literal["evalgate", "openai", "adk", "a2a"]

_OWN_OPTIONS: Mapping[str, frozenset[DialectName]] = {
    "model": frozenset({"openai"}),
    "instructions": frozenset({"openai"}),
    "body": frozenset({"openai"}),
    "max_rounds": frozenset({"openai"}),
    "app": frozenset({"adk"}),
    "stream": frozenset({"openai", "adk", "a2a"}),
}
_HEALTH: Mapping[DialectName, str] = {"adk": "/list-apps"}
_OTLP_PORT = 4318
_OURS_IN_BODY = frozenset({"model", "messages", "stream", "stream_options", "n"})


class HttpAgent(BaseModel):
    """A thresholds file's `agent` section of kind `http`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
    named_by: ClassVar[str] = "url"

    url: str
    """Where the agent listens; may hold `${NAME}`. docs/agents-http.md says what each dialect adds."""
    dialect: DialectName = "evalgate"
    """The wire format: evalgate's own turns, OpenAI's chat completions, Google ADK's api_server, or A2A."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Sent with every request; values may hold `${NAME}`, from the environment of evalgate."""
    health: str | None = None
    """What is asked for until it is answered, before the first case; relative to `url`."""
    start_timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds that the server may take until it answers."""
    verify: bool = True
    """Whether the server's certificate must be valid."""
    ca_file: str | None = None
    """PEM file of the certificates that are trusted instead of the system's."""
    stream: bool | None = None
    """Whether answers are streamed; where the dialect is A2A, what the agent's card says when absent."""
    model: str | None = None
    """Of OpenAI's dialect."""
    instructions: str | None = None
    """Of OpenAI's dialect: a system message before everything else."""
    body: Mapping[str, object] = Field(default_factory=dict)
    """Of OpenAI's dialect: further fields of each request, as `tools` and `temperature`."""
    max_rounds: Annotated[int, Strict()] = Field(default=16, ge=1, le=1_000)
    """Of OpenAI's dialect: requests that one turn may take while the agent calls tools."""
    app: str | None = None
    """Of ADK's dialect: the app of the server; the case's own, or the only one, when absent."""
    otel: OtelOption = False
    """Whether calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        if not url.startswith("${") and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise ValueError("must be an address that starts with http:// or https://")
        if "@" in parts.netloc:
            raise ValueError("must not hold a user name or password: give a header `Authorization`")
        return url.rstrip("/")

    @field_validator("body")
    @classmethod
    def _leaves_ours_alone(cls, body: Mapping[str, object]) -> Mapping[str, object]:
        if ours := sorted(_OURS_IN_BODY & set(body)):
            raise ValueError(f"must not set {', '.join(ours)}: evalgate does")
        return body

    @model_validator(mode="after")
    def _has_what_its_dialect_needs(self) -> Self:
        for option, dialects in _OWN_OPTIONS.items():
            if option in self.model_fields_set and self.dialect not in dialects:
                known = " or ".join(f"`{name}`" for name in sorted(dialects))
                raise ValueError(f"has `{option}`, which belongs to `dialect` {known}, not `{self.dialect}`")
        if self.dialect == "openai" and not self.model:
            raise ValueError("needs `model`, which chat completions are asked of")
        return self

    def build(self, place: AgentPlace) -> Agent:
        """See `evalgate.protocols.AgentType`."""
        agent, traces = self._remote(place), otel_settings(self.otel)
        # It runs already: nobody can tell it where to send its spans, so that is where exporters send them.
        return agent if traces is None else TracedAgent(lambda _: agent, traces, port=_OTLP_PORT)

    def _remote(self, place: AgentPlace) -> RemoteAgent:
        filling = Filling(place.environ)
        url = filling.filled("url", self.url).rstrip("/")
        headers = {name: filling.filled(f"headers.{name}", value) for name, value in self.headers.items()}
        filling.check()
        server = Server(
            url=url,
            headers=headers,
            secrets=filling.secrets,
            verify=self.verify,
            ca_file=None if self.ca_file is None else place.folder / Path(self.ca_file),
            connections=max(place.concurrency, 1),
        )
        health = (
            url + _HEALTH.get(self.dialect, "") if self.health is None else urljoin(f"{url}/", self.health)
        )
        options = RemoteOptions(timeout_s=place.timeout, start_timeout_s=self.start_timeout, health=health)
        return RemoteAgent(server, self._speak(), options)

    def _speak(self) -> Callable[[Connection], Dialect]:
        match self.dialect:
            case "evalgate":
                return TurnDialect
            case "openai":
                return lambda connection: ChatDialect(connection, self._chat_options())
            case "adk":
                options = AdkServerOptions(app=self.app, stream=bool(self.stream))
                return lambda connection: AdkServerDialect(connection, options)
            case "a2a":
                return lambda connection: A2aDialect(connection, stream=self.stream)

    def _chat_options(self) -> ChatOptions:
        return ChatOptions(
            model=self.model or "",
            stream=bool(self.stream),
            instructions=self.instructions,
            body=self.body,
            max_rounds=self.max_rounds,
        )
