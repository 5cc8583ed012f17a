"""The pytest plugin, in runs of pytest of their own."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml  # noqa: F401

# Runs inside this process forget the modules that they import; these are slow to import each time.
import evalgate.api.testing.session
import evalgate.reporting.terminal
import evalgate.runner.record_builder  # noqa: F401
from evalgate.api.record import Record
from evalgate.api.testing.project import OPTIONS

pytest_plugins = "pytester"

AGENT = """
import sys
open("started", "a").close()

def answer(text, session):
    with open("asked", "a") as file:
        file.write(text + "\\n")
    if "refund" in text:
        session.tool_call("look_up", {"order": "4711"})
        return "Refunded."
    return "Hello " + text
"""
THRESHOLDS = """
version: 1
eval_sets: [tests/refunds.evalset.json]
agent: {entry: "agent.py:answer"}
criteria: {response_match_score: 0.8, tool_trajectory_avg_score: 1.0}
cases:
  - {ids: [greets_ada], tag: [smoke, "two words"]}
"""
INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
addopts = -p no:cacheprovider --strict-markers
"""


def build_case(eval_id: str, text: str, response: str, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    turn: dict[str, Any] = {
        "user_content": {"parts": [{"text": text}]},
        "final_response": {"parts": [{"text": response}]},
        "intermediate_data": {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }
    return {"eval_id": eval_id, "conversation": [turn]}


GREETINGS = [build_case("greets_ada", "Ada", "Hello Ada"), build_case("greets_bob", "Bob", "Hello Bob")]
REFUND = build_case("refund_late", "Please refund 4711", "Refunded.", ("refund", {"order": "4711"}))


def write_set(path: Path, *cases: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.split(".")[0]
    path.write_text(json.dumps({"eval_set_id": name, "eval_cases": list(cases)}))


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with an agent of two greetings that pass and a refund that fails."""
    write_set(pytester.path / "tests/refunds.evalset.json", *GREETINGS, REFUND)
    pytester.path.joinpath("agent.py").write_text(AGENT)
    pytester.path.joinpath("evalgate.yaml").write_text(THRESHOLDS)
    pytester.path.joinpath("pytest.ini").write_text(INI)
    return pytester


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with eval sets whose agents are in the tests."""
    write_set(pytester.path / "greetings.evalset.json", *GREETINGS)
    pytester.path.joinpath("pytest.ini").write_text(INI)
    return pytester


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("--evalgate", *arguments)


def list_ids(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    found = run(pytester, "--collect-only", "-q", *arguments)
    return [line for line in found.outlines if "::" in line]


def get_text(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


CASES = [f"tests/refunds.evalset.json::{name}" for name in ("greets_ada", "greets_bob", "refund_late")]


class TestCollection:
    """Which items there are, and what they cost."""

    def test_nothing_without_the_option(self, project: pytest.Pytester) -> None:
        assert project.runpytest_inprocess().ret == pytest.ExitCode.NO_TESTS_COLLECTED

    def test_one_item_a_case_and_no_agent_is_started(self, project: pytest.Pytester) -> None:
        assert list_ids(project) == CASES
        assert not (project.path / "started").exists()

    def test_the_ini_key(self, project: pytest.Pytester) -> None:
        project.path.joinpath("pytest.ini").write_text(f"{INI}evalgate = true\n")

        found = project.runpytest_inprocess("--collect-only", "-q")
        assert [line for line in found.outlines if "::" in line] == CASES

    @pytest.mark.parametrize(
        ("arguments", "cases"),
        [
            (["-k", "greets"], CASES[:2]),
            (["-k", "greets and not ada"], CASES[1:2]),
            (["-m", "smoke"], CASES[:1]),
            (["-m", "not smoke"], CASES[1:]),
            (["-k", "words"], CASES[:1]),
            (["-m", "evalgate"], CASES),
            (["-m", "not evalgate"], []),
            (["--deselect", CASES[0]], CASES[1:]),
            (CASES[2:], CASES[2:]),
            (["tests"], CASES),
        ],
    )
    def test_selection(self, project: pytest.Pytester, arguments: list[str], cases: list[str]) -> None:
        assert list_ids(project, *arguments) == cases

    def test_files_by_their_endings(self, project: pytest.Pytester) -> None:
        write_set(project.path / "other.test.json", *GREETINGS[:1])
        write_set(project.path / "data.json", *GREETINGS[:1])

        assert list_ids(project) == ["other.test.json::greets_ada", *CASES]

    def test_an_id_with_colons_is_selected(self, project: pytest.Pytester) -> None:
        write_set(project.path / "odd.test.json", build_case("a:::b [c]", "Ada", "Bye"))
        assert list_ids(project, "odd.test.json") == ["odd.test.json::a:b [c]"]
        result = run(project, "odd.test.json::a:b [c]")
        result.assert_outcomes(failed=1)
        assert "run it again: pytest --evalgate 'odd.test.json::a:b [c]'" in get_text(result)
        assert "evalgate run 'odd.test.json:a:::b [c]'" in get_text(result)

    def test_a_file_that_is_named_may_have_any_ending(self, project: pytest.Pytester) -> None:
        write_set(project.path / "data.json", *GREETINGS[:1])

        assert list_ids(project, "data.json") == ["data.json::greets_ada"]

    def test_the_thresholds_file_names_files_and_cases(self, project: pytest.Pytester) -> None:
        write_set(project.path / "evals/more.json", *GREETINGS)
        text = THRESHOLDS.replace("[tests/refunds.evalset.json]", "['evals/more.json:greets_bob']")
        project.path.joinpath("evalgate.yaml").write_text(text)
        project.path.joinpath("pytest.ini").write_text(f"{INI}testpaths = tests\n")

        assert list_ids(project) == [*CASES, "evals/more.json::greets_bob"]
        assert list_ids(project, "tests") == CASES

    def test_from_a_folder_below_the_root(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project.path / "tests")
        result = run(project, "-k", "refund")

        assert "run it again: pytest --evalgate refunds.evalset.json::refund_late" in get_text(result)
        assert (
            "run it again: evalgate run tests/refunds.evalset.json:refund_late --agent python:agent.py:answer "
            "-C .." in get_text(result)
        )

    def test_cases_run_after_all_other_tests(self, project: pytest.Pytester) -> None:
        project.makepyfile(test_z="def test_unit(): pass")

        assert list_ids(project) == ["test_z.py::test_unit", *CASES]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": 1}', "*is no eval set of a format that evalgate knows*"),
            ("{", "*broken.test.json:1:2: *"),
        ],
    )
    def test_a_broken_file_is_an_error(self, project: pytest.Pytester, text: str, message: str) -> None:
        project.path.joinpath("broken.test.json").write_text(text)
        result = run(project)

        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines([message, "ERROR broken.test.json*"])
        assert "Traceback" not in get_text(result)

    @pytest.mark.parametrize("options", [["--continue-on-collection-errors"], ["-n", "1"]])
    def test_a_broken_file_leaves_no_verdict_about_the_others(
        self, project: pytest.Pytester, options: list[str]
    ) -> None:
        write_set(project.path / "tests/refunds.evalset.json", *GREETINGS)
        project.path.joinpath("tests/broken.evalset.json").write_text("{")
        result = run(project, "tests", "--evalgate-report", "reports", *options)

        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(["NO VERDICT: the cases of tests/broken.evalset.json are missing: *"])
        assert not project.path.joinpath("reports").exists()

    def test_a_broken_thresholds_file_is_a_usage_error(self, project: pytest.Pytester) -> None:
        project.path.joinpath("evalgate.yaml").write_text("version: 1\nrunz: 3\n")
        result = run(project)

        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: evalgate.yaml:2:1: `runz` *"])


class TestRun:
    """What items report, and the verdict."""

    def test_cases_and_the_verdict(self, project: pytest.Pytester) -> None:
        result = run(project, "-v")

        result.assert_outcomes(passed=2, failed=1)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert sorted((project.path / "asked").read_text().split()) == [
            "4711",
            "Ada",
            "Bob",
            "Please",
            "refund",
        ]
        result.stdout.fnmatch_lines(
            [
                f"{CASES[0]} PASSED *",
                f"{CASES[2]} FAILED *",
                "*= evalgate =*",
                "FAIL  tool_trajectory_avg_score *",
                "GATE CLOSED",
                "  tool_trajectory_avg_score is 0.67, below its threshold 1.00.",
                "*= 1 failed, 2 passed in *",
            ]
        )

    def test_a_failure_reads_like_an_assertion(self, project: pytest.Pytester) -> None:
        result = run(project, CASES[2])
        start = next(at for at, line in enumerate(result.outlines) if line.startswith("____"))

        assert result.outlines[start].strip("_ ") == "refund_late (refunds.evalset.json)"
        assert result.outlines[start + 1 : start + 8] == [
            (
                'turn 1: tool_trajectory_avg_score 0.00 < 1.00: call 1: expected `refund(order="4711")`, '
                'got `look_up(order="4711")`'
            ),
            "E   user: Please refund 4711",
            "E   tool calls, expected (−) and actual (+):",
            'E     - refund(order="4711")   <- first divergence',
            'E     + look_up(order="4711")',
            "run it again: pytest --evalgate tests/refunds.evalset.json::refund_late",
            "run it again: evalgate run tests/refunds.evalset.json:refund_late --agent python:agent.py:answer",
        ]
        assert "evalgate/api" not in get_text(result)

    def test_both_commands_repeat_the_failure(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Under CI pytest says the whole failure once more in its summary.
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.delenv("BUILD_NUMBER", raising=False)
        again = [line.split(": ", 1)[1].split() for line in run(project).outlines if "run it again: " in line]

        assert [words[0] for words in again] == ["pytest", "evalgate"]
        project.runpytest_inprocess(*again[0][1:]).assert_outcomes(failed=1)
        assert subprocess.run([sys.executable, "-m", *again[1]], check=False).returncode == 1

    def test_the_gate_may_close_though_every_case_passes(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            @pytest.mark.evalgate(
                "greetings.evalset.json",
                criteria={"response_match_score": {"threshold": 0.4, "min_mean": 0.9}},
            )
            def agent(text):
                return "Hello " + text + " and all the others"
            """
        )
        result = run(folder)

        result.assert_outcomes(passed=2)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            ["GATE CLOSED", "The session fails because of the verdict: no test failed.", "*2 passed*"]
        )

    def test_an_open_gate(self, project: pytest.Pytester) -> None:
        result = run(project, "-k", "greets")

        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(["GATE OPEN", "*2 passed, 1 deselected*"])

    def test_reports(self, project: pytest.Pytester) -> None:
        run(project, "--evalgate-report", "reports")

        record = Record.read(project.path / "reports/results.json")
        assert record.verdict.status == "fail"
        assert record.options == ("--out", "reports/again")

    def test_a_report_that_cannot_be_written_hides_no_verdict(self, project: pytest.Pytester) -> None:
        write_set(project.path / "tests/refunds.evalset.json", *GREETINGS)
        project.path.joinpath("reports/report.html").mkdir(parents=True)
        project.path.joinpath("reports/report.html/note").touch()
        result = run(project, "--evalgate-report", "reports")

        result.assert_outcomes(passed=2)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                "GATE OPEN",
                "The run is over, but not every report *choose another folder with --evalgate-report, and *",
                "*/reports/report.html: Is a directory",
                "The session fails because of reports that could not be written: no test failed.",
            ]
        )

    def test_secrets_are_hidden(self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SERVICE_API_KEY", "s3cr3t-value-of-a-key")
        text = AGENT.replace('return "Refunded."', 'return "s3cr3t-value-of-a-key"')
        project.path.joinpath("agent.py").write_text(text)
        result = run(project)

        result.assert_outcomes(passed=2, failed=1)
        assert "s3cr3t" not in get_text(result)

    def test_junit(self, project: pytest.Pytester) -> None:
        crash = build_case("crashes", "Crash", "Never said.")
        write_set(project.path / "tests/refunds.evalset.json", *GREETINGS, REFUND, crash)
        crashes = "    if text == 'Crash':\n        raise ValueError\n"
        project.path.joinpath("agent.py").write_text(
            AGENT.replace("    with open", f"{crashes}    with open")
        )
        run(project, "--junitxml=junit.xml")
        tests = ET.parse(project.path / "junit.xml").getroot().findall(".//testcase")

        assert [each.get("name") for each in tests] == ["greets_ada", "greets_bob", "refund_late", "crashes"]
        assert [each.find("failure") is not None for each in tests] == [False, False, True, True]
        assert list(tests[3].iter("property")) == []  # a run without an answer has no score
        properties = {each.get("name"): each.get("value") for each in tests[2].iter("property")}
        assert properties == {
            "evalgate:response_match_score": "1.0",
            "evalgate:tool_trajectory_avg_score": "0.0",
        }

    def test_exit_first_ends_without_a_verdict(self, project: pytest.Pytester) -> None:
        write_set(project.path / "tests/refunds.evalset.json", REFUND, *GREETINGS)
        result = run(project, "-x")

        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["NO VERDICT: the session ended before every case was run"])
        assert "GATE" not in get_text(result)

    def test_last_failed(self, project: pytest.Pytester) -> None:
        arguments = ["-p", "cacheprovider"]
        project.path.joinpath("pytest.ini").write_text(INI.replace("-p no:cacheprovider", ""))
        run(project, *arguments).assert_outcomes(passed=2, failed=1)

        run(project, *arguments, "--lf").assert_outcomes(failed=1)

    def test_what_is_deselected_was_not_removed(self, project: pytest.Pytester) -> None:
        run(project, "--evalgate-report", "evalgate-report")
        saved = subprocess.run(
            [sys.executable, "-m", "evalgate", "baseline", "save", "--allow-failing"],
            check=False,
            capture_output=True,
        )
        assert saved.returncode == 0, saved.stderr
        result = run(project, "-k", "greets", "--evalgate-report", "part")

        comparison = Record.read(project.path / "part/results.json").comparison
        assert comparison is not None
        assert (comparison.left_out, comparison.unchanged, comparison.changes) == (1, 2, ())
        assert "GATE OPEN" in get_text(result)

    def test_a_baseline_that_is_not_there(self, project: pytest.Pytester) -> None:
        result = run(project, "--evalgate-baseline", "nowhere.json")

        result.stdout.fnmatch_lines(["NO VERDICT: --evalgate-baseline nowhere.json: there is no baseline*"])

    def test_a_baseline_of_a_marker_that_is_not_there(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="import pytest\n@pytest.mark.evalgate([{'query': 'Hi', 'reference': 'Hi'}], baseline='no.json', "
            "criteria={'response_match_score': 1.0})\ndef agent(text): return text\n"
        )
        result = run(folder, "test_agent.py")

        result.stdout.fnmatch_lines(["NO VERDICT: `baseline` no.json: there is no baseline*"])

    def test_the_help_of_the_marker_names_its_options(self, project: pytest.Pytester) -> None:
        found = get_text(project.runpytest_inprocess("--markers"))

        helped = next(line for line in found.splitlines() if "evalgate(*eval_sets" in line)
        assert set(re.findall(r"`(\w+)`", helped)) - {"outcome"} == OPTIONS | {"agent"}

    def test_an_agent_that_is_not_there(self, project: pytest.Pytester) -> None:
        text = THRESHOLDS.replace('agent: {entry: "agent.py:answer"}\n', "")
        project.path.joinpath("evalgate.yaml").write_text(text)
        result = run(project)

        result.assert_outcomes(failed=3)
        result.stdout.fnmatch_lines(
            ["no agent: give --evalgate-agent KIND:WHAT *", "NO VERDICT: no agent: give --evalgate-agent *"]
        )
        assert "exception" not in get_text(result)

    def test_options_and_ini_keys(self, project: pytest.Pytester) -> None:
        project.path.joinpath("other.yaml").write_text("criteria: {response_match_score: 0.8}\n")
        project.path.joinpath("pytest.ini").write_text(f"{INI}evalgate_thresholds = other.yaml\n")
        result = run(project, "tests", "--evalgate-agent", "python:agent.py:answer", "--evalgate-runs", "2")

        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["3 cases: 3 passed in *, 2 runs each", "GATE OPEN"])

    def test_files_of_google_adk_with_their_own_criteria(self, pytester: pytest.Pytester) -> None:
        turns = [
            {"query": "Ada", "reference": "Hello Ada", "expected_tool_use": []},
            {"query": "Bob", "reference": "Bye", "expected_tool_use": []},
        ]
        pytester.path.joinpath("agent.py").write_text(AGENT)
        for number, turn in enumerate(turns):
            pytester.path.joinpath(f"{number}.test.json").write_text(json.dumps([turn]))
        pytester.path.joinpath("test_config.json").write_text('{"criteria": {"response_match_score": 1.0}}')
        pytester.path.joinpath("pytest.ini").write_text(INI)
        result = run(pytester, "--evalgate-agent", "python:agent.py:answer")

        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["turn 1: response_match_score 0.00 < 1.00*"])

    def test_a_case_that_no_metric_applies_to_is_skipped(self, project: pytest.Pytester) -> None:
        stateful = {**GREETINGS[0], "final_session_state": {"greeted": True}}
        write_set(project.path / "tests/refunds.evalset.json", stateful, GREETINGS[1])
        text = THRESHOLDS.replace(
            "response_match_score: 0.8, tool_trajectory_avg_score", "final_session_state"
        )
        project.path.joinpath("evalgate.yaml").write_text(text)
        result = run(project, "-rs")

        result.assert_outcomes(failed=1, skipped=1)
        result.stdout.fnmatch_lines(
            [
                "GATE CLOSED",
                "SKIPPED ?1? tests/refunds.evalset.json:1: the case expects no final session state",
            ]
        )

    def test_an_agent_that_cannot_be_made_fails_its_cases(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            def make_agent():
                raise RuntimeError("no model")

            @pytest.mark.evalgate(
                "greetings.evalset.json", agent=make_agent, criteria={"response_match_score": 1.0}
            )
            def test_outcome(outcome):
                pass
            """
        )
        result = run(folder)

        result.assert_outcomes(failed=2)
        result.stdout.fnmatch_lines(["*making it raised RuntimeError: no model*", "NO VERDICT"])

    def test_quarantined_cases(self, project: pytest.Pytester) -> None:
        text = THRESHOLDS.replace("response_match_score: 0.8, ", "") + "gate: {quarantine: quarantine.yaml}\n"
        project.path.joinpath("evalgate.yaml").write_text(text)
        project.path.joinpath("quarantine.yaml").write_text(
            "- {case: refund_late, owner: Ada, reason: is known, expires: 2099-01-01}\n"
        )
        result = run(project, "-rx")

        result.assert_outcomes(passed=2, xfailed=1)
        result.stdout.fnmatch_lines(["GATE OPEN", f"XFAIL {CASES[2]} - failed, but quarantined *"])

    def test_ctrl_c(self, project: pytest.Pytester) -> None:
        project.path.joinpath("agent.py").write_text(
            "import time\n\ndef answer(text):\n    open('asked', 'a').close()\n    time.sleep(60)\n"
        )
        command = [sys.executable, "-m", "pytest", "--evalgate"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            wait_for(project.path / "asked")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)

        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert "NO VERDICT: the session ended before every case was run" in output
        assert "The session fails because" not in output
        assert "Traceback" not in output


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


class TestMarker:
    """`@pytest.mark.evalgate` on agents and on tests of outcomes."""

    def test_a_function_is_the_agent(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            async def agent(text):
                return "Hello " + text.replace("Bob", "Rob")
            """
        )
        result = run(folder, "-v", "test_agent.py")

        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            [
                "test_agent.py::agent::greets_ada PASSED*",
                "turn 1: response_match_score 0.50 < 1.00*",
                "*= evalgate test_agent.py::agent =*",
                "GATE CLOSED",
            ]
        )

    def test_other_markers_of_the_agent_apply_to_its_cases(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            @pytest.mark.skip(reason="is away")
            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                raise AssertionError
            """
        )
        result = run(folder, "-rs")

        result.assert_outcomes(skipped=2)
        result.stdout.fnmatch_lines(["SKIPPED ?2? * is away"])
        assert "GATE" not in get_text(result)

    def test_cases_run_together(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import threading
            import pytest

            both = threading.Barrier(2)

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                both.wait(30)
                return "Hello " + text
            """
        )

        run(folder, "test_agent.py").assert_outcomes(passed=2)

    def test_assertions_over_outcomes(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_outcomes="""
            import pytest

            @pytest.mark.evalgate("tests/refunds.evalset.json")
            def test_tools(outcome):
                assert outcome.runs
                assert [call.name for call in outcome.tool_calls] != ["look_up"]

            @pytest.mark.evalgate("tests/refunds.evalset.json:refund_late")
            def test_response(outcome):
                assert outcome.response == "Refunded."
                assert outcome.scores["tool_trajectory_avg_score"] == 0.0
            """
        )
        result = run(project, "-v")

        assert (project.path / "asked").read_text().count("refund") == 1  # all of them are one evaluation
        result.assert_outcomes(passed=4, failed=3)
        result.stdout.fnmatch_lines(
            [
                "test_outcomes.py::test_tools?greets_ada? PASSED*",
                "E       AssertionError: assert *'look_up'*",
                "turn 1: tool_trajectory_avg_score 0.00 < 1.00: *",
                "run it again: pytest --evalgate 'test_outcomes.py::test_response?refund_late?'",
            ]
        )

    def test_a_class_shares_one_evaluation(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_class="""
            import pytest

            asked = []

            def agent(text):
                asked.append(text)
                return "Hello " + text

            @pytest.mark.evalgate(
                "greetings.evalset.json", agent=agent, criteria={"response_match_score": 1.0}
            )
            class TestGreetings:
                def test_response(self, outcome):
                    assert outcome.passed

                @pytest.mark.parametrize("word", ["Hello"])
                def test_words(self, outcome, word):
                    assert word in outcome.response

            def test_asked_once():
                assert asked == []
            """
        )
        result = run(folder, "-v", "test_class.py")

        result.assert_outcomes(passed=5)
        result.stdout.fnmatch_lines(["*= evalgate test_class.py::TestGreetings =*", "2 cases: 2 passed in *"])

    def test_an_agent_may_have_the_name_of_a_test(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            class Proxy:
                __class__ = property(lambda self: 1 / 0)

                def __getattr__(self, name):
                    raise RuntimeError("there is no context")

            proxy = Proxy()

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            async def test_agent(text, session):
                return "Hello " + text
            """,
            test_other="from test_agent import test_agent\n",
        )

        run(folder, "-o", "asyncio_mode=auto").assert_outcomes(passed=2)

    def test_asynchronous_tests_of_outcomes(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_async="""
            import pytest

            async def agent(text):
                return "Hello " + text

            @pytest.mark.asyncio
            @pytest.mark.evalgate(
                "greetings.evalset.json", agent=agent, criteria={"response_match_score": 1.0}
            )
            async def test_response(outcome):
                assert outcome.passed
            """
        )

        run(folder, "test_async.py", "-o", "asyncio_mode=auto").assert_outcomes(passed=2)

    def test_objects_are_eval_sets_too(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_objects="""
            import pytest

            CASES = [{"query": "Ada", "reference": "Hello Ada"}]

            @pytest.mark.evalgate({"eval_set_id": "own", "eval_cases": []}, criteria={"response_match_score": 1})
            def nothing(text):
                return ""

            @pytest.mark.evalgate(CASES, criteria={"response_match_score": 1.0})
            def agent(text):
                return "Hello " + text
            """
        )

        run(folder, "test_objects.py").assert_outcomes(passed=1)

    @pytest.mark.parametrize(
        ("sources", "names"),
        [
            ('[{"query": "Ada"}, {"query": "Bob"}]', ["eval_sets[0]/eval_sets[0]"]),
            (
                '[[{"query": "Ada"}], [{"query": "Bob"}]]',
                ["eval_sets[0]/eval_sets[0]", "eval_sets[1]/eval_sets[1]"],
            ),
            ('[EvalCase("ada", TURNS), EvalCase("bob", TURNS)]', ["cases/ada", "cases/bob"]),
            (
                '["greetings.evalset.json", EvalCase("ada", TURNS)]',
                ["greetings/greets_ada", "greetings/greets_bob", "cases/ada"],
            ),
        ],
    )
    def test_lists_mean_the_same_to_the_marker_the_fixture_and_the_library(
        self, folder: pytest.Pytester, sources: str, names: list[str]
    ) -> None:
        folder.makepyfile(
            test_lists=f"""
            import evalgate as library
            import pytest
            from evalgate import CaseTurn, EvalCase, Reply, UserMessage

            TURNS = (CaseTurn(UserMessage("Ada"), Reply("Hello Ada")),)
            SOURCES = {sources}
            CRITERIA = {{"response_match_score": 0.0}}

            @pytest.mark.evalgate(SOURCES, criteria=CRITERIA)
            def agent(text):
                return "Hello " + text

            def list_names(record):
                return [f"{{each.eval_set_id}}/{{each.eval_id}}" for each in record.cases]

            def test_fixture(evalgate):
                made = list_names(evalgate.evaluate(SOURCES, agent, criteria=CRITERIA))
                assert [each.replace("test_fixture/", "cases/") for each in made] == {names}
                assert list_names(library.evaluate(SOURCES, agent, criteria=CRITERIA)) == {names}
            """
        )
        result = run(folder, "test_lists.py", "--evalgate-report", "report")

        result.assert_outcomes(passed=1 + len(names))
        record = Record.read(folder.path / "report/test_lists.py_agent/results.json")
        assert [f"{each.eval_set_id}/{each.eval_id}" for each in record.cases] == names

    def test_without_the_option_it_costs_nothing(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_both="""
            import pytest

            @pytest.mark.evalgate("greetings.evalset.json", agent="python:nowhere.py:agent")
            def test_outcome(outcome):
                raise AssertionError

            @pytest.mark.evalgate("greetings.evalset.json")
            def test_agent(text):
                raise AssertionError
            """
        )
        result = folder.runpytest_inprocess("-rs")

        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines(["SKIPPED * needs --evalgate"])

    @pytest.mark.parametrize(
        ("marker", "message"),
        [
            (
                '"greetings.evalset.json", agnt="python:x"',
                "*@pytest.mark.evalgate: 'agnt' is no option of an *",
            ),
            (
                '"missing.evalset.json"',
                "*@pytest.mark.evalgate: missing.evalset.json: no such file or folder*",
            ),
            (
                '{"eval_set_id": "own", "eval_cases": []}, {"eval_set_id": "own", "eval_cases": []}',
                "*@pytest.mark.evalgate: eval_sets: 'own' is the id of several eval sets*",
            ),
            ("5", "*@pytest.mark.evalgate: eval_sets?0?: a int is no eval set*"),
        ],
    )
    def test_wrong_markers_are_named(self, folder: pytest.Pytester, marker: str, message: str) -> None:
        folder.makepyfile(
            test_wrong=f"import pytest\n@pytest.mark.evalgate({marker})\ndef test_outcome(outcome): pass\n"
        )
        result = run(folder, "test_wrong.py")

        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines([message])

    @pytest.mark.parametrize(
        "source",
        [
            "class TestShop:\n    @MARK\n    def shop(self, text): return 'no'\n",
            "@MARK\nclass shop:\n    def __call__(self, text): return 'no'\n",
        ],
    )
    def test_a_method_or_a_class_is_no_agent(self, folder: pytest.Pytester, source: str) -> None:
        mark = "pytest.mark.evalgate('greetings.evalset.json', criteria={'response_match_score': 1.0})"
        folder.makepyfile(test_wrong=f"import pytest\nMARK = {mark}\n{source}\ndef test_other(): pass\n")
        result = run(folder, "test_wrong.py")

        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines(["*the agent `shop` must be a function of the module*"])

    @pytest.mark.parametrize("marker", ['parametrize("model", ["a", "b"])', 'usefixtures("fake_model")'])
    def test_an_agent_has_no_marker_of_test_functions(self, folder: pytest.Pytester, marker: str) -> None:
        folder.makepyfile(
            test_wrong=f"""
            import pytest

            @pytest.mark.evalgate("greetings.evalset.json")
            @pytest.mark.{marker}
            def agent(text, model=None):
                return "Hello " + text
            """
        )
        result = run(folder, "test_wrong.py")

        assert result.ret == pytest.ExitCode.INTERRUPTED
        result.stdout.fnmatch_lines(
            [f"*the agent `agent` *its marker `{marker.partition('(')[0]}` has no effect*"]
        )

    def test_a_marker_without_arguments_means_the_sets_of_the_project(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_bare="import pytest\n@pytest.mark.evalgate\ndef test_it(outcome): assert outcome.runs\n"
        )
        result = run(project, "test_bare.py")

        assert "StopIteration" not in result.stdout.str()
        assert "test_bare.py::test_it" in run(project, "test_bare.py", "--collect-only", "-q").stdout.str()

    def test_an_outcome_needs_the_marker(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(test_bare="def test_outcome(outcome): pass\n")

        run(folder, "test_bare.py").stdout.fnmatch_lines(
            ["`outcome` needs @pytest.mark.evalgate(EVAL_SETS)*"]
        )


class TestFixture:
    """The fixture `evalgate`."""

    def test_settings_of_the_project(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_own="""
            import pytest
            from evalgate import EvalCase, CaseTurn, Reply, UserMessage

            CASE = EvalCase("one", (CaseTurn(UserMessage("Ada"), Reply("Hello Ada")),))

            def test_passes(evalgate):
                evalgate.evaluate("tests/refunds.evalset.json:greets_ada").assert_passed()

            def test_names(evalgate):
                record = evalgate.evaluate([CASE], lambda text: "Hello " + text)
                assert [case.eval_set_id for case in record.cases] == ["test_names"]
                assert [metric.name for metric in record.metrics] == [
                    "response_match_score", "tool_trajectory_avg_score"
                ]

            @pytest.mark.evalgate(runs=2, criteria={"response_match_score": 1.0})
            def test_marker(evalgate):
                assert evalgate.evaluate(CASE, lambda text: "Bye").runs == 2

            def test_fails(evalgate):
                evalgate.evaluate("tests/refunds.evalset.json").assert_passed()
            """
        )
        result = project.runpytest_inprocess("--evalgate-report", "reports")

        result.assert_outcomes(passed=3, failed=1)
        result.stdout.fnmatch_lines(
            [">*evalgate.evaluate(?tests/refunds.evalset.json?).assert_passed()", "E   *GateClosedError: *"]
        )
        assert sorted(each.name for each in (project.path / "reports").iterdir()) == [
            f"test_own.py_{name}" for name in ["test_fails", "test_marker", "test_names", "test_passes"]
        ]

    def test_criteria_replace_those_of_the_thresholds_file_only(self, project: pytest.Pytester) -> None:
        rule = '[smoke, "two words"], criteria: {response_match_score: 0.9}'
        rules = THRESHOLDS.replace('[smoke, "two words"]', rule)
        project.path.joinpath("evalgate.yaml").write_text(rules)
        project.makepyfile(
            test_own="""
            import pytest

            @pytest.mark.evalgate("tests/refunds.evalset.json", criteria={"response_match_score": 0.5})
            def test_outcome(outcome):
                [metric] = outcome.metrics
                assert (metric.name, metric.threshold) == ("response_match_score", 0.5)

            def test_fixture(evalgate):
                criteria = {"response_match_score": 0.5}
                record = evalgate.evaluate("tests/refunds.evalset.json", criteria=criteria)
                assert record.agent.what == "agent.py:answer"
                assert {each.threshold for case in record.cases for each in case.metrics} == {0.5}
                assert record.cases[0].tags == ("smoke", "two words")
            """
        )
        result = project.runpytest_inprocess("--evalgate", "test_own.py")

        result.assert_outcomes(passed=4)

    def test_reports_of_equal_names_and_of_two_calls_are_kept(self, project: pytest.Pytester) -> None:
        call = "    evalgate.evaluate('tests/refunds.evalset.json:greets_ada')\n"
        project.makepyfile(
            test_one=f"def test_it(evalgate):\n{call}{call}", test_two=f"def test_it(evalgate):\n{call}"
        )
        project.runpytest_inprocess("--evalgate-report", "reports").assert_outcomes(passed=2)

        found = sorted(each.parent.name for each in project.path.glob("reports/*/results.json"))
        assert found == ["test_one.py_test_it", "test_one.py_test_it_2", "test_two.py_test_it"]

    def test_wrong_input_shows_the_line_of_the_test_only(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_own="""
            import pytest

            def test_blocking(evalgate):
                evalgate.evaluate("missing.json")

            @pytest.mark.asyncio
            async def test_async(evalgate):
                await evalgate.evaluate_async("missing.json")
            """
        )
        result = project.runpytest_inprocess()

        result.assert_outcomes(failed=2)
        result.stdout.fnmatch_lines(["E   *InvalidInputError: missing.json: no such file or folder*"])
        assert "def build_plan" not in get_text(result)
        assert "project.py" not in get_text(result)

    def test_in_the_loop_of_a_test(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_async="""
            import asyncio
            import pytest

            @pytest.mark.asyncio
            async def test_loop(evalgate):
                loop = asyncio.get_running_loop()

                async def agent(text):
                    assert asyncio.get_running_loop() is loop
                    return "Hello " + text

                criteria = {"response_match_score": 1.0}
                record = await evalgate.evaluate_async("greetings.evalset.json", agent, criteria=criteria)
                record.assert_passed()
                evalgate.evaluate("greetings.evalset.json", "python:agent.py:answer", criteria=criteria)
            """
        )
        folder.path.joinpath("agent.py").write_text(AGENT)

        folder.runpytest_inprocess().assert_outcomes(passed=1)


class TestOtherPlugins:
    """Beside pytest-xdist, pytest-rerunfailures and pytest-cov."""

    def test_workers_run_the_cases_and_the_controller_decides(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_marked="""
            import pytest

            SET = {"eval_set_id": "own", "eval_cases": []}

            @pytest.mark.evalgate("tests/refunds.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                return "Hello " + text
            """
        )
        result = project.runpytest_subprocess("--evalgate", "-n", "2", "--evalgate-report", "reports")

        result.assert_outcomes(passed=4, failed=2)
        assert sorted((project.path / "asked").read_text().splitlines()) == [
            "Ada",
            "Bob",
            "Please refund 4711",
        ]
        lines = [line for line in result.outlines if line.startswith(("GATE", "NO VERDICT"))]
        assert lines == ["GATE CLOSED", "GATE CLOSED"]
        record = Record.read(project.path / "reports/results.json")
        assert [case.status for case in record.cases] == ["passed", "passed", "failed"]
        marked = Record.read(project.path / "reports/test_marked.py_agent/results.json")
        assert marked.agent.what == "test_marked.agent"

    def test_the_first_failure_of_a_worker_ends_without_a_verdict(self, project: pytest.Pytester) -> None:
        result = project.runpytest_subprocess("--evalgate", "-n", "1", "-x", *reversed(CASES))

        assert "NO VERDICT: the session ended before every case was run" in get_text(result)
        assert "GATE" not in get_text(result)

    def test_a_crashed_worker_leaves_no_verdict(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import os
            import pytest

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                if text == "Bob":
                    os._exit(1)
                return "Hello " + text
            """
        )
        result = folder.runpytest_subprocess("--evalgate", "-n", "1", "test_agent.py")

        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert "NO VERDICT: a worker crashed, and its results are lost" in get_text(result)
        assert "GATE" not in get_text(result)

    def test_a_rerun_runs_the_case_again_and_counts(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            test_agent="""
            import pytest

            asked = []

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                asked.append(text)
                return "Hello " + text if asked.count("Bob") != 1 else "Bye"
            """
        )
        result = run(folder, "test_agent.py", "--reruns", "1", "--evalgate-report", "reports")

        assert result.parseoutcomes()["rerun"] >= 1
        assert "failed" not in result.parseoutcomes()
        assert "GATE OPEN" in get_text(result)
        assert Record.read(folder.path / "reports/test_agent.py_agent/results.json").totals.passed == 2

    def test_coverage_of_an_agent_of_this_process(self, folder: pytest.Pytester) -> None:
        folder.makepyfile(
            bot="def answer(text):\n    return 'Hello ' + text\n",
            test_agent="""
            import pytest
            from bot import answer

            @pytest.mark.evalgate("greetings.evalset.json", criteria={"response_match_score": 1.0})
            def agent(text):
                return answer(text)
            """,
        )
        result = folder.runpytest_subprocess("--evalgate", "--cov=bot", "test_agent.py")

        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(["GATE OPEN", "bot.py * 2 * 0 * 100%*"])


class TestCost:
    """What the plugin costs those who do not use it."""

    CODE = """
import sys
import pytest
before = set(sys.modules)
import evalgate.api.pytest_plugin
print(*sorted(set(sys.modules) - before))
"""

    def test_the_import_loads_nothing_else(self) -> None:
        done = subprocess.run([sys.executable, "-c", self.CODE], check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["evalgate", "evalgate.api", "evalgate.api.pytest_plugin"]

    def test_a_run_without_the_option_opens_no_socket_and_loads_nothing(
        self, project: pytest.Pytester
    ) -> None:
        project.makepyfile(
            conftest="""
            import socket, sys

            def refuse(*_, **__):
                raise AssertionError("a socket was opened")

            socket.socket = refuse
            """,
            test_unit="""
            import sys

            def test_modules():
                assert [name for name in sys.modules if name.startswith("evalgate.")] == [
                    "evalgate.api", "evalgate.api.pytest_plugin"
                ]
            """,
        )

        project.runpytest_subprocess("-p", "no:rerunfailures").assert_outcomes(passed=1)
