"""`evalgate results`: what runs leave behind is listed, shown and compared."""

import errno
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.results_io import dump_record
from evalgate.reporting import results_history
from evalgate.reporting.report_files import check_writable
from evalgate.reporting.results_history import FOLDER, find_result, keep_result, list_results
from evalgate.system.files import AnchoredFolder
from tests.builders import a_record
from tests.cli.test_cli import evalgate

AGENT = "def answer(text):\n    return 'Hello'\n"
EVAL_SET = {
    "eval_set_id": "s",
    "eval_cases": [
        {
            "eval_id": "c",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "Hi"}]},
                    "final_response": {"parts": [{"text": "Hello"}]},
                }
            ],
        }
    ],
}
RULES = "agent: {kind: python, entry: 'agent.py:answer'}\neval_sets: [s.evalset.json]\ncriteria: {response_match_score: 0.5}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    (tmp_path / "s.evalset.json").write_text(json.dumps(EVAL_SET), "utf-8")
    (tmp_path / "evalgate.yaml").write_text(RULES, "utf-8")
    return tmp_path


def keep(folder: Path, created_at: str, most: int = 20) -> None:
    record = replace(a_record(), created_at=created_at)
    (folder / "results.json").unlink(missing_ok=True)
    (folder / "results.json").write_text(dump_record(record), "utf-8")
    keep_result(record, check_writable(folder), AnchoredFolder.open_anchor(folder, folder / FOLDER), most)


class TestHistory:
    """The folder with the results of earlier runs."""

    def test_the_newest_come_first(self, tmp_path: Path) -> None:
        for day in ("02", "01", "03"):
            keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
        assert [each.result_id for each in list_results(tmp_path)] == [
            "20261103T100000Z",
            "20261102T100000Z",
            "20261101T100000Z",
        ]

    def test_results_of_one_second_are_numbered(self, tmp_path: Path) -> None:
        for _ in range(11):
            keep(tmp_path, "2026-11-01T10:00:00+00:00")
        ids = [each.result_id for each in list_results(tmp_path)]
        assert ids[:2] == ["20261101T100000Z-11", "20261101T100000Z-10"]
        assert ids[-1] == "20261101T100000Z"

    def test_the_oldest_are_removed(self, tmp_path: Path) -> None:
        for day in range(1, 6):
            keep(tmp_path, f"2026-11-0{day}T10:00:00+00:00", most=3)
        assert [each.result_id[:8] for each in list_results(tmp_path)] == ["20261105", "20261104", "20261103"]

    def test_large_results_are_removed_but_the_newest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(results_history, "MOST_BYTES", 10)
        for day in range(1, 4):
            keep(tmp_path, f"2026-11-0{day}T10:00:00+00:00")
        assert [each.result_id[:8] for each in list_results(tmp_path)] == ["20261103"]

    def test_none_is_kept_if_none_is_wanted(self, tmp_path: Path) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00", most=0)
        assert list_results(tmp_path) == ()

    def test_a_link_in_place_of_the_folder_is_not_followed(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        out, history = check_writable(tmp_path), AnchoredFolder.open_anchor(tmp_path, tmp_path / FOLDER)
        (tmp_path / ".evalgate").symlink_to(elsewhere)  # as an agent may do during the run
        (tmp_path / "results.json").write_text(dump_record(a_record()), "utf-8")
        keep_result(a_record(), out, history, 20)
        assert list(elsewhere.iterdir()) == []

    def test_another_file_system_gets_a_copy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*args: object, **kwargs: object) -> None:
            raise OSError(errno.EXDEV, "cross-device link")

        monkeypatch.setattr(os, "link", refuse)
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        (kept,) = list_results(tmp_path)
        assert kept.path.read_bytes() == (tmp_path / "results.json").read_bytes()

    def test_git_ignores_the_folder(self, tmp_path: Path) -> None:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        done = subprocess.run(
            ["git", "status", "--porcelain", "-uall"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "?? results.json\n"

    def test_other_files_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / FOLDER).mkdir(parents=True)
        (tmp_path / FOLDER / "notes.txt").write_text("mine", "utf-8")
        keep(tmp_path, "2026-11-01T10:00:00+00:00", most=1)
        keep(tmp_path, "2026-11-02T10:00:00+00:00", most=1)
        names = {path.name for path in (tmp_path / FOLDER).iterdir()}
        assert names == {".gitignore", "20261102T100000Z.json", "notes.txt"}

    @pytest.mark.parametrize(
        ("which", "found"),
        [("1", "20261103T100000Z"), ("3", "20261101T100000Z"), ("20261102", "20261102T100000Z")],
    )
    def test_a_result_is_named_by_number_or_id(self, which: str, found: str, tmp_path: Path) -> None:
        for day in ("01", "02", "03"):
            keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
        assert find_result(tmp_path, which).result_id == found

    @pytest.mark.parametrize(
        ("which", "message"),
        [
            ("4", "there is no result 4: the history has 3 results"),
            ("0", "there is no result 0: the history has 3 results"),
            ("202611", "3 results begin with `202611`: write more of the id"),
            ("2025", "there is no result `2025`: `evalgate results list` names those there are"),
        ],
    )
    def test_a_wrong_name_says_what_there_is(self, which: str, message: str, tmp_path: Path) -> None:
        for day in ("01", "02", "03"):
            keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
        with pytest.raises(InvalidInputError) as caught:
            find_result(tmp_path, which)
        assert str(caught.value) == message

    def test_without_a_run_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="there are no results yet"):
            find_result(tmp_path, "1")


def test_runs_are_listed_shown_and_compared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    assert evalgate("run", cwd=project).code == 0
    (project / "agent.py").write_text(AGENT.replace("Hello", "Bye"), "utf-8")
    assert evalgate("run", cwd=project).code == 1

    listed = evalgate("results", "list", cwd=project).out.splitlines()
    assert [line.split()[2] for line in listed if "passed" in line] == ["fail", "pass"]
    assert "     response_match_score 0.00 (threshold 0.50)" in listed
    rows = json.loads(evalgate("results", "list", "--json", cwd=project).out)
    assert [row["verdict"] for row in rows] == ["fail", "pass"]

    shown = evalgate("results", "show", "2", cwd=project)
    assert (shown.code, "1 passed" in shown.out) == (0, True)
    compared = evalgate("results", "diff", cwd=project)
    results = [str(each.path.relative_to(project)) for each in list_results(project)]
    assert compared == evalgate("compare", *reversed(results), cwd=project)
    assert "newly failing" in compared.out


def test_a_job_of_ci_keeps_none_unless_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    evalgate("run", cwd=project)
    assert list_results(project) == ()
    evalgate("run", "--keep-results", "2", cwd=project)
    assert len(list_results(project)) == 1
