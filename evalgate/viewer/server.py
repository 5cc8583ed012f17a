"""Run the web server of `evalgate view`, which listens on a loopback address."""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.installation import describe_install
from evalgate.viewer.records import RecordStore
from evalgate.viewer.security import Access
from evalgate.viewer.state import Viewer

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from uvicorn import Config

_SHUTDOWN_S = 5
"""Seconds that running requests may still take after Ctrl-C."""


@frozen
class ServerOptions:
    """Options of `evalgate view`."""

    folder: Path
    named: Sequence[str] = ()
    """Files and folders with records that the command line names."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port of the server; 0 means any free port."""
    thresholds: str | None = None


def serve(options: ServerOptions, announce: Callable[[str], None]) -> None:
    """Serve the pages of a project until Ctrl-C.

    `announce` is called with the address of the first page once it can be opened.

    Raises:
        InvalidInputError: the extra `view` is not installed, the address is no loopback address or is taken,
            a named file does not exist, or a named folder has no results or too many.
    """
    try:
        import uvicorn

        from evalgate.viewer.app import create_app
    except ModuleNotFoundError as error:
        raise InvalidInputError(
            f"`evalgate view` needs the package `{error.name}`: {describe_install('view')}"
        ) from None
    records = RecordStore(options.folder, options.named)
    with open_socket(options.host, options.port) as listener:
        host, port = listener.getsockname()[:2]
        access = Access.create(port, f"[{host}]" if ":" in host else host)
        viewer = Viewer(options.folder, records, access, options.thresholds)
        config = configure_server(create_app(viewer))
        listener.listen(128)  # from here on the browser waits instead of being refused
        # Not the name `localhost`: another user may listen on its other address, and would get the token.
        announce(access.address)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            return  # the usual end; uvicorn has closed the connections and raises the signal again


def configure_server(app: "Starlette") -> "Config":
    """Return the settings of uvicorn: no access log, no websockets, and a time limit for headers."""
    from uvicorn import Config

    from evalgate.viewer.connections import LimitedConnection

    return Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=LimitedConnection,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the loopback address `host`; port 0 means any free port.

    Raises:
        InvalidInputError: the address is not a loopback address, or the port or address cannot be used.
    """
    name = "127.0.0.1" if host == "localhost" else host
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise InvalidInputError(
            f"--host {host}: the viewer listens on loopback addresses only (127.0.0.1, ::1, localhost); to "
            "look from another machine, forward the port with `ssh -L`"
        )
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((name, port))
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"--port {port}: the port cannot be used: {error.strerror}. Without `--port` a free one is taken"
        ) from None
    return listener
