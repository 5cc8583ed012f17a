"""`evalgate convert`."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.cli.convert import ConvertOptions, convert_eval_set
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import EvalFormat
from evalgate.core.sanitize import disable_commands, strip_invisible
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    Message,
    Reply,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from evalgate.integrations.adk.writer import AdkWriter
from tests.commands import evalgate
from tests.conformance import shared_folder
from tests.integrations.reading import read

TURNS = [
    {
        "query": "Roll a die",
        "expected_tool_use": [
            {"tool_name": "roll", "tool_input": {"sides": 6}, "mock_tool_output": 4},
            {"tool_name": "roll", "tool_input": {}, "mock_tool_output": 5},
        ],
        "expected_intermediate_agent_responses": [{"author": "dice", "text": "Rolling…"}],
        "reference": "I rolled a 4. 🎲",
        "difficulty": "easy",
    },
    {"query": "Again", "expected_tool_use": [], "reference": None},
]

EXPECTED = """\
{
  "eval_set_id": "old.test.json",
  "eval_cases": [
    {
      "eval_id": "old.test.json",
      "conversation": [
        {
          "user_content": {
            "parts": [
              {
                "text": "Roll a die"
              }
            ],
            "role": "user"
          },
          "final_response": {
            "parts": [
              {
                "text": "I rolled a 4. 🎲"
              }
            ],
            "role": "model"
          },
          "intermediate_data": {
            "tool_uses": [
              {
                "args": {
                  "sides": 6
                },
                "name": "roll"
              },
              {
                "args": {},
                "name": "roll"
              }
            ],
            "intermediate_responses": [
              [
                "dice",
                [
                  {
                    "text": "Rolling…"
                  }
                ]
              ]
            ]
          }
        },
        {
          "user_content": {
            "parts": [
              {
                "text": "Again"
              }
            ],
            "role": "user"
          }
        }
      ]
    }
  ]
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "old.test.json").write_text(json.dumps(TURNS, indent=1), encoding="utf-8")
    return tmp_path


def test_a_legacy_list_becomes_an_eval_set_and_what_is_lost_is_listed(project: Path) -> None:
    done = evalgate("convert", "old.test.json", "--to", "adk", cwd=project)

    assert (done.code, done.out) == (0, EXPECTED)
    assert done.err.splitlines() == [
        "old.test.json:10:25: `mock_tool_output` is not carried over (2 times)",
        "old.test.json:25:17: `difficulty` is not carried over",
    ]


def test_the_file_can_be_named(project: Path) -> None:
    done = evalgate("convert", "old.test.json", "--to", "adk", "-o", "new/demo.evalset.json", cwd=project)

    assert (done.code, done.out) == (0, "")
    assert (project / "new/demo.evalset.json").read_text("utf-8") == EXPECTED


@pytest.mark.parametrize("force", [False, True])
def test_an_empty_name_is_no_file(project: Path, force: bool) -> None:
    with pytest.raises(InvalidInputError, match="--out names no file"):
        convert_eval_set(ConvertOptions("old.test.json", "adk", out=" ", force=force), project)


def test_a_file_that_exists_is_replaced_only_by_force(project: Path) -> None:
    (project / "new.json").write_text("mine")
    arguments = ("convert", "old.test.json", "--to", "adk", "-o", "new.json")

    refused = evalgate(*arguments, cwd=project)

    assert refused.code == 2
    assert (
        refused.err.strip()
        == "evalgate: new.json: exists already: name another file, or replace it with --force"
    )
    assert (project / "new.json").read_text() == "mine"
    assert evalgate(*arguments, "--force", cwd=project).code == 0
    assert (project / "new.json").read_text("utf-8") == EXPECTED


INITIAL = {"app_name": "dice", "user_id": "ada", "state": {"rolls": [1]}, "events": [], "id": "x"}


def test_a_list_of_turns_takes_its_session_along(project: Path) -> None:
    (project / "initial.session.json").write_text(json.dumps(INITIAL))

    result = convert_eval_set(
        ConvertOptions("old.test.json", "adk", initial_session="initial.session.json"), project
    )

    (case,) = parsed(result.text).cases
    assert case.session == SessionInput("dice", "ada", {"rolls": [1]})


