"""The command as users meet it: real processes, real agents, exit codes and sentences."""

import contextlib
import html
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import evalgate

ROOT = Path(__file__).parents[2]

AGENT = """\
def answer(text):
    if text == "boom":
        raise ValueError("no such order")
    return text

def wrong(text):
    return "something else entirely"
"""


def eval_set(*texts: str, **changes: object) -> str:
    cases = [
        {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": text}]},
                    "final_response": {"parts": [{"text": text}]},
                }
            ],
        }
        for number, text in enumerate(texts)
    ]
    return json.dumps({"eval_set_id": "demo", "eval_cases": cases, **changes}, indent=1)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set("hello there", "good bye"))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


RUN = ("run", "demo.evalset.json", "--agent", "python:agent.py:answer")


def wait_for(path: Path) -> None:
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path.name} did not appear")


def reports(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "evalgate-report").glob("*"))


def record(folder: Path) -> Any:
    return json.loads((folder / "evalgate-report/results.json").read_text())


def test_a_good_agent_opens_the_gate_and_a_bad_one_closes_it(project: Path) -> None:
    good = evalgate(*RUN, cwd=project)
    assert good.code == 0, good.err
    assert "GATE OPEN" in good.out
    assert record(project)["verdict"] == {
        "status": "pass",
        "exit_code": 0,
        "reasons": ["2 cases passed and every metric meets its threshold."],
    }
    assert sorted(path.name for path in (project / "evalgate-report").iterdir()) == [
        "comment.md",
        "gl-code-quality-report.json",
        "junit.xml",
        "results.json",
    ]
    bad = evalgate(*RUN[:2], "--agent", "python:agent.py:wrong", cwd=project)
    assert bad.code == 1
    assert "GATE CLOSED" in bad.out
    assert record(project)["totals"]["failed"] == 2


def test_the_record_has_the_keys_that_programs_rely_on(project: Path) -> None:
    evalgate(*RUN, "--runs", "2", cwd=project)
    found = record(project)
    assert set(found) >= {
        "schema_version",
        "evalgate_version",
        "created_at",
        "duration_s",
        "agent",
        "runs",
        "verdict",
        "metrics",
        "cases",
        "totals",
    }
    assert found["agent"] == {"kind": "python", "what": "agent.py:answer"}
    assert set(found["metrics"][0]) >= {
        "name",
        "score",
        "threshold",
        "status",
        "baseline",
        "delta",
        "n",
        "errors",
    }
    case = found["cases"][0]
    assert (case["eval_set_id"], case["eval_id"], case["status"]) == ("demo", "case_0", "passed")
    assert [run["run"] for run in case["runs"]] == [1, 2]
    assert set(case["runs"][0]) >= {"run", "outcome", "duration_s", "usage", "turns"}
    turn = case["runs"][0]["turns"][0]
    assert (turn["user"], turn["actual"]["response"]) == ("hello there", "hello there")
    assert set(turn["metrics"][0]) >= {"name", "score", "status"}
    assert set(found["totals"]) == {
        "cases",
        "passed",
        "failed",
        "errored",
        "not_evaluated",
        "input_tokens",
        "output_tokens",
        "cost_usd",
    }


def test_a_regression_against_the_saved_baseline_closes_the_gate(project: Path) -> None:
    lenient = '{"criteria": {"response_match_score": 0.0}}'
    (project / "test_config.json").write_text(lenient)
    assert evalgate(*RUN, "--runs", "3", cwd=project).code == 0
    saved = evalgate("baseline", "save", "--to", "b.json", cwd=project)
    assert (saved.code, saved.out) == (0, "Baseline of 2 cases saved to b.json. Commit it.\n")
    wrong = (*RUN[:2], "--agent", "python:agent.py:wrong", "--baseline", "b.json")
    worse = evalgate(*wrong, cwd=project)
    assert worse.code == 1
    assert "response_match_score: case_0 broke: " in worse.out
    assert record(project)["metrics"][0]["delta"] == -1.0
    assert evalgate(*wrong, "--max-regression", "1", cwd=project).code == 0
    against_results = evalgate(*RUN, "--baseline", "evalgate-report/results.json", cwd=project)
    assert against_results.code == 0
    assert record(project)["metrics"][0]["delta"] == 1.0


def test_two_cases_of_one_stored_run_cannot_tell_a_drop_from_luck(project: Path) -> None:
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}')
    evalgate(*RUN, cwd=project)
    evalgate("baseline", "save", cwd=project)
    done = evalgate(*RUN[:2], "--agent", "python:agent.py:wrong", cwd=project)
    assert (done.code, record(project)["verdict"]["status"]) == (0, "inconclusive")
    assert "use `evalgate run --runs 10` on the default branch once" in done.out


def test_a_metric_that_regressed_is_not_shown_as_passed(project: Path) -> None:
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}')
    evalgate(*RUN, "--runs", "3", cwd=project)
    evalgate("baseline", "save", cwd=project)
    done = evalgate(
        *RUN[:2], "--agent", "python:agent.py:wrong", "--baseline", ".evalgate/baseline.json", cwd=project
    )
    assert done.code == 1
    assert re.search(r"^FAIL  response_match_score ", done.out, re.MULTILINE)
    assert "| ❌ | `response_match_score` |" in (project / "evalgate-report/comment.md").read_text()
    metric = record(project)["metrics"][0]
    assert (metric["status"], metric["regressed"]) == ("passed", True)


