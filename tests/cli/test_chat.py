"""`evalgate chat` at a pseudo-terminal, and `evalgate record`, with the real command."""

import difflib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from evalgate.cli.main import cli
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.plugin_registry import get_formats
from evalgate.core.types import EvalCase, ToolCall
from evalgate.datasets.loading import load_eval_sets
from evalgate.runner.chat import choose_case_id, select_turns
from tests.commands import evalgate
from tests.pseudo_terminal import PseudoTerminal

PROMPT = "You    > "
AGENT = """
import time

def answer(text, session):
    if text == "crash":
        raise RuntimeError("out of order")
    if text == "wait":
        session.tool_call("wait")
        time.sleep(600)
    if "refund" in text:
        session.tool_call("refund", {"order": 7, "api_key": "hunter2hunter2"}, id="1")
        session.tool_result("refund", {"ok": True}, id="1")
        session.usage(input_tokens=10, output_tokens=4, cost_usd=0.001)
        session.state["refunds"] = session.state.get("refunds", 0) + 1
        return "Refunded."
    if text == "hush":
        return ""
    return f"You said {text} as {session.user_id or 'nobody'}"
"""


def project(folder: Path) -> Path:
    (folder / "agent.py").write_text(AGENT)
    (folder / "evalgate.yaml").write_text(
        yaml.safe_dump(
            {
                "agent": {"entry": "agent.py:answer"},
                "criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.9},
            }
        )
    )
    return folder


