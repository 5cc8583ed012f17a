"""Agents that do harm to their own process, each in its own way."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any


def stops_itself(text: str) -> str:
    os.kill(os.getpid(), signal.SIGSTOP)
    return text


def kills_itself(text: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return text


def holds_the_interpreter(text: str) -> str:
    """Sleeps in C without letting go of the interpreter's lock: no other thread runs meanwhile."""
    ctypes.PyDLL(None).sleep(600)
    return text


def eats_memory(text: str) -> str:
    if text != "eat":
        return text
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))
        time.sleep(0.05)  # that is not too fast for a gate which looks late, on a busy machine


def lets_a_child_eat(text: str) -> str:
    code = "x = []\nimport time\nwhile True: x.append(b'x' * (8 << 20)); time.sleep(0.05)"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)
    return text


def leaves_a_daemon(text: str) -> str:
    """A child in a session of its own, whose parent is gone, and which holds our pipes open."""
    script = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 60; done' &"
    subprocess.run(["sh", "-c", script], check=True)
    return text


def leaves_zombies(text: str) -> str:
    for _ in range(20):
        subprocess.Popen(["true"])  # nobody waits for them
    return text


def closes_its_pipes(text: str, session: Any) -> str:
    """Closes whatever it finds: the gate's pipes among them."""
    session.message("closing")
    os.closerange(0, 64)
    time.sleep(600)
    return text


def closes_stdin(text: str) -> str:
    os.close(0)
    return text


def floods_with_nonsense(text: str) -> str:
    for _ in range(64):
        os.write(2, b"\xff\xfe\x00" * 21_845)
    raise ValueError(text)


def fills_the_pipe(text: str, session: Any) -> str:
    """Far more than a pipe holds, in one burst."""
    for number in range(2_000):
        session.message("x" * 1_000 + str(number))
    return text
