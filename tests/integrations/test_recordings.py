"""The steps that are shown for a turn of a recorded conversation are those of this turn."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.core.types import EvalSet
from evalgate.integrations.recordings import read_recording, read_trace_steps
from tests.integrations.trace_sources.exports import FILES, Call, Step, Turn, list_steps

TURNS = [
    Turn("Where is order 7?", "It is late.", [Call("lookup_order", {"order": 7}, {"status": "late"})]),
    Turn("Refund it", "Done.", [Call("refund", {"order": 7}, {"ok": True})]),
    Turn("Thanks!", "You are welcome."),
]
PER_TRACE, IN_ONE_TRACE = list_steps(TURNS), list_steps(TURNS, one_trace=True)


def name_turns(steps: Sequence[Step]) -> list[list[str]]:
    """Return the names of the steps, turn by turn."""
    roots = [step.id for step in steps if step.kind == "agent"]
    return [[step.name for step in steps if root in {step.id, step.parent}] for root in roots]


def add_outer_agent(steps: Sequence[Step]) -> list[Step]:
    """Put a span of an agent around all turns."""
    whole = replace(steps[0], id="f" * 16, name="whole", end=steps[-1].end + 10**9)
    return [whole, *(replace(step, parent=step.parent or whole.id) for step in steps)]


def put_models_in_traces(steps: Sequence[Step]) -> list[Step]:
    """Return the requests to models alone, each as a trace: a client without a span of the agent."""
    models = (step for step in steps if step.kind == "model")
    return [replace(step, trace=f"{at + 100:032x}", parent="") for at, step in enumerate(models)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(PER_TRACE, name_turns(PER_TRACE), id="trace_per_turn"),
        pytest.param(IN_ONE_TRACE, name_turns(IN_ONE_TRACE), id="one_trace"),
        pytest.param(add_outer_agent(IN_ONE_TRACE), name_turns(IN_ONE_TRACE), id="agent_around_all"),
        pytest.param(
            [step for step in PER_TRACE if step.trace != PER_TRACE[0].trace],
            [[], *name_turns(PER_TRACE)[1:]],
            id="first_trace_is_missing",
        ),
        pytest.param(
            put_models_in_traces(PER_TRACE),
            [["turn 1", "gpt", "gpt"], ["turn 2", "gpt", "gpt"], ["turn 3", "gpt"]],
            id="several_traces_per_turn",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["otlp_genai", "otlp_openinference"])
def test_steps_belong_to_the_turns_of_the_case(
    tmp_path: Path, kind: str, steps: Sequence[Step], expected: list[list[str]]
) -> None:
    path = tmp_path / "traces.json"
    path.write_text(FILES[kind](steps))
    recording = read_recording(path, path.name)
    assert isinstance(recording, EvalSet)
    assert [[turn.user.text for turn in case.turns] for case in recording.cases] == [
        [turn.question for turn in TURNS]
    ]
    (trace,) = read_trace_steps(path, path.name).values()
    assert [[step.name for step in trace if step.turn == turn] for turn in range(3)] == expected