def recorded(folder: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(
        cli, ["record", *arguments, "-C", str(folder)], standalone_mode=False, input=stdin
    )


def load_cases(folder: Path, name: str) -> list[EvalCase]:
    (found,) = load_eval_sets([name], get_formats(), folder=folder)
    return list(found.cases)


def test_a_person_talks_stops_a_turn_and_saves_a_case(tmp_path: Path) -> None:
    with PseudoTerminal("chat", "--user-id", "ada", cwd=project(tmp_path)) as terminal:
        terminal.answer(PROMPT, "Hello")
        assert "Agent    You said Hello as ada" in terminal.answer(PROMPT, '"""')
        terminal.answer(". ", "Please refund")
        terminal.answer(". ", "order 7")
        terminal.answer(". ", '"""')
        turn = terminal.answer(PROMPT, "/state")
        assert 'call     refund {"order": 7' in turn
        assert 'result   refund {"ok": true}' in turn
        assert "Agent    Refunded.\n" in turn
        assert "10 tokens in, 4 out, 0.0010 USD)" in turn
        assert "hunter2" not in terminal.shown
        assert '"refunds": 1' in terminal.answer(PROMPT, "wait")
        terminal.wait_for("call     wait")
        terminal.type_text("\x03")
        assert "Stopped." in terminal.answer(PROMPT, "crash")
        terminal.answer("Send your 2 earlier messages again first? [Y/n] ", "")
        crashed = terminal.answer(PROMPT, "/sav")
        assert "You      Please refund\n         order 7\n" in crashed
        assert "No reply: the agent raised RuntimeError: out of order" in crashed
        assert 'raise RuntimeError("out of order")' in crashed
        assert "Did you mean /save?" in terminal.answer(PROMPT, "/save evals/talk.evalset.json")
        terminal.answer("Id of the case [hello]: ", "talk")
        terminal.answer("Turns, as 1-2,4 [1-2]: ", "")
        assert "1 case written in the format adk" in terminal.answer(PROMPT, "/new")
        terminal.wait_for(PROMPT)
        terminal.type_text("\x04")
        assert terminal.wait_for_end() == 0

    (case,) = load_cases(tmp_path, "evals/talk.evalset.json")
    assert case.eval_id == "talk"
    assert [turn.user.text for turn in case.turns] == ["Hello", "Please refund\norder 7"]
    assert case.session.user_id == "ada"
    assert "hunter2" not in (tmp_path / "evals/talk.evalset.json").read_text()


def test_undo_and_retry_repeat_the_earlier_messages(tmp_path: Path) -> None:
    with PseudoTerminal("chat", "--out", "evals/a.json", "--id", "mine", cwd=project(tmp_path)) as terminal:
        terminal.answer(PROMPT, "one\\")
        terminal.answer(". ", "two")
        terminal.answer(PROMPT, "//three")
        terminal.answer(PROMPT, "/undo")
        assert "You said one\n         two" in terminal.wait_for("Your last message was taken back.")
        terminal.answer(PROMPT, "/retry")
        assert "You said one" in terminal.answer(PROMPT, "/quit")
        assert terminal.wait_for_end() == 0

    (case,) = load_cases(tmp_path, "evals/a.json")
    assert (case.eval_id, [turn.user.text for turn in case.turns]) == ("mine", ["one\ntwo"])


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_typed_bytes_that_are_not_utf_8_are_replaced(tmp_path: Path, errors: str) -> None:
    environ = {"PYTHONIOENCODING": f"utf-8:{errors}"}
    with PseudoTerminal(
        "chat", "-o", "evals/a.json", "--id", "a", cwd=project(tmp_path), **environ
    ) as terminal:
        terminal.answer(PROMPT, "Gr\udcfc\udcdfe")
        terminal.answer(PROMPT, "/quit")
        assert terminal.wait_for_end() == 0

    (case,) = load_cases(tmp_path, "evals/a.json")
    # Readline itself drops some of the bytes.
    assert [turn.user.text.replace("\ufffd", "") for turn in case.turns] == ["Gre"]


def test_a_conversation_is_not_lost_if_its_file_cannot_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project(tmp_path) / "one.txt").write_text("my key is Tr0ub4dorSecret\n")
    monkeypatch.setenv("MY_API_KEY", "Tr0ub4dorSecret")
    assert recorded(tmp_path, "--from", "one.txt", "-o", "a.json").return_value == 0
    again = recorded(tmp_path, "--from", "one.txt", "-o", "a.json", "--to", "trpc")
    assert "has the format adk" in str(again.exception)
    assert "You said" not in again.output
    assert [case.eval_id for case in load_cases(tmp_path, "a.json")] == ["my_key_is"]
    unreadable = recorded(tmp_path, "--from", "one.txt", "-o", "c.json", "--id", "a\nb")
    assert "must not be empty or hold control characters" in str(unreadable.exception)
    assert "You said" not in unreadable.output
    assert not (tmp_path / "c.json").exists()
    with PseudoTerminal("chat", "-o", "a.json", "--id", "my_key_is", cwd=tmp_path) as terminal:
        assert terminal.wait_for_end() == 2
        assert "has a case `my_key_is` already" in terminal.shown
    with PseudoTerminal(
        "chat", "-o", "a.json", "--id", "mine", cwd=tmp_path, MY_API_KEY="Tr0ub4dorSecret"
    ) as terminal:
        terminal.answer(PROMPT, "Hello Tr0ub4dorSecret")
        terminal.wait_for(PROMPT)
        (tmp_path / "a.json").write_text("{}")
        terminal.type_text("\x04")
        assert "Not saved: a.json" in terminal.answer(PROMPT, "/save b.json")
        terminal.answer("Id of the case", "")
        terminal.answer(PROMPT, "/quit")
        assert terminal.wait_for_end() == 0
    (case,) = load_cases(tmp_path, "b.json")
    assert (case.eval_id, case.turns[0].user.text) == ("mine", "Hello ***")


def test_sigterm_ends_the_command_and_chat_needs_a_terminal(tmp_path: Path) -> None:
    done = evalgate("chat", cwd=project(tmp_path))
    assert (done.code, "needs a terminal" in done.err) == (2, True)
    with PseudoTerminal("chat", cwd=tmp_path) as terminal:
        terminal.wait_for(PROMPT)
        assert terminal.terminate() == 130
    with PseudoTerminal("chat", cwd=tmp_path) as terminal:
        terminal.answer(PROMPT, "wait")
        terminal.wait_for("call     wait")
        assert terminal.terminate() == 130
        assert "never retrieved" not in terminal.shown
        assert "Traceback" not in terminal.shown