def test_a_baseline_of_other_cases_causes_a_notice(project: Path) -> None:
    evalgate(*RUN, cwd=project)
    evalgate("baseline", "save", cwd=project)
    (project / "demo.evalset.json").write_text(eval_set("hello", eval_set_id="other"))
    done = evalgate(*RUN, "--baseline", ".evalgate/baseline.json", cwd=project)
    assert done.code == 0
    expected = (
        "Nothing could be compared with the baseline .evalgate/baseline.json: it holds none of these cases."
    )
    assert expected in record(project)["notices"]
    assert "nothing regressed" not in done.out


def test_a_newly_failing_case_that_is_allowed_is_named(project: Path) -> None:
    (project / "evalgate.json").write_text(
        json.dumps(
            {
                "criteria": {"response_match_score": 0.5},
                "gate": {"max_failed_cases": 1, "max_regression": 1},
            }
        )
    )
    evalgate(*RUN, "-c", "evalgate.json", cwd=project)
    evalgate("baseline", "save", cwd=project)
    (project / "agent.py").write_text("def answer(text): return text if 'hello' in text else 'no'")
    done = evalgate(*RUN, "-c", "evalgate.json", "--baseline", ".evalgate/baseline.json", cwd=project)
    assert done.code == 0, done.out
    assert "; 1 case newly failing, allowed by max_failed_cases." in done.out


def test_a_result_without_a_verdict_is_no_baseline_and_a_failing_one_causes_a_notice(project: Path) -> None:
    (project / "demo.evalset.json").write_text(eval_set("hello", "boom", "boom", "boom"))
    assert evalgate(*RUN, cwd=project).code == 3
    refused = evalgate("baseline", "save", "--to", "b.json", cwd=project)
    assert refused.code == 2
    assert "this run has no verdict (Too many errors: 3 of 4 cases" in refused.err
    assert not (project / "b.json").exists()
    (project / "demo.evalset.json").write_text(eval_set("hello", "bye", "boom"))
    assert evalgate(*RUN, cwd=project).code == 1
    red = evalgate("baseline", "save", "--to", "b.json", cwd=project)
    assert (red.code, "the gate closed for this run" in red.err, "--allow-failing" in red.err) == (
        2,
        True,
        True,
    )
    assert not (project / "b.json").exists()
    saved = evalgate("baseline", "save", "--allow-failing", "--to", "b.json", cwd=project)
    assert saved.out == "Baseline of 3 cases saved to b.json. Commit it. 1 case in it did not pass.\n"
    meant = evalgate("baseline", "accept", "--reason", "boom is out of scope", "--to", "b.json", cwd=project)
    assert meant.code == 0, meant.err


def test_a_missing_baseline_of_the_thresholds_file_causes_a_notice(project: Path) -> None:
    (project / "evalgate.json").write_text(
        '{"criteria": {"response_match_score": 0.8}, "gate": {"baseline": "nowhere.json"}}'
    )
    done = evalgate(*RUN, cwd=project)
    assert done.code == 0
    assert "There is no baseline at nowhere.json yet" in done.out
    assert record(project)["metrics"][0]["baseline"] is None


