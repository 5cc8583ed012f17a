"""Options of agents behind HTTP: the dialect, and the options of each dialect."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urljoin

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

from evalgate.agents.http.a2a import A2aDialect
from evalgate.agents.http.adk_server import AdkServerDialect, AdkServerOptions
from evalgate.agents.http.chat_completions import ChatDialect, ChatOptions
from evalgate.agents.http.connection import AgentConnection, append_path
from evalgate.agents.http.dialect import Dialect
from evalgate.agents.http.evalgate_dialect import EvalgateDialect
from evalgate.agents.http.orchestrate_server import HEALTH_PATH, OrchestrateDialect
from evalgate.documents.env_expansion import strip_placeholders

DialectName: TypeAlias = Literal["evalgate", "openai", "adk", "a2a", "orchestrate"]

_DIALECT_OPTIONS: Mapping[str, frozenset[DialectName]] = {
    "model": frozenset({"openai"}),
    "instructions": frozenset({"openai"}),
    "body": frozenset({"openai"}),
    "max_rounds": frozenset({"openai"}),
    "app": frozenset({"adk", "orchestrate"}),
    "stream": frozenset({"openai", "adk", "a2a"}),
}
_HEALTH: Mapping[DialectName, str] = {"adk": "/list-apps", "orchestrate": HEALTH_PATH}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_RESERVED_HEADERS = frozenset(
    {"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te"}
)
# `n` is reserved because only the first of several answers would be read.
_RESERVED_FIELDS = frozenset({"model", "messages", "stream", "stream_options", "n"})


class HttpDialectOptions(BaseModel):
    """Options of an agent that is asked over HTTP, in any dialect."""

    # A message with the input could show the secrets in `headers`.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    dialect: DialectName = "evalgate"
    """The wire format: evalgate's own, OpenAI's chat completions, ADK's api_server, A2A or Orchestrate."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    """Headers of every request. Values may hold `${NAME}`, which is replaced by a variable of evalgate's own
    environment."""
    health: str | None = None
    """Address that must answer before the first case starts; relative to `url`. When absent, a path that the
    dialect defines is appended to `url`. For a dialect that defines none, the address is `url`."""
    start_timeout: Annotated[float, Strict()] = Field(default=60.0, gt=0, allow_inf_nan=False)
    """Seconds until the server must answer for the first time."""
    stream: bool | None = None
    """If true, answers of the dialects `openai`, `adk` and `a2a` are streamed. When absent, `a2a` streams if
    the agent's card offers it, and the two others do not."""
    model: str | None = None
    """Dialect `openai`: model that the requests name."""
    instructions: str | None = None
    """Dialect `openai`: system message at the start of each conversation."""
    body: Mapping[str, object] = Field(default_factory=dict)
    """Dialect `openai`: further fields of each request, such as `tools` and `temperature`."""
    max_rounds: Annotated[int, Strict()] = Field(default=16, ge=1, le=1_000)
    """Dialect `openai`: largest number of requests in one turn. Each round of tool calls needs a request."""
    app: str | None = None
    """Dialects `adk` and `orchestrate`: name of the app or agent on the server. When absent, the name in the
    case is used, or else the server's only app or agent."""

    @field_validator("headers")
    @classmethod
    def _validate_headers(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name):
                raise ValueError(f"has {name!r}, which is no name of a header")
            if name.lower() in _RESERVED_HEADERS:
                raise ValueError(f"must not set {name}: it says how the body is sent")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"has {name} with characters that cannot be sent")
            if "${" in strip_placeholders(value):
                raise ValueError(f"has {name} with a placeholder that is none: write ${{NAME}}")
        return headers

    @field_validator("body")
    @classmethod
    def _validate_body(cls, body: Mapping[str, object]) -> Mapping[str, object]:
        if reserved := sorted(_RESERVED_FIELDS & set(body)):
            raise ValueError(f"must not set {', '.join(reserved)}: evalgate does")
        return body

    @model_validator(mode="after")
    def _validate_dialect_options(self) -> Self:
        for option, dialects in _DIALECT_OPTIONS.items():
            if option in self.model_fields_set and self.dialect not in dialects:
                known = " or ".join(f"`{name}`" for name in sorted(dialects))
                raise ValueError(f"has `{option}`, which belongs to `dialect` {known}, not `{self.dialect}`")
        if self.dialect == "openai" and not self.model:
            raise ValueError("needs `model`, which chat completions are asked of")
        return self

    def build_health_url(self, url: str) -> str:
        """Return the address that must answer before the first case starts, for an agent at `url`."""
        if self.health is not None:
            return urljoin(append_path(url, "/"), self.health)
        return append_path(url, _HEALTH[self.dialect]) if self.dialect in _HEALTH else url

    def build_dialect_factory(self) -> Callable[[AgentConnection], Dialect]:
        """Return a function that creates the dialect for a connection."""
        match self.dialect:
            case "evalgate":
                return EvalgateDialect
            case "openai":
                return lambda connection: ChatDialect(connection, self._build_chat_options())
            case "adk":
                options = AdkServerOptions(app=self.app, stream=bool(self.stream))
                return lambda connection: AdkServerDialect(connection, options)
            case "a2a":
                return lambda connection: A2aDialect(connection, stream=self.stream)
            case "orchestrate":
                return lambda connection: OrchestrateDialect(connection, self.app)

    def _build_chat_options(self) -> ChatOptions:
        return ChatOptions(
            model=self.model or "",
            stream=bool(self.stream),
            instructions=self.instructions,
            body=self.body,
            max_rounds=self.max_rounds,
        )
