"""`evalgate accept`: what an agent did becomes the expectation, in each format and with its own metrics."""

import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.__main__ import main
from evalgate.core.sanitize import to_md_code
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.eval_set_file import create_eval_set
from evalgate.reporting.repro_command import build_accept_command

LOOKUP, REFUND = ToolCall("lookup", {"order": "7"}), ToolCall("refund", {"order": "7", "amount": 5})
WAYS: dict[str, Reply] = {
    "Refund 7": Reply("Your refund of 5 is on its way.", (LOOKUP, REFUND)),
    "Hello": Reply("Hi there"),
}
OLD = (
    CaseTurn(UserMessage("Refund 7"), Reply("Never.", (LOOKUP, ToolCall("escalate", {})))),
    CaseTurn(UserMessage("Hello"), Reply("Hi there")),
)
ADK = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.9}
CRITERIA: dict[str, Mapping[str, object]] = {
    "adk": ADK,
    "adk-rs": {
        "adk-rs/tool_trajectory_avg_score": {"threshold": 1.0, "empty_is_match": True},
        "adk-rs/final_response_match_v1": 0.9,
    },
    "trpc": {
        "trpc/tool_trajectory_avg_score": {"threshold": 1.0, "toolTrajectory": {"orderSensitive": True}},
        "trpc/final_response_avg_score": {"threshold": 1.0, "finalResponse": {"text": {}}},
    },
    "orchestrate": {"orchestrate/journey_success": 1.0},
}


def answer(text: str, session: Any) -> str:
    reply = WAYS[text]
    for call in reply.tool_calls:
        session.tool_call(call.name, dict(call.args or {}))
    return reply.response or ""


def write_set(folder: Path, format_name: str, *cases: EvalCase) -> Path:
    path = folder / "a.evalset.json"
    create_eval_set(path, path.name, format_name, EvalSet("a", cases))
    return path


def write_results(record: evalgate.Record) -> None:
    Path("evalgate-report").mkdir(exist_ok=True)
    Path("evalgate-report/results.json").write_text(record.to_json(), "utf-8")


def run(
    folder: Path, criteria: Mapping[str, object] = ADK, agent: Callable[..., str] = answer, runs: int = 1
) -> evalgate.Record:
    record = evalgate.evaluate(
        "a.evalset.json", agent, thresholds={"criteria": criteria}, folder=folder, runs=runs
    )
    write_results(record)
    return record


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accept(*words: str) -> int:
    return main(["accept", "--reason", "new flow", *words])


@pytest.mark.parametrize("format_name", CRITERIA)
def test_an_accepted_case_passes(folder: Path, format_name: str) -> None:
    case = EvalCase("late", OLD)
    if format_name == "orchestrate":
        goals = (Goal("escalate-1", "tool_call", "escalate", {}), Goal("answer-1", "text", response="Never."))
        journey = Journey(goals, {"escalate-1": ("answer-1",)}, "A customer")
        case = EvalCase("late", OLD[:1], journey=journey)
    path = (
        write_set(folder, format_name, case, EvalCase("other", OLD[1:]))
        if case.journey is None
        else write_set(folder, format_name, case)
    )
    before = path.read_text()
    assert run(folder, CRITERIA[format_name]).cases[0].status == "failed"
    assert accept("late", "--dry-run") == 0
    assert path.read_text() == before
    assert accept("late", "--yes") == 0
    assert run(folder, CRITERIA[format_name]).passed
    assert '"lookup"' in path.read_text()
    note = (folder / "a.cases.yaml").read_text()
    assert "reason: new flow" in note
    # Lines that are not about the turn stay as they were.
    assert set(before.splitlines()[-3:]) <= set(path.read_text().splitlines())