@pytest.mark.parametrize("where", ["nowhere.json", "branch:nowhere", "file:///nowhere/at/all"])
def test_a_baseline_of_the_command_line_must_be_there(project: Path, where: str) -> None:
    for words in (
        ["init", "-q", "."],
        ["init", "-q", "--bare", "o.git"],
        ["remote", "add", "origin", "o.git"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True)
    done = evalgate(*RUN, "--baseline", where, cwd=project)
    assert (done.code, done.out) == (2, "")
    assert f"--baseline {where}: there is no baseline" in done.err
    assert f"evalgate baseline save --to {where}" in done.err
    assert not (project / "evalgate-report/results.json").exists()


@pytest.mark.parametrize("file", ["test_config.json", "evalgate.json"])
def test_a_run_is_compared_with_what_was_saved_without_any_option(project: Path, file: str) -> None:
    (project / "test_config.json").rename(project / file)
    assert "No baseline" in evalgate(*RUN, cwd=project).out
    assert evalgate("baseline", "save", cwd=project).code == 0
    done = evalgate(*RUN[:2], "--agent", "python:agent.py:wrong", cwd=project)
    assert done.code == 1
    assert "Compared with .evalgate/baseline.json" in done.out
    assert "newly failing" in done.out
    assert "2 cases: 2 failed" in done.out


def test_a_case_is_shown_beside_its_own_threshold(project: Path) -> None:
    (project / "evalgate.yaml").write_text(
        "version: 1\ncriteria: {response_match_score: 0.3}\n"
        "cases: [{ids: case_0, criteria: {response_match_score: 0.9}}]\n"
    )
    (project / "demo.evalset.json").write_text(eval_set("something else", "entirely"))
    done = evalgate(*RUN[:2], "--agent", "python:agent.py:wrong", cwd=project)
    assert done.code == 1
    assert "failed 1 (last: demo/case_0)" in done.err
    assert "response_match_score" not in done.err, "a failure is explained once, in the report"
    assert done.out.count("FAIL demo/case_0  response_match_score 0.80 < 0.90: 2 of 2") == 1


def test_a_crash_is_one_case_and_closes_the_gate(project: Path) -> None:
    (project / "demo.evalset.json").write_text(eval_set("hello", "boom", "bye"))
    done = evalgate(*RUN, cwd=project)
    assert done.code == 1
    found = record(project)
    assert [case["status"] for case in found["cases"]] == ["passed", "errored", "passed"]
    assert found["cases"][1]["runs"][0]["outcome"] == "crashed"
    assert found["metrics"][0]["errors"] == 1
    assert "ValueError: no such order" in found["cases"][1]["runs"][0]["failure"]["message"]


TRPC_SET = json.dumps(
    {
        "evalSetId": "s",
        "evalCases": [
            {
                "evalId": "c",
                "sessionInput": {},
                "conversation": [{"userContent": {"role": "user", "content": "Hi"}}],
            }
        ],
    }
)
DEFAULTS = (
    "demo.evalset.json has no criteria, so Google ADK's defaults apply: `tool_trajectory_avg_score` 1 "
    "and `response_match_score` 0.8. Write `criteria` into a thresholds file to choose others."
)


@pytest.mark.parametrize("thresholds", [None, "version: 1\nruns: 1\n"])
def test_without_criteria_a_set_of_google_adk_takes_its_defaults(
    project: Path, thresholds: str | None
) -> None:
    (project / "test_config.json").unlink()
    if thresholds is not None:
        (project / "evalgate.yaml").write_text(thresholds)

    checked = evalgate("validate", "demo.evalset.json", cwd=project)
    done = evalgate(*RUN, cwd=project)

    assert checked.code == 0
    assert DEFAULTS in checked.out
    assert f"Note: {DEFAULTS}" in done.out
    found = record(project)
    assert [(each["name"], each["threshold"]) for each in found["metrics"]] == [
        ("tool_trajectory_avg_score", 1.0),
        ("response_match_score", 0.8),
    ]


def test_without_criteria_a_set_of_adk_rs_takes_its_defaults(tmp_path: Path) -> None:
    turn = {"user_content": {"role": "user", "parts": [{"text": "Hi"}]}}
    answered = {**turn, "final_response": {"role": "model", "parts": [{"text": "Hi you"}]}}
    cases = [{"eval_id": "c", "conversation": [answered]}]
    (tmp_path / "s.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hi'\n")

    agent = ("--agent", "python:agent.py:answer")
    done = evalgate("run", "s.evalset.json", "--format", "adk-rs", *agent, cwd=tmp_path)

    assert (
        "Note: s.evalset.json has no criteria, so adk-rs's defaults apply: `adk-rs/tool_trajectory_avg_score` 1 and "
        "`adk-rs/final_response_match_v1` 0.5."
    ) in done.out
    assert [each["name"] for each in record(tmp_path)["metrics"]] == [
        "adk-rs/tool_trajectory_avg_score",
        "adk-rs/final_response_match_v1",
    ]


def test_without_criteria_a_dataset_of_orchestrate_must_succeed(tmp_path: Path) -> None:
    goal = {"type": "text", "name": "g", "response": "Hello", "keywords": ["Hello"]}
    dataset = {"story": "s", "starting_sentence": "Hi", "goals": {"g": []}, "goal_details": [goal]}
    (tmp_path / "d.json").write_text(json.dumps(dataset))
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Good bye'\n")

    done = evalgate("run", "d.json", "--agent", "python:agent.py:answer", cwd=tmp_path)

    note = "d.json has no criteria, so watsonx Orchestrate's defaults apply: `orchestrate/journey_success` 1."
    assert (done.code, note in done.out) == (1, True), done.out + done.err
    assert [each["name"] for each in record(tmp_path)["metrics"]] == ["orchestrate/journey_success"]


def test_traces_need_no_agent(tmp_path: Path) -> None:
    turn = {
        "userContent": {"role": "user", "content": "Hi"},
        "finalResponse": {"role": "assistant", "content": "Hello"},
    }
    case = {"evalId": "c", "evalMode": "trace", "actualConversation": [turn], "conversation": [turn]}
    evalset = {"evalSetId": "s", "evalCases": [{**case, "sessionInput": {"appName": "a", "userId": "u"}}]}
    (tmp_path / "s.evalset.json").write_text(json.dumps(evalset))
    (tmp_path / "evalgate.yaml").write_text("criteria: {response_match_score: 1.0}\n")

    done = evalgate("run", "s.evalset.json", cwd=tmp_path)

    assert (done.code, done.err.count("no agent")) == (0, 0), done.err
    assert record(tmp_path)["agent"] == {"kind": "replay", "what": "the traces of the eval sets"}


def test_validate_of_a_file_alone_needs_no_criteria(project: Path) -> None:
    (project / "test_config.json").unlink()
    (project / "demo.evalset.json").write_text(TRPC_SET)

    done = evalgate("validate", "demo.evalset.json", cwd=project)

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "demo.evalset.json: 1 case, with no criteria yet",
        "1 eval set: no problem found.",
    ]


