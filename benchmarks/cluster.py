"""Measure how an agent that computes scales on a local Ray cluster, and the cost of one case through Ray.

evalgate's own environments do not contain Ray. In an environment with Ray (`pip install -e '.[ray]'` in a checkout):

    python -m benchmarks cluster
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path

from evalgate.agents.factory import build_agent, resolve_agent
from evalgate.config.schema.agent import AgentConfig, ExecutorConfig
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.types import CaseTurn, EvalCase, UserMessage
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.system.workspace import Workspace

CASES, ROUNDS, CONCURRENCY = 80, 5, 16
AGENT = """
import time

def compute(text):
    end = time.thread_time() + float(text)
    while time.thread_time() < end:
        pass
    return "done"
"""


def main():
    """Print the time of a case with one and with two workers, for local processes and for Ray.

    Measurements with one and with two workers alternate, so that other load of the machine affects both alike.
    """
    if find_spec("ray") is None:
        print("skipped: Ray is not installed here; benchmarks/cluster.py says how")
        return
    for executor in ("local", "ray"):
        asyncio.run(_compare_workers(executor))


async def _compare_workers(executor):
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "agent.py").write_text(AGENT)
        agents = {
            workers: await stack.enter_async_context(_agent(executor, folder, workers)) for workers in (1, 2)
        }
        for agent in agents.values():
            await _seconds_a_case(agent, 0.0)  # starts the workers, which start at the first case
        for what, seconds in (("computes 50 ms", 0.05), ("does nothing", 0.0)):
            _print_times(executor, what, [await _round(agents, seconds) for _ in range(ROUNDS)])


def _print_times(executor, what, rounds):
    one, two = (statistics.median(each[workers] for each in rounds) * 1e3 for workers in (1, 2))
    ratio = statistics.median(each[1] / each[2] for each in rounds)
    cpu = statistics.median(each["cpu"] for each in rounds) * 1e3
    print(
        f"{executor:6} {what:15} 1 worker {one:6.1f} ms a case   2 workers {two:6.1f} ms   × {ratio:.2f}"
        f"   {cpu:5.1f} ms of CPU"
    )


async def _round(agents, seconds):
    before = _cpu_seconds()
    walls = {workers: await _seconds_a_case(agent, seconds) for workers, agent in agents.items()}
    return {**walls, "cpu": (_cpu_seconds() - before) / (CASES * len(agents))}


def _cpu_seconds():
    """Return the CPU seconds of this process and all its descendants, also those of Ray. Linux only."""
    fields = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        after = text.rpartition(")")[2].split()
        fields[int(stat.parent.name)] = int(after[1]), int(after[11]) + int(after[12])
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in fields.items() if parent in ours} - ours:
        ours |= more
    return sum(fields[pid][1] for pid in ours) / os.sysconf("SC_CLK_TCK")


async def _seconds_a_case(agent, seconds):
    cases = [EvalCase(str(number), (CaseTurn(UserMessage(str(seconds))),)) for number in range(CASES)]

    async def note(request, run):
        if run.outcome != "answered":
            sys.exit(f"{request.case.eval_id}: {run.failure}")

    began = time.perf_counter()
    requests = [RunRequest(case, 1) for case in cases]
    await run_requests(agent, requests, concurrency=CONCURRENCY, on_finished=note)
    return (time.perf_counter() - began) / CASES


def _agent(executor, folder, workers):
    section = AgentConfig(entry="agent.py:compute", workers=workers, concurrency=CONCURRENCY)
    chosen = resolve_agent(section, "", Thresholds(Config(), folder))
    return build_agent(chosen, Workspace(folder), dict(os.environ), ExecutorConfig(kind=executor))


if __name__ == "__main__":
    main()
