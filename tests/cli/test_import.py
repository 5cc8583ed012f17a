"""From traces of production to cases that gate: import, run, review, run."""

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evalgate.cli.main import cli
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.types import EvalSet
from evalgate.datasets.case_notes import read_case_notes
from evalgate.datasets.case_review import format_case_json, open_review, replace_case_json
from evalgate.datasets.loading import load_eval_sets
from evalgate.integrations.adk.evalset import AdkFormat
from tests.integrations.trace_sources.exports import (
    Call,
    Step,
    Turn,
    list_langfuse_traces,
    list_steps,
    to_otlp,
)

OUT = "evals/production.evalset.json"
NOTES = "evals/production.cases.yaml"
LATE = [Turn("Where is order 7?", "It is late.", [Call("lookup_order", {"order": 7}, {"status": "late"})])]
SENT = [Turn("Where is order 8?", "It is sent.", [Call("lookup_order", {"order": 8}, {"status": "sent"})])]
HELLO = [Turn("Hello", "Hi!")]


def name_traces(turns: list[Turn], number: int) -> list[Step]:
    """Return spans of a conversation with ids of its own."""
    return [
        replace(
            step,
            trace=f"{number:02x}{step.trace[2:]}",
            id=f"{number:02x}{step.id[2:]}",
            parent=step.parent and f"{number:02x}{step.parent[2:]}",
            start=step.start + number * 10**12,
            end=step.end + number * 10**12,
        )
        for step in list_steps(turns)
    ]


def write_traces(folder: Path, *conversations: list[Turn]) -> None:
    steps = [step for at, turns in enumerate(conversations, 1) for step in name_traces(turns, at)]
    # Without a session each trace is a conversation.
    (folder / "traces.json").write_text(to_otlp(steps).replace("gen_ai.conversation.id", "other"))


def invoke(folder: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, [*words, "-C", str(folder)], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.return_value == code, done.output
    return done


def load(folder: Path) -> EvalSet:
    return load_eval_sets([OUT], {"adk": AdkFormat()}, folder=folder)[0]


def test_import_run_review_run(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, HELLO)
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hi!' if text == 'Hello' else 'No.'\n")
    done = invoke(tmp_path, "import", "traces.json")
    assert "Read 2 traces: 2 conversations." in done.output
    assert "Added 2 observed cases to evals/production.evalset.json." in done.output
    run = ["run", OUT, "--agent", "python:agent.py:answer"]
    # Observed cases alone are no verdict. One that is expected opens the gate, although the other fails.
    invoke(tmp_path, *run, code=3)
    late, hello = (case.eval_id for case in load(tmp_path).cases)
    invoke(tmp_path, "review", OUT, code=1)
    invoke(tmp_path, "review", OUT, "--accept", hello)
    done = invoke(tmp_path, *run)
    assert "; 1 observed." in done.output
    assert f"{late} failed, observed, not reviewed yet (trace: traces.json trace 01" in done.output
    invoke(tmp_path, "review", OUT, "--all")
    invoke(tmp_path, *run, code=1)
    assert "no case is left to review" in invoke(tmp_path, "review", OUT).output


@pytest.mark.parametrize(
    ("name", "eval_set_id"),
    [
        ("production.2026-11.evalset.json", "production.2026-11"),
        (".hidden.evalset.json", ".hidden"),
        (".evalset.json", ".evalset.json"),
        ("plain.json", "plain"),
    ],
)
def test_the_id_of_a_new_eval_set_is_its_name_without_the_ending(
    tmp_path: Path, name: str, eval_set_id: str
) -> None:
    write_traces(tmp_path, HELLO)
    invoke(tmp_path, "import", "traces.json", "--out", name)
    (found,) = load_eval_sets([name], {"adk": AdkFormat()}, folder=tmp_path)
    assert found.eval_set_id == eval_set_id


def test_the_printed_command_can_be_copied(tmp_path: Path) -> None:
    write_traces(tmp_path, HELLO)
    done = invoke(tmp_path, "import", "traces.json", "--out", "my cases.evalset.json")
    assert "Next: evalgate review 'my cases.evalset.json'" in done.output


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, HELLO)
    page = (Path(__file__).parents[2] / "docs/import.md").read_text("utf-8")
    shown = page.partition("$ evalgate import traces.json\n")[2].partition("```")[0]
    assert invoke(tmp_path, "import", "traces.json").output == shown


