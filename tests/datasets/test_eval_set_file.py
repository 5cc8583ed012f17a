"""Edits of eval sets in their files, in all formats."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    UserMessage,
)
from evalgate.datasets import case_edits
from evalgate.datasets.edit_undo import FileChange, FileChangedError, UndoableEdits
from evalgate.datasets.eval_set_file import (
    EvalSetFile,
    build_diff,
    create_eval_set,
    edit_eval_set,
    open_eval_set,
)

ADK = """{
  "eval_set_id": "desk",  "name": "Desk",
  "eval_cases": [
    {
      "eval_id": "late",
      "conversation": [
        {
          "invocation_id": "i-1",
          "user_content": {"parts": [{"text": "Refund order 7"}], "role": "user"},
          "final_response": {"parts": [{"text": "Done."}], "role": "model"},
          "intermediate_data": {
            "tool_uses": [
              {"id": "t1", "args": {"order": 7, "amount": 1.50}, "name": "refund"},
              {"args": {"order": 7}, "name": "mail"}
            ],
            "tool_responses": [{"name": "refund", "response": {"ok": true}}],
            "intermediate_responses": []
          },
          "creation_timestamp": 1.5
        },
        {
          "user_content": {"parts": [{"text": "Thanks"}], "role": "user"},
          "final_response": {"parts": [{"text": "thinking", "thought": true}, {"text": "Bye"}]}
        }
      ],
      "rubrics": [{"rubric_id": "kind", "rubric_content": {"text_property": "Is kind."}}],
      "final_session_state": {"refunded": [7]},
      "session_input": {"app_name": "desk", "user_id": "u", "state": {}}
    },
    {"eval_id": "plan", "conversation_scenario": {"starting_prompt": "Hi", "conversation_plan": "Ask."}},
    {"eval_id": "short", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]}
  ]
}
"""
EVENTS = """{"evalSetId": "camel", "evalCases": [
\t{"evalId": "a", "conversation": [{
\t\t"userContent": {"parts": [{"text": "Go"}, {"inlineData": {"mimeType": "image/png", "data": "eA=="}}]},
\t\t"finalResponse": {"parts": [{"text": "Gone"}], "role": "model"},
\t\t"intermediateData": {"invocationEvents": [
\t\t\t{"author": "root", "content": {"role": "model", "parts": [
\t\t\t\t{"text": "Let me see"},
\t\t\t\t{"functionCall": {"name": "find", "args": {"q": "x"}, "id": "1"}, "thoughtSignature": "c2ln"},
\t\t\t\t{"functionCall": {"name": "find", "args": {"q": "y"}, "id": "2"}}]}},
\t\t\t{"author": "root", "content": {"role": "user", "parts": [
\t\t\t\t{"functionResponse": {"name": "find", "response": {"n": 1e2}, "id": "1"}}]}}]}
\t}]}
]}"""
ADK_RS = """{
    "id": "rs",
    "eval_cases": [
        {
            "id": "first",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": "Hi"}]},
                    "final_response": {"role": "model", "parts": [{"text": "Hello"}]},
                    "intermediate_data": {"tool_uses": [{"name": "greet", "args": "you"}]}
                }
            ]
        }
    ]
}"""
TRPC = """\ufeff{
  "evalSetId": "math",
  "evalCases": [
    {
      "evalId": "add",
      "conversation": [
        {
          "invocationId": "1",
          "userContent": {"role": "user", "content": "1 + 2"},
          "finalResponse": {"role": "assistant", "content": "3 \\u2713"},
          "tools": [
            {"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2.0}, "result": {"sum": 3}},
            {"id": "c2", "name": "show", "arguments": {"text": "3"}}
          ]
        },
        {
          "userContent": {"role": "user", "content": "again"},
          "finalResponse": {"role": "assistant", "content": "3"},
          "intermediateResponses": [{"role": "assistant", "content": "wait"}]
        }
      ],
      "rubrics": [{"id": "r", "metricName": "m", "content": {"text": "Is right."}}],
      "sessionInput": {"appName": "calc", "userId": "u", "state": {"k": 1}}
    }
  ]
}
"""
OLD_TRPC = """{
  "evalSetId": "old",
  "evalCases": [{
    "evalId": "sum", "contextMessages": [],
    "conversation": [{
      "userContent": {"role": "user", "content": "sum"},
      "intermediateData": {"toolUses": [{"id": "u1", "name": "sum", "arguments": {"n": 1}}]}
    }],
    "sessionInput": {"appName": "calc", "userId": "u"}
  }]
}""".replace("\n", "\r\n")
TRACE = """{
  "evalSetId": "trace",
  "evalCases": [
    {
      "evalId": "t",
      "evalMode": "trace",
      "conversation": [
        {"userContent": {"role": "user", "content": "one"}, "finalResponse": {"content": "1"}},
        {"userContent": {"role": "user", "content": "two"}, "finalResponse": {"content": "2"}}
      ],
      "actualConversation": [
        {"userContent": {"role": "user", "content": "one"}, "finalResponse": {"content": "I"}},
        {"userContent": {"role": "user", "content": "two"}, "finalResponse": {"content": "II"}}
      ],
      "sessionInput": {"appName": "calc", "userId": "u"}
    }
  ]
}"""
GOALS = """[
  {
    "agent": "desk",
    "dataset_name": "refund",
    "story": "You want your money.",
    "starting_sentence": "Refund order 7",
    "goals": {"call-1": ["answer"], "answer": []},
    "goal_details": [
      {"type": "tool_call", "name": "call-1", "tool_name": "refund", "args": {"order": 7}},
      {"type": "text", "name": "answer", "response": "Done", "keywords": ["done", "7"]},
      {"type": "assert_llm", "kind": "policy", "check": "Is kind."}
    ],
    "tags": ["billing"]
  },
  {
    "story": "You greet.",
    "dataset_name": "greet",
    "starting_sentence": "Hi",
    "user_prompts": ["Bye"],
    "goals": {"hello": []},
    "goal_details": [{"type": "text", "name": "hello", "summary": "Hello"}]
  }
]
"""
FILES = {
    "adk": ADK,
    "events": EVENTS,
    "adk-rs": ADK_RS,
    "trpc": TRPC,
    "old trpc": OLD_TRPC,
    "trace": TRACE,
    "orchestrate": GOALS,
}

_TEXTS = st.sampled_from(
    ["", "Hello", "two\nlines", "\r\n x", "ümlaut \u2713 \U0001f600", '"quoted" \\', "</script>"]
)
_ARGS = st.sampled_from([None, {}, {"order": 8}, {"order": 7, "amount": 1.5, "deep": {"list": [1, None]}}])
_CALLS = st.builds(ToolCall, st.sampled_from(["refund", "mail", "new_tool"]), _ARGS)


def _open(folder: Path, text: str) -> EvalSetFile:
    path = folder / "set.evalset.json"
    path.write_bytes(text.encode())
    return open_eval_set(path, "set.evalset.json")


def _draw_reply(data: st.DataObject, reply: Reply) -> Reply:
    calls, sources = list(reply.tool_calls), list[int | None](range(len(reply.tool_calls)))
    kind = data.draw(st.sampled_from(["add", "delete", "move", "change"]))
    at = data.draw(st.integers(0, len(calls)))
    if kind == "add" or at == len(calls):
        calls.insert(at, data.draw(_CALLS))
        sources.insert(at, None)
    elif kind == "delete":
        del calls[at], sources[at]
    elif kind == "move":
        calls.insert(0, calls.pop(at))
        sources.insert(0, sources.pop(at))
    else:
        new = data.draw(_CALLS)
        calls[at] = replace(calls[at], name=new.name, args=new.args, other_args=None)
    return case_edits.set_calls(reply, calls, sources)


def _replace_user(case: EvalCase, at: int, text: str) -> EvalCase:
    turn = case.turns[at]
    return case_edits.replace_turn(case, at, replace(turn, user=replace(turn.user, text=text)))


def _insert_turn(case: EvalCase, others: Sequence[int], turn: CaseTurn) -> EvalCase:
    arranged = case_edits.arrange_turns(case, [*others, None])
    return case_edits.replace_turn(arranged, len(others), turn)


def _edit_case(data: st.DataObject, case: EvalCase) -> EvalCase:  # noqa: PLR0911  one line for each change
    """Return the case with one random change that every page form can make."""
    kinds = ["rename", "user", "response", "calls", "insert", "delete", "move", "event", "rubric"]
    kind = data.draw(st.sampled_from([*kinds, "state", "scenario", "goal", "tags"]))
    at = data.draw(st.integers(0, max(len(case.turns) - 1, 0)))
    text = data.draw(_TEXTS)
    if kind == "rename":
        return replace(case, eval_id=data.draw(st.sampled_from(["renamed", "other case"])))
    if kind == "rubric":
        added = Rubric(
            "added", text or "Is good.", metric="m" if case.rubrics and case.rubrics[0].metric else ""
        )
        rubrics = [replace(rubric, text=text or "Is bad.") for rubric in case.rubrics[:1]]
        return replace(case, rubrics=data.draw(st.sampled_from([(), tuple(rubrics), (*case.rubrics, added)])))
    if kind == "state":
        return replace(case, final_state={"n": [1, {"x": None}]})
    if kind == "scenario" and case.scenario:
        return replace(case, scenario=Scenario("Hello", "Other plan.", case.scenario.user_persona))
    if kind == "goal" and case.journey:
        goal = replace(case.journey.goals[0], args={"order": 9}) if case.journey.goals[0].tool_name else None
        if goal:
            return case_edits.set_goal(case, 0, replace(goal, name="renamed"))
        return case_edits.add_goal(case, Goal("more", "text", response="More"))
    if kind == "tags" and case.journey:
        return replace(case, tags=(*case.tags, "new"))
    if not case.turns:
        return case
    expected, others = case.turns[at].expected, [each for each in range(len(case.turns)) if each != at]
    changes: dict[str, Callable[[], EvalCase]] = {
        "user": lambda: _replace_user(case, at, text),
        "response": lambda: case_edits.set_expected_reply(case, at, replace(expected, response=text or None)),
        "calls": lambda: case_edits.set_expected_reply(case, at, _draw_reply(data, expected)),
        "insert": lambda: _insert_turn(case, others, CaseTurn(UserMessage(text or "new"), Reply("ok"))),
        "delete": lambda: case_edits.arrange_turns(case, others),
        "move": lambda: case_edits.arrange_turns(case, [at, *others]),
        "event": lambda: case_edits.set_expected_reply(
            case, at, replace(expected, events=expected.events[1:])
        ),
    }
    return changes[kind]() if kind in changes else case


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=60)
def test_an_edit_is_read_as_intended_or_refused_and_can_be_undone(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = _open(tmp_path_factory.mktemp("edits"), FILES[name])
    before = file.path.read_bytes()
    cases = list(file.eval_set.cases)
    at = data.draw(st.integers(0, len(cases) - 1))
    try:
        cases[at] = _edit_case(data, cases[at])
        if data.draw(st.booleans()):
            cases.insert(0, cases.pop(at))
        edited = edit_eval_set(file, cases)
    except InvalidInputError as error:
        assert all(problem.message for problem in error.problems)  # noqa: PT017  refusing is right too
        return
    edits = UndoableEdits()
    edits.save(edited)
    found = open_eval_set(file.path, file.shown_as)
    assert [case.eval_id for case in found.eval_set.cases] == [case.eval_id for case in cases]
    for case, other in zip(cases, found.eval_set.cases, strict=True):
        if any(case is each for each in file.eval_set.cases):
            assert replace(case, line=0) == replace(other, line=0)
        else:
            assert [turn.user for turn in case.turns] == [turn.user for turn in other.turns]
    if edited.data != before:
        edits.undo(file.path, file.shown_as)
    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("adk", "late"),
        ("events", "a"),
        ("adk-rs", "first"),
        ("trpc", "add"),
        ("old trpc", "sum"),
        ("trace", "t"),
        ("orchestrate", "refund"),
    ],
)
def test_cases_can_be_added_duplicated_and_deleted(tmp_path: Path, name: str, wanted: str) -> None:
    file = _open(tmp_path, FILES[name])
    case = file.find_case(wanted)
    reply = Reply("Yes", (ToolCall("look", {"at": "it"}),))
    new = EvalCase("recorded", (CaseTurn(UserMessage("Is it so?"), reply),))

    edited = edit_eval_set(file, [*file.eval_set.cases, replace(case, eval_id="copy"), new])

    found = edited.eval_set.cases
    assert [each.eval_id for each in found][-2:] == ["copy", "recorded"]
    assert [turn.user for turn in found[-2].turns] == [turn.user for turn in case.turns]
    assert found[-1].turns[0].expected.tool_calls[0].args == {"at": "it"}
    removed = [line for line in edited.diff.splitlines()[2:] if line.startswith("-")]
    # The line of the last case gets a comma; in a file on few lines it is longer.
    assert len(removed) <= 1
    edits = UndoableEdits()
    edits.save(edited)
    again = open_eval_set(file.path, file.shown_as)
    back = edit_eval_set(
        again, [each for each in again.eval_set.cases if each.eval_id not in {"copy", "recorded"}]
    )
    assert back.data == file.data


def test_what_the_agent_did_becomes_goals(tmp_path: Path) -> None:
    file = _open(tmp_path, GOALS)
    actual = Reply("Refunded.", (ToolCall("look", {"order": 7}, "x"), ToolCall("refund", {"order": 7}, "y")))

    edited = edit_eval_set(
        file, [case_edits.set_expected_reply(file.eval_set.cases[0], 0, actual), file.eval_set.cases[1]]
    )

    case = edited.eval_set.cases[0]
    assert case.turns[0].expected.response == "Refunded."
    assert [call.name for call in case.turns[0].expected.tool_calls] == ["look", "refund"]
    assert case.journey
    assert case.journey.order == {"look-1": ("call-1",), "call-1": ("answer",), "answer": ()}
    assert [goal.check for goal in case.journey.goals if goal.check] == ["Is kind."]
    kept = '      {"type": "tool_call", "name": "call-1", "tool_name": "refund", "args": {"order": 7}},'
    assert kept in edited.data.decode().splitlines()
    with pytest.raises(InvalidInputError, match="has goals for the whole conversation"):
        case_edits.set_expected_reply(file.eval_set.cases[1], 0, actual)


def test_arg_matching_stays_for_the_arguments_that_stay(tmp_path: Path) -> None:
    before = '"args": {"order": 7}'
    matching = '{"order": "fuzzy", "at": "ignore", "to.city": "optional"}'
    args = '{"order": 7, "at": "noon", "to": {"city": "Paris"}}'
    assert before in GOALS
    file = _open(tmp_path, GOALS.replace(before, f'"args": {args}, "arg_matching": {matching}'))
    case, other = file.eval_set.cases
    assert case.journey

    typed = case.journey.goals[0].replace_args({"order": 8, "to": {"city": "Rome"}})
    edited = edit_eval_set(file, [case_edits.set_goal(case, 0, typed), other])
    assert '"arg_matching": {"order": "fuzzy", "to.city": "optional"}' in edited.data.decode()

    actual = Reply("Refunded.", (ToolCall("refund", {"order": 8}),))
    edited = edit_eval_set(file, [case_edits.set_expected_reply(case, 0, actual), other])
    assert '"args": {"order": 8}, "arg_matching": {"order": "fuzzy"}' in edited.data.decode()


def test_goals_are_renamed_added_and_deleted_with_their_order(tmp_path: Path) -> None:
    file = _open(tmp_path, GOALS)
    case, other = file.eval_set.cases
    assert case.journey

    case = case_edits.set_goal(case, 0, replace(case.journey.goals[0], name="money"))
    case = case_edits.add_goal(case, Goal("extra", "text", keywords=("thanks",)))
    found = edit_eval_set(file, [case, other]).eval_set.cases[0].journey
    assert found
    assert found.order == {"money": ("answer",), "answer": (), "extra": ()}

    case = case_edits.delete_goal(case, 1)
    found = edit_eval_set(file, [case, other]).eval_set.cases[0].journey
    assert found
    assert found.order == {"money": (), "extra": ()}


def test_turns_that_moved_and_changed_at_once_are_recognised(tmp_path: Path) -> None:
    file = _open(tmp_path, ADK)
    case, *others = file.eval_set.cases
    first, last = case.turns
    last = replace(last, user=UserMessage("Thank you"))

    deleted = edit_eval_set(file, [replace(case, turns=(last,)), *others]).eval_set.cases[0]
    moved = edit_eval_set(file, [replace(case, turns=(last, first)), *others])

    assert [turn.user.text for turn in deleted.turns] == ["Thank you"]
    assert deleted.turns[0].expected == case.turns[1].expected
    assert moved.eval_set.cases[0].turns[1] == first


def test_a_changed_file_is_not_overwritten_and_edits_are_redone(tmp_path: Path) -> None:
    file, edits = _open(tmp_path, ADK), UndoableEdits()
    case = file.find_case("short")
    edited = edit_eval_set(file, [*file.eval_set.cases[:2], _replace_user(case, 0, "Good day")])
    edits.save(edited)
    assert edits.can_undo(file.path)
    edits.undo(file.path, "set")
    assert file.path.read_bytes() == ADK.encode()
    edits.redo(file.path, "set")
    assert "Good day" in file.path.read_text()

    file.path.write_text(ADK + "\n")
    with pytest.raises(FileChangedError, match="changed since"):
        edits.undo(file.path, "set")
    with pytest.raises(FileChangedError, match="changed since"):
        edits.save(edited)
    assert file.path.read_text() == ADK + "\n"


def test_an_edit_of_several_files_is_undone_whole_or_not_at_all(tmp_path: Path) -> None:
    file, edits = _open(tmp_path, ADK), UndoableEdits()
    notes = tmp_path / "new folder" / "set.cases.yaml"
    edited = edit_eval_set(file, file.eval_set.cases[:1])
    edits.save(edited, FileChange(notes, "notes", None, b"cases: {}\n"))
    assert notes.read_bytes() == b"cases: {}\n"
    assert file.path.read_bytes() == edited.data
    edits.undo(file.path, "set")
    assert not notes.exists()
    assert file.path.read_bytes() == ADK.encode()
    edits.redo(file.path, "set")

    notes.write_bytes(b"# mine\n")
    with pytest.raises(FileChangedError, match=r"^notes: changed since"):
        edits.undo(file.path, "set")
    assert file.path.read_bytes() == edited.data
    notes.write_bytes(b"cases: {}\n")
    edits.save_changes(file.path, [FileChange(notes, "notes", b"cases: {}\n", b"")])
    edits.undo(file.path, "set")
    assert notes.read_bytes() == b"cases: {}\n"


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    file = _open(tmp_path, ADK)
    file.path.chmod(0o600)
    link = tmp_path / "link.evalset.json"
    link.symlink_to(file.path)
    linked = open_eval_set(link, "link.evalset.json")

    UndoableEdits().save(edit_eval_set(linked, linked.eval_set.cases[:1]))

    assert link.is_symlink()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert len(open_eval_set(file.path, "x").eval_set.cases) == 1


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (
            "trpc",
            lambda case: replace(case, final_state={"x": 1}),
            "the final state of the case 'add' cannot",
        ),
        ("trace", lambda case: _replace_user(case, 0, "x"), "is a trace: what its user said"),
        ("adk", lambda case: replace(case, eval_id=""), "eval_id"),
        ("adk", lambda case: replace(case, eval_id="plan"), "'plan'"),
        ("orchestrate", lambda case: _replace_user(case, 0, ""), "must begin with a text"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, name: str, change: Callable[[EvalCase], EvalCase], sentence: str
) -> None:
    file = _open(tmp_path, FILES[name])
    with pytest.raises(InvalidInputError) as refused:
        edit_eval_set(file, [change(file.eval_set.cases[0]), *file.eval_set.cases[1:]])
    assert sentence in str(refused.value)


def test_old_lists_of_google_adk_are_refused_with_the_command_that_converts_them(tmp_path: Path) -> None:
    file = _open(tmp_path, json.dumps([{"query": "Hi", "reference": "Hello"}]))
    with pytest.raises(InvalidInputError, match=r"evalgate convert set\.evalset\.json --to adk"):
        edit_eval_set(file, file.eval_set.cases)


@pytest.mark.parametrize("format_name", ["adk", "adk-rs", "trpc", "orchestrate"])
def test_a_new_set_is_read_in_its_format(tmp_path: Path, format_name: str) -> None:
    case = EvalCase("first", (CaseTurn(UserMessage("Hi"), Reply("Hello", (ToolCall("greet", {}),))),))
    path = tmp_path / "new.evalset.json"
    found = create_eval_set(path, "new", format_name, EvalSet("new", [case]))

    assert found.eval_set.format_name == format_name
    assert open_eval_set(path, "new").eval_set.cases[0].turns[0].user.text == "Hi"
    with pytest.raises(InvalidInputError, match="exists already"):
        create_eval_set(path, "new", format_name, EvalSet("new", [case]))


def test_an_empty_set_can_be_created_for_google_adk(tmp_path: Path) -> None:
    found = create_eval_set(tmp_path / "a.evalset.json", "a", "adk", EvalSet("a", []))
    added = edit_eval_set(found, [EvalCase("one", (CaseTurn(UserMessage("Hi")),))])
    assert [case.eval_id for case in added.eval_set.cases] == ["one"]


def test_the_difference_of_a_long_file_is_found_fast_and_numbered() -> None:
    old = [f"line {number}\n" for number in range(200_000)]
    new = [*old[:100_000], "added\n", *old[100_001:]]
    found = build_diff("".join(old).encode(), "".join(new).encode(), "f")
    assert found.splitlines()[2] == "@@ -99998,7 +99998,7 @@"
    assert build_diff(b"a", b"a", "f") == ""
    # The characters at which only Python ends a line are part of the line.
    assert build_diff("1\u2028\x0c\n2\n".encode(), "1\u2028\x0c\n3\n".encode(), "f").endswith(
        "@@ -1,2 +1,2 @@\n 1\u2028\x0c\n-2\n+3\n"
    )
