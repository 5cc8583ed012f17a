"""Measure the time that the gate adds to a turn over HTTP and in a container, compared with a bare client or pipe."""

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from evalgate.agents.adapters.docker import DockerAgentOptions
from evalgate.agents.adapters.http import HttpAgentOptions
from evalgate.agents.adapters.python import PythonAgentOptions
from evalgate.core.protocols import AgentContext
from evalgate.core.types import CaseTurn, EvalCase, UserMessage
from evalgate.runner.scheduler import RunRequest, run_requests

IMAGE = "python:3.13-slim-trixie"
TURNS, CASES, CONCURRENCY, LATENCY = 500, 1_000, 64, 0.05

SERVER = """
import asyncio, sys
BODY = b'{"response":"done"}'
ANSWER = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n%s" % (len(BODY), BODY)
class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        head, end, body = self.data.partition(b"\\r\\n\\r\\n")
        lengths = [int(line[15:]) for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length:")]
        if end and len(body) >= sum(lengths):
            self.data = b""
            latency = LATENCY if lengths else 0
            asyncio.get_running_loop().call_later(latency, self.transport.write, ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
LATENCY = float(sys.argv[1])
asyncio.run(main())
"""

AGENT = "async def answer(text, session):\n    return 'done'\n"


def main():
    """Print one line for each figure. Containers are left out if no Docker daemon is running."""
    asyncio.run(_http())
    if (
        shutil.which("docker")
        and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    ):
        asyncio.run(_container())


async def _http():
    with _server(0.0) as url:
        bare, ours = [], []
        for _ in range(3):
            bare.append(await _bare(url))
            ours.append(await _turns(HttpAgentOptions(url=url)))
    _print_added_time("http, a turn", statistics.median(ours), "bare client", statistics.median(bare))
    with _server(LATENCY) as url:
        cases = [_case(str(number), 1) for number in range(CASES)]
        bare, ours = [], []
        for _ in range(3):
            bare.append(await _bare_at_once(url))
            ours.append(await _wall(HttpAgentOptions(url=url), cases, CONCURRENCY))
    ideal = -(-CASES // CONCURRENCY) * LATENCY
    for who, walls in (("", ours), (", bare client", bare)):
        wall = statistics.median(walls)
        print(f"http, {CASES} × 50 ms{who:13} {wall:7.3f} s    ideal {ideal:.3f} s   × {wall / ideal:.3f}")


async def _container():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "agent.py").write_text(AGENT)
        docker = DockerAgentOptions(image=IMAGE, entry="agent.py:answer", workspace="/app", network="none")
        pipe, inside = [], []
        for _ in range(3):
            pipe.append(await _turns(PythonAgentOptions(entry="agent.py:answer"), folder))
            inside.append(await _turns(docker, folder))
    _print_added_time("container, a turn", statistics.median(inside), "plain pipe", statistics.median(pipe))


def _print_added_time(what, ours, floor_name, floor):
    added = (ours - floor) * 1e3
    print(f"{what:20} {ours * 1e3:7.3f} ms   {floor_name} {floor * 1e3:.3f} ms   + {added:.3f} ms")


BODY = json.dumps({"text": "x" * 100}).encode()


async def _bare(url):
    import aiohttp

    async with aiohttp.ClientSession() as client:
        for count in (20, TURNS):
            began = time.perf_counter()
            for _ in range(count):
                await _post(client, url)
    return (time.perf_counter() - began) / TURNS


async def _bare_at_once(url):
    """Return the seconds of `CASES` requests that a bare client sends, `CONCURRENCY` at once."""
    import aiohttp

    async def asks(todo):
        for _ in todo:
            await _post(client, url)

    async with aiohttp.ClientSession() as client:
        await _post(client, url)
        began, todo = time.perf_counter(), iter(range(CASES))
        await asyncio.gather(*[asks(todo) for _ in range(CONCURRENCY)])
        return time.perf_counter() - began


async def _post(client, url):
    async with client.post(url, data=BODY) as response:
        await response.read()


async def _turns(options, folder="."):
    """Return the mean seconds of a turn, over `TURNS` turns in conversations of ten turns."""
    warm, cases = [_case("warm", 10)], [_case(str(number), 10) for number in range(TURNS // 10)]
    async with options.build(_place(folder)) as agent:
        await _play(agent, warm, 1)
        began = time.perf_counter()
        await _play(agent, cases, 1)
        return (time.perf_counter() - began) / TURNS


async def _wall(options, cases, concurrency):
    async with options.build(_place(".")) as agent:
        await _play(agent, cases[:1], 1)
        began = time.perf_counter()
        await _play(agent, cases, concurrency)
        return time.perf_counter() - began


async def _play(agent, cases, concurrency):
    async def note(request, run):
        if run.outcome != "answered":
            sys.exit(f"{request.case.eval_id}: {run.failure}")

    await run_requests(
        agent, [RunRequest(case, 1) for case in cases], concurrency=concurrency, on_finished=note
    )


def _case(name, turns):
    return EvalCase(name, tuple(CaseTurn(UserMessage("x" * 100)) for _ in range(turns)))


def _place(folder):
    return AgentContext(
        folder=Path(folder),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
        timeout=60.0,
        workers=1,
        concurrency=CONCURRENCY,
        read_recording=sys.exit,
    )


class _server:  # noqa: N801  # used as a function
    def __init__(self, latency):
        self._command = [sys.executable, "-c", SERVER, str(latency)]

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        return f"http://127.0.0.1:{self._process.stdout.readline().strip()}"

    def __exit__(self, *exc):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    main()