BAD_INPUT = [
    pytest.param((*RUN, "--agent", "pythn:agent.py:answer"), {}, 2, "`pythn` is not a kind of agent. Did you mean `python`?", id="agent kind"),
    pytest.param(("run", "demo.evalset.json"), {}, 2, "no agent: give --agent KIND:WHAT", id="no agent"),
    pytest.param((*RUN[:1], *RUN[2:]), {}, 2, "no eval sets", id="no eval sets"),
    pytest.param((*RUN, "--runs", "0"), {}, 2, "Invalid value for '--runs'", id="usage"),
    pytest.param(
        RUN, {"test_config.json": None, "demo.evalset.json": TRPC_SET}, 2, "demo.evalset.json: no thresholds.",
        id="no thresholds",
    ),
    pytest.param(
        RUN, {"test_config.json": '{"criteria": {"tool_trajectry_avg_score": 1}}'}, 2,
        "test_config.json:1:43: `tool_trajectry_avg_score` is not a metric that evalgate knows. Did you mean "
        "`tool_trajectory_avg_score`?", id="unknown metric",
    ),
    pytest.param(
        RUN, {"test_config.json": '{"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "X"}}}'},
        2, "criteria.tool_trajectory_avg_score.match_type", id="metric option",
    ),
    pytest.param(
        RUN, {"evalgate.yaml": "version: 1\ncriteria: {response_match_score: 1.5}\n"}, 2,
        "evalgate.yaml:2:12: `criteria.response_match_score.threshold` should be between 0 and 1",
        id="threshold out of range",
    ),
    pytest.param(RUN, {"demo.evalset.json": eval_set()}, 3, "No case was evaluated", id="no case"),
    pytest.param(RUN, {"demo.evalset.json": "{"}, 2, "demo.evalset.json:1:2:", id="broken JSON"),
    pytest.param(RUN, {"demo.evalset.json": '{"eval_set_id": "x", "eval_cases": [{"eval_id": NaN}]}'}, 2, "demo.evalset.json:1:", id="NaN"),
    pytest.param(RUN, {"demo.evalset.json": "[" * 10_000}, 2, "demo.evalset.json:1:", id="deep"),
    pytest.param((*RUN, "--baseline", "b.json"), {"b.json": '{"kind": "evalgate-baseline", "schema_version": 99, "cases": []}'}, 2, "b.json:1:", id="newer baseline"),
    pytest.param((*RUN, "--baseline", "b.json"), {"b.json": '{"a": 1}'}, 2, "b.json", id="no baseline at all"),
    pytest.param((*RUN, "--out", "agent.py"), {}, 2, "agent.py", id="out is a file"),
    pytest.param((*RUN, "-C", "nowhere"), {}, 2, "nowhere: cannot work there", id="no such folder"),
    pytest.param(("run", "demo.evalset.json", "--agent", "python:agent.py:missing"), {}, 2, "missing", id="no such attribute"),
    pytest.param(("run", "demo.evalset.json", "--agent", "python:nowhere.py:x"), {}, 2, "nowhere.py", id="no such module"),
    pytest.param((*RUN, "--setup", "echo oh no; exit 7", "--python", sys.executable), {}, 3, "failed with exit code 7. Its last output:\noh no", id="setup fails"),
    pytest.param(("run", "demo.evalset.json", "--agent", "replay:agent.py"), {}, 2, "agent.py", id="replay of no recording"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "files", "code", "sentence"), BAD_INPUT)
def test_bad_input_never_has_a_verdict(
    project: Path, arguments: tuple[str, ...], files: dict[str, str | None], code: int, sentence: str
) -> None:
    for name, text in files.items():
        if text is None:
            (project / name).unlink()
        else:
            (project / name).write_text(text)
    done = evalgate(*arguments, cwd=project)
    assert done.code == code, done.err
    assert sentence in done.err + done.out
    assert "Traceback" not in done.err + done.out


def test_an_unwritable_folder_is_found_before_the_run(project: Path) -> None:
    done = evalgate(*RUN, "--out", "/proc/evalgate-report", cwd=project)
    assert done.code == 2
    assert "/proc/evalgate-report" in done.err
    assert "1/2" not in done.err


def test_an_agent_that_cannot_be_reached_is_no_verdict_and_loses_no_case(project: Path) -> None:
    (project / "agent.py").write_text("import a_package_that_is_not_there")
    done = evalgate(*RUN, cwd=project)
    assert done.code == 3
    found = record(project)
    assert found["verdict"]["status"] == "error"
    assert [case["status"] for case in found["cases"]] == ["not_evaluated", "not_evaluated"]


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGINT],
        [signal.SIGTERM],
        [signal.SIGHUP],
        [signal.SIGINT, signal.SIGTERM],
        [signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP],
    ],
    ids=lambda signals: "+".join(number.name for number in signals),
)
def test_an_interrupted_run_keeps_the_finished_cases(project: Path, signals: list[signal.Signals]) -> None:
    (project / "agent.py").write_text(
        "import pathlib, time\n"
        "def answer(text):\n"
        "    if text == 'wait':\n"
        "        pathlib.Path('waiting').touch()\n"
        "        time.sleep(600)\n"
        "    return text\n"
    )
    (project / "demo.evalset.json").write_text(eval_set("hello", "wait", "bye"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "evalgate", *RUN, "--concurrency", "1"],
        cwd=project, env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(project / "waiting")
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert "Interrupted after 1 of 3 cases." in out
    statuses = [case["status"] for case in record(project)["cases"]]
    assert statuses == ["passed", "not_evaluated", "not_evaluated"]


@pytest.mark.parametrize("option", ["--out", "--baseline"])
def test_an_empty_option_is_a_usage_error(project: Path, option: str) -> None:
    done = evalgate(*RUN, option, "", cwd=project)
    assert done.code == 2
    assert f"Invalid value for '{option}': must not be empty" in done.err


@pytest.mark.parametrize(
    ("environ", "escapes"), [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)]
)
def test_a_terminal_that_wants_no_escapes_gets_none(
    project: Path, environ: dict[str, str], escapes: bool
) -> None:
    main, other = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
    clean.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "evalgate", *RUN],
        cwd=project, env={**clean, "TERM": "xterm", **environ}, stdout=other, stderr=other,
    ) as process:  # fmt: skip
        os.close(other)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal ends so when its last writer closes it
            while text := os.read(main, 65536):
                shown += text
    os.close(main)
    assert process.returncode == 0
    assert (b"\x1b" in shown) is escapes
    assert b"GATE OPEN" in shown


