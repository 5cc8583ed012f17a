"""Steps of a turn that workers report, as they come into a run's trace."""

import json
import sys

import pytest

from evalgate.agents.host.trace_values import MOST_RUN_CHARACTERS, MOST_SPANS
from evalgate.agents.workers.pool import WorkerPool
from evalgate.agents.workers.span_messages import ReportedSpans
from evalgate.core.types import CaseRun, Reply, TraceSpan, Usage
from tests.agents.play import TINY, a_talk, command, outcomes, tiny

PROTOCOL = (sys.executable, "-I", "-S", str(TINY / "protocol.py"))
DONE = '{"type": "done", "session": "{S}", "response": "ok"}'


async def play_lines(*lines: str, trace: bool = True, turns: int = 1) -> CaseRun:
    cases = [a_talk("case", *["hi"] * turns)]
    runs = await outcomes(lambda env: command(*PROTOCOL, "lines", *lines, env=env), cases, trace=trace)
    return runs["case"]


def a_line(**fields: object) -> str:
    return json.dumps({"type": "span", "session": "{S}", **fields})


def names_of(run: CaseRun) -> list[tuple[str, str]]:
    known = {span.id: span.name for span in run.trace}
    return [(span.name, known.get(span.parent_id, "")) for span in run.trace]


async def test_steps_of_a_command_are_kept_with_a_root_for_each_turn() -> None:
    usage = {"input_tokens": 7, "output_tokens": 2, "cost_usd": 0.5}
    model = a_line(id="m", kind="model", name="gpt", request=["hi"], response="ok", usage=usage)
    run = await play_lines(a_line(id="t", parent_id="m", kind="tool", name="find"), model, DONE, turns=2)

    assert names_of(run) == [
        ("turn 1", ""),
        ("gpt", "turn 1"),
        ("find", "gpt"),
        ("turn 2", ""),
        ("gpt", "turn 2"),
        ("find", "gpt"),
    ]
    root, call = run.trace[3:5]
    assert (root.turn, root.kind, root.request, root.response) == (1, "agent", "hi", "ok")
    assert (call.request, call.response, call.usage) == (["hi"], "ok", Usage(7, 2, 0.5))
    assert run.trace[0].start_s + run.trace[0].duration_s <= root.start_s <= run.duration_s


async def test_tool_calls_are_timed_when_a_command_reports_no_steps() -> None:
    call = '{"type": "tool_call", "session": "{S}", "name": "find", "args": {"q": 1}}'
    result = '{"type": "tool_result", "session": "{S}", "name": "find", "result": [1]}'
    run = await play_lines(call, result, DONE)

    tool = run.trace[1]
    assert names_of(run) == [("turn 1", ""), ("find", "turn 1")]
    assert (tool.kind, tool.request, tool.response) == ("tool", {"q": 1}, [1])


async def test_wrong_fields_of_a_step_fail_no_turn() -> None:
    run = await play_lines(
        '{"type": "span", "session": "{S}"}',
        '{"type": "span", "session": "{S}", "start_s": NaN, "duration_s": -Infinity, "kind": [1], "name": 3}',
        a_line(id=5, kind="model", usage={"input_tokens": -1}, start_s=1e9, duration_s=True, attributes=[]),
        a_line(id="a", parent_id="b", name="a"),
        a_line(id="b", parent_id="a", name="b"),
        a_line(id="c", parent_id="c", name="\ud800" + "x" * 5000, start_s=10**400, error="e" * 5000),
        DONE,
    )

    assert (run.outcome, len(run.trace)) == ("answered", 7)
    assert all(0 <= span.start_s <= span.start_s + span.duration_s <= run.duration_s for span in run.trace)
    assert len({span.id for span in run.trace}) == 7
    assert max(len(span.name) for span in run.trace) < 300
    assert max(len(span.error) for span in run.trace) == 2000


async def test_steps_that_no_run_asked_for_are_ignored() -> None:
    assert (await play_lines(a_line(id="1", kind="tool", name="find"), DONE, trace=False)).trace == ()


def test_no_more_steps_are_kept_than_a_trace_may_have() -> None:
    reported = ReportedSpans()
    for number in range(100_000):
        reported.add_span({"type": "span", "id": str(number)}, 50)
    assert len(reported.take_spans()) == MOST_SPANS
    reported.add_span({"type": "span", "name": "large"}, 100 << 20)
    assert reported.take_spans() == []


HOSTILE = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print(json.dumps({"type": "ready", "protocol": 1}), flush=True)
    elif message["type"] == "turn":
        name = {"type": "span", "session": message["session"]}
        one = json.dumps({**name, "id": "1", "parent_id": "1", "start_s": float("nan"), "request": "x" * 500})
        sys.stdout.write((one + "\\n") * 20_000)
        print(json.dumps({**name, "kind": "model", "request": ["y" * 1_000_000] * 10}), flush=True)
        print(json.dumps({"type": "done", "session": message["session"], "response": "ok"}), flush=True)
"""


async def test_a_flood_of_steps_costs_no_answer_and_fills_no_record() -> None:
    def agent(env: dict[str, str]) -> WorkerPool:
        return command(sys.executable, "-I", "-S", "-c", HOSTILE, env=env)

    run = (await outcomes(agent, [a_talk("case", "hi")], trace=True))["case"]
    assert (run.outcome, run.failure) == ("answered", None)
    assert run.replies == (Reply("ok"),)
    assert len(run.trace) <= MOST_SPANS + 1
    assert len(json.dumps([step.request for step in run.trace])) < 2 * MOST_RUN_CHARACTERS


async def test_tool_calls_that_a_python_agent_reports_are_timed_where_it_runs() -> None:
    case = a_talk("case", "hi")
    run = (await outcomes(lambda env: tiny("reports_everything", env=env), [case], trace=True))["case"]

    root, tool = run.trace
    assert (root.kind, root.name, root.request) == ("agent", "agent", "hi")
    assert (tool.kind, tool.name, tool.parent_id) == ("tool", "look", root.id)
    assert tool.request == {"nan": "nan", "odd": [3], "surrogate": "\ufffd"}


@pytest.mark.parametrize("name", ["raises", "hangs"])
async def test_a_turn_without_an_answer_has_a_step_with_the_reason(name: str) -> None:
    run = (await outcomes(lambda env: tiny(name, env=env, timeout=2), [a_talk("case", "hi")], trace=True))[
        "case"
    ]

    (root,) = run.trace
    assert isinstance(root, TraceSpan)
    assert run.failure is not None
    assert root.error
