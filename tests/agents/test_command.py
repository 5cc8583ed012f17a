"""Commands that speak the protocol, and commands that do not."""

import base64
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evalgate.core.types import CaseRun, Failure, Message, Reply, ToolCall, ToolResult, Usage
from tests.agents.play import PATIENT_S, TINY, Hurried, a_talk, command, outcomes

SAMPLES = Path(__file__).parents[2] / "samples" / "agents"
PROTOCOL = (sys.executable, "-I", "-S", str(TINY / "protocol.py"))
DONE = '{"type": "done", "session": "{S}", "response": "ok"}'


async def play_lines(*lines: str, turns: int = 1) -> CaseRun:
    runs = await outcomes(
        lambda env: command(*PROTOCOL, "lines", *lines, env=env), [a_talk("case", *["hi"] * turns)]
    )
    return runs["case"]


@pytest.mark.usefixtures("patient")
async def test_sample_in_node() -> None:
    node = shutil.which("node")
    assert node is not None, "the sample agent needs Node.js"
    cases = [
        a_talk("weather", "Will it rain in Paris?", "And tomorrow?"),
        a_talk("vague", "Will it rain?"),
        a_talk("far", "Snow in Oslo?"),
    ]
    runs = await outcomes(
        lambda env: Hurried(command(node, "agent.mjs", cwd=SAMPLES / "node", env=env), {"far": 1}), cases
    )
    sunny = Reply(
        "Paris: sunny.",
        (
            ToolCall("get_forecast", {"city": "Paris"}, "1"),
            ToolResult("get_forecast", {"forecast": "sunny"}, "1"),
        ),
    )
    assert (runs["weather"].replies, runs["weather"].final_state) == ((sunny, sunny), {"city": "Paris"})
    assert runs["weather"].usage == Usage(35, 8, None)
    assert runs["vague"].replies == (Reply("Which city?"),)
    assert runs["far"].outcome == "timed_out"
    assert runs["far"].failure == Failure("timeout", "no answer within 1 s (turn 1)")


@pytest.mark.parametrize(
    ("kind", "outcome"), [('"done"', "answered"), ('"error", "message": "gone"', "crashed")]
)
async def test_ids_of_the_agents_own_session_are_kept(kind: str, outcome: str) -> None:
    run = await play_lines(f'{{"type": {kind}, "session": "{{S}}", "session_id": "t-1", "user_id": "ada"}}')
    assert (run.outcome, run.session_id, run.user_id) == (outcome, "t-1", "ada")


async def test_an_id_that_is_no_text_breaks_the_protocol() -> None:
    run = await play_lines('{"type": "done", "session": "{S}", "session_id": 5}')
    assert run.failure is not None
    assert run.failure.kind == "protocol"


@pytest.mark.parametrize(
    ("lines", "reply"),
    [
        ([DONE], Reply("ok")),
        (["", "  ", DONE], Reply("ok")),
        (['{"type":"done","session":"{S}"}'], Reply(None)),
        (
            ['{"type":"message","session":"{S}","text":"a","final":true}', '{"type":"done","session":"{S}"}'],
            Reply("a"),
        ),
        (['{"type":"message","session":"{S}","text":"ok","final":true}', DONE], Reply("ok")),
        (
            ['{"type":"message","session":"{S}","text":"a","final":true,"author":"x"}', DONE],
            Reply("ok", (Message("a", "x"),)),
        ),
        (
            [
                '{"type":"tool_call","session":"{S}","name":"f","args":{"x":1e400,"y":-Infinity,"z":[NaN]}}',
                DONE,
            ],
            Reply("ok", (ToolCall("f", {"x": "Infinity", "y": "-Infinity", "z": ["NaN"]}),)),
        ),
        (
            ['{"type":"tool_call","session":"{S}","name":"\\ud83d\\ude00 \\udc00","unknown":1}', DONE],
            Reply("ok", (ToolCall("\U0001f600 �"),)),
        ),
    ],
)
async def test_reads(lines: list[str], reply: Reply) -> None:
    run = await play_lines(*lines)
    assert (run.outcome, run.replies) == ("answered", (reply,))


NOT_THE_PROTOCOL = (
    "the agent wrote something that is not the protocol on stdout: {}; print to stderr instead (turn 1)"
)