def test_a_long_message_makes_no_long_reason(project: Path) -> None:
    (project / "agent.py").write_text("def answer(text): raise ValueError('x' * 5_000_000)")
    assert evalgate(*RUN, cwd=project).code == 3
    assert all(len(reason) < 1000 for reason in record(project)["verdict"]["reasons"])
    assert (project / "evalgate-report/comment.md").stat().st_size < 20_000


def test_a_bug_is_never_a_verdict(project: Path) -> None:
    (project / "sitecustomize.py").write_text(
        "import evalgate.gating.case_changes as c\n"
        "def bug(*_): raise ZeroDivisionError('oops')\n"
        "c.build_comparison = bug\n"
    )
    done = evalgate(*RUN, cwd=project)
    evalgate("baseline", "save", "--to", "b.json", cwd=project)
    done = evalgate(*RUN, "--baseline", "b.json", cwd=project, PYTHONPATH=str(project))
    assert done.code == 70
    assert "this is a bug in evalgate" in done.err


def test_the_same_record_has_the_same_reports(project: Path) -> None:
    evalgate(*RUN, "--html", cwd=project)
    first = {path.name: path.read_bytes() for path in (project / "evalgate-report").iterdir()}
    again = evalgate("report", "evalgate-report/results.json", "--out", "again", cwd=project)
    assert again.code == 0
    assert {path.name: path.read_bytes() for path in (project / "again").iterdir()} == first


def test_a_page_is_written_when_it_is_asked_for_and_no_earlier_one_stays(project: Path) -> None:
    page = project / "evalgate-report/report.html"
    summary = project / "summary.md"
    runner = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    evalgate(*RUN, "--html", cwd=project, **runner)
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert summary.read_text("utf-8").count("`report.html`") == 1
    evalgate(*RUN, cwd=project, **runner)
    assert not page.exists()
    assert summary.read_text("utf-8").count("`report.html`") == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"exit_code": 0', '"exit_code": 256', "the verdict `pass` does not go with exit code 256"),
        ('"status": "pass"', '"status": "fail"', "the verdict `fail` does not go with exit code 0"),
        ('"passed": 2', '"passed": 3', "the totals are not those of the cases"),
    ],
)
def test_an_edited_record_is_no_verdict(project: Path, old: str, new: str, sentence: str) -> None:
    evalgate(*RUN, cwd=project)
    text = (project / "evalgate-report/results.json").read_text()
    assert old in text
    (project / "edited.json").write_text(text.replace(old, new, 1))
    done = evalgate("report", "edited.json", cwd=project)
    assert done.code == 2
    assert sentence in done.err


def test_replaying_a_record_returns_its_scores(project: Path) -> None:
    evalgate(*RUN, cwd=project)
    shutil.move(project / "evalgate-report/results.json", project / "recorded.json")
    (project / "agent.py").unlink()
    done = evalgate("run", "demo.evalset.json", "--agent", "replay:recorded.json", cwd=project)
    assert done.code == 0, done.err
    own = evalgate("run", "demo.evalset.json", "--agent", "replay:demo.evalset.json", cwd=project)
    assert own.code == 0, own.err


