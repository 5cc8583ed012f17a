"""A command that sends a correct greeting, then behaves as its first argument names. Standard library only."""

from __future__ import annotations

import base64
import json
import sys
import time


def write(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(**message: object) -> None:
    write(json.dumps(message))


def answer(session: str) -> None:
    """Write the lines of one turn: each argument is a line, in which {S} is replaced by the session."""
    for line in sys.argv[2:]:
        write(line.replace("{S}", session))


def raw() -> None:
    sys.stdout.buffer.write(base64.b64decode(sys.argv[2]))
    sys.stdout.buffer.flush()
    if sys.argv[3] == "end":
        sys.exit(0)


def flood() -> None:
    chunk = b"x" * (1 << 20)
    while True:
        sys.stdout.buffer.write(chunk)


def main() -> None:
    mode = sys.argv[1]
    if mode == "silent":
        time.sleep(600)
    if mode == "banner":
        write("Welcome to my agent!")
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "hello":
            send(type="ready", protocol=2 if mode == "future" else 1)
        elif message["type"] == "turn" and mode == "lines":
            answer(message["session"])
        elif message["type"] == "turn" and mode == "raw":
            raw()
        elif message["type"] == "turn" and mode == "flood":
            flood()
        elif message["type"] == "cancel":
            send(type="cancelled", session=message["session"])


main()