def test_conversion_tells_that_the_status_stays_behind(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, HELLO)
    invoke(tmp_path, "import", "traces.json")
    done = invoke(tmp_path, "convert", OUT, "--to", "trpc", "-o", "evals/other.evalset.json")
    assert "2 cases are observed: copy evals/production.cases.yaml to evals/other.cases.yaml" in done.output


def test_another_import_adds_only_new_cases(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE)
    invoke(tmp_path, "import", "traces.json")
    before, notes = (tmp_path / OUT).read_text(), (tmp_path / NOTES).read_text()
    (tmp_path / NOTES).write_text(notes + "# a comment\n")
    write_traces(tmp_path, LATE, SENT)
    done = invoke(tmp_path, "import", "traces.json", "--tag", "new")
    assert "Left out 1 that an earlier import had." in done.output
    after = (tmp_path / OUT).read_text()
    old = before.splitlines()
    assert [line for line in after.splitlines() if line in old][: len(old) - 5] == old[:-5]
    assert [(case.eval_id[:16], case.tags) for case in load(tmp_path).cases] == [
        ("where_is_order_7", ()),
        ("where_is_order_8", ("new",)),
    ]
    assert (tmp_path / NOTES).read_text().startswith(notes)
    assert "# a comment" in (tmp_path / NOTES).read_text()
    assert "Nothing was added" in invoke(tmp_path, "import", "traces.json").output
    assert (tmp_path / OUT).read_text() == after


def test_another_import_keeps_the_line_ends_and_the_mark_of_the_notes(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE)
    invoke(tmp_path, "import", "traces.json")
    notes = tmp_path / NOTES
    notes.write_bytes(b"\xef\xbb\xbf" + notes.read_bytes().replace(b"\n", b"\r\n"))
    before = notes.read_bytes()
    write_traces(tmp_path, LATE, HELLO)
    invoke(tmp_path, "import", "traces.json")
    after = notes.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n") > before.count(b"\n")