@pytest.mark.parametrize(
    ("start", "options", "ci", "reader"),
    [
        pytest.param(".", ("-C", "my evals", "-c", "strict.json"), False, ".", id="locally, another folder"),
        pytest.param(".", ("-C", "{root}/my evals", "-c", "{root}/my evals/strict.json"), True, ".", id="all paths whole"),
        pytest.param("my evals", ("-c", "strict.json"), False, "my evals", id="locally, in the folder"),
        pytest.param("my evals", ("-c", "strict.json"), True, ".", id="a job that enters the folder"),
        pytest.param("my evals", ("-c", "../rules.json", "--out", "out put"), True, ".", id="rules above"),
    ],
)  # fmt: skip
def test_every_printed_command_works_as_printed(
    project: Path, start: str, options: tuple[str, ...], ci: bool, reader: str
) -> None:
    """Reports name the folder that a reader stands in: his own, or the root of a checkout."""
    work = project / "my evals"
    work.mkdir()
    for name in ("agent.py", "demo.evalset.json"):
        shutil.move(project / name, work / name)
    for path in (work / "strict.json", project / "rules.json"):
        path.write_text('{"criteria": {"response_match_score": 0.9}}')
    given = [option.format(root=project) for option in options]
    environ = {"GITHUB_WORKSPACE": str(project)} if ci else {}
    agent = ("--agent", "python:agent.py:wrong", "--env", "MY_KEY", "--timeout", "30", "--html")
    done = evalgate(*RUN[:2], *agent, *given, cwd=project / start, **environ, MY_KEY="s3cret")
    assert done.code == 1, done.err
    folder = work / ("out put" if "--out" in given else "evalgate-report")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    comment, page = before["comment.md"].decode(), html.unescape(before["report.html"].decode())
    lines = [line for line in comment.splitlines() if line.startswith("evalgate run ")]
    assert {"replay:" in line for line in lines} == {True, False}
    for line in lines:
        assert line in page
        cases = line.count("demo.evalset.json:")
        words = "run it alone" if cases == 1 else f"run all {cases} cases"
        assert "replay:" in line or f"{words}: {line}\n" in done.out
        again = evalgate(*shlex.split(line)[1:], cwd=project / reader, MY_KEY="s3cret")
        summary = f"{cases} cases: {cases} failed" if cases > 1 else "1 case: 1 failed"
        assert (again.code, summary in again.out, "threshold 0.90" in again.out) == (
            1,
            True,
            True,
        ), again
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert b"s3cret" not in before["results.json"]


