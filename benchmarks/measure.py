"""Helpers of all benchmarks: timed child processes, eval sets of any size, and agents without work."""

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

AGENT = """
import asyncio

async def answer(text, session):
    session.tool_call("search", {"query": "shoes", "limit": 3, "page": 1, "sort": "price"})
    session.tool_call("details", {"sku": "1234", "color": "red", "size": 42, "stock": True})
    session.tool_call("order", {"sku": "1234", "count": 1, "gift": False, "note": ""})
    return ANSWER

ANSWER = " ".join(f"word{number} running quickly to the shop" for number in range(8))

async def wait(text, session):
    await asyncio.sleep(float(text))
    return "done"
"""

ANSWER = " ".join(f"word{number} running quickly to the shop" for number in range(8))

CALLS = [
    {"name": "search", "args": {"query": "shoes", "limit": 3, "page": 1, "sort": "price"}},
    {"name": "details", "args": {"sku": "1234", "color": "red", "size": 42, "stock": True}},
    {"name": "order", "args": {"sku": "1234", "count": 1, "gift": False, "note": ""}},
]


@dataclass(frozen=True)
class Cost:
    """Wall time and CPU time in seconds, and peak memory in MB, of a command with its children."""

    wall: float
    cpu: float
    peak_mb: float


def run(argv, *, cwd=None, expect=(0,), env=None):
    """Run a command once and return its cost, including its children. `env` is added to the environment.

    End the benchmark if the exit code is not in `expect`.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # An installed command finds compiled bytecode, so a child may write it even if this process may not.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        argv, cwd=cwd, env={**inherited, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode not in expect:
        sys.exit(f"{argv} ended with {process.returncode}:\n{output.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, usage.ru_maxrss / 1024)


def median(argv, *, times=7, **options):
    """Run a command several times and return the median of each figure of its cost."""
    costs = [run(argv, **options) for _ in range(times)]
    return Cost(
        *(statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak_mb"))
    )


def seconds_a_call(call, arguments, *, times=5):
    """Return the mean CPU seconds of `call` for one of `arguments`, in the fastest of several rounds over all.

    Garbage collection is disabled, so that other objects in this process do not affect the time.
    """
    gc.collect()
    gc.disable()
    try:
        return min(_round(call, arguments) for _ in range(times)) / len(arguments)
    finally:
        gc.enable()


def _round(call, arguments):
    start = time.process_time()
    for argument in arguments:
        call(argument)
    return time.process_time() - start


def python(code):
    """Return the command line that runs `code` with this interpreter."""
    return [sys.executable, "-c", code]


def evalgate(*arguments):
    """Return the command line of the installed command `evalgate` with `arguments`."""
    return [str(Path(sys.executable).with_name("evalgate")), *arguments]


def write_project(folder, cases, *, entry="answer", texts=None):
    """Write an agent and an eval set of single-turn cases into a folder, and return the arguments of `evalgate`.

    `entry` is the agent's function: `answer` answers at once, and `wait` waits the seconds in the user's text. `texts`
    are the users' texts, one for each case.
    """
    folder = Path(folder)
    (folder / "agent.py").write_text(AGENT)
    conversation = [
        {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": texts[number] if texts else f"order {number}"}]},
                    "final_response": {"parts": [{"text": ANSWER if texts is None else "done"}]},
                    "intermediate_data": {"tool_uses": CALLS if texts is None else []},
                }
            ],
        }
        for number in range(cases)
    ]
    document = {"eval_set_id": "bench", "eval_cases": conversation}
    (folder / "bench.evalset.json").write_text(json.dumps(document))
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    (folder / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    return ["run", "bench.evalset.json", "--agent", f"python:agent.py:{entry}"]
