"""The record that the library returns: its assertion, its reports, its table and its page in a notebook."""

import builtins
import html
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.core.errors import InvalidInputError
from tests.api.test_evaluation import CRITERIA, build_case, build_set, greet

MIXED = build_set(build_case("ada"), build_case("bob", "Bob", "Hi Bob"))


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def record() -> evalgate.Record:
    return evalgate.evaluate(MIXED, greet, criteria=CRITERIA, runs=2)


def test_an_open_gate_passes_the_assertion() -> None:
    evalgate.evaluate(build_set(), greet, criteria=CRITERIA).assert_passed()


def test_a_closed_gate_names_reasons_cases_and_scores(record: evalgate.Record) -> None:
    with pytest.raises(evalgate.GateClosedError) as caught:
        record.assert_passed()
    assert isinstance(caught.value, AssertionError)
    assert caught.value.record is record
    lines = str(caught.value).splitlines()
    assert lines[0] == "evalgate: fail"
    assert any("bob" in line for line in lines)
    assert not any("ada" in line for line in lines)


def test_many_failing_cases_are_counted() -> None:
    cases = [build_case(f"c{number:02}", "Ada", "Bye") for number in range(25)]
    record = evalgate.evaluate(build_set(*cases), greet, criteria=CRITERIA)
    with pytest.raises(evalgate.GateClosedError) as caught:
        record.assert_passed()
    assert str(caught.value).splitlines()[-1] == "… and 5 further cases"


def test_the_failures_are_cases(record: evalgate.Record) -> None:
    assert [case.eval_id for case in record.failures] == ["bob"]


def test_the_reports_are_those_of_the_files(record: evalgate.Record, tmp_path: Path) -> None:
    written = {path.name: path.read_text("utf-8") for path in record.write("report")}
    assert written["results.json"] == record.to_json()
    assert written["junit.xml"] == record.to_junit()
    assert written["report.html"] == record.to_html()
    assert written["comment.md"].splitlines()[0] == record.to_markdown().splitlines()[0]


def test_the_table_has_one_row_per_run(record: evalgate.Record) -> None:
    table = record.to_dataframe()
    assert list(table["eval_id"]) == ["ada", "ada", "bob", "bob"]
    assert list(table["run"]) == [1, 2, 1, 2]
    assert list(table["response_match_score"]) == [1.0, 1.0, 0.5, 0.5]


def test_the_table_needs_pandas(record: evalgate.Record, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse_pandas(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse_pandas)
    with pytest.raises(ImportError, match="install evalgate with its extra `dataframe`"):
        record.to_dataframe()


def test_a_notebook_shows_the_page_in_a_frame_without_scripts(record: evalgate.Record) -> None:
    shown = record._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert " sandbox " in shown
    page = html.unescape(shown.split('srcdoc="', 1)[1].split('" sandbox', 1)[0])
    assert page == record.to_html()


def test_the_text_of_a_record_is_one_line(record: evalgate.Record) -> None:
    assert repr(record) == "<Record fail: 2 cases, 1 passed, 1 failed, 0 errored, 0 not evaluated>"


def test_a_file_is_read_as_it_was_written(record: evalgate.Record) -> None:
    record.write("report")
    assert evalgate.Record.read("report/results.json") == record


def test_a_file_that_is_no_record_is_an_error() -> None:
    Path("other.json").write_text("[]", "utf-8")
    with pytest.raises(InvalidInputError, match=r"other\.json"):
        evalgate.Record.read("other.json")


def test_secrets_of_the_environment_are_in_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "k3y-of-the-shop-0123456789")
    record = evalgate.evaluate(build_set(), lambda text: "k3y-of-the-shop-0123456789", criteria=CRITERIA)
    assert "k3y-of-the-shop" not in record.to_json() + record.to_markdown() + record.to_html() + repr(
        record.cases
    )


def test_no_command_line_is_shown_that_names_an_object(record: evalgate.Record) -> None:
    assert record.agent.kind == "in_process"
    for shown in (record.to_markdown(), record.to_html(), evalgate.render(record, "junit")):
        assert "evalgate run" not in shown


def test_a_folder_that_cannot_be_written_is_named_with_the_argument(
    record: evalgate.Record, empty_folder: Path
) -> None:
    (empty_folder / "file").touch()
    with pytest.raises(
        InvalidInputError, match=r"cannot be written \(.+\)\. Choose another one with `folder`"
    ):
        record.write("file")
