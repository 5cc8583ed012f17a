"""The agent's server as the gate reaches it: where it listens, and the HTTP client that asks there."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.errors import InvalidInput
from evalgate.extras import describe_install
from evalgate.frozen import frozen
from evalgate.remote.proxies import proxy_for
from evalgate.system.files import check_is_regular

if TYPE_CHECKING:
    from ssl import SSLContext

    from aiohttp import ClientSession

_KEEPALIVE_S = 3.0
# Uvicorn and Node.js close an idle connection after 5 s: it is let go before.
_CONNECT_S = 30


@frozen
class Server:
    """Where the agent listens, and how it is spoken to. Its repr shows no header's value."""

    url: str
    """Without a slash at its end."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that stand in no message."""
    verify: bool = True
    """Whether a certificate must be valid."""
    ca_file: Path | None = None
    """Certificates that are trusted instead of the system's."""
    relocated: bool = False
    """Whether it listens elsewhere than it believes, as in a container: of what it says, the path is true."""
    connections: int = 100
    """At the same time, at most."""


def client_of(server: Server, *, keeps: bool) -> "ClientSession":
    """A client of the server. `keeps`: a connection is used for more than one request.

    Raises:
        InvalidInput: the HTTP client is not installed, the certificates cannot be read, or the environment
            names a proxy that is none.
    """
    try:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
    except ImportError:
        raise InvalidInput(
            f"an agent of kind `http` needs the package `aiohttp`: {describe_install('http')}"
        ) from None
    keeping = {"keepalive_timeout": _KEEPALIVE_S} if keeps else {"force_close": True}
    connector = TCPConnector(limit=server.connections, ssl=_tls(server), ttl_dns_cache=300, **keeping)
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),  # one conversation must not go on in the session of another
        headers=dict(server.headers),
        timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
        # Its own way of finding a proxy looks into the user's .netrc, in a thread, for each request.
        proxy=proxy_for(server.url),
    )


def _tls(server: Server) -> "SSLContext | bool":
    import ssl

    if not server.verify:
        return False
    if server.ca_file is None:
        return True
    try:
        check_is_regular(server.ca_file)
        return ssl.create_default_context(cafile=server.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"`agent.ca_file`: cannot read certificates from {server.ca_file}: {error}"
        ) from None
