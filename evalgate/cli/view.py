"""Command `evalgate view`: its options, and a file that passes the viewer's address to the browser."""

import contextlib
import html
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from evalgate.cli.options import in_project_directory, thresholds_file
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
@in_project_directory
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

    folder = Path(working_directory)
    files = contextlib.ExitStack()

    def announce(address: str) -> None:
        click.echo(f"Showing {folder.resolve()} at {address}")
        click.echo("Press Ctrl-C to end.")
        sys.stdout.flush()
        if not no_open and sys.stdout.isatty():
            import webbrowser

            with contextlib.suppress(OSError):  # no file can be written; the address is printed
                webbrowser.open(files.enter_context(write_redirect(address, folder)))

    with files:
        serve(ServerOptions(folder, results, host, port, thresholds), announce)
    return 0


@contextlib.contextmanager
def write_redirect(address: str, project: Path) -> Iterator[str]:
    """Write a file that redirects a browser to `address`, and yield the `file://` URL of the file.

    Only this user can read the file. It is removed at the end of the `with` block. If the browser opens the
    file, the token in `address` is not in the browser's command line, which other users can see.

    Raises:
        OSError: the file cannot be written.
    """
    # Some browsers see no temporary files (snap). Git ignores the history.
    history = project.resolve() / ".evalgate/history"
    folder = history if (history / ".gitignore").is_file() else None
    handle, name = tempfile.mkstemp(".html", "view-", folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            target = html.escape(address)
            file.write(
                '<!doctype html><html lang="en"><title>evalgate</title>'
                f'<meta http-equiv="refresh" content="0; url={target}">'
                f'<a href="{target}">Open the viewer</a></html>\n'
            )
        yield Path(name).as_uri()
    finally:
        Path(name).unlink(missing_ok=True)
