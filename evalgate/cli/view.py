"""The command `evalgate view`."""

import sys
from pathlib import Path

import click

from evalgate.cli.options import project_directory, thresholds_file
from evalgate.cli.project_folder import FILE


@click.command()
@click.argument("results", nargs=-1, type=FILE, metavar="[RESULTS]...")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port to listen on.  [default: a free one]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Loopback address to listen on: 127.0.0.1, ::1 or localhost. Any other is refused.",
)
@click.option("--no-open", is_flag=True, help="Print the address without opening a browser.")
@thresholds_file
@project_directory
def view(
    results: tuple[str, ...],
    port: int,
    host: str,
    no_open: bool,
    thresholds: str | None,
    working_directory: str,
) -> int:
    """Look at results in the browser.

    RESULTS are results.json files, folders with such files, or recordings, such as saved sessions and traces.
    The last run and the history in .evalgate/history are shown as well. The server listens on this machine
    only, at an address with a token, until Ctrl-C.
    """
    from evalgate.viewer.server import ServerOptions, serve

    def announce(address: str) -> None:
        click.echo(f"Showing {Path(working_directory).resolve()} at {address}")
        click.echo("Press Ctrl-C to end.")
        sys.stdout.flush()
        if not no_open and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(address)

    serve(ServerOptions(Path(working_directory), results, host, port, thresholds), announce)
    return 0
