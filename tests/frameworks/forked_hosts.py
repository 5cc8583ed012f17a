"""Load Google ADK once, and ask many agents for one answer, each in a host that is forked from this process.

Loading ADK takes seconds in each host that is not forked. Standard input is JSON: the path of the host's program, the
text of the turn, and the options of each host. Standard output is JSON: the last message of each host (`done`,
`error` or `fatal`). This program runs in ADK's interpreter, which has no evalgate.
"""

import importlib
import json
import os
import runpy
import sys
from typing import Any, BinaryIO

SESSION = "1"
HELLO = {"type": "hello", "protocol": 1, "features": []}
START = {
    "type": "start",
    "session": SESSION,
    "case": "case",
    "app_name": "shop",
    "user_id": "ada",
    "state": {"shop": "Acme"},
}
LOADED = (
    ("google.adk.agents", "LlmAgent"),
    ("google.adk.runners", "Runner"),
    ("google.adk.workflow", "Workflow"),
)
"""Modules to load before the fork, which ADK would otherwise import at their first use in each host."""
LAST = ("done", "error", "fatal")


def ask_host(program: str, options: dict[str, Any], text: str) -> dict[str, Any]:
    """Fork a host, have one turn with its agent, and return its last message."""
    to_host, from_host = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.dup2(to_host[0], 0)
        os.dup2(from_host[1], 1)
        for each in (*to_host, *from_host):
            os.close(each)
        run_host(program, options)
    os.close(to_host[0])
    os.close(from_host[1])
    with os.fdopen(to_host[1], "wb", buffering=0) as requests, os.fdopen(from_host[0], "rb") as answers:
        turn = {"type": "turn", "session": SESSION, "text": text}
        requests.writelines(json.dumps(message).encode() + b"\n" for message in (HELLO, START, turn))
        last = read_last_message(answers)
    os.wait()
    return last


def run_host(program: str, options: dict[str, Any]) -> None:
    """Run evalgate's host as `python PROGRAM OPTIONS` does; never return."""
    sys.argv = [program, json.dumps(options)]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        os._exit(1)  # the host has ended the process, unless it failed


def read_last_message(answers: BinaryIO) -> dict[str, Any]:
    for line in answers:
        message: dict[str, Any] = json.loads(line)
        if message["type"] in LAST:
            return message
    return {"type": "none"}


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    for module, name in LOADED:
        getattr(importlib.import_module(module), name)
    found = [ask_host(wanted["program"], options, wanted["text"]) for options in wanted["hosts"]]
    sys.stdout.write(json.dumps(found))
