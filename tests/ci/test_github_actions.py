import io
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.ci.github_actions import (
    SUMMARY_LIMIT,
    add_summary,
    format_workflow_command,
    register_masks,
    set_outputs,
    write_annotations,
)
from evalgate.core.sanitize import strip_invisible
from evalgate.core.types import CaseResult, Failure, Outcome
from evalgate.gating.failure_groups import group_failures
from evalgate.reporting.findings import list_findings
from evalgate.runner.annotations import build_annotations, build_check_annotations
from tests.builders import a_case_result, a_record, a_run_result
from tests.conformance.test_runner_commands import ATTACKS
from tests.situations import GOLDEN, huge


def read_outputs(text: str) -> dict[str, str]:
    """What the runner reads from its output file."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if line:
            name, delimiter = line.split("<<", 1)
            value = []
            for part in lines:
                if part == delimiter:
                    break
                value.append(part)
            found[name] = "\n".join(value)
    return found


def environment(folder: Path) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "GITHUB_OUTPUT": str(folder / "output"),
    }


def test_a_finished_run_writes_summary_outputs_and_annotations(tmp_path: Path) -> None:
    stream = io.StringIO()
    environ = environment(tmp_path)
    add_summary("# comment", environ=environ, stream=stream)
    set_outputs({"verdict": "fail"}, environ=environ, stream=stream)
    write_annotations(build_annotations(list_findings(GOLDEN["regression"]())), 2, stream)
    assert (tmp_path / "summary").read_text() == "# comment\n"
    assert read_outputs((tmp_path / "output").read_text()) == {"verdict": "fail"}
    assert stream.getvalue().splitlines() == [
        "::error file=evals/travel.evalset.json,line=17,title=travel/paris::tool_trajectory_avg_score 0.50 < 1.00: call 2 differs in its arguments%0Aresponse_match_score 0.79999 < 0.80",
        "::error file=evals/travel.evalset.json,line=17,title=travel/rome::tool_trajectory_avg_score 0.50 < 1.00%0Aresponse_match_score 0.79999 < 0.80",
    ]


def test_missing_and_unwritable_files_are_warnings(tmp_path: Path) -> None:
    stream = io.StringIO()
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path)}
    add_summary("x", environ=environ, stream=stream)
    set_outputs({"a": "b"}, environ=environ, stream=stream)
    assert stream.getvalue().splitlines() == [
        "::warning title=evalgate::GITHUB_STEP_SUMMARY is not set: this runner accepts no such file.",
        "::warning title=evalgate::GITHUB_OUTPUT cannot be written: Is a directory.",
    ]


def test_summaries_are_appended_up_to_the_limit(tmp_path: Path) -> None:
    stream, environ = io.StringIO(), environment(tmp_path)
    add_summary("first", environ=environ, stream=stream)
    add_summary("second", environ=environ, stream=stream)
    add_summary("x" * SUMMARY_LIMIT, environ=environ, stream=stream)
    assert (tmp_path / "summary").read_text() == "first\nsecond\n"
    assert "The step summary is full" in stream.getvalue()


def test_at_most_ten_annotations_and_the_rest_is_counted() -> None:
    stream = io.StringIO()
    write_annotations(build_annotations(list_findings(huge(25))), 25, stream)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[-1] == "::error title=evalgate::16 more failing cases: see the step summary."


def test_a_check_run_has_fifty_annotations_from_all_groups() -> None:
    def fail(number: int) -> CaseResult:
        outcome: Outcome = "answered" if number < 110 else "timed_out" if number < 118 else "crashed"
        runs = (
            a_run_result(
                outcome=outcome, failure=None if number < 110 else Failure("exception", f"boom {number}")
            ),
        )
        return a_case_result(f"c{number}", "failed", runs=runs)

    record = a_record(*map(fail, range(120)))
    groups = group_failures(record.cases, None, ())
    found = build_check_annotations(replace(record, failure_groups=groups))
    assert len(groups) == 3
    assert [each.title.rpartition("/c")[2] for each in found[:6]] == ["0", "110", "118", "1", "111", "119"]
    assert (len(found), found[-1].message) == (50, "71 more failing cases: see the summary.")
    assert len(build_check_annotations(a_record(*map(fail, range(50))))) == 50


@pytest.mark.parametrize(
    ("message", "properties", "expected"),
    [
        ("50%\ndone", {}, "::error::50%25%0Adone\n"),
        ("x", {"file": "a,b:c.json", "line": 3}, "::error file=a%2Cb%3Ac.json,line=3::x\n"),
        ("x", {"line": 3}, "::error::x\n"),
        ("x", {"title": "##[add-mask]e"}, "::error title=# #[add-mask]e::x\n"),
        ("\x1b[31mred", {"title": "two\nlines"}, "::error title=two lines::red\n"),
    ],
)
def test_commands_are_escaped(message: str, properties: dict[str, str | int], expected: str) -> None:
    file, title, line = (
        str(properties.get("file", "")),
        str(properties.get("title", "")),
        int(properties.get("line", 0)),
    )
    assert format_workflow_command("error", message, file=file, line=line, title=title) == expected


@given(ATTACKS)
def test_text_never_becomes_a_second_command(text: str) -> None:
    stream = io.StringIO()
    record = a_record(a_case_result(text, "failed", eval_set_id=text, path=text))
    write_annotations(build_annotations(list_findings(record)), 1, stream)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("::error ")
    assert "##[" not in line


@given(st.dictionaries(st.from_regex(r"[a-z][a-z_-]*", fullmatch=True), ATTACKS, max_size=3))
def test_outputs_hold_any_value(outputs: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        set_outputs(outputs, environ=environment(Path(folder)), stream=io.StringIO())
        text = (Path(folder) / "output").read_text(encoding="utf-8")
    assert read_outputs(text) == {name: strip_invisible(value) for name, value in outputs.items()}


def test_an_output_cannot_set_another(tmp_path: Path) -> None:
    outputs = {"reason": "x\nevalgate_0\nverdict<<y\npass\ny\nname=value", "verdict": "fail"}
    set_outputs(outputs, environ=environment(tmp_path), stream=io.StringIO())
    assert read_outputs((tmp_path / "output").read_text()) == outputs


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("", "evals/a.json", "evals/a.json"),
        (".", "./evals/a.json", "evals/a.json"),
        ("agents/desk", "evals/a.json", "agents/desk/evals/a.json"),
        ("agents/desk", "../shared/a.json", "agents/shared/a.json"),
    ],
)
def test_annotations_name_files_as_the_repository_does(folder: str, path: str, expected: str) -> None:
    stream = io.StringIO()
    record = a_record(a_case_result("x", "failed", path=path))
    write_annotations(build_annotations(list_findings(record), folder), 1, stream)
    assert re.findall(r"^::error file=(.+?),", stream.getvalue()) == [expected]


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ([], []),
        (["hunter2000"], ["hunter2000"]),
        (["first line\n  second line \n\n", "50%"], ["first line", "second line"]),
        (["50%25 off", "##[add-mask]e", "::x::"], ["50%25 off", "##[add-mask]e", "::x::"]),
        (["twice", "twice"], ["twice"]),
    ],
)
def test_masks_are_written_as_the_runner_reads_them(masks: list[str], expected: list[str]) -> None:
    stream = io.StringIO()
    register_masks(masks, environ={"GITHUB_ACTIONS": "true"}, stream=stream)
    read = [line.removeprefix("::add-mask::") for line in stream.getvalue().splitlines()]
    assert [line.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%") for line in read] == expected


def test_masks_are_not_written_outside_of_github_actions() -> None:
    stream = io.StringIO()
    register_masks(["hunter2000"], environ={}, stream=stream)
    assert stream.getvalue() == ""
