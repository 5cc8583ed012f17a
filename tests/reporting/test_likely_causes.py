"""Likely causes at the top of every report: each only where it applies."""

import json
import sys
from pathlib import Path

import pytest

from evalgate.agents.http.tool_stubs import NOT_RECORDED
from evalgate.core.types import (
    CaseResult,
    Failure,
    JsonObject,
    Reply,
    RunResult,
    ToolCall,
    ToolResult,
    TurnResult,
)
from evalgate.reporting.likely_causes import (
    describe_missing_tool_calls,
    describe_missing_variables,
    describe_unrecorded_results,
)
from tests.agents.host.capture.provider import Provider
from tests.commands import evalgate

CALL = Reply("sunny", (ToolCall("get_forecast", {"city": "Paris"}),))
QUIET = Reply("sunny")


def case(expected: Reply, actual: Reply | None, failure: Failure | None = None) -> CaseResult:
    outcome = "crashed" if failure else "answered"
    run = RunResult(1, outcome, 0.0, (TurnResult("hi", expected, actual),), failure=failure)  # type: ignore[arg-type]
    return CaseResult("set", "case", "passed", (), (run,))


# --- no tool call -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "way"),
    [
        ("python", {"capture": True}, "Those of a Python function are seen when it reports them"),
        ("python", {"capture": False}, "`agent.capture` is false"),
        ("docker", {"entry": "agent:run", "port": None, "capture": True}, "Those of a Python function"),
        ("docker", {"entry": None, "port": None, "otel": False}, "A command must send `tool_call` messages"),
        (
            "docker",
            {"entry": None, "port": 80, "dialect": "evalgate"},
            "The server must answer with `tool_calls`",
        ),
        ("command", {"mode": "protocol", "otel": False}, "A command must send `tool_call` messages"),
        ("command", {"mode": "per_turn", "otel": False}, "in mode `per_turn` only the answer is seen"),
        ("command", {"mode": "per_turn", "otel": True}, "Its spans are read"),
        ("http", {"dialect": "evalgate"}, "The server must answer with `tool_calls`"),
        ("http", {"dialect": "openai"}, "are its `tools` in `agent.body`"),
        ("http", {"dialect": "adk"}, "No event of the server contained a function call"),
        ("http", {"dialect": "a2a"}, "if Google ADK serves it"),
        ("http", {"dialect": "orchestrate"}, "No event of a run contained a tool call"),
        ("adk", {}, "No event of the agent contained a function call"),
        ("replay", {}, "The recording contains none."),
        ("of_a_plugin", {}, "Does this kind of agent report them?"),
    ],
)
def test_a_run_without_any_tool_call_says_what_to_do(kind: str, options: JsonObject, way: str) -> None:
    found = describe_missing_tool_calls([case(CALL, QUIET), case(QUIET, QUIET)], kind, options.items())
    assert found.startswith("No tool call was seen in the whole run, although 1 case expects some. ")
    assert way in found


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [case(QUIET, QUIET)],
        [case(CALL, QUIET), case(CALL, CALL)],
        [case(CALL, QUIET), case(QUIET, CALL)],
        [case(CALL, None, Failure("exception", "it broke"))],
    ],
    ids=["nothing", "none expected", "one made", "one made unexpectedly", "nothing answered"],
)
def test_no_advice_if_calls_were_made_or_impossible(cases: list[CaseResult]) -> None:
    assert describe_missing_tool_calls(cases, "python", []) == ""


# --- variables ----------------------------------------------------------------------------------------------

OPENAI = "the agent raised OpenAIError: The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable"
ANTHROPIC = 'the agent raised TypeError: "Could not resolve authentication method. Expected either api_key or auth_token to be set."'
TRACE = 'File "/venv/lib/site-packages/anthropic/_client.py", line 3'
WITHHELD = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DATABASE_URL", "LESSOPEN", "OTHER_KEY")


@pytest.mark.parametrize(
    ("message", "detail", "names"),
    [
        (OPENAI, "", ["OPENAI_API_KEY"]),
        (ANTHROPIC, TRACE, ["ANTHROPIC_API_KEY"]),
        ("the agent raised KeyError: 'DATABASE_URL'", "", ["DATABASE_URL"]),
        (
            "the agent raised AuthenticationError: Error code: 401",
            "site-packages/openai/_base.py",
            ["OPENAI_API_KEY"],
        ),
        ("the agent raised AuthenticationError: Error code: 401", "", []),
        ("the agent raised KeyError: 'UNSET_KEY'", "", []),
        ("the agent raised ValueError: no such order", "site-packages/openai/_base.py", []),
    ],
)
def test_a_variable_that_the_agent_lacks_is_named(message: str, detail: str, names: list[str]) -> None:
    cases = [case(QUIET, None, Failure("exception", message, detail))] * 2
    found = list(describe_missing_variables(cases, WITHHELD))
    assert [each.partition(" ")[0] for each in found] == names
    assert all(f"add `--env {name}`." in each for each, name in zip(found, names, strict=True))


