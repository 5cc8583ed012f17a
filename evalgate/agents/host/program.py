"""Main program of the agent host: take over stdin and stdout, load the agent, and serve the gate.

Its command line has one argument, a JSON object with these options:

- `entry` (required): the object to load: `package.module:attribute` or `path/file.py:attribute`; with `adk`,
  also a module, a folder, a file or a YAML file without an attribute
- `threads` (required): largest number of threads for a synchronous agent
- `path`: list of folders to put first on `sys.path`; the working folder if absent
- `home`: folder to which a path in `entry` is relative; the working folder if absent
- `capture`: true to capture model calls and spans
- `track`: true to record the files of the project that the process opens
- `adk`: true for an entry of Google ADK; `agent` then names a sub-agent to run instead of the root
- `metric`: true to serve the function of a custom metric
- `digest`: SHA-256 of the manifest in `home`. The manifest has the digest of each file of a metric's code.
  Each file is compared with its digest before it is imported. If absent, no file is checked
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from .channel import Channel, write_line
from .conversations import SessionManager
from .entry import load_entry
from .errors import describe_fatal
from .frameworks import HostedAgent, load_hosted_agent
from .threads import DaemonThreadPool, end_if_forked, watch_forks
from .tools import publish_module

if TYPE_CHECKING:
    from .opened_files import FileRecorder


def main() -> None:
    """Run the agent host until stdin is closed; then end the process with exit code 0.

    `sys.argv[1]` holds the options as JSON, such as `entry`. If the agent cannot be loaded, send a message
    `fatal` to the gate, and end the process with exit code 1.
    """
    options: dict[str, Any] = json.loads(sys.argv[1])
    # An agent that parses its command line on import must not find the options of the host.
    sys.argv[1:] = []
    incoming, outgoing = _take_over_stdio()
    # A crash in C then shows where it happened, in the part of stderr that the gate keeps.
    faulthandler.enable()
    sys.path[:0] = options.get("path", [os.getcwd()])
    opened = None
    if options.get("track"):
        from .opened_files import FileRecorder

        opened = FileRecorder(os.getcwd())  # before the agent imports anything
    # Made before the import: on old Pythons a module-level asyncio.Lock binds to the loop it finds.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    publish_module()
    if options.get("capture"):
        from .capture import install_capture

        install_capture()  # before the agent imports the packages that are patched
    agent = _load_agent(loop, options, outgoing)
    # A child that the agent's module forked and that returns here would be a second host on the same pipes.
    end_if_forked()
    watch_forks(loop)
    if not options.get("capture"):
        agent = agent._replace(capture=False)
    _serve_messages(loop, agent, Channel(loop, incoming, outgoing), options["threads"], opened)
    # `os._exit`, since a thread that hangs must not keep the process alive; it does not flush by itself.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _take_over_stdio() -> tuple[int, int]:
    """Return duplicates of the file descriptors of stdin and stdout, and redirect the originals.

    All other code, also in C and in child processes, then has an empty stdin, and its stdout goes to stderr:
    only the host may write into the protocol.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Python buffers stdout if it is no terminal: a process that dies would lose its last output.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(line_buffering=True)
    return incoming, outgoing


def _load_agent(loop: asyncio.AbstractEventLoop, options: dict[str, Any], outgoing: int) -> HostedAgent:
    entry: str = options["entry"]
    try:
        return load_hosted_agent(_find_agent(loop, entry, options), entry.rpartition(":")[0], loop)
    except BaseException as error:  # noqa: BLE001  the agent's module may raise anything, also SystemExit
        end_if_forked(error)
        write_line(outgoing, {"type": "fatal", **describe_fatal(error, entry)})
        sys.stderr.flush()
        os._exit(1)


def _find_agent(loop: asyncio.AbstractEventLoop, entry: str, options: dict[str, Any]) -> object:
    if options.get("adk"):
        from .adk_entry import find_adk_agent

        return find_adk_agent(entry, options.get("agent"), loop)
    if options.get("digest"):
        from .verified_code import verify_code

        verify_code(options["home"], options["digest"])
    found = load_entry(entry, options.get("home"))
    if options.get("metric"):
        from .custom_metric_function import wrap_metric_as_agent

        return wrap_metric_as_agent(found)
    return found


def _serve_messages(
    loop: asyncio.AbstractEventLoop,
    agent: HostedAgent,
    channel: Channel,
    threads: int,
    opened: FileRecorder | None = None,
) -> None:
    conversations = SessionManager(loop, agent, channel, DaemonThreadPool(threads), opened)

    channel.open(conversations.handle_message)
    while not channel.closed:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            end_if_forked(error)
            # A task that the agent started called sys.exit. asyncio raises that out of the loop, too.
            conversations.handle_exit(error)