@pytest.mark.parametrize(
    ("source", "session", "problem"),
    [
        ([{"name": "c", "data": TURNS}], INITIAL, "s.json:1:1: --initial-session is for old lists of turns"),
        ({"eval_set_id": "s", "eval_cases": []}, INITIAL, "s.json:1:1: --initial-session is for old lists"),
        (TURNS, {"state": []}, "session.json:1:11: `state` must be an object, not a list"),
        (TURNS, [1], "session.json:1:1: the file must be an object, not a list"),
    ],
)
def test_an_unsuitable_session_is_an_error(tmp_path: Path, source: Any, session: Any, problem: str) -> None:
    (tmp_path / "s.json").write_text(json.dumps(source))
    (tmp_path / "session.json").write_text(json.dumps(session))

    with pytest.raises(InvalidInputError) as caught:
        convert_eval_set(ConvertOptions("s.json", "adk", initial_session="session.json"), tmp_path)

    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("old.test.json", "--to", "adc"), "`adc` is not a format that evalgate writes. Did you mean `adk`?"),
        (("absent.json", "--to", "adk"), "absent.json"),
        (("old.test.json", "--to", "adk", "--format", "nope"), "'nope' is not a format of eval sets."),
    ],
)
def test_what_cannot_be_converted_is_a_sentence(
    project: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = evalgate("convert", *arguments, cwd=project)

    assert done.code == 2
    assert sentence in done.err


def test_fields_of_google_adk_that_are_not_read_are_listed(project: Path) -> None:
    eval_set = {
        "evalSetId": "s",
        "evalCases": [
            {
                "evalId": "c",
                "rubrics": [{"criterion": "Is kind.", "points": 2}],
                "conversation": [{"invocation_id": "i", "user_content": {"parts": [{"text": "?"}]}}],
                "tags": ["a"],
            }
        ],
    }
    (project / "new.json").write_text(json.dumps(eval_set))

    done = evalgate("convert", "new.json", "--to", "adk", cwd=project)

    lost = [line.partition(": ")[2] for line in done.err.splitlines()]
    assert lost == ["`tags` is not carried over", "c: the points of its rubrics"]


GOALS = Journey((Goal("g", "text", keywords=("k",)), Goal("h", "text")), {"g": (), "h": ()}, "Somebody asks.")


def test_what_google_adk_has_no_place_for_is_listed() -> None:
    turn = CaseTurn(
        UserMessage("?"),
        Reply(None, (ToolCall("f", other_args=[1]), Message("choose", payload={"options": [1]}))),
    )
    case = EvalCase("c", (turn,), journey=GOALS, context_messages=({"role": "user"},), recorded=())

    assert AdkWriter().write_eval_set(EvalSet("s", (case,))).lost == (
        "c: the story",
        "c: the keywords of the goal `g`",
        "c: the order of the goals, which is no line",
        "c: the context messages",
        "c: the recorded conversation",
        "c: turn 1: the arguments of `f`, which are no object",
        "c: turn 1: the widget of a message",
    )


REDACTED = {"redacted_thought": {"data": "x"}}


def convert(folder: Path, content: object, to: str) -> tuple[object, str]:
    """Return the written file and what was listed as lost; the file must be one that evalgate reads."""
    (folder / "old.evalset.json").write_text(json.dumps(content))
    done = evalgate(
        "convert", "old.evalset.json", "--to", to, "-o", "new.evalset.json", "--force", cwd=folder
    )
    assert done.code == 0, done.err
    checked = evalgate("validate", "new.evalset.json", cwd=folder)
    assert checked.code == 0, checked.err
    return json.loads((folder / "new.evalset.json").read_text()), done.err


def a_set_of_adk_rs(*parts: object, response: tuple[object, ...] = ()) -> object:
    turn: dict[str, object] = {"user_content": {"role": "user", "parts": [{"text": "Hi"}, *parts]}}
    if response:
        turn["final_response"] = {"role": "model", "parts": [{"text": "Hello"}, *response]}
    return {"id": "s", "eval_cases": [{"id": "c", "conversation": [turn]}]}


def test_contents_that_only_adk_rs_knows_are_lost_and_listed(tmp_path: Path) -> None:
    asked, answered = a_set_of_adk_rs(REDACTED), a_set_of_adk_rs(response=(REDACTED,))
    assert convert(tmp_path, asked, "adk")[1].endswith("c: turn 1: an attachment\n")
    value, lost = convert(tmp_path, answered, "adk")
    assert lost.endswith("c: turn 1: what `final_response` holds other than texts, calls and answers\n")
    assert "Hello" in json.dumps(value)
    for content in (asked, answered):
        assert "redacted_thought" in json.dumps(convert(tmp_path, content, "adk-rs")[0])


@pytest.mark.parametrize("part", [{"foo": 1}, {"type": 5, "image": {}}, {"text": "a text without a type"}])
def test_an_attachment_of_no_known_kind_is_lost_and_listed(tmp_path: Path, part: object) -> None:
    message = {"role": "user", "content": "Hi", "content_parts": [part]}
    case = {
        "evalId": "c",
        "conversation": [{"userContent": message}],
        "sessionInput": {"appName": "a", "userId": "u"},
    }
    value, lost = convert(tmp_path, {"evalSetId": "s", "evalCases": [case]}, "adk")
    assert lost.endswith("c: turn 1: an attachment\n")
    assert '"parts": [{"text": "Hi"}]' in json.dumps(value)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WORD = st.text("abcé東", min_size=1, max_size=4)
OBJECT = st.dictionaries(WORD, st.none() | st.booleans() | st.integers(0, 9) | TEXT, max_size=2)
FILLED = st.dictionaries(WORD, st.integers(0, 9) | TEXT, min_size=1, max_size=2)
NAME = st.none() | WORD
EVENTS = st.lists(
    st.builds(ToolCall, WORD, st.none() | OBJECT, NAME, NAME)
    | st.builds(ToolResult, WORD, FILLED, NAME, NAME)
    | st.builds(Message, WORD, WORD),
    max_size=4,
)
TURN = st.builds(
    CaseTurn,
    st.builds(UserMessage, WORD, st.tuples() | st.tuples(st.just({"inline_data": {"data": "eA=="}}))),
    st.builds(Reply, st.none() | TEXT, EVENTS.map(tuple)),
)
STATE = st.none() | FILLED
SESSION = st.builds(SessionInput, WORD, WORD, OBJECT)
WRITTEN = st.builds(EvalCase, WORD, st.lists(TURN, max_size=3).map(tuple), session=SESSION, final_state=STATE)
PLAYED = st.builds(
    EvalCase, WORD, scenario=st.builds(Scenario, TEXT, TEXT, st.none() | WORD), session=SESSION
)
EVAL_SETS = st.builds(
    EvalSet,
    WORD,
    st.lists(WRITTEN | PLAYED, max_size=3, unique_by=lambda case: case.eval_id).map(tuple),
    name=NAME,
    description=NAME,
)


def parsed(text: str) -> EvalSet:
    return AdkFormat().read_eval_set(parse_json(text.encode(), "f.json"))


@given(EVAL_SETS)
def test_convert_load_convert_is_stable(eval_set: EvalSet) -> None:
    first = AdkWriter().write_eval_set(eval_set)
    second = AdkWriter().write_eval_set(parsed(first.text))

    assert second.text == first.text
    assert first.lost == second.lost == ()


@given(
    st.lists(
        st.fixed_dictionaries(
            {"query": TEXT},
            optional={
                "reference": st.none() | TEXT,
                "expected_tool_use": st.lists(
                    st.fixed_dictionaries({"tool_name": WORD, "tool_input": st.none() | OBJECT}), max_size=2
                ),
                "expected_intermediate_agent_responses": st.lists(
                    st.fixed_dictionaries({"author": WORD, "text": TEXT}), max_size=2
                ),
            },
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_converted_legacy_list_asks_and_expects_the_same(turns: list[dict[str, Any]]) -> None:
    before = read(AdkLegacyFormat(), turns)
    after = parsed(AdkWriter().write_eval_set(before).text)

    assert [case.turns for case in after.cases] == [case.turns for case in before.cases]


def test_every_real_eval_set_is_converted_and_stays_what_it_is() -> None:
    folder = shared_folder()
    paths = sorted((folder / "corpus/adk").iterdir()) if folder else []
    formats: dict[str, EvalFormat] = {"adk": AdkFormat(), "adk-legacy": AdkLegacyFormat()}
    for path in paths:
        if path.name.endswith(("test_config.json", ".session.json")):
            continue
        (before,) = load_eval_sets([path.name], formats, folder=path.parent)
        first = AdkWriter().write_eval_set(before)
        after = parsed(first.text)

        assert [case.turns for case in after.cases] == [case.turns for case in before.cases], path.name
        assert AdkWriter().write_eval_set(after).text == first.text, path.name


def test_printed_json_contains_no_runner_command_and_the_same_values(tmp_path: Path) -> None:
    texts = ["::set-output name=verdict::pass", "##vso[task.complete result=Succeeded;]", "\x9b31mred\u202e"]
    turns = [{"query": text, "expected_tool_use": [], "reference": text} for text in texts]
    (tmp_path / "old.test.json").write_text(json.dumps(turns))
    printed = evalgate("convert", "old.test.json", "--to", "adk", cwd=tmp_path).out
    evalgate("convert", "old.test.json", "--to", "adk", "-o", "new.json", cwd=tmp_path)
    written = (tmp_path / "new.json").read_text("utf-8")
    assert json.loads(printed) == json.loads(written)
    assert texts[0] in written
    assert disable_commands(printed) == printed
    assert strip_invisible(printed) == printed