@pytest.mark.parametrize(
    ("lines", "kind", "sentence"),
    [
        (["Thinking…"], "protocol", NOT_THE_PROTOCOL.format("'Thinking\\u2026'")),
        (["[1]"], "protocol", NOT_THE_PROTOCOL.format("'[1]'")),
        (["x" * 200], "protocol", NOT_THE_PROTOCOL.format("'" + "x" * 120 + "...'")),
        (["{}"], "protocol", "the agent sent a message without a type (turn 1)"),
        (['{"type":[]}'], "protocol", "the agent sent a message without a type (turn 1)"),
        (
            ['{"type":"reply"}'],
            "protocol",
            "the agent sent a message of type 'reply' that has no place there (turn 1)",
        ),
        (
            ['{"type":"ready","protocol":1}'],
            "protocol",
            "the agent sent a message of type 'ready' that has no place there (turn 1)",
        ),
        (['{"type":"done"}'], "protocol", "the agent sent a done without a session (turn 1)"),
        (
            ['{"type":"done","session":"99"}'],
            "protocol",
            "the agent sent a done for a session that does not exist: '99' (turn 1)",
        ),
        (
            ['{"type":"done","session":"{S}","response":3}'],
            "protocol",
            "the agent sent a done whose `response` is not a string",
        ),
        (
            ['{"type":"tool_call","session":"{S}"}'],
            "protocol",
            "the agent sent a tool_call whose `name` is not a string",
        ),
        (
            ['{"type":"tool_call","session":"{S}","name":"f","args":[]}'],
            "protocol",
            "the agent sent a tool_call whose `args` is not an object",
        ),
        (
            ['{"type":"usage","session":"{S}","input_tokens":-1}'],
            "protocol",
            "the agent sent a usage whose `input_tokens` is not a whole number, 0 or more",
        ),
        (
            ['{"type":"usage","session":"{S}","cost_usd":1e999}'],
            "protocol",
            "the agent sent a usage whose `cost_usd` is not a number, 0 or more",
        ),
        (
            ['{"type":"usage","session":"{S}","input_tokens":' + "9" * 5000 + "}"],
            "protocol",
            "the agent sent a number of more than 4,300 digits (turn 1)",
        ),
        (
            ["[" * 10_000],
            "protocol",
            "the agent sent a value that nests deeper than 100 levels (turn 1)",
        ),
        (
            ['{"type":"error","session":"{S}","kind":"quota","message":"no credit left"}'],
            "quota",
            "no credit left",
        ),
        (
            ['{"type":"error","session":"{S}","kind":"No Word!"}'],
            "exception",
            "the agent reported an error without a message",
        ),
    ],
)
async def test_refuses(lines: list[str], kind: str, sentence: str) -> None:
    run = await play_lines(*lines)
    assert run.failure is not None
    assert (run.outcome, run.failure.kind, run.failure.message) == ("crashed", kind, sentence)


async def test_second_done_fails_the_next_turn() -> None:
    run = await play_lines(DONE + "\n" + DONE, turns=2)
    assert (run.outcome, run.replies) == ("crashed", (Reply("ok"),))
    assert run.failure == Failure("protocol", "the agent sent `done` when no turn was in progress")


async def test_second_done_of_the_last_turn_changes_nothing() -> None:
    run = await play_lines(DONE + "\n" + DONE)
    assert (run.outcome, run.replies) == ("answered", (Reply("ok"),))


async def test_flood_without_end_of_line() -> None:
    runs = await outcomes(lambda env: command(*PROTOCOL, "flood", env=env), [a_talk("case", "hi")])
    failure = runs["case"].failure
    assert failure == Failure(
        "flood", "the agent wrote more than 64 MiB on stdout without an end of line (turn 1)"
    )


@pytest.mark.parametrize(
    ("mode", "kind", "sentence"),
    [
        (
            "banner",
            "protocol",
            (
                "the agent wrote something that is not the protocol on stdout: 'Welcome to my agent!'; "
                "print to stderr instead"
            ),
        ),
        ("future", "protocol", "the agent speaks protocol '2'; this evalgate speaks 1"),
        ("silent", "start", "the agent did not start within 1 s"),
    ],
)
async def test_command_that_does_not_greet(mode: str, kind: str, sentence: str) -> None:
    seconds = 1 if mode == "silent" else PATIENT_S
    runs = await outcomes(
        lambda env: command(*PROTOCOL, mode, env=env, start_timeout=seconds),
        [a_talk("a", "hi"), a_talk("b", "hi")],
    )
    expected = Failure(kind, sentence)
    assert [(run.outcome, run.failure) for run in runs.values()] == [("not_run", expected)] * 2


async def test_command_that_does_not_exist() -> None:
    runs = await outcomes(lambda env: command("no-such-agent", env=env), [a_talk("case", "hi")])
    assert runs["case"].failure == Failure(
        "entry", "cannot start the agent: there is no command `no-such-agent`"
    )


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    output=st.one_of(
        st.binary(max_size=200),
        st.text(alphabet='{}[]":,\\ue0123 \ntypesiondoc', max_size=80).map(str.encode),
    ),
    then=st.sampled_from(["end", "stay"]),
)
@example(output=b'{"type":"done","session":"1"', then="end")
@example(output=b'{"type":"done","session":["1"]}\n', then="stay")
@example(output=b'{"type":"done","session":"\xff"}\n', then="stay")
@example(output=b"\x00\n", then="stay")
async def test_any_output_ends_the_case_in_an_outcome(output: bytes, then: str) -> None:
    encoded = base64.b64encode(output).decode()
    runs = await outcomes(
        lambda env: command(*PROTOCOL, "raw", encoded, then, env=env, timeout=0.1), [a_talk("case", "hi")]
    )
    assert runs["case"].outcome in {"crashed", "timed_out"}
    assert runs["case"].failure is not None