def test_an_agent_that_cannot_be_loaded_for_it_counts() -> None:
    why = "cannot load the agent `agent:run`: importing it raised KeyError: 'DATABASE_URL'"
    assert [each.partition(" ")[0] for each in describe_missing_variables([], WITHHELD, why)] == [
        "DATABASE_URL"
    ]


def test_a_variable_that_evalgate_reads_itself_would_not_help_the_agent() -> None:
    why = "no Docker daemon answers: start it, or set DOCKER_HOST to where it listens"
    assert list(describe_missing_variables([], {"DOCKER_HOST"}, why)) == []


# --- results that evalgate made up --------------------------------------------------------------------------


def test_a_tool_that_evalgate_answered_is_named() -> None:
    answered = Reply("?", (*CALL.events, ToolResult("get_forecast", dict(NOT_RECORDED))))
    found = describe_unrecorded_results([case(CALL, answered)], NOT_RECORDED)
    assert found == (
        "evalgate answered 1 tool call itself, as the cases contain no result for it (`get_forecast`): the agent "
        'read "no result is recorded for this call". Record the results in the eval set, or add `tool_mocks`.'
    )
    recorded = Reply("?", (*CALL.events, ToolResult("get_forecast", "sunny")))
    assert describe_unrecorded_results([case(CALL, recorded)], NOT_RECORDED) == ""


# --- through the command line -------------------------------------------------------------------------------

EVAL_SET = {
    "eval_set_id": "demo",
    "eval_cases": [
        {
            "eval_id": "weather",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "the weather of Paris"}]},
                    "final_response": {"parts": [{"text": "sunny"}]},
                    "intermediate_data": {"tool_uses": [{"name": "get_forecast", "args": {"city": "Paris"}}]},
                }
            ],
        }
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "demo.evalset.json").write_text(json.dumps(EVAL_SET))
    (tmp_path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')
    return tmp_path


def test_missing_calls_and_keys_are_named_in_every_report(folder: Path) -> None:
    (folder / "agent.py").write_text("def answer(text):\n    return 'sunny'\n")
    done = evalgate("run", "demo.evalset.json", "--agent", "python:agent.py:answer", cwd=folder)
    sentence = "No tool call was seen in the whole run, although 1 case expects some."
    assert sentence in " ".join(done.out.split())
    assert sentence in (folder / "evalgate-report" / "comment.md").read_text()

    (folder / "agent.py").write_text(
        "import os\nKEY = os.environ['OPENAI_API_KEY']\ndef answer(text): return ''\n"
    )
    done = evalgate(
        "run", "demo.evalset.json", "--agent", "python:agent.py:answer", cwd=folder, OPENAI_API_KEY="k1"
    )
    assert done.code == 3
    assert "OPENAI_API_KEY is set here, but the agent gets only" in " ".join(done.out.split())
    passed = evalgate(
        "run", "demo.evalset.json", "--agent", "python:agent.py:answer", "--env", "OPENAI_API_KEY",
        cwd=folder, OPENAI_API_KEY="k1",
    )  # fmt: skip
    assert "OPENAI_API_KEY is set here" not in passed.out


SPANS = """\
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("agent").start_as_current_span("GET /") as span:
    span.set_attribute("http.request.method", "GET")
    NAMED
provider.shutdown()
print("sunny")
"""
AS_MODEL = 'span.set_attribute("gen_ai.operation.name", "chat")'


@pytest.mark.parametrize(("named", "is_told"), [("pass", True), (AS_MODEL, False)], ids=["http", "model"])
def test_spans_without_a_model_or_tool_are_reported(folder: Path, named: str, is_told: bool) -> None:
    (folder / "agent.py").write_text(SPANS.replace("NAMED", named))
    agent = {"kind": "command", "command": [sys.executable, "agent.py"], "mode": "per_turn", "otel": True}
    config = {"version": 1, "agent": agent, "criteria": {"tool_trajectory_avg_score": 1.0}}
    (folder / "evalgate.json").write_text(json.dumps(config))
    done = evalgate("run", "demo.evalset.json", "-c", "evalgate.json", cwd=folder)
    sentence = "The agent sent 1 span, and none tells of a model, a tool or an agent"
    assert (sentence in " ".join(done.out.split())) is is_told


def test_tool_calls_without_recorded_results_are_reported(folder: Path) -> None:
    with Provider() as server:
        agent = {"kind": "http", "url": f"{server.url}/v1", "dialect": "openai", "model": "m"}
        config = {"version": 1, "agent": agent, "criteria": {"tool_trajectory_avg_score": 1.0}}
        (folder / "evalgate.json").write_text(json.dumps(config))
        done = evalgate("run", "demo.evalset.json", "-c", "evalgate.json", cwd=folder)
    assert done.code == 0, done.out + done.err
    assert (
        "evalgate answered 1 tool call itself, as the cases contain no result for it (`get_forecast`)"
        in " ".join(done.out.split())
    )
