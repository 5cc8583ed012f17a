"""Agents that harm their own process in different ways."""

from __future__ import annotations

import asyncio
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
    """Sleep in C without releasing the GIL, so that no other thread can run."""
    ctypes.PyDLL(None).sleep(600)
    return text


def eats_memory(text: str) -> str:
    if text != "eat":
        return text
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))
        time.sleep(0.05)  # slow enough for a gate that checks late on a busy machine


def lets_a_child_eat(text: str) -> str:
    code = "x = []\nimport time\nwhile True: x.append(b'x' * (8 << 20)); time.sleep(0.05)"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)
    return text


def leaves_a_daemon(text: str) -> str:
    """Leave an orphaned child in its own session that keeps the agent's pipes open."""
    script = "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 60; done' &"
    subprocess.run(["sh", "-c", script], check=True)
    return text


def leaves_zombies(text: str) -> str:
    for _ in range(20):
        subprocess.Popen(["true"])  # never waited for
    return text


def closes_its_pipes(text: str, session: Any) -> str:
    """Close file descriptors 0 to 63, including the pipes to the gate."""
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
    """Send 2,000 messages of 1 KB at once, far more than a pipe can hold."""
    for number in range(2_000):
        session.message("x" * 1_000 + str(number))
    return text


async def forks_and_exits(text: str) -> str:
    """Fork a child that calls `sys.exit`, which the host could mistake for the end of the agent."""
    await asyncio.sleep(0.05)
    if text == "guilty":
        if os.fork() == 0:
            sys.exit(3)
        os.wait()  # noqa: ASYNC222
    await asyncio.sleep(0.2)
    return text


def forks_and_exits_in_a_thread(text: str) -> str:
    if text == "guilty":
        child = os.fork()
        if child == 0:
            sys.exit(3)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 3:
            raise ValueError("the child did not end as it wanted")
    time.sleep(0.1)
    return text


async def forks_and_answers(text: str) -> str:
    """Fork a child, so that parent and child both answer."""
    await asyncio.sleep(0.05)
    if text == "guilty" and os.fork() == 0:
        return "of the child"
    await asyncio.sleep(0.2)
    return text


async def forks_and_sleeps(text: str) -> str:
    """Fork a child that stays in the event loop, where it would read messages to the parent."""
    await asyncio.sleep(0.05)
    if text == "guilty" and os.fork() == 0:
        await asyncio.sleep(0.1)
        return "of the child"
    await asyncio.sleep(0.3)
    return text


async def cancels_all(text: str) -> str:
    await asyncio.sleep(0.1)
    if text == "guilty":
        for task in asyncio.all_tasks():
            task.cancel()
    await asyncio.sleep(0.2)
    return text


async def answers_too_much(text: str, session: Any) -> str:
    if text == "guilty":
        session.tool_call("read", {"file": "x" * (17 << 20)})
    await asyncio.sleep(0.2)
    return text


def answers_too_much_at_last(text: str) -> str:
    return "x" * (17 << 20) if text == "guilty" else text


def answers_with_a_call_that_is_too_large(text: str) -> object:
    calls = [{"name": "read", "args": {}, "result": "x" * (17 << 20)}]
    return {"response": text, "tool_calls": calls} if text == "guilty" else text
