"""Run cases with an agent of a framework."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from evalgate.core.plugin_registry import get_agent_type
from evalgate.core.protocols import Agent, AgentContext
from evalgate.core.types import CaseRun, EvalCase, EvalSet, Event, Record, Reply, ToolCall, ToolResult
from tests.agents.play import PATIENT_S, environment, outcomes


def built(
    kind: str, options: Mapping[str, object], python: str, folder: Path, env: Mapping[str, str] | None = None
) -> Agent:
    """Build the agent of the kind `kind` with `options`. It runs with the interpreter `python` in `folder`."""

    def no_recording(path: str) -> Record | EvalSet:
        raise AssertionError(path)

    place = AgentContext(
        folder=folder,
        env={**environment(), **(env or {})},
        timeout=PATIENT_S,
        workers=1,
        concurrency=16,
        read_recording=no_recording,
        python=python,
    )
    return get_agent_type(kind).model_validate(options).build(place)


async def play(
    kind: str,
    options: Mapping[str, object],
    python: str,
    folder: Path,
    cases: Iterable[EvalCase],
    concurrency: int = 64,
    *,
    trace: bool = False,
) -> dict[str, CaseRun]:
    """Run cases and return the runs by case id. Fail if a process survives the agent."""
    return await outcomes(
        lambda env: built(kind, options, python, folder, env), cases, concurrency=concurrency, trace=trace
    )


def without_ids(reply: Reply | None) -> Reply | None:
    """Return a reply without the ids of its calls, which frameworks choose themselves."""
    if reply is None:
        return None
    return replace(reply, events=tuple(_without_id(event) for event in reply.events))


def _without_id(event: Event) -> Event:
    return replace(event, id=None) if isinstance(event, ToolCall | ToolResult) else event
