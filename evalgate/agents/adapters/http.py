"""Agents behind a URL, in one of five wire formats."""

from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import field_validator

from evalgate.agents.http.agent import RemoteAgent, RemoteOptions
from evalgate.agents.http.connection import AgentServer, is_http_url
from evalgate.agents.http.options import HttpDialectOptions
from evalgate.agents.tracing.traced_agent import OtelOption, TracedAgent, resolve_otel_settings
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import Agent, AgentContext
from evalgate.documents.env_expansion import PlaceholderExpander, list_placeholders

_OTLP_PORT = 4318


def _find_url_problem(url: str) -> str:
    """Return the reason why a URL cannot be used; "" if the URL can be used."""
    # The URL may be secret, so no reason quotes it.
    if not is_http_url(url):
        return "must be an address that starts with http:// or https://"
    if "@" in urlsplit(url).netloc:
        return "must not hold a user name or password: give a header `Authorization`"
    return ""


class HttpAgentOptions(HttpDialectOptions):
    """A thresholds file's `agent` section of kind `http`."""

    named_by: ClassVar[str] = "url"

    url: str
    """URL of the agent's server. `${NAME}` in it is replaced by a variable of evalgate's environment. Every
    dialect except `evalgate` appends a path to the URL: docs/agents-http.md."""
    verify: bool = True
    """If true, the server's certificate must be valid."""
    ca_file: str | None = None
    """PEM file of the certificates that are trusted instead of the system's."""
    otel: OtelOption = False
    """If true, tool calls and usage are read from the spans that the agent sends: docs/opentelemetry.md."""

    @field_validator("url")
    @classmethod
    def _validate_url(cls, url: str) -> str:
        if not list_placeholders(url) and (problem := _find_url_problem(url)):
            raise ValueError(problem)
        return url.rstrip("/")

    def build(self, context: AgentContext) -> Agent:
        """Build the agent. If `otel` is set, evalgate also receives the server's OpenTelemetry spans.

        Raises:
            InvalidInputError: a placeholder `${NAME}` has no value, or the URL cannot be used.
        """
        agent, traces = self._build_remote_agent(context), resolve_otel_settings(self.otel)
        # The server runs already and cannot be told where to send spans: use the exporters' default port.
        return agent if traces is None else TracedAgent(lambda _: agent, traces, port=_OTLP_PORT)

    def _build_remote_agent(self, context: AgentContext) -> RemoteAgent:
        expander = PlaceholderExpander(context.environ)
        url = expander.expand_text("url", self.url).rstrip("/")
        headers = {
            name: expander.expand_text(f"headers.{name}", value) for name, value in self.headers.items()
        }
        expander.raise_problems()
        if problem := _find_url_problem(url):
            raise InvalidInputError(f"`agent.url`, with its placeholders filled in, {problem}")
        server = AgentServer(
            url=url,
            headers=headers,
            secrets=expander.secrets,
            verify=self.verify,
            ca_file=None if self.ca_file is None else context.folder / Path(self.ca_file),
            connections=max(context.concurrency, 1),
        )
        options = RemoteOptions(
            timeout_s=context.timeout, start_timeout_s=self.start_timeout, health=self.build_health_url(url)
        )
        return RemoteAgent(server, self.build_dialect_factory(), options)