def test_a_trace_is_shown_after_each_turn_also_a_failed_one(tmp_path: Path) -> None:
    agent = AGENT.replace("raise RuntimeError", 'session.tool_call("look"); raise RuntimeError')
    (project(tmp_path) / "agent.py").write_text(agent)
    with PseudoTerminal("chat", "--trace", cwd=tmp_path) as terminal:
        terminal.answer(PROMPT, "refund it")
        shown = terminal.answer(PROMPT, "crash")
        assert "trace    tools " in shown
        assert re.search(r"agent \w+ +at    0 ms +\d+ ms\n +tool refund +at +\d+ ms +\d+ ms\n", shown)
        assert "hunter2" not in shown
        failed = terminal.answer(PROMPT, "wait")
        assert "No reply: the agent raised RuntimeError" in failed
        assert re.search(r"failed: the agent raised RuntimeError: out of order\n +tool look ", failed)
        terminal.answer("first? [Y/n] ", "y")
        terminal.wait_for("call     wait")
        terminal.type_text("\x03")
        assert "tool wait" in terminal.answer(PROMPT, "/quit")
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("to", ["adk", "adk-rs", "trpc", "orchestrate"])
def test_a_recorded_conversation_passes_against_the_same_agent(tmp_path: Path, to: str) -> None:
    (tmp_path / "prompts.txt").write_text("Hello\nrefund 7\n")

    result = recorded(
        project(tmp_path), "--from", "prompts.txt", "-o", f"evals/{to}.evalset.json", "--to", to, "--id", "c"
    )

    assert result.return_value == 0, (result.output, result.exception)
    assert 'call     refund {"order": 7' in result.output
    assert "secrets were replaced" in result.output
    assert "hunter2" not in result.output + (tmp_path / f"evals/{to}.evalset.json").read_text()
    (case,) = load_cases(tmp_path, f"evals/{to}.evalset.json")
    assert case.eval_id == "c" or to == "orchestrate"
    # The case without the secret no longer matches: the agent still sends it.
    (tmp_path / "agent.py").write_text(AGENT.replace(', "api_key": "hunter2hunter2"', ""))
    (tmp_path / f"evals/{to}.evalset.json").unlink()
    recorded(tmp_path, "--from", "prompts.txt", "-o", f"evals/{to}.evalset.json", "--to", to, "--id", "c")
    if to == "orchestrate":
        config = yaml.safe_load((tmp_path / "evalgate.yaml").read_text()) | {
            "criteria": {"orchestrate/journey_success": 1.0}
        }
        (tmp_path / "evalgate.yaml").write_text(yaml.safe_dump(config))
    done = evalgate("run", f"evals/{to}.evalset.json", cwd=tmp_path)
    assert done.code == 0, done.out + done.err


@pytest.mark.parametrize("to", ["adk", "adk-rs", "trpc", "orchestrate"])
def test_a_conversation_is_added_to_an_eval_set_of_any_format(tmp_path: Path, to: str) -> None:
    (tmp_path / "a.txt").write_text("Hello\n\nrefund\n")
    (tmp_path / "b.txt").write_text("Hello\n")
    out = ("-o", "a.json")
    assert recorded(project(tmp_path), "--from", "a.txt", *out, "--to", to).return_value == 0
    before = (tmp_path / "a.json").read_text().splitlines()

    result = recorded(tmp_path, "--from", "b.txt", *out)

    assert result.return_value == 0, (result.output, result.exception)
    after = (tmp_path / "a.json").read_text().splitlines()
    changed = [line for line in difflib.ndiff(before, after) if line.startswith("-")]
    assert [line.strip("- ") for line in changed] in ([], ["}"])
    assert len(load_cases(tmp_path, "a.json")) == 3
    if to != "orchestrate":
        assert [case.eval_id for case in load_cases(tmp_path, "a.json")] == ["hello", "refund", "hello_2"]
        again = recorded(tmp_path, "--from", "b.txt", *out, "--id", "refund")
        assert "has a case `refund` already" in str(again.exception)
        assert recorded(tmp_path, "--from", "b.txt", *out, "--to", to).return_value == 0
    other = recorded(
        tmp_path, "--from", "b.txt", *out, "--to", "trpc" if to == "orchestrate" else "orchestrate"
    )
    assert "and --to names" in str(other.exception)