@pytest.mark.parametrize("format_name", ["adk", "adk-rs", "trpc"])
def test_an_alternative_keeps_the_old_way(
    folder: Path, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_set(folder, format_name, EvalCase("late", OLD))
    before, criteria = path.read_bytes(), CRITERIA[format_name]
    first = run(folder, criteria)
    assert accept("late", "--yes", "--alternative") == 0
    assert path.read_bytes() == before
    new = run(folder, criteria)
    assert new.passed
    assert new.cases[0].fingerprint != first.cases[0].fingerprint
    monkeypatch.setitem(WAYS, "Refund 7", OLD[0].expected)
    assert run(folder, criteria).passed
    # The calls of one way with the response of the other are no right way.
    monkeypatch.setitem(WAYS, "Refund 7", Reply("Never.", (LOOKUP, REFUND)))
    (mixed,) = run(folder, criteria).cases
    assert sorted(metric.status for metric in mixed.metrics) == ["failed", "passed"]


def test_an_alternative_is_not_added_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A change of the alternatives ends the comparison with older runs."""
    write_set(folder, "adk", EvalCase("late", OLD))
    run(folder)
    assert accept("late", "--yes", "--alternative") == 0
    before = (folder / "a.cases.yaml").read_bytes()
    assert run(folder).passed
    assert accept("late", "--yes", "--alternative") == 2
    assert "'late' has an alternative already that is what the agent did" in capsys.readouterr().err
    assert (folder / "a.cases.yaml").read_bytes() == before


def test_each_alternative_that_is_there_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_set(folder, "adk", EvalCase("late", OLD), EvalCase("later", OLD))
    run(folder)
    assert accept("late", "later", "--yes", "--alternative") == 0
    assert run(folder).passed
    assert accept("late", "later", "--yes", "--alternative") == 2
    error = capsys.readouterr().err
    assert "'late' has an alternative already" in error
    assert "'later' has an alternative already" in error


def test_a_case_without_a_response_names_the_option_that_accepts_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(folder, "adk", EvalCase("hello", (CaseTurn(UserMessage("Hello")),)))
    assert run(folder).cases[0].status == "failed"
    assert accept("hello", "--yes") == 2
    assert (
        "'hello' expects already what the agent did, but no response: `--only response` accepts that"
        in capsys.readouterr().err
    )
    assert accept("hello", "--yes", "--only", "response") == 0
    assert run(folder).passed


def test_a_case_of_another_thresholds_file_names_the_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    record = replace(run(folder), options=("--thresholds", "my strict.yaml"))
    other = replace(record, cases=(replace(record.cases[0], fingerprint="0" * 12),))
    for options, given, advice in (
        (record.options, (), "the run had another thresholds file, so add `--thresholds 'my strict.yaml'`"),
        (record.options, ("-c", "my strict.yaml"), "run it again, and accept that"),
        ((), ("-c", "my strict.yaml"), "the run had no `--thresholds`: leave it out, or run it again"),
        ((), (), "run it again, and accept that"),
    ):
        write_results(replace(other, options=options))
        (folder / "my strict.yaml").write_text("version: 1\n")
        assert accept("late", "--yes", *given) == 2
        assert f"'late' is not as it was in evalgate-report/results.json: {advice}" in capsys.readouterr().err


def test_a_run_with_live_tools_is_accepted_although_a_recording_is_named(folder: Path) -> None:
    path = write_set(folder, "adk", EvalCase("late", OLD))
    record = replace(run(folder), options=("--out", "evalgate-report/again", "--live-tools"))
    write_results(record)
    (folder / "tools.json").write_text(record.to_json(), "utf-8")
    (folder / "evalgate.yaml").write_text("tool_mocks: {from: tools.json}\n")
    assert accept("late", "--yes") == 0
    assert '"refund"' in path.read_text()


def test_only_parts_are_accepted(folder: Path) -> None:
    path = write_set(folder, "adk", EvalCase("late", OLD))
    run(folder)
    assert accept("late", "--yes", "--only", "response", "--turn", "1") == 0
    text = path.read_text()
    assert "escalate" in text
    assert "on its way" in text
    assert accept("late", "--yes", "--only", "tools") == 2  # the case is another one now
    run(folder)
    assert accept("late", "--yes", "--only", "tools") == 0
    assert run(folder).passed


def test_results_of_tools_are_taken_over_where_a_case_has_some(folder: Path) -> None:
    old = Reply("Never.", (ToolCall("lookup", {"order": "7"}, "1"), ToolResult("lookup", {"n": 1}, "1")))
    path = write_set(folder, "trpc", EvalCase("late", (CaseTurn(UserMessage("Refund 7"), old),)))

    def answer_with_results(text: str, session: Any) -> str:
        session.tool_call("lookup", {"order": "7"}, id="x")
        session.tool_result("lookup", {"n": 2}, id="x")
        return "Never."

    run(folder, CRITERIA["trpc"], answer_with_results)
    assert accept("late", "--yes") == 0
    assert run(folder, CRITERIA["trpc"], answer_with_results).passed
    assert '"n": 2' in path.read_text()


def refuse(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The sentences of an acceptance that is refused."""
    assert accept(*words, "--yes") == 2
    assert not Path("a.cases.yaml").exists()
    return capsys.readouterr().err.replace("evalgate: ", "")


def test_what_cannot_be_accepted_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(folder, "adk", EvalCase("late", OLD), EvalCase("hello", OLD[1:]))
    run(folder)
    capsys.readouterr()
    assert (
        refuse("lat", capsys=capsys) == "'lat': no case is called so in the results. Did you mean `late`?\n"
    )
    assert refuse("h*", capsys=capsys) == "'h*': 1 case passed, and none failed.\n"
    assert refuse("hello", capsys=capsys) == "'hello' expects already what the agent did\n"
    assert "'late' has no turn 3: it has 2 turns" in refuse("late", "--turn", "3", capsys=capsys)
    assert "'late' has no run 2: there are 1" in refuse("late", "--run", "2", capsys=capsys)
    assert main(["accept", "late", "--reason", "new"]) == 2
    assert "not a terminal" in capsys.readouterr().err
    monkeypatch.setitem(WAYS, "Refund 7", Reply("The key is ***."))
    run(folder)
    assert "`***` in turn 1 stands for a text that results.json hides" in refuse("late", capsys=capsys)
    policy = {"criteria": ADK, "cases": [{"ids": "late", "protected": True}]}
    write_results(evalgate.evaluate("a.evalset.json", answer, thresholds=policy, folder=folder))
    # All or none: the other sentence is told, too.
    both = refuse("late", "hello", capsys=capsys)
    assert "'late' is protected: `--protected` accepts it all the same" in both
    assert "'hello' expects already" in both


@pytest.mark.parametrize("words", [(), ("--alternative",), ("--dry-run",)])
@pytest.mark.parametrize("format_name", ["adk", "adk-rs", "trpc"])
def test_a_metric_that_fails_with_the_new_expectation_is_named(
    folder: Path,
    format_name: str,
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "evalgate.yaml").write_text(json.dumps({"criteria": ADK}))
    write_set(folder, format_name, EvalCase("late", OLD))
    monkeypatch.setitem(WAYS, "Refund 7", Reply("", (LOOKUP,)))
    run(folder)
    capsys.readouterr()
    assert accept("late", "--yes", *words) == 0
    assert capsys.readouterr().err == (
        "late: `response_match_score` still fails: turn 1: the expected `final_response` has no words to "
        "compare, which scores 0.0 as in Google ADK\n"
    )
    assert not run(folder).passed
    # Metrics that do not gate, and those that pass with the new expectation, are not named.
    (folder / "evalgate.yaml").write_text(
        json.dumps({"criteria": {**ADK, "response_match_score": {"threshold": 0.9, "gates": False}}})
    )
    monkeypatch.setitem(WAYS, "Refund 7", Reply("", (REFUND,)))
    run(folder, {**ADK, "response_match_score": {"threshold": 0.9, "gates": False}})
    assert accept("late", "--yes", *words) == 0
    assert capsys.readouterr().err == ""


def test_metrics_that_cannot_be_built_are_said_not_to_be_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    run(folder)
    (folder / "evalgate.yaml").write_text(json.dumps({"criteria": {**ADK, "final_response_match_v2": 0.5}}))
    assert accept("late", "--yes") == 0
    printed = capsys.readouterr().err
    assert printed.startswith("Not checked whether the cases pass now, as metrics cannot be built: ")
    assert "final_response_match_v2" in printed


def test_a_case_without_a_goal_cannot_be_accepted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    goals = (Goal("escalate-1", "tool_call", "escalate", {}), Goal("answer-1", "text", response="Never."))
    journey = Journey(goals, {"escalate-1": ("answer-1",)}, "A customer")
    path = write_set(folder, "orchestrate", EvalCase("late", OLD[:1], journey=journey))
    before = path.read_bytes()
    monkeypatch.setitem(WAYS, "Refund 7", Reply(""))
    run(folder, CRITERIA["orchestrate"])
    assert refuse("*", capsys=capsys) == (
        "'late': the agent called no tool and gave no response, so the case would have no goal: nothing was "
        "saved. Leave the case out, or correct it by hand\n"
    )
    assert path.read_bytes() == before


def test_runs_that_disagree_need_a_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    asked = []

    def answer_differently(text: str, session: Any) -> str:
        asked.append(text)
        if (count := asked.count("Refund 7")) == 3:
            raise ValueError("broken")
        return f"Answer {count}." if text == "Refund 7" else "Hi there"

    run(folder, agent=answer_differently, runs=2)
    assert "its 2 runs disagree" in refuse("late", capsys=capsys)
    assert accept("late", "--yes", "--run", "2") == 0
    assert '"Answer 2."' in (folder / "a.evalset.json").read_text()
    (folder / "a.cases.yaml").unlink()
    run(folder, agent=answer_differently)
    assert "run 1 crashed: only an answer can be accepted" in refuse("late", capsys=capsys)


def test_a_glob_means_cases_that_failed_with_an_answer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case that crashed keeps no other from being accepted."""
    write_set(folder, "adk", EvalCase("late", OLD), EvalCase("lost", OLD[1:]))

    def crash_at_hello(text: str, session: Any) -> str:
        if text == "Hello" and not session.state.get("asked"):
            raise ValueError("broken")
        session.state["asked"] = True
        return answer(text, session)

    run(folder, agent=crash_at_hello)
    capsys.readouterr()
    assert "'los*': 1 case" in refuse("los*", capsys=capsys)
    assert accept("l*", "--yes") == 0
    assert capsys.readouterr().out.endswith("Accepted 1 case.\n")


def test_a_metric_of_responses_that_the_case_does_not_expect(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = CaseTurn(UserMessage("Refund 7"), Reply(None, (ToolCall("escalate", {}),)))
    write_set(folder, "adk", EvalCase("late", (turn,)))
    run(folder)
    assert accept("late", "--yes") == 0
    assert "late: `response_match_score` still fails: the case expects no" in capsys.readouterr().err
    assert not run(folder).passed
    assert accept("late", "--yes", "--only", "response") == 0
    assert "still fails" not in capsys.readouterr().err
    assert run(folder).passed


def test_free_texts_are_no_disagreement_where_only_calls_are_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = CaseTurn(UserMessage("Refund 7"), Reply(None, (ToolCall("escalate", {}),)))
    write_set(folder, "adk", EvalCase("calls", (turn,)), EvalCase("late", OLD[:1]))
    numbers = itertools.count()  # runs are answered side by side, in threads

    def answer_freely(_text: str, session: Any) -> str:
        session.tool_call("lookup", {"order": "7"})
        return f"Answer {next(numbers)}."

    record = run(folder, {"tool_trajectory_avg_score": 1.0}, answer_freely, runs=2)
    assert [bool(build_accept_command(record, case)) for case in record.cases] == [True, False]
    assert "accept the calls alone with `--only tools`" in refuse("late", capsys=capsys)
    assert accept("calls", "--yes") == 0
    assert "Answer" not in (folder / "a.evalset.json").read_text()
    assert accept("late", "--yes", "--only", "tools") == 0


def test_notes_keep_their_line_ends_and_their_mark(folder: Path) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    notes = folder / "a.cases.yaml"
    notes.write_bytes(b"\xef\xbb\xbfcases:\r\n  late:\r\n    tags: [x]  # kept\r\n")
    run(folder)
    assert accept("late", "--yes", "--alternative") == 0
    data = notes.read_bytes()
    assert data.startswith(b"\xef\xbb\xbfcases:\r\n  late:\r\n    tags: [x]  # kept\r\n    accepted: {")
    assert data.count(b"\n") == data.count(b"\r\n") > 4
    assert run(folder).passed


def test_hostile_ids_and_the_notes_that_are_there(folder: Path) -> None:
    name = "-it's `$(x)` [a]*"
    write_set(folder, "adk", EvalCase(name, OLD))
    (folder / "a.cases.yaml").write_text(f"# mine\ncases:\n  {json.dumps(name)}:\n    tags: [x]  # kept\n")
    record = run(folder)
    assert accept("--dry-run", "--", f"a:{name}") == 0
    # The command of the reports, as a shell reads it.
    command = build_accept_command(record, record.cases[0])
    assert to_md_code(command, 500) in record.to_markdown()
    evalgate_command, *words = shlex.split(command.replace("…", "new flow"))
    assert (evalgate_command, main([*words, "--yes"])) == ("evalgate", 0)
    lines = (folder / "a.cases.yaml").read_text().splitlines()
    assert lines[0] == "# mine"
    assert lines[3] == "    tags: [x]  # kept"
    assert lines[4].startswith("    accepted: {reason: new flow, when: 20")
    assert run(folder).passed


def test_reports_name_the_command_only_for_what_can_be_accepted(folder: Path) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    record = run(folder)
    (case,) = record.cases
    first = case.runs[0]
    assert 'evalgate accept a.evalset.json:late --reason "…"' in record.to_html().replace("&quot;", '"')
    other = replace(first, run=2, turns=(replace(first.turns[0], actual=OLD[0].expected), first.turns[1]))
    hidden = replace(first.turns[0], actual=Reply("The key is ***."))
    rule = replace(case.metrics[0], name="check/x")
    for wrong in (
        replace(case, protected=True),
        replace(case, path=""),
        replace(case, runs=(first, other)),
        replace(case, runs=(replace(first, outcome="crashed"),)),
        replace(case, runs=(replace(first, turns=(hidden, first.turns[1])),)),
        replace(case, runs=(replace(first, turns=first.turns[1:]),)),
        replace(case, metrics=(rule,)),
    ):
        assert build_accept_command(record, wrong) == ""
    assert build_accept_command(record, replace(case, runs=(first, replace(first, run=2)))) != ""


PAGE = Path(__file__).parents[2].joinpath("docs/accept.md").read_text("utf-8")


def test_the_page_shows_what_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refund, lookup = (
        ToolCall("issue_refund", {"order_id": "A-7"}),
        ToolCall("lookup_order", {"order_id": "A-7"}),
    )
    turn = CaseTurn(UserMessage("Refund A-7"), Reply("Your refund is on its way.", (refund,)))
    path = write_set(folder, "adk", EvalCase("refund_late", (turn,)))
    path.rename("refunds.evalset.json")
    monkeypatch.setitem(WAYS, "Refund A-7", Reply("Your refund is on its way.", (lookup, refund)))
    write_results(
        evalgate.evaluate("refunds.evalset.json", answer, thresholds={"criteria": ADK}, folder=folder)
    )
    assert (
        main(
            ["accept", "refund_late", "--dry-run", "--reason", "Refunds are looked up first since ticket 812"]
        )
        == 0
    )
    shown = PAGE.partition("```console\n")[2].partition("```")[0]
    found = capsys.readouterr().out.partition("when: ")[0]
    assert found in shown
    # An alternative as the page has it: this agent's way is another one, so the nearest way decides.
    (notes,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (folder / "refunds.cases.yaml").write_text(notes)
    way = Reply("A colleague will call you.", (lookup, ToolCall("escalate", {})))
    monkeypatch.setitem(WAYS, "Refund A-7", way)
    assert evalgate.evaluate(
        "refunds.evalset.json", answer, thresholds={"criteria": ADK}, folder=folder
    ).passed


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ("[{}]", "4:9: `cases.late.alternatives[0]` must have 2 turns, as the case"),
        (
            "[{tool: []}]",
            "4:18: `cases.late.alternatives[0].turns[0].tool` is not a known key. Did you mean `tools`?",
        ),
        (
            "[{}, {tool: []}]",
            "4:22: `cases.late.alternatives[0].turns[1].tool` is not a known key. Did you mean `tools`?",
        ),
    ],
)
def test_wrong_alternatives_are_errors(
    folder: Path, turns: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_set(folder, "adk", EvalCase("late", OLD))
    (folder / "a.cases.yaml").write_text(f"cases:\n  late:\n    alternatives:\n      - turns: {turns}\n")
    assert main(["validate", "a.evalset.json"]) == 2
    assert capsys.readouterr().err == f"a.cases.yaml:{problem}\n"
