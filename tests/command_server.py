"""A program that imports evalgate once and runs many commands: each command is a fork of this process.

Standard input is a socket. For each command a client sends one byte and four file descriptors: a socket for the exit
code, the command as JSON (arguments, folder, environment), and files for its standard output and standard error.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import socket
import sys
from contextlib import suppress

import evalgate

NOT_OURS = "evalgate.agents.host"
"""Package that runs in the agent's interpreter and is not imported: some of its modules act at their import."""
SLOW_LIBRARIES = ("openai",)


def load_evalgate() -> None:
    """Import all modules of evalgate, except those that need libraries that are not installed."""
    found = [module.name for module in pkgutil.walk_packages(evalgate.__path__, "evalgate.")]
    for name in (*found, *SLOW_LIBRARIES):
        if not name.startswith(NOT_OURS) and not name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(name)


def serve(requests: socket.socket) -> None:
    """Run the commands that the client sends, side by side, until it closes the socket.

    The answer to each is its exit code, negative for a signal, as in `subprocess`.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fd)
                    send_exit_code(key.fd, *key.data)
                    continue
                _, files, _, _ = socket.recv_fds(requests, 1, 4)
                if not files:
                    return
                if (child := os.fork()) == 0:
                    run_command(files)
                for each in files[1:]:
                    os.close(each)
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, files[0]))


def send_exit_code(handle: int, child: int, answer: int) -> None:
    """Send the exit code of a process that has ended, and close its files."""
    _, status = os.waitpid(child, 0)
    os.write(answer, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(answer)
    os.close(handle)


def run_command(files: list[int]) -> None:
    """Run `python -m evalgate`, which ends the process."""
    command = json.loads(os.pread(files[1], 1 << 24, 0))
    for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *files[2:])):
        os.dup2(descriptor, number)
    os.closerange(3, 1024)  # the sockets of the client
    os.environ.clear()
    os.environ.update(command["environ"])
    os.chdir(command["folder"])
    sys.argv = ["evalgate", *command["arguments"]]
    sys.path.insert(0, command["folder"])
    try:
        runpy.run_module("evalgate", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        os._exit(int(end.code or 0))  # without the interpreter's own end, which takes all modules apart


if __name__ == "__main__":
    load_evalgate()
    gc.freeze()  # a search for garbage would copy the memory that forks share
    with socket.socket(fileno=0) as requests:
        serve(requests)
