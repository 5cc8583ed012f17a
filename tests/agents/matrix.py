"""One agent in every way that there is to have one, and what each way must tell of the same five cases."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.agents.containers.test_docker import IMAGE
from tests.frameworks.frameworks import ADK_NOW, LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, Framework

ADK = Framework(f"adk-{ADK_NOW}")

Serves: TypeAlias = Callable[[str, int], list[str]]
"""Interpreter and port → the command of a server, which runs in the agent's folder."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to have the agent. It crashes and hangs as such agents do."""

    name: str
    agent: Mapping[str, object]
    """The thresholds file's section. `AGENT_URL` is where `serves` listens."""
    framework: Framework | None = None
    """What its interpreter must have; None: nothing."""
    serves: Serves | None = None
    needs_docker: bool = False
    turn_s: float = 8
    """Timeout of a turn: what the case that hangs takes, and what all others have time for."""


def _own_server(python: str, port: int) -> list[str]:
    return [python, "server.py", str(port)]


def _api_server(python: str, port: int) -> list[str]:
    return [python, "-m", "google.adk.cli", "api_server", "--port", str(port), "."]


def _http(dialect: str, path: str = "", **options: object) -> dict[str, object]:
    return {"kind": "http", "dialect": dialect, "url": f"${{AGENT_URL}}{path}", **options}


def _docker(**options: object) -> dict[str, object]:
    return {"kind": "docker", "image": IMAGE, "workspace": "/app", **options}


# Crashes: the process ends (function, command, container), the model raises (frameworks), the connection
# breaks (servers). Memory: the process, its session or thread, the messages that are sent again, a file that
# is named by the session (a process for each turn), or the context (A2A).
KINDS = (
    Kind("python", {"kind": "python", "entry": "function.py:answer"}),
    Kind("adk", {"kind": "adk", "entry": "talker"}, ADK),
    Kind("langgraph", {"kind": "python", "entry": "graph.py:agent"}, LANGGRAPH),
    Kind("openai_agents", {"kind": "python", "entry": "sdk.py:agent"}, OPENAI_AGENTS),
    Kind("pydantic_ai", {"kind": "python", "entry": "typed.py:agent"}, PYDANTIC_AI),
    Kind("command", {"kind": "command", "command": [sys.executable, "lines.py"]}),
    # Its standard output is the response: its tool calls are told by its spans.
    Kind(
        "per_turn",
        {"kind": "command", "mode": "per_turn", "command": [sys.executable, "turn.py"], "otel": True},
        turn_s=30,  # each turn loads an SDK, five at a time
    ),
    Kind("http", _http("evalgate"), serves=_own_server),
    # No tool runs: the case says what it answers.
    Kind("http openai", _http("openai", "/v1", model="matrix"), serves=_own_server),
    Kind("http adk", _http("adk", app="talker"), ADK, serves=_api_server),
    Kind("http adk stream", _http("adk", app="talker", stream=True), ADK, serves=_api_server),
    Kind("http a2a", _http("a2a"), serves=_own_server),
    Kind("http orchestrate", _http("orchestrate", app="talker"), serves=_own_server),
    Kind("docker entry", _docker(entry="function.py:answer", network="none"), needs_docker=True),
    Kind("docker command", _docker(command="python3 lines.py", network="none"), needs_docker=True),
    Kind(
        "docker build", {"kind": "docker", "build": ".", "image": "m", "network": "none"}, needs_docker=True
    ),
    Kind("docker port", _docker(command="python3 server.py 8000 0.0.0.0", port=8000), needs_docker=True),
    Kind("docker service", {"kind": "docker", "service": "agent", "port": 8000}, needs_docker=True),
)

_Turn: TypeAlias = tuple[str, Sequence[object], str | None]
"""What the user says, what the agent does, what it answers."""

_GREETED: _Turn = ("Good morning.", [], "Hello.")
_FORECAST = [
    ("tool_call", "get_forecast", {"city": "Paris"}),
    ("tool_result", "get_forecast", {"forecast": "sunny"}),
]
_PERFECT = {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}
_NO_SCORE = {"tool_trajectory_avg_score": None, "response_match_score": None}

RECORD: Mapping[str, object] = {
    "single_turn": ("answered", "passed", [_GREETED], _PERFECT),
    "state": (
        "answered",
        "passed",
        [("I live in Oslo.", [], "Noted."), ("Where do I live?", [], "In Oslo.")],
        _PERFECT,
    ),
    "tools": ("answered", "passed", [("Will it rain in Paris?", _FORECAST, "Paris: sunny.")], _PERFECT),
    "crash": ("crashed", "errored", [_GREETED, ("Crash.", [], None)], _NO_SCORE),
    "hang": ("timed_out", "errored", [("Hang.", [], None)], _NO_SCORE),
}
"""Case → outcome, status, turns, scores."""


def told(record: Any) -> dict[str, object]:
    """The part of a record that no kind of agent may tell in its own way."""
    return {case["eval_id"]: _case(case) for case in record["cases"]}


def _case(case: Any) -> tuple[object, ...]:
    (run,) = case["runs"]
    scores = {metric["name"]: metric["score"] for metric in case["metrics"]}
    return run["outcome"], case["status"], [_turn(turn) for turn in run["turns"]], scores


def _turn(turn: Any) -> _Turn:
    actual = turn["actual"] or {"events": [], "response": None}
    return turn["user"], [_event(event) for event in actual["events"]], actual["response"]


def _event(event: Any) -> Sequence[object]:
    """Without ids and authors, which frameworks make up."""
    match event["type"]:
        case "tool_call":
            return event["type"], event["name"], event["args"]
        case "tool_result":
            return event["type"], event["name"], event["result"]
    return event["type"], event["text"]


FOLDER = Path(__file__).parents[1] / "frameworks" / "agents" / "matrix"
"""The agents and their eval set."""
