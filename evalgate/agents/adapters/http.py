"""Agents behind a URL, in one of four wire formats."""

from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import field_validator

from evalgate.agents.http.agent import RemoteAgent, RemoteOptions
from evalgate.agents.http.conversation import is_address
from evalgate.agents.http.options import WireOptions
from evalgate.agents.http.server import Server
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, otel_settings
from evalgate.core.errors import InvalidInput
from evalgate.core.protocols import Agent, AgentPlace
from evalgate.documents.env_expansion import Filling, placeholders

_OTLP_PORT = 4318


def _problem_of(url: str) -> str:
    """Why nothing can be asked there; "" when it is an address. Quotes nothing of it."""
    if not is_address(url):
        return "must be an address that starts with http:// or https://"
    if "@" in urlsplit(url).netloc:
        return "must not hold a user name or password: give a header `Authorization`"
    return ""


class HttpAgent(WireOptions):
    """A thresholds file's `agent` section of kind `http`."""

    named_by: ClassVar[str] = "url"

    url: str
    """Where the agent listens; may hold `${NAME}`. docs/agents-http.md says what each dialect adds."""
    verify: bool = True
    """Whether the server's certificate must be valid."""
    ca_file: str | None = None
    """PEM file of the certificates that are trusted instead of the system's."""
    otel: OtelOption = False
    """Whether calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if not placeholders(url) and (problem := _problem_of(url)):
            raise ValueError(problem)
        return url.rstrip("/")

    def build(self, place: AgentPlace) -> Agent:
        """See `evalgate.core.protocols.AgentType`."""
        agent, traces = self._remote(place), otel_settings(self.otel)
        # It runs already: nobody can tell it where to send its spans, so that is where exporters send them.
        return agent if traces is None else TracedAgent(lambda _: agent, traces, port=_OTLP_PORT)

    def _remote(self, place: AgentPlace) -> RemoteAgent:
        filling = Filling(place.environ)
        url = filling.filled("url", self.url).rstrip("/")
        headers = {name: filling.filled(f"headers.{name}", value) for name, value in self.headers.items()}
        filling.check()
        if problem := _problem_of(url):
            raise InvalidInput(f"`agent.url`, with its placeholders filled in, {problem}")
        server = Server(
            url=url,
            headers=headers,
            secrets=filling.secrets,
            verify=self.verify,
            ca_file=None if self.ca_file is None else place.folder / Path(self.ca_file),
            connections=max(place.concurrency, 1),
        )
        options = RemoteOptions(
            timeout_s=place.timeout, start_timeout_s=self.start_timeout, health=self.health_url(url)
        )
        return RemoteAgent(server, self.speaking(), options)