def test_a_dropped_case_does_not_come_back(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json")
    first, second = (case.eval_id for case in load(tmp_path).cases)
    done = invoke(tmp_path, "review", OUT, "--drop", first)
    assert "1 observed case is not reviewed yet" in done.output
    assert [case.eval_id for case in load(tmp_path).cases] == [second]
    assert "Nothing was added" in invoke(tmp_path, "import", "traces.json").output


def test_a_dropped_case_does_not_come_back_under_another_name(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json")
    first, _ = (case.eval_id for case in load(tmp_path).cases)
    invoke(tmp_path, "review", OUT, "--drop", first)
    (tmp_path / "traces.json").rename(tmp_path / "tuesday.json")
    assert "Nothing was added" in invoke(tmp_path, "import", "tuesday.json").output


def test_dropped_cases_with_personal_sources_do_not_come_back(tmp_path: Path) -> None:
    traces = list_langfuse_traces(list_steps(HELLO)) * 3
    names = ["anna@firm.de", "bob@firm.de", "carl@firm.de"]
    named = [
        {
            **trace,
            "id": name,
            "sessionId": None,
            "input": f"Hello, {name}",
            "output": "Hi",
            "observations": [],
        }
        for trace, name in zip(traces, names, strict=True)
    ]
    (tmp_path / "t.json").write_text(json.dumps(named))
    invoke(tmp_path, "import", "t.json")
    first, second, _ = (case.eval_id for case in load(tmp_path).cases)
    invoke(tmp_path, "review", OUT, "--drop", first, "--drop", second)
    assert "Nothing was added" in invoke(tmp_path, "import", "t.json").output
    notes = (tmp_path / NOTES).read_text()
    assert "firm" not in notes
    assert notes.count("t.json trace user1@example.com#") == 3


def test_an_interrupted_import_is_told_and_repeated(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json")
    both, notes = (tmp_path / OUT).read_text(), (tmp_path / NOTES).read_text()
    # The notes are written first: a file that is still the old one is an error, and no case gates unseen.
    raw = json.loads(both)
    (tmp_path / OUT).write_text(json.dumps({**raw, "eval_cases": raw["eval_cases"][:1]}))
    with pytest.raises(InvalidInputError, match="has no case 'where_is_order_8"):
        load(tmp_path)
    invoke(tmp_path, "import", "traces.json")
    assert [case.status for case in load(tmp_path).cases] == ["observed", "observed"]
    (tmp_path / OUT).unlink()
    invoke(tmp_path, "import", "traces.json")
    assert (tmp_path / OUT).read_text() == both
    assert (tmp_path / NOTES).read_text() == notes


def test_selection_says_what_it_left_out(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE, SENT, LATE, HELLO)
    done = invoke(tmp_path, "import", "traces.json", "--keep-per-path", "1", "--sample", "1", "--seed", "3")
    assert "Left out 1 that repeat others exactly." in done.output
    assert "Left out 1 that have a tool path with 1 newer ones." in done.output
    assert "Left out 1 that are not in the sample." in done.output
    assert len(load(tmp_path).cases) == 1


def test_recorded_results_become_mocks(tmp_path: Path) -> None:
    write_traces(tmp_path, LATE)
    invoke(tmp_path, "import", "traces.json", "--mocks")
    (mock,) = load(tmp_path).cases[0].tool_mocks
    assert (mock.tool, mock.args, mock.turn, mock.result) == (
        "lookup_order",
        {"order": 7},
        0,
        {"status": "late"},
    )


def test_odd_names_of_tools_and_tags_are_no_bug(tmp_path: Path) -> None:
    calls = [Call("", {}, "x"), Call("a\nb", {}, "x"), Call("lookup", {}, "y")]
    rows = list_langfuse_traces(name_traces([Turn("Hello", "Hi!", calls)], 1))
    for row in rows:
        row["tags"] = ["a\nb", " ", "\x00", "kept", "\u200b"]
    (tmp_path / "traces.json").write_text(json.dumps(rows))
    invoke(tmp_path, "import", "traces.json", "--mocks")
    (case,) = load(tmp_path).cases
    assert ([mock.tool for mock in case.tool_mocks], case.tags) == (["lookup"], ("a b", "kept"))


def test_values_that_no_eval_set_can_hold_are_replaced(tmp_path: Path) -> None:
    half = "cut \ud83d"
    call = Call("look", {half: [half, float("nan")]}, {"found": [half, float("-inf"), 1.5]})
    write_traces(tmp_path, [Turn(f"Hi {half}", half, [call])])
    invoke(tmp_path, "import", "traces.json", "--mocks")
    (reply,) = (turn.expected for turn in load(tmp_path).cases[0].turns)
    (found,) = reply.tool_calls
    assert (reply.response, found.args) == ("cut \ufffd", {"cut \ufffd": ["cut \ufffd", "NaN"]})
    notes = read_case_notes(tmp_path / NOTES, NOTES)[0]
    (mock,) = (mock for note in notes.cases.values() for mock in note.tool_mocks)
    assert mock.result == {"found": ["cut \ufffd", "-Infinity", 1.5]}


def test_secrets_and_personal_data_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "kqzvwx81734928")
    args = {"mail": "anna@firm.de", "key": "kqzvwx81734928"}
    write_traces(tmp_path, [Turn("I am anna@firm.de", "Welcome anna@firm.de", [Call("find", args, {})])])
    done = invoke(tmp_path, "import", "traces.json")
    assert "Hid secrets in 1 case." in done.output
    assert "Replaced personal data: 1 e-mail address." in done.output
    text = (tmp_path / OUT).read_text() + (tmp_path / NOTES).read_text()
    assert "firm" not in text
    assert "kqzvwx81734928" not in text
    (call,) = load(tmp_path).cases[0].turns[0].expected.tool_calls
    assert call.args == {"mail": "user1@example.com", "key": "***"}
    (tmp_path / OUT).unlink()
    (tmp_path / NOTES).unlink()
    invoke(tmp_path, "import", "traces.json", "--keep-personal-data")
    assert "anna@firm.de" in (tmp_path / OUT).read_text()


def test_errors_and_feedback_select_and_tag(tmp_path: Path) -> None:
    traces = [
        {**trace, "sessionId": f"s{number}"}
        for number, trace in enumerate(
            each
            for at, turns in enumerate((LATE, SENT, HELLO), 1)
            for each in list_langfuse_traces(name_traces(turns, at))
        )
    ]
    traces[0]["scores"] = [{"name": "user", "value": 0, "dataType": "NUMERIC"}]
    traces[1]["observations"][0] |= {"level": "ERROR", "statusMessage": "boom"}
    traces[2]["scores"] = [{"name": "user", "stringValue": "thumbs_up", "dataType": "CATEGORICAL"}]
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    done = invoke(tmp_path, "import", "traces.json", "--only", "errors", "--only", "disliked")
    assert "Left out 1 that are not wanted (--only errors, disliked)." in done.output
    assert [case.tags for case in load(tmp_path).cases] == [("disliked",), ("errors",)]


def test_a_repeat_with_feedback_is_kept_for_the_one_without(tmp_path: Path) -> None:
    traces = [
        {**trace, "sessionId": f"s{at}"}
        for at, turns in enumerate((LATE, LATE, HELLO), 1)
        for trace in list_langfuse_traces(name_traces(turns, at))
    ]
    traces[1]["scores"] = [{"name": "user", "value": 0, "dataType": "NUMERIC"}]
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    invoke(tmp_path, "import", "traces.json", "--only", "disliked", "--out", "bad.evalset.json")
    done = invoke(tmp_path, "import", "traces.json")
    assert "Left out 1 that repeat others exactly." in done.output
    cases = load(tmp_path).cases
    assert [case.tags for case in cases] == [("disliked",), ()]
    kept = load_eval_sets(["bad.evalset.json"], {"adk": AdkFormat()}, folder=tmp_path)[0].cases
    assert [case.eval_id for case in kept] == [cases[0].eval_id]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_later_feedback_on_a_repeat_brings_no_case_back(tmp_path: Path, is_dropped: bool) -> None:
    traces = [
        {**trace, "sessionId": f"s{at}"}
        for at, turns in enumerate((LATE, LATE, HELLO), 1)
        for trace in list_langfuse_traces(name_traces(turns, at))
    ]
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    invoke(tmp_path, "import", "traces.json")
    if is_dropped:
        invoke(tmp_path, "review", OUT, "--drop", load(tmp_path).cases[0].eval_id)
    before = (tmp_path / OUT).read_bytes()
    traces[1]["scores"] = [{"name": "user", "value": 0, "dataType": "NUMERIC"}]
    (tmp_path / "traces.json").write_text(json.dumps(traces))
    assert "Nothing was added" in invoke(tmp_path, "import", "traces.json").output
    assert (tmp_path / OUT).read_bytes() == before


def test_a_table_of_traces_gives_cases_without_calls(tmp_path: Path) -> None:
    """Langfuse's page exports traces without their observations."""
    rows = ["id,timestamp,name,sessionId,userId,input,output,tags"]
    for number, turn in enumerate((*LATE, *SENT)):
        sent = json.dumps([{"role": "user", "content": turn.question}]).replace('"', '""')
        moment = f"2026-11-2{number} 12:00:00.123+00"
        rows.append(f't{number},{moment},chat,s1,,"{sent}",{turn.answer},"[""vip""]"')
    (tmp_path / "traces.csv").write_text("\n".join(rows))
    done = invoke(tmp_path, "import", "traces.csv", "--since", "2026-11-20", "--until", "2026-11-22")
    assert "2 traces without spans: calls of tools are not known." in done.output
    (case,) = load(tmp_path).cases
    assert [(turn.user.text, turn.expected.response) for turn in case.turns] == [
        ("Where is order 7?", "It is late."),
        ("Where is order 8?", "It is sent."),
    ]
    assert case.tags == ("vip",)


@pytest.mark.parametrize("to", ["adk", "adk-rs", "trpc", "orchestrate"])
def test_every_format_can_be_written(tmp_path: Path, to: str) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json", "--to", to)
    invoke(tmp_path, "validate", OUT)
    write_traces(tmp_path, LATE, SENT, HELLO)
    invoke(tmp_path, "import", "traces.json")
    cases = load_eval_sets([OUT], plugin_registry.get_formats(), folder=tmp_path)[0].cases
    assert [case.status for case in cases] == ["observed"] * 3
    invoke(tmp_path, "review", OUT, "--drop", cases[0].eval_id, "--accept", cases[1].eval_id)
    left = load_eval_sets([OUT], plugin_registry.get_formats(), folder=tmp_path)[0].cases
    assert [(case.eval_id, case.status) for case in left] == [
        (cases[1].eval_id, "expected"),
        (cases[2].eval_id, "observed"),
    ]


@pytest.mark.parametrize(
    "options", [("--all", "--accept", "typo"), ("--drop", "{first}", "--accept", "typo")]
)
def test_a_review_with_an_unknown_name_decides_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json")
    before = {path.name: path.read_bytes() for path in (tmp_path / OUT).parent.iterdir()}
    first = load(tmp_path).cases[0].eval_id
    done = CliRunner().invoke(
        cli, ["review", OUT, *[each.format(first=first) for each in options], "-C", str(tmp_path)]
    )
    assert isinstance(done.exception, InvalidInputError)
    assert "'typo' is no observed case" in str(done.exception)
    assert {path.name: path.read_bytes() for path in (tmp_path / OUT).parent.iterdir()} == before


def test_conversations_that_the_format_cannot_hold_are_left_out(tmp_path: Path) -> None:
    silent = [Turn("Bye", "")]
    write_traces(tmp_path, LATE, silent, SENT)
    done = invoke(tmp_path, "import", "traces.json", "--to", "orchestrate")
    assert "Added 2 observed cases" in done.output
    assert f"{OUT}: bye-" in done.stderr
    assert "the whole case: it expects neither a call nor a response" in done.stderr
    invoke(tmp_path, "validate", OUT)
    write_traces(tmp_path, LATE, silent, SENT, HELLO)
    assert "Added 1 observed case " in invoke(tmp_path, "import", "traces.json").output
    assert "Nothing was added" in invoke(tmp_path, "import", "traces.json").output
    invoke(tmp_path, "validate", OUT)


def test_a_case_is_corrected_in_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_traces(tmp_path, LATE, SENT)
    invoke(tmp_path, "import", "traces.json")
    review = open_review(tmp_path / OUT, OUT)
    name = review.open_cases[0].eval_id
    text = format_case_json(review, name)
    replace_case_json(review, name, text.replace("It is late.", "It will be late."))
    case = load(tmp_path).cases[0]
    assert (case.turns[0].expected.response, case.status) == ("It will be late.", "expected")
    review = open_review(tmp_path / OUT, OUT)
    for wrong in ("{", "[]", "{}", format_case_json(review, name)):
        with pytest.raises(InvalidInputError, match=r"production\.evalset\.json"):
            replace_case_json(review, review.open_cases[0].eval_id, wrong)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"missing\.json"):
        invoke(tmp_path, "import", "missing.json")
    write_traces(tmp_path, LATE)
    text = (tmp_path / "traces.json").read_text().replace("gen_ai.input.messages", "other.messages")
    (tmp_path / "traces.json").write_text(text)
    with pytest.raises(NoVerdictError, match="no message of a user was recorded"):
        invoke(tmp_path, "import", "traces.json")
    write_traces(tmp_path, LATE)
    invoke(tmp_path, "import", "traces.json")
    with pytest.raises(InvalidInputError, match="is no observed case of this eval set"):
        invoke(tmp_path, "review", OUT, "--accept", "nonsense")
    with pytest.raises(InvalidInputError, match="no case would be left"):
        invoke(tmp_path, "review", OUT, "--drop", load(tmp_path).cases[0].eval_id)


def test_the_terminal_asks_for_each_case(tmp_path: Path) -> None:
    """In a real terminal: one case is corrected, one dropped, one expected, and the rest skipped."""
    others = [[Turn(f"Question {number}", f"Answer {number}")] for number in range(4)]
    write_traces(tmp_path, *others)
    invoke(tmp_path, "import", "traces.json")
    editor = tmp_path / "editor.sh"
    editor.write_text(
        '#!/bin/sh\n[ -e "$0.tried" ] || { touch "$0.tried"; exit 1; }\n'
        "sed -i 's/Answer 0/Better answer/' \"$1\"\n"
    )
    editor.chmod(0o755)
    answers = [b"x\n", b"c\n", b"c\n", b"d\n", b"e\n", b"q\n"]
    master, slave = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "evalgate", "review", OUT, "-C", str(tmp_path)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "EDITOR": str(editor), "VISUAL": str(editor), "NO_COLOR": "1"},
    )
    os.close(slave)
    shown, asked = b"", 0
    try:
        while chunk := os.read(master, 4096):
            shown += chunk
            while asked < min(shown.count(b" > "), len(answers)):
                os.write(master, answers[asked])
                asked += 1
    except OSError:  # the terminal is closed
        pass
    finally:
        os.close(master)
    assert done.wait(60) == 0, shown.decode()
    said = shown.decode()
    assert "1 of 4" in said
    assert "Editing failed" in said
    assert "  user: Question 0" in said
    assert f"{OUT}: 1 observed case is not reviewed yet." in said
    assert [(case.turns[0].expected.response, case.status) for case in load(tmp_path).cases] == [
        ("Better answer", "expected"),
        ("Answer 2", "expected"),
        ("Answer 3", "observed"),
    ]