def test_one_printed_command_repeats_all_cases_that_failed_alike(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    raise ValueError('no such order')\n")
    (tmp_path / "demo.evalset.json").write_text(eval_set("one", "two", "three"))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    done = evalgate("run", "demo.evalset.json", "--agent", "python:agent.py:answer", "--html", cwd=tmp_path)
    [line] = re.findall(r"run all 3 cases: (evalgate run .*)", done.out)
    reports = tmp_path / "evalgate-report"
    assert f"Run all 3 cases:\n\n```sh\n{line}\n```" in (reports / "comment.md").read_text()
    assert line in html.unescape((reports / "report.html").read_text())
    again = evalgate(*shlex.split(line)[1:], cwd=tmp_path)
    assert "3 cases: 3 errored" in again.out, again


def test_a_case_that_is_asked_for_by_name_is_enough(project: Path) -> None:
    (project / "evalgate.json").write_text(
        '{"criteria": {"response_match_score": 0.8}, "gate": {"min_cases": 2}}'
    )
    assert evalgate(*RUN, cwd=project).code == 0
    assert evalgate(RUN[0], f"{RUN[1]}:case_0", *RUN[2:], cwd=project).code == 0
    (project / "demo.evalset.json").write_text(eval_set("hello"))
    assert evalgate(*RUN, cwd=project).code == 3


def test_a_replay_of_the_last_run_leaves_its_reports_as_they_are(project: Path) -> None:
    evalgate(*RUN, cwd=project)
    before = contents(project)
    replay = (*RUN[:2], "--agent", "replay:evalgate-report/results.json")
    done = evalgate(*replay, cwd=project)
    assert (done.code, "Reports in evalgate-report/again:" in done.err) == (0, True)
    assert contents(project) == before
    assert "Reports in evalgate-report:" in evalgate(*replay, "--out", "evalgate-report", cwd=project).err


@pytest.mark.parametrize(
    ("asked", "removed", "left_out"),
    [
        ((), ["demo/case_1"], 0),
        (("demo.evalset.json",), ["demo/case_1"], 2),
        (("demo.evalset.json:case_0",), [], 3),
    ],
)
def test_only_cases_that_were_asked_for_can_be_missed(
    project: Path, asked: tuple[str, ...], removed: list[str], left_out: int
) -> None:
    (project / "other.evalset.json").write_text(eval_set("x", "y", eval_set_id="other"))
    (project / "evalgate.yaml").write_text(
        "version: 1\neval_sets: ['*.evalset.json']\nagent: {entry: 'agent.py:answer'}\n"
        "criteria: {response_match_score: 0.8}\ngate: {baseline: b.json}\n"
    )
    assert evalgate("run", cwd=project).code == 0
    assert evalgate("baseline", "save", cwd=project).code == 0
    (project / "demo.evalset.json").write_text(eval_set("hello there"))

    assert evalgate("run", *asked, cwd=project).code == 0

    found = record(project)["comparison"]
    assert found.get("left_out", 0) == left_out
    gone = [each for each in found["changes"] if each["change"] == "removed"]
    assert [f"{each['eval_set_id']}/{each['eval_id']}" for each in gone] == removed


def test_validate_runs_nothing(project: Path) -> None:
    (project / "agent.py").unlink()
    done = evalgate("validate", "demo.evalset.json", cwd=project)
    assert (done.code, done.out) == (
        0,
        "demo.evalset.json: 2 cases, scored with response_match_score\n1 eval set: no problem found.\n",
    )
    (project / "demo.evalset.json").write_text(eval_set())
    empty = evalgate("validate", "demo.evalset.json", cwd=project)
    assert (empty.code, empty.err) == (2, "demo.evalset.json:1:1: the eval set has no cases\n")


@pytest.mark.parametrize("existing", [False, True])
def test_what_init_writes_runs_as_it_is(tmp_path: Path, existing: bool) -> None:
    if existing:
        (tmp_path / "evalgate.yaml").write_text((ROOT / "evalgate/cli/scaffold/evalgate.yaml").read_text())
    done = evalgate("init", cwd=tmp_path)
    assert done.code == 0
    assert ("kept     evalgate.yaml" in done.out) is existing
    assert evalgate("validate", cwd=tmp_path).code == 0
    assert evalgate("run", cwd=tmp_path).code == 0
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0
    again = evalgate("run", cwd=tmp_path)
    assert again.code == 0
    assert "nothing regressed" in again.out


def test_the_first_steps_catch_a_case_that_breaks(tmp_path: Path) -> None:
    for command in (["init"], ["run", "--runs", "10"], ["baseline", "save"], ["run"]):
        assert evalgate(*command, cwd=tmp_path).code == 0, command
    agent = tmp_path / "evals/sample_agent.py"
    text = agent.read_text("utf-8")
    agent.write_text(
        text.replace('return "Which city', 'raise RuntimeError("broken")\n        return "Which city')
    )
    done = evalgate("run", cwd=tmp_path)
    assert done.code == 1
    assert "asks_for_the_city" in done.out


def test_the_first_steps_with_a_case_that_fails_now_and_then(tmp_path: Path) -> None:
    assert evalgate("init", cwd=tmp_path).code == 0
    agent = tmp_path / "evals/sample_agent.py"
    fails = "import random\n    if city is None and random.random() < 0.75:\n        return 'No.'\n    if city is None:"
    agent.write_text(agent.read_text("utf-8").replace("if city is None:", fails), "utf-8")
    first = evalgate("run", "--runs", "40", cwd=tmp_path)
    assert first.code == 1
    assert "Where a case fails now and then, mend it, lower its threshold or quarantine it" in first.out
    assert "Only to store a case as known failing" in first.out
    assert "`evalgate baseline save --allow-failing`" in first.out
    assert evalgate("baseline", "save", cwd=tmp_path).code == 2
    assert evalgate("baseline", "save", "--allow-failing", cwd=tmp_path).code == 0
    agent.write_text(agent.read_text("utf-8").replace("< 0.75", "< 0.8"), "utf-8")
    assert evalgate("run", "--runs", "1", cwd=tmp_path).code == 0, "one more failure of a case known to fail"


def test_the_first_steps_with_a_case_that_always_fails_advise_to_mend_it(tmp_path: Path) -> None:
    assert evalgate("init", cwd=tmp_path).code == 0
    agent = tmp_path / "evals/sample_agent.py"
    agent.write_text(
        agent.read_text("utf-8").replace('return "Which city', 'return "No."\n        return "Which city'),
        "utf-8",
    )
    first = evalgate("run", cwd=tmp_path)
    assert first.code == 1
    advice, _, known = first.out.partition("Only to store a case as known failing")
    assert "Mend the cases that fail, lower their thresholds or quarantine them (`gate.quarantine`)" in advice
    assert ("--allow-failing" in advice, "--allow-failing" in known) == (False, True)

    entry = {"case": "asks_for_the_city", "owner": "ann", "reason": "known", "expires": "2999-12-31"}
    (tmp_path / "quarantine.json").write_text(json.dumps([entry]))
    thresholds = tmp_path / "evalgate.yaml"
    thresholds.write_text(
        thresholds.read_text("utf-8").replace("gate:", "gate:\n  quarantine: quarantine.json")
    )
    advised = evalgate("run", cwd=tmp_path)
    assert advised.code == 0
    assert "yet. Save one with `evalgate baseline save`.\n" in advised.out
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0


@pytest.mark.parametrize("target", ["folder", "afile/y", "/proc/x/y", "/dev/full/y"])
def test_a_baseline_that_cannot_be_written_is_the_users_to_mend(project: Path, target: str) -> None:
    evalgate(*RUN, cwd=project)
    (project / "folder").mkdir()
    (project / "afile").touch()
    done = evalgate("baseline", "save", "--to", target, cwd=project)
    assert (done.code, done.out) == (2, "")
    assert f"{target}: the baseline cannot be written there" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("init", "-C", "missing"), "missing: cannot work there"),
        (("init", "-C", "/proc"), "evalgate.yaml: cannot be written"),
        (("report", "-C", "missing"), "missing: cannot work there"),
        (("report", "--out", "agent.py"), "cannot be written"),
        (("baseline", "save", "-C", "missing"), "missing: cannot work there"),
        (("convert", "a.json", "--to", "trpc", "-C", "missing"), "missing: cannot work there"),
        (("import", "a.json", "-C", "missing"), "missing: cannot work there"),
        (("generate", "a.yaml", "--to", "adk", "-C", "missing"), "missing: cannot work there"),
    ],
)
def test_a_folder_of_no_use_is_the_users_to_mend(
    project: Path, command: tuple[str, ...], sentence: str
) -> None:
    evalgate(*RUN, cwd=project)
    done = evalgate(*command, cwd=project)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("run", "missing.json", *RUN[2:]), id="no plan"),
        pytest.param((*RUN, "--setup", "exit 1", "--python", sys.executable), id="setup fails"),
        pytest.param((*RUN, "--baseline", "agent.py"), id="no baseline"),
        pytest.param((*RUN, "--resume"), id="nothing to resume"),
        pytest.param((*RUN, "--resume", "--agent", "python:agent.py:wrong"), id="nothing to resume with"),
        pytest.param(("merge", "missing/results.json"), id="no shard"),
        pytest.param(("merge", "evalgate-report", "--agent", "python:agent.py:answer"), id="no shards"),
        pytest.param(("report", "agent.py"), id="no record"),
    ],
)
def test_a_command_that_runs_nothing_leaves_the_reports_as_they_are(
    project: Path, command: tuple[str, ...]
) -> None:
    evalgate(*RUN, cwd=project)
    before = contents(project)
    assert evalgate(*command, cwd=project).code in {2, 3}
    assert contents(project) == before


