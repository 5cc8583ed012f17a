"""The same agent in every kind of agent that evalgate supports, and the results that each must give for five cases."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.agents.containers.test_docker import IMAGE
from tests.frameworks.frameworks import ADK_NOW, LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, Framework

ADK = Framework(f"adk-{ADK_NOW}")

Serves: TypeAlias = Callable[[str, int], list[str]]
"""Function of interpreter and port that returns a server's command, which runs in the agent's folder."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of agent. It crashes and hangs in the ways that are typical of this kind."""

    name: str
    agent: Mapping[str, object]
    """The section `agent` of the thresholds file. `AGENT_URL` is the address of the server that `serves` starts."""
    framework: Framework | None = None
    """The framework that the agent's interpreter must have; None: no framework."""
    serves: Serves | None = None
    needs_docker: bool = False
    turn_s: float = 8
    """Timeout of a turn in seconds. The hanging case takes this long."""


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
    # Standard output has only the response, so tool calls are read from spans.
    Kind(
        "per_turn",
        {"kind": "command", "mode": "per_turn", "command": [sys.executable, "turn.py"], "otel": True},
        turn_s=30,  # each turn loads an SDK, five at a time
    ),
    Kind("http", _http("evalgate"), serves=_own_server),
    # No tool is called: the case has the tool's answer.
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
"""The user's text, the agent's events, and the agent's response."""

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
"""Case id to outcome, status, turns and scores."""


def extract_results(record: Any) -> dict[str, object]:
    """Return the part of a record that must be equal for all kinds of agents, in the form of `RECORD`."""
    return {case["eval_id"]: _case(case) for case in record["cases"]}


def _case(case: Any) -> tuple[object, ...]:
    (run,) = case["runs"]
    scores = {metric["name"]: metric["score"] for metric in case["metrics"]}
    return run["outcome"], case["status"], [_turn(turn) for turn in run["turns"]], scores


def _turn(turn: Any) -> _Turn:
    actual = turn["actual"] or {"events": [], "response": None}
    return turn["user"], [_event(event) for event in actual["events"]], actual["response"]


def _event(event: Any) -> Sequence[object]:
    """Return an event without ids and authors, which frameworks choose themselves."""
    match event["type"]:
        case "tool_call":
            return event["type"], event["name"], event["args"]
        case "tool_result":
            return event["type"], event["name"], event["result"]
    return event["type"], event["text"]


FOLDER = Path(__file__).parents[1] / "frameworks" / "agents" / "matrix"
"""Folder with the agents and their eval set."""
