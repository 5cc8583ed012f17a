"""The agent's server: its address and TLS options, the proxy to it, and the HTTP client for it."""

from collections.abc import Mapping
from dataclasses import field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from evalgate.agents.http.conversation import is_http_url
from evalgate.core.errors import InvalidInputError
from evalgate.core.extras import describe_install
from evalgate.core.frozen import frozen
from evalgate.system.files import check_is_regular

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientSession


def find_proxy(url: str) -> str | None:
    """Return the address of the proxy for `url` (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), or None.

    Loopback addresses never use a proxy, which would look for them on its own machine.

    Raises:
        InvalidInputError: the environment names something else than an HTTP proxy.
    """
    parts, proxies = urlsplit(url), getproxies_environment()
    host = parts.hostname or ""
    exempt = (entry.strip().lower() for entry in proxies.get("no", "").split(","))
    if _is_loopback(host) or any(
        _matches_exemption(entry, host, parts.netloc.lower()) for entry in exempt if entry
    ):
        return None
    for name in (parts.scheme, "all"):
        if proxy := proxies.get(name):
            return _validate_proxy(name, proxy)
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _matches_exemption(entry: str, host: str, netloc: str) -> bool:
    """Return True if an entry of NO_PROXY names the host, host and port, the domain or the network."""
    domain = entry.lstrip(".*")
    if entry == "*" or entry in (host, netloc) or (domain and f".{host}".endswith(f".{domain}")):
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False


def _validate_proxy(name: str, proxy: str) -> str:
    """Return the address of the proxy, or raise InvalidInputError.

    No message shows the address: it may hold a password.
    """
    variable, address = f"{name.upper()}_PROXY", proxy if "://" in proxy else f"http://{proxy}"
    kind = address.partition(":")[0].lower()
    if kind not in {"http", "https"}:
        raise InvalidInputError(
            f"{variable} names a proxy of the kind `{kind}`: an agent is asked through HTTP proxies alone. "
            "Name one, or exempt the agent's host in NO_PROXY"
        )
    if not is_http_url(address):
        raise InvalidInputError(
            f"{variable} names a proxy that is no address: it must look like http://host:port"
        )
    return address


# Uvicorn and Node.js close an idle connection after 5 s: the client closes it before they do.
_KEEPALIVE_S = 3.0
_CONNECT_S = 30


@frozen
class AgentServer:
    """Address of the agent with the options of the HTTP client. Its repr shows no header's value."""

    url: str
    """Address without a slash at its end."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that no message may contain."""
    verify: bool = True
    """True if the certificate must be valid."""
    ca_file: Path | None = None
    """Certificates that are trusted instead of the system's."""
    relocated: bool = False
    """True if the server's own host and port are not those of `url`, as in a container."""
    connections: int = 100
    """Largest number of open connections."""


def create_http_client(server: AgentServer, *, keeps: bool) -> "ClientSession":
    """Return an HTTP client of the server; with `keeps`, a connection may serve several requests.

    Raises:
        InvalidInputError: `aiohttp` is not installed, the certificates cannot be read, or the environment
            names something else than an HTTP proxy.
    """
    try:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
    except ImportError:
        raise InvalidInputError(
            f"an agent of kind `http` needs the package `aiohttp`: {describe_install('http')}"
        ) from None
    reuse = {"keepalive_timeout": _KEEPALIVE_S} if keeps else {"force_close": True}
    connector = TCPConnector(
        limit=server.connections, ssl=_build_tls_context(server), ttl_dns_cache=300, **reuse
    )
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),  # a session cookie must not leak into another conversation
        headers=dict(server.headers),
        timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
        # Not `trust_env`: aiohttp would read the user's .netrc, in a thread, for each request.
        proxy=find_proxy(server.url),
    )


def _build_tls_context(server: AgentServer) -> "SSLContext | bool":
    import ssl

    if not server.verify:
        return False
    if server.ca_file is None:
        return True
    try:
        check_is_regular(server.ca_file)
        return ssl.create_default_context(cafile=server.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"`agent.ca_file`: cannot read certificates from {server.ca_file}: {error}"
        ) from None