def test_a_run_that_begins_keeps_the_record_of_the_last_one_and_no_other_report(project: Path) -> None:
    evalgate(*RUN, "--html", cwd=project)
    before = contents(project)["results.json"]
    for leftover in (".report.html.1a2b3c.tmp", ".results.json.1a2b3c.tmp"):  # of a run that was killed
        (project / "evalgate-report" / leftover).write_text("half of")
    begun = "import os\n\ndef answer(text):\n    os.kill(os.getppid(), 9)\n"
    (project / "killer.py").write_text(begun)
    evalgate(*RUN[:2], "--agent", "python:killer.py:answer", cwd=project)
    left = contents(project)
    assert left.pop("results.json.previous") == before
    assert sorted(left) == ["journal.jsonl"]


def contents(project: Path) -> dict[str, bytes]:
    """Return name and content of each file in the folder of the reports."""
    found = (project / "evalgate-report").iterdir()
    return {path.name: path.read_bytes() for path in found if path.is_file()}


FAILING_SETUP = ("--setup", "exit 1", "--python", sys.executable)
"""Makes no environment in the cache of the user who runs the tests."""


def test_the_last_record_can_be_the_baseline_and_the_recording(project: Path) -> None:
    results = "evalgate-report/results.json"
    evalgate(*RUN, cwd=project)
    assert "nothing regressed" in evalgate(*RUN, "--baseline", results, cwd=project).out
    assert evalgate(*RUN, "--baseline", results, *FAILING_SETUP, cwd=project).code == 3
    assert evalgate(*RUN[:2], "--agent", f"replay:{results}", cwd=project).code == 0


@pytest.mark.parametrize(
    ("agent", "code", "word"), [("answer", 2, "NO VERDICT"), ("wrong", 1, "GATE CLOSED")]
)
def test_a_report_that_cannot_be_written_never_leaves_the_gate_open(
    project: Path, agent: str, code: int, word: str
) -> None:
    outputs = project / "outputs"
    (project / "evalgate-report/junit.xml").mkdir(parents=True)
    done = evalgate(
        *RUN[:2], "--agent", f"python:agent.py:{agent}", cwd=project,
        GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(outputs), GITHUB_WORKSPACE=str(project),
    )  # fmt: skip
    assert done.code == code
    assert word in done.out
    assert "GATE OPEN" not in done.out + done.err
    assert "junit.xml: Is a directory" in done.err
    assert record(project)["verdict"]["exit_code"] == code
    step_outputs = dict(re.findall(r"^([a-z-]+)<<.*\n(.*)$", outputs.read_text(), re.MULTILINE))
    assert (step_outputs["exit-code"], step_outputs["verdict"]) == (
        str(code),
        record(project)["verdict"]["status"],
    )
    assert (step_outputs["results"], step_outputs["junit"]) == ("evalgate-report/results.json", "")
    assert outputs.read_text().count("exit-code<<") == 1
    again = evalgate("report", cwd=project)
    assert (again.code, "junit.xml: Is a directory" in again.err) == (code, True)


STRANGE_OUTPUT = [
    pytest.param(">&- 2>&-", id="closed"),
    pytest.param(">/dev/full 2>/dev/full", id="full"),
    pytest.param("2>&1 | true", id="no reader"),
    pytest.param("2>&1 | head -1 >/dev/null", id="a reader of one line"),
]


@pytest.mark.parametrize("redirection", STRANGE_OUTPUT)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("run demo.evalset.json --agent python:agent.py:answer", 0),
        ("run demo.evalset.json --agent python:agent.py:wrong", 1),
        ("validate demo.evalset.json", 0),
        ("validate missing.json", 2),
        ("--help", 0),
    ],
)
def test_the_exit_code_does_not_depend_on_the_readers_of_the_output(
    project: Path, redirection: str, command: str, code: int
) -> None:
    script = (
        f'{shlex.quote(sys.executable)} -m evalgate {command} {redirection}; echo "${{PIPESTATUS[0]}}" > code'
    )
    subprocess.run(["bash", "-c", script], cwd=project, check=True, timeout=600)
    assert int((project / "code").read_text()) == code
    if command.startswith("run"):
        assert reports(project) == ["comment.md", "gl-code-quality-report.json", "junit.xml", "results.json"]


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, id="C"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, id="latin-1"),
    ],
)
def test_a_terminal_of_another_alphabet_gets_question_marks(project: Path, environ: dict[str, str]) -> None:
    (project / "demo.evalset.json").write_text(eval_set("Привет", eval_set_id="новый"))
    done = evalgate(*RUN[:2], "--agent", "python:agent.py:wrong", cwd=project, **environ)
    assert done.code == 1, done.err
    assert "FAIL ?????/case_0" in done.out
    again = evalgate("report", cwd=project, **environ)
    assert (again.code, again.out) == (1, done.out)