def test_a_conversation_that_the_format_cannot_hold_is_left_out_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello\n\nhush\n")
    (tmp_path / "b.txt").write_text("hush\n\nrefund\n\nBye\n")
    (tmp_path / "c.txt").write_text("hush\n")
    out = ("-o", "a.json", "--to", "orchestrate")
    result = recorded(project(tmp_path), "--from", "a.txt", *out)
    assert (result.return_value, len(load_cases(tmp_path, "a.json"))) == (3, 1)
    assert "hush: the whole case: it expects neither a call nor a response" in result.stderr
    assert "a.json: 1 case written" in result.stdout
    (tmp_path / "a.json").write_text(f"[{(tmp_path / 'a.json').read_text()}]")  # one dataset holds one case
    result = recorded(tmp_path, "--from", "b.txt", *out)
    assert (result.return_value, len(load_cases(tmp_path, "a.json"))) == (3, 3)
    assert "a.json: 2 cases written" in result.stdout
    result = recorded(tmp_path, "--from", "c.txt", *out)
    assert isinstance(result.exception, NoVerdictError)
    assert "nothing was saved" in str(result.exception)


def test_conversations_are_separated_and_a_broken_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Hello\n\nHello\ncrash\nnever\n---\nrefund\n")
    (tmp_path / "state.json").write_text('{"state": {"refunds": 4}}')

    result = recorded(project(tmp_path), "--from", "a.txt", "-o", "a.json", "--state", "state.json")

    assert result.return_value == 3
    assert "out of order" in result.stderr
    cases = load_cases(tmp_path, "a.json")
    assert [case.eval_id for case in cases] == ["hello", "refund"]
    assert cases[0].session.state == {"refunds": 4}
    calls = [call for turn in cases[1].turns for call in turn.expected.tool_calls]
    assert [call.name for call in calls if isinstance(call, ToolCall)] == ["refund"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.yaml", "- [one, two]\n- [three]\n", [["one", "two"], ["three"]]),
        ("a.txt", "one\u2028more\x0c.\r\ntwo\r\n\r\nthree", [["one\u2028more\x0c.", "two"], ["three"]]),
        ("a.json", '["one", "two\\nlines"]', [["one", "two\nlines"]]),
        ("-", "one\n\n\n two\n", [["one"], ["two"]]),
    ],
)
def test_messages_come_from_lists_and_from_a_pipe(
    tmp_path: Path, name: str, content: str, expected: Any
) -> None:
    if name != "-":
        (tmp_path / name).write_text(content)
    result = recorded(project(tmp_path), "--from", name, "-o", "out.json", stdin=content)
    assert result.return_value == 0, (result.output, result.exception)
    found = [[turn.user.text for turn in case.turns] for case in load_cases(tmp_path, "out.json")]
    assert found == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.yaml",
            "- [one]\n- two\n",
            "a.yaml:2:3: a conversation must be a list of texts, of which none is empty",
        ),
        (
            "a.yaml",
            "- [one, 2]\n",
            "a.yaml:1:3: a conversation must be a list of texts, of which none is empty",
        ),
        ("a.txt", "\n\n", "a.txt:1:1: the file holds no message"),
        ("a.json", "{}", "a.json:1:1: must be a list of conversations"),
    ],
)
def test_a_wrong_file_of_messages_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    result = recorded(project(tmp_path), "--from", name, "-o", "out.json")
    assert isinstance(result.exception, InvalidInputError)
    assert str(result.exception) == message


def test_without_any_reply_nothing_is_saved(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("crash\n")
    result = recorded(project(tmp_path), "--from", "a.txt", "-o", "out.json")
    assert isinstance(result.exception, NoVerdictError)
    assert not (tmp_path / "out.json").exists()


def test_ids_and_turns_are_chosen() -> None:
    assert (
        choose_case_id("Where is my order? It was due on Monday, 7 May!")
        == "where_is_my_order_it_was_due_on_monday_7"
    )
    assert choose_case_id("¿?") == "conversation"
    assert choose_case_id("Hello", ["hello", "hello_2"]) == "hello_3"
    assert len(choose_case_id("x" * 100)) == 40
    assert select_turns("", 2) == (0, 1)
    assert select_turns("3, 1-2", 3) == (0, 1, 2)
    for wrong in ("4", "2-1", "x", "0"):
        with pytest.raises(ValueError, match=r"."):
            select_turns(wrong, 3)


def test_state_files_hold_an_object(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps([1]))
    (tmp_path / "a.txt").write_text("Hello\n")
    result = recorded(project(tmp_path), "--from", "a.txt", "-o", "out.json", "--state", "state.json")
    assert isinstance(result.exception, InvalidInputError)
    assert "the state of a session is a JSON object" in str(result.exception)
