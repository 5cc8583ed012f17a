"""`evalgate generate`: stories that are played, recordings that are taken over."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from evalgate.cli.generate import choose_out_path
from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.types import EvalSet, Scenario, ToolCall, ToolResult
from evalgate.datasets.stories import read_stories
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.commands import evalgate
from tests.integrations.trace_sources.exports import Call, Turn, list_steps, to_otlp
from tests.integrations.trace_sources.test_conversations import TURNS, strip_turns
from tests.openai_server import Body, Completion, ErrorReply, OpenAIServer, Reply

AGENT = """
def answer(text):
    if "two" not in text:
        return "For how many?"
    return {"response": "Booked.", "tool_calls": [{"name": "book", "args": {"people": 2}}]}
"""
STORIES = 'story,agent\n"You want a room, for two.",hotel\n'


def play(body: Body) -> Reply:
    said = body["messages"][0]["content"].partition("=== conversation so far ")[2]
    return Completion("END" if "Booked" in said else "For two." if "how many" in said else "A room, please.")


def project(folder: Path, server: OpenAIServer | None = None) -> Path:
    (folder / "agent.py").write_text(AGENT)
    (folder / "stories.csv").write_text(STORIES)
    user = {"provider": "custom", "model": "u", "base_url": server.url if server else "http://localhost:1/v1"}
    config = {
        "agent": {"entry": "agent.py:answer"},
        "user": {**user, "retries": 0, "cache": {"mode": "off"}},
    }
    (folder / "evalgate.yaml").write_text(yaml.safe_dump(config))
    return folder


def generated(folder: Path, *args: str) -> Result:
    return CliRunner().invoke(cli, ["generate", *args, "-C", str(folder)], standalone_mode=False)


def read(folder: Path, name: str, reader: Any) -> EvalSet:
    found: EvalSet = reader.read_eval_set(read_json(folder / name, name))
    return found


@pytest.mark.parametrize(
    ("source", "stem"),
    [
        ("logs/chats.csv", "chats"),
        ("chats.messages.json", "chats"),
        (".chats.csv", "chats"),
        (".", "cases"),
        ("..", "cases"),
        (None, "cases"),
    ],
)
def test_the_default_file_is_one_that_eval_sets_are_found_in(source: str | None, stem: str) -> None:
    assert choose_out_path(source) == f"evals/{stem}.evalset.json"


@pytest.mark.parametrize(
    ("to", "reader"), [("adk", AdkFormat()), ("trpc", TrpcFormat()), ("orchestrate", OrchestrateFormat())]
)
def test_a_story_becomes_a_case_of_each_format(tmp_path: Path, to: str, reader: Any) -> None:
    with OpenAIServer(script=play) as server:
        result = generated(project(tmp_path, server), "stories.csv", "--to", to, "-o", "evals/new.json")

    assert result.return_value == 0, result.output
    assert "story-1: 2 turns, 1 tool call\n" in result.output
    assert "These cases are not reviewed yet" in result.output
    (case,) = read(tmp_path, "evals/new.json", reader).cases
    assert [turn.user.text for turn in case.turns] == ["A room, please.", "For two."]
    if case.journey is None:
        assert [turn.expected.response for turn in case.turns] == ["For how many?", "Booked."]
        assert [call.name for turn in case.turns for call in turn.expected.tool_calls] == ["book"]
    else:
        assert case.journey.story == "You want a room, for two."
        assert [goal.tool_name or goal.response for goal in case.journey.goals] == [
            "book",
            "For how many?",
            "Booked.",
        ]
        assert case.session.app_name == "hotel"


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    project(tmp_path)
    (tmp_path / "new.json").write_text("mine")

    result = generated(tmp_path, "stories.csv", "--to", "adk", "-o", "new.json")

    assert isinstance(result.exception, InvalidInputError)
    assert "is never overwritten" in str(result.exception)
    assert (tmp_path / "new.json").read_text() == "mine"


def test_a_story_that_could_not_be_played_is_reported_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("- {story: a, name: bad}\n- {story: For two., name: good}\n")

    def script(body: Body) -> Reply:
        return ErrorReply(500) if "\nStory:\na\n" in body["messages"][0]["content"] else play(body)

    with OpenAIServer(script=script) as server:
        result = generated(project(tmp_path, server), "more.yaml", "--to", "adk", "-o", "new.json")

    assert result.return_value == 3
    assert "more.yaml:1: bad: faulted: the simulated user failed" in result.output
    assert [case.eval_id for case in read(tmp_path, "new.json", AdkFormat()).cases] == ["good"]


def test_when_nothing_could_be_played_nothing_is_written(tmp_path: Path) -> None:
    result = generated(project(tmp_path), "stories.csv", "--to", "adk", "-o", "new.json")

    assert isinstance(result.exception, NoVerdictError)
    assert not (tmp_path / "new.json").exists()


def test_a_record_becomes_cases_without_any_model(tmp_path: Path) -> None:
    project(tmp_path)
    turn = {"user_content": {"parts": [{"text": "two"}]}}
    case = {"eval_id": "c", "conversation": [turn]}
    (tmp_path / "old.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [case]}))
    config = yaml.safe_load((tmp_path / "evalgate.yaml").read_text())
    config |= {"criteria": {"response_match_score": 0.5}, "eval_sets": ["old.json"]}
    (tmp_path / "evalgate.yaml").write_text(yaml.safe_dump(config))
    evalgate("run", cwd=tmp_path)

    result = generated(tmp_path, "--from", "evalgate-report/results.json", "--to", "adk", "-o", "new.json")

    assert result.return_value == 0, result.output
    (made,) = read(tmp_path, "new.json", AdkFormat()).cases
    assert made.eval_id == "c"
    assert made.turns[0].expected.response == "Booked."
    assert [(call.name, call.args) for call in made.turns[0].expected.tool_calls] == [("book", {"people": 2})]


def test_traces_of_any_convention_become_the_cases_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "traces.json").write_text(to_otlp(list_steps(TURNS), "openinference"))

    result = generated(tmp_path, "--from", "traces.json", "--to", "adk", "-o", "new.json")

    assert result.return_value == 0, result.output
    (case,) = read(tmp_path, "new.json", AdkFormat()).cases
    assert strip_turns(case.turns) == [turn.to_case_turn() for turn in TURNS]


def test_a_result_that_no_eval_set_can_hold_becomes_a_text(tmp_path: Path) -> None:
    turn = Turn("How much?", "I do not know: \ud83d", [Call("price", {}, "NaN")])
    (tmp_path / "traces.json").write_text(to_otlp(list_steps([turn])))

    result = generated(tmp_path, "--from", "traces.json", "--to", "adk", "-o", "new.json")

    assert result.return_value == 0, result.output
    (made,) = read(tmp_path, "new.json", AdkFormat()).cases[0].turns
    assert made.expected.response == "I do not know: \ufffd"
    assert [event.result for event in made.expected.events if isinstance(event, ToolResult)] == [
        {"result": "NaN"}
    ]


def test_a_recorded_conversation_becomes_a_case(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "type": "text", "content": "Hi"},
        {
            "role": "assistant",
            "type": "tool_call",
            "content": json.dumps({"name": "f", "args": {}, "id": "1"}),
        },
        {"role": "assistant", "type": "text", "content": "Hello"},
    ]
    (tmp_path / "hi.messages.json").write_text(json.dumps(messages))

    result = generated(tmp_path, "--from", "hi.messages.json", "--to", "trpc", "-o", "new.json")

    assert result.return_value == 0, result.output
    (case,) = read(tmp_path, "new.json", TrpcFormat()).cases
    assert (case.eval_id, case.turns[0].expected.response) == ("hi", "Hello")
    assert isinstance(case.turns[0].expected.events[0], ToolCall)


@pytest.mark.parametrize("args", [(), ("stories.csv", "--from", "x.json")])
def test_one_source_is_named(tmp_path: Path, args: tuple[str, ...]) -> None:
    result = generated(project(tmp_path), *args, "--to", "adk", "-o", "new.json")

    assert "name either" in str(result.exception)


def test_the_file_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "faq.questions.txt").write_text("hello there\n")

    result = generated(tmp_path, "--from", "faq.questions.txt")

    assert result.return_value == 0, result.output
    assert "evals/faq.evalset.json: written in the format adk. " in result.output
    assert len(read(tmp_path, "evals/faq.evalset.json", AdkFormat()).cases) == 1
    assert "exists already" in str(generated(tmp_path, "--from", "faq.questions.txt").exception)


def test_stories_of_a_csv_file_are_read_as_the_generator_reads_them(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text('\ufeffstory, agent\n"One,\nof two lines",a\nTwo,\n', "utf-8")

    found = read_stories(tmp_path / "s.csv", "s.csv")

    assert [(case.eval_id, case.scenario, case.session.app_name) for case in found.cases] == [
        ("story-1", Scenario("", "One,\nof two lines"), "a"),
        ("story-2", Scenario("", "Two"), ""),
    ]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("s.csv", "", "s.csv:1:1: the first line must name the columns `story` and `agent`$"),
        ("s.csv", "story,agent\n  ,b\n", "s.csv:2:1: `story` must not be empty"),
        (
            "s.csv",
            'story,agent\n"One,\ntwo",b,,\n\n"Tea,\nplease",b,c\nTea, please,b\n',
            "^s.csv:5:1: 3 cells and 2 columns: a text with a comma must stand in .*\ns.csv:7:1: 3 cells and",
        ),
        ("s.csv", "story,agent\n", "s.csv:1:1: the file holds no story"),
        ("s.csv", "story,agent\n,b\n", "s.csv:2:1: `story` is missing"),
        ("s.yaml", "- {stori: a}\n", r"s.yaml:1:\d+: `\[0\].story` is missing"),
        (
            "s.yaml",
            "- {story: a, name: x}\n- {story: b, name: x}\n",
            "s.yaml:2:1: the name `x` is used twice",
        ),
        ("s.yaml", "story: a\n", "s.yaml:1:1: the file must be a list"),
    ],
)
def test_a_wrong_file_of_stories_is_reported_with_its_position(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(InvalidInputError, match=problem):
        read_stories(tmp_path / name, name)
