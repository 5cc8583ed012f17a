"""Files of other tools: recognised by their content, and made into an ADK eval set that says what was left out."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalgate.core.types import EvalSet, Message, ToolCall, ToolResult
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.evalset import AdkFormat
from tests.commands import evalgate

WEATHER: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "You are a weather bot."},
        {"role": "user", "content": "What is the weather in San Francisco?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_current_weather", "arguments": '{"location": "San Francisco, USA"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '{"degrees": 21}'},
        {"role": "assistant", "content": "It is 21 degrees."},
        {"role": "user", "content": [{"type": "text", "text": "Thanks"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    ],
    "tools": [{"type": "function", "function": {"name": "get_current_weather", "parameters": {}}}],
}  # fmt: skip
PROMPTFOO: dict[str, Any] = {
    "prompts": ["Convert this English to {{language}}: {{input}}"],
    "providers": ["openai:gpt-5-mini"],
    "tests": [
        {
            "vars": {"language": "French", "input": "Hello world"},
            "assert": [{"type": "equals", "value": "Bonjour"}, {"type": "llm-rubric", "value": "polite"}],
        },
        {"description": "only one", "vars": {"topic": "Bananas"}},
    ],
}
GOLDENS: list[dict[str, Any]] = [
    {
        "input": "Refund within how many days?",
        "actual_output": None,
        "expected_output": "30 days.",
        "context": ["All customers have 30 days."],
        "expected_tools": [{"name": "lookup", "input_parameters": {"q": "refund"}}],
    },
    {"name": "angry", "scenario": "A user wants a refund.", "expected_outcome": "It is granted."},
]


def lines(*values: object) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)


def made(folder: Path, name: str, content: str, *, code: int = 0) -> tuple[EvalSet, str]:
    """The eval set that is made of a file, and what is said of it."""
    (folder / name).write_text(content, "utf-8")
    done = evalgate("generate", "--from", name, "--to", "adk", "-o", "new.evalset.json", cwd=folder)
    assert done.code == code, done.err
    return AdkFormat().read_eval_set(read_json(folder / "new.evalset.json", "new.evalset.json")), done.err


def said(eval_set: EvalSet) -> list[tuple[str, str | None]]:
    return [(turn.user.text, turn.expected.response) for case in eval_set.cases for turn in case.turns]


def test_chat_messages_become_turns_with_calls_and_answers(tmp_path: Path) -> None:
    found, told = made(tmp_path, "chat.jsonl", lines(WEATHER))
    (case,) = found.cases
    assert said(found) == [("What is the weather in San Francisco?", "It is 21 degrees."), ("Thanks", None)]
    events = case.turns[0].expected.events
    assert {type(event) for event in events} == {Message, ToolCall, ToolResult}
    (call,) = case.turns[0].expected.tool_calls
    assert (call.name, call.args) == ("get_current_weather", {"location": "San Francisco, USA"})
    assert [event.result for event in events if isinstance(event, ToolResult)] == [{"degrees": 21}]
    assert told.splitlines() == [
        "chat.jsonl: messages of the role `system`: the agent has its own instructions (1 time)",
        "chat.jsonl: parts of the type `image_url` (1 time)",
    ]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("chat.json", json.dumps(WEATHER["messages"][1:2]), [("What is the weather in San Francisco?", None)]),
        ("chat.json", json.dumps(WEATHER), [("What is the weather in San Francisco?", "It is 21 degrees."), ("Thanks", None)]),
        ("evals.jsonl", lines({"input": [{"role": "user", "content": "2+2?"}], "ideal": ["4", "four"]}), [("2+2?", "4")]),
        ("ms.jsonl", lines({"query": "What is ML?", "ground_truth": "Learning."}), [("What is ML?", "Learning.")]),
        ("q.csv", '\ufeffQuestion,Answer\n"What, exactly?",42\nWho?,\n', [("What, exactly?", "42"), ("Who?", None)]),
        ("q.tsv", "input\texpected\nHi\tHello\n", [("Hi", "Hello")]),
        ("q.json", json.dumps([{"question": "Hi", "answer": "Hello"}]), [("Hi", "Hello")]),
        ("q.txt", "# mine\nHow are you?\n\n  Who?  \n", [("How are you?", None), ("Who?", None)]),
        ("goldens.json", json.dumps({"goldens": GOLDENS[:1]}), [("Refund within how many days?", "30 days.")]),
    ],
)  # fmt: skip
def test_questions_become_cases_of_one_turn(
    name: str, content: str, expected: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    assert said(made(tmp_path, name, content)[0]) == expected


@pytest.mark.parametrize(
    "call",
    [
        {"name": "lookup", "input_parameters": {"q": "refund"}},
        {"type": "function_call", "name": "lookup", "arguments": '{"q": "refund"}'},
        {"type": "function", "id": "call_1", "function": {"name": "lookup", "arguments": '{"q": "refund"}'}},
    ],
    ids=["DeepEval", "OpenAI responses", "OpenAI chat completions"],
)
def test_expected_tools_are_read_as_their_owners_write_them(call: dict[str, object], tmp_path: Path) -> None:
    row = {"question": "Refund within how many days?", "expected_tools": [call]}
    (case,) = made(tmp_path, "q.jsonl", lines(row))[0].cases
    (found,) = case.turns[0].expected.tool_calls
    assert (found.name, found.args) == ("lookup", {"q": "refund"})


def test_deepevals_goldens_keep_tools_and_scenarios(tmp_path: Path) -> None:
    found, told = made(tmp_path, "goldens.json", json.dumps(GOLDENS))
    first, second = found.cases
    assert [(call.name, call.args) for call in first.turns[0].expected.tool_calls] == [
        ("lookup", {"q": "refund"})
    ]
    assert second.scenario is not None
    assert (second.eval_id, second.scenario.conversation_plan) == ("angry", "A user wants a refund.")
    assert "`context` is not carried over (1 time)" in told
    assert "`expected_outcome` is not carried over (1 time)" in told


TURNS = [
    {"role": "user", "content": "My laptop is broken.", "tools_called": None},
    {
        "role": "assistant",
        "content": "Here is a label.",
        "retrieval_context": ["policy"],
        "tools_called": [{"name": "send_label", "inputParameters": {"days": 30}}],
    },
]


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_conversation_of_deepeval_keeps_its_turns_and_their_calls(suffix: str, tmp_path: Path) -> None:
    if suffix == "json":
        content = json.dumps(
            [{"scenario": "A return.", "turns": TURNS, "expected_outcome": "A label.", "name": "return"}]
        )
    else:
        cell = json.dumps(TURNS).replace('"', '""')
        content = f'scenario,turns,expected_outcome,name\nA return.,"{cell}",A label.,return\n'
    found, told = made(tmp_path, f"goldens.{suffix}", content)
    assert said(found) == [("My laptop is broken.", "Here is a label.")]
    assert found.cases[0].eval_id == "return"
    assert [(call.name, call.args) for call in found.cases[0].turns[0].expected.tool_calls] == [
        ("send_label", {"days": 30})
    ]
    assert "`scenario` is not carried over (1 time)" in told
    assert "`retrieval_context` of a turn (1 time)" in told


def test_a_scenario_of_deepeval_in_csv_is_played(tmp_path: Path) -> None:
    content = "scenario,turns,expected_outcome,user_description\nA refund.,,It is granted.,Angry\n"
    found, told = made(tmp_path, "goldens.csv", content)
    scenario = found.cases[0].scenario
    assert scenario is not None
    assert scenario.conversation_plan == "A refund."
    assert "`expected_outcome` is not carried over (1 time)" in told


def test_promptfoos_tests_keep_what_a_user_would_say(tmp_path: Path) -> None:
    found, told = made(tmp_path, "promptfooconfig.yaml", yaml.safe_dump(PROMPTFOO))
    assert said(found) == [("Hello world", "Bonjour"), ("Bananas", None)]
    assert found.cases[1].eval_id == "only one"
    assert "assertions of the type `llm-rubric` are not carried over (1 time)" in told
    assert "`language` is not carried over" in told


@pytest.mark.parametrize("name", ["expected", "answer", "ground_truth"])
def test_questions_named_query_are_cases_of_their_own(name: str, tmp_path: Path) -> None:
    content = json.dumps([{"query": "Hi", name: "Hello"}, {"query": "Bye", name: "So long"}])
    found, _ = made(tmp_path, "q.json", content)
    assert said(found) == [("Hi", "Hello"), ("Bye", "So long")]
    refused = evalgate("validate", "q.json", cwd=tmp_path)
    assert refused.code == 2
    assert "q.json:1:1: this is a list of questions, not an eval set: make one of it with" in refused.err


def test_turns_of_google_adk_stay_one_conversation(tmp_path: Path) -> None:
    content = json.dumps(
        [{"query": "Hi", "expected": "?", "reference": "Hello"}, {"query": "Bye", "reference": "Bye"}]
    )
    found, _ = made(tmp_path, "q.json", content)
    assert [(turn.user.text, turn.expected.response) for turn in found.cases[0].turns] == [
        ("Hi", "Hello"),
        ("Bye", "Bye"),
    ]


def test_an_item_that_gives_no_case_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text('[{"Question": "a", "Answer": "b"},\n{"querry": "c"}]')
    done = evalgate("generate", "--from", "q.json", "--to", "adk", "-o", "new.json", cwd=tmp_path)
    assert done.code == 3
    assert 'q.json:2: nothing that the user says: the keys are "querry"' in done.err
    assert "question-1: 1 turn" in done.out


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "chat.jsonl",
            lines({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}]}),
            "chat.jsonl:1: message 2: a tool call has no `function`",
        ),
        (
            "chat.jsonl",
            lines({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "9", "content": ""}]}),
            "chat.jsonl:1: message 2: the tool's answer belongs to no call (tool_call_id '9')",
        ),
        ("q.jsonl", lines({"question": "Hi"}) + "{", "q.jsonl:2:2: "),
        ("q.csv", "subject,body\na,b\n", "q.csv:1:1: the first line must name the columns"),
        ("q.csv", "question,answer\na,b,c\n", "q.csv:2:1: 3 cells and 2 columns"),
        ("q.csv", "Question,answer,question\na,b,c\n", "q.csv:1:1: several columns are named `question`"),
        (
            "q.csv",
            'question,answer\na,b\n"c,d\ne,f\n',
            "q.csv:3:1: is no CSV: in the row that begins here, a quotation mark opens a text that never ends",
        ),
        ("q.csv", 'question\n"a" b\n', "q.csv:2:1: is no CSV: in the row that begins here, ',' expected after"),
        ("c.json", json.dumps({"messages": [{"role": [], "content": "x"}]}), "c.json:1:1: no case can be made of this"),
        ("c.json", json.dumps([{"role": {}, "content": "x"}]), "c.json:1:1: no case can be made of this"),
        (
            "q.json",
            json.dumps([{"id": name, "question": "a"} for name in ("x", "y", "x", "x")]),
            "q.json:1:1: the name 'x' is used more than once in this line",
        ),
        ("q.csv", "id,question\nx,a\nx,b\n", "q.csv:3:1: the name 'x' is already used in line 2"),
        (
            "p.yaml",
            yaml.safe_dump({**PROMPTFOO, "tests": "file://tests.csv"}),
            "its tests stand elsewhere (file://tests.csv): name that file",
        ),
        ("q.csv", "question,expected_tools\na,[1\n", "q.csv:2: the expected tool calls are no JSON"),
        ("q.json", '{"questions": [{"q": "a"}]}', "q.json:1:1: no case can be made of this: it is no recording"),
        ("q.jsonl", '{"frage": "a"}', "q.jsonl:1:1: no case can be made of this: it is no recording"),
        ("s.csv", "story,agent\nA guest.,hotel\n", "s.csv:1:1: the column `story` holds stories, which are played"),
        ("d.yaml", "cases: [{inputs: a}]\n", "d.yaml:1:1: is no configuration of promptfoo, which has `prompts`"),
    ],
)  # fmt: skip
def test_what_gives_no_case_is_told_with_its_place(
    name: str, content: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    done = evalgate("generate", "--from", name, "--to", "adk", "-o", "new.json", cwd=tmp_path)
    assert done.code in {2, 3}
    assert sentence in done.err
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        (
            '{"question": "a"}\n\n{"question": "b"\n[1]\n"x"\n7\nnull\n{"question": 5,}\n{"foo": 1, "querry": 2}\n',
            [
                "q.jsonl:3:17: this line is not JSON: the line ends too early: a value or a closing bracket is missing",
                "q.jsonl:4:1: this line holds a list; expected a JSON object in each line, as",
                "q.jsonl:5:1: this line holds a text; expected a JSON object in each line, as",
                "q.jsonl:6:1: this line holds a number; expected a JSON object in each line, as",
                "q.jsonl:7:1: this line holds null; expected a JSON object in each line, as",
                "q.jsonl:8:15: this line is not JSON: remove the comma before the closing bracket",
                'q.jsonl:9: nothing that the user says: the keys are "foo", "querry", expected `messages` or one of',
            ],
        ),
        ("{bad\n{worse\n", ["q.jsonl:1:2: this line is not JSON", "q.jsonl:2:2: this line is not JSON"]),
        ('{"a": 1} {"b": 2}\n{}\n', ["q.jsonl:1:10: this line is not JSON: expected nothing after the end of the value (a line holds one)", "q.jsonl:2: nothing that the user says: the keys are none"]),
        (
            lines({"messages": [{"role": "usr", "content": ""}]}, {"messages": "x"}, {"messages": [3]}, {"messages": [{}]}, {"messages": [{"role": "user", "content": 7}]}, {"messages": [{"role": [], "content": "x"}]}, {"input": [{"role": {}}]}),
            [
                "q.jsonl:1: message 1: the role is 'usr', expected user, assistant, tool, function, system or developer. Did you mean `user`?",
                "q.jsonl:2: `messages` must be a list of objects with `role` and `content`",
                "q.jsonl:3: message 1: must be an object with `role` and `content`",
                "q.jsonl:4: message 1: there is no `role`, expected user",
                "q.jsonl:5: message 1: `content` is 7, expected a text or a list of parts",
                "q.jsonl:6: message 1: the role is [], expected user, assistant, tool, function, system or developer.",
                'q.jsonl:7: nothing that the user says: the keys are "input", expected',
            ],
        ),
        (lines({"id": 1, "question": "a"}, {"id": 1, "question": "b"}, {"anser": 1}), ["q.jsonl:2:1: the name '1' is already used in line 1", "q.jsonl:3: nothing that the user says"]),
        ("{bad\n" * 150, [*(f"q.jsonl:{n}:2: this line is not JSON" for n in range(1, 101)), "… and 50 more"]),
    ],
)  # fmt: skip
def test_all_wrong_lines_are_told_at_once(content: str, problems: list[str], tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(content)
    done = evalgate("generate", "--from", "q.jsonl", cwd=tmp_path)
    told = done.err.splitlines()
    assert (done.code, len(told)) == (2, len(problems)), done.err
    assert [line for line, begin in zip(told, problems, strict=True) if not line.startswith(begin)] == []


def test_json_lines_of_another_kind_are_no_list_of_questions(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(lines({"level": "info"}, {"level": "info"}))
    done = evalgate("validate", "log.jsonl", cwd=tmp_path)
    assert done.code == 2
    assert "generate --from" not in done.err


def test_further_answers_are_counted(tmp_path: Path) -> None:
    row = {"input": [{"role": "user", "content": "2+2?"}], "ideal": ["4", "four", "IV"]}
    found, told = made(tmp_path, "evals.jsonl", lines(row, row))
    assert said(found) == [("2+2?", "4")] * 2
    assert (
        told == "evals.jsonl: further answers of `ideal`: the first one is the expected response (4 times)\n"
    )


def test_a_part_whose_type_is_no_text_is_counted(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": ["text"]}]}]}
    found, told = made(tmp_path, "chat.jsonl", lines(row))
    assert said(found) == [("Hi", None)]
    assert told == "chat.jsonl: parts of the type `['text']` (1 time)\n"


def test_some_rows_without_a_case_end_in_3_and_the_others_are_written(tmp_path: Path) -> None:
    found, told = made(tmp_path, "q.jsonl", lines({"question": "Hi"}, {"note": "none"}), code=3)
    assert said(found) == [("Hi", None)]
    assert "q.jsonl:2: nothing that the user says" in told


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("promptfooconfig.yaml", yaml.safe_dump(PROMPTFOO), "a promptfoo config"),
        ("promptfooconfig.json", json.dumps(PROMPTFOO), "a promptfoo config"),
        ("p.yaml", yaml.safe_dump({**PROMPTFOO, "tests": "file://tests.csv"}), "a promptfoo config"),
        ("goldens.json", json.dumps(GOLDENS), "a DeepEval dataset"),
        ("goldens.csv", "input,expected_output,context\na,b,c\n", "a DeepEval dataset"),
        ("chat.jsonl", lines(WEATHER, WEATHER), "a file of chat messages"),
        ("chat.json", json.dumps(WEATHER), "a file of chat messages"),
        ("q.csv", "question,answer\na,b\n", "a table of questions"),
    ],
)
def test_a_run_names_what_it_was_given_and_the_command_to_go_on(
    name: str, content: str, what: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    for command in (["run", "--agent", "python:a.py:b"], ["validate"]):
        done = evalgate(*command, name, cwd=tmp_path)
        way = f"`evalgate generate --from {name} --to adk -o {name.partition('.')[0]}.evalset.json`"
        sentence = f"{name}:1:1: this is {what}, not an eval set: make one of it with {way}\n"
        assert (done.code, done.err) == (2, sentence)


def test_a_promptfoo_config_is_no_thresholds_file(tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text(yaml.safe_dump(PROMPTFOO))
    done = evalgate("validate", "-c", "promptfooconfig.yaml", "a.evalset.json", cwd=tmp_path)
    assert done.code == 2
    assert "this is a promptfoo config, not an eval set" in done.err


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("a.evalset.json", ["validate", "a.evalset.json"]),
        ("evalgate.yaml", ["validate", "a.evalset.json"]),
        ("evalgate.toml", ["validate", "a.evalset.json"]),
        ("q.csv", ["generate", "--from", "q.csv", "--to", "adk", "-o", "x.json"]),
        ("q.txt", ["generate", "--from", "q.txt", "--to", "adk", "-o", "x.json"]),
        ("s.csv", ["generate", "s.csv", "--to", "adk", "-o", "x.json"]),
        ("c.jsonl", ["run", "c.jsonl", "--agent", "python:a.py:b", "-c", "t.yaml"]),
    ],
)
def test_utf_16_is_named_wherever_it_is_read(name: str, arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("criteria: {response_match_score: 1.0}\n")
    (tmp_path / name).write_bytes("question\nHi\n".encode("utf-16"))
    done = evalgate(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert f"{name}:1:1: this is UTF-16 or UTF-32: save the file as UTF-8" in done.err
    assert "iconv" in done.err
