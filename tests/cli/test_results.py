"""`evalgate results`: what runs leave behind is listed, shown and compared."""

import errno
import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.datasets.results_io import dump_record
from evalgate.reporting import results_history
from evalgate.reporting.report_files import check_writable
from evalgate.reporting.results_history import (
    FOLDER,
    find_pair,
    find_result,
    keep_result,
    list_results,
    open_history,
)
from tests.builders import a_record
from tests.commands import evalgate

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
    (folder / "results.json").write_text(dump_record(record), "utf-8")
    keep_result(record, check_writable(folder), open_history(folder), most)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


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

    def test_runs_that_end_together_take_no_name_twice(self, tmp_path: Path) -> None:
        (tmp_path / "results.json").write_text(dump_record(a_record()), "utf-8")
        out, history = check_writable(tmp_path), open_history(tmp_path)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: keep_result(a_record(), out, history, 20), range(16)))
        kept = [each.path.read_bytes() for each in list_results(tmp_path)]
        assert kept == [(tmp_path / "results.json").read_bytes()] * 16

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

    def test_zero_leaves_earlier_results(self, tmp_path: Path) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        keep(tmp_path, "2026-11-02T10:00:00+00:00", most=0)
        assert [each.result_id for each in list_results(tmp_path)] == ["20261101T100000Z"]

    def test_a_link_that_an_agent_puts_there_is_not_followed(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        out, history = check_writable(tmp_path), open_history(tmp_path)
        (tmp_path / ".evalgate").symlink_to(elsewhere)  # as an agent may do during the run
        (tmp_path / "results.json").write_text(dump_record(a_record()), "utf-8")
        with pytest.raises(OSError, match="replaced by a link or a file during the run"):
            keep_result(a_record(), out, history, 20)
        assert list(elsewhere.iterdir()) == []

    def test_a_result_is_a_copy(self, tmp_path: Path) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        (kept,) = list_results(tmp_path)
        before = kept.path.read_bytes()
        assert before == (tmp_path / "results.json").read_bytes()
        with (tmp_path / "results.json").open("a") as file:
            file.write("garbage")
        assert kept.path.read_bytes() == before
        assert (kept.path.stat().st_nlink, kept.path.stat().st_mode & 0o777) == (1, 0o644)

    def test_a_pipe_in_place_of_the_result_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "results.json")  # opening it would wait for a writer
        with pytest.raises(OSError, match=r"results\.json is no file"):
            keep_result(a_record(), check_writable(tmp_path), open_history(tmp_path), 20)

    def test_a_full_disk_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00")

        def refuse(*args: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(shutil, "copyfileobj", refuse)
        with pytest.raises(OSError, match="No space left"):
            keep(tmp_path, "2026-11-02T10:00:00+00:00")
        assert names_in(tmp_path / FOLDER) == {".gitignore", "20261101T100000Z.json"}

    @pytest.mark.parametrize("linked", [False, True])
    def test_only_results_that_were_kept_are_removed(self, linked: bool, tmp_path: Path) -> None:
        history = tmp_path / FOLDER
        if linked:
            (tmp_path / "mine").mkdir()
            history.parent.mkdir()
            history.symlink_to(tmp_path / "mine")
        else:
            history.mkdir(parents=True)
        result = dump_record(replace(a_record(), created_at="2020-01-02T00:00:00+00:00"))
        (history / "20200101T000000Z.json").write_text('{"of": "another program"}', "utf-8")
        (history / "20200102T000000Z.json").write_text(result, "utf-8")  # that evalgate kept
        (history / "20200103T000000Z.json").write_text(result, "utf-8")  # of another run than its name
        (history / "20200104T000000Z.json").mkdir()
        (history / "20200105T000000Z.json").symlink_to("20200102T000000Z.json")
        os.mkfifo(history / "20200106T000000Z.json")
        before = names_in(history)
        keep(tmp_path, "2026-11-01T10:00:00+00:00", most=1)
        assert names_in(history) == before - {"20200102T000000Z.json"} | {"20261101T100000Z.json"}

    def test_incomplete_copies_of_a_killed_run_are_removed(self, tmp_path: Path) -> None:
        history = tmp_path / FOLDER
        history.mkdir(parents=True)
        left = [history / f".20261101T100000Z.json.{digits}.tmp" for digits in ("0" * 12, "1" * 12)]
        for path in left:
            path.write_text("{", "utf-8")
        two_hours_ago = time.time() - 7_200
        os.utime(left[0], (two_hours_ago, two_hours_ago))
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        assert names_in(history) == {left[1].name, "20261101T100000Z.json"}  # the other run may go on

    def test_a_result_that_cannot_be_removed_stops_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for day in ("01", "02", "03"):
            keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
        unlink = os.unlink

        def refuse_one(name: str | Path, *, dir_fd: int | None = None) -> None:
            if str(name).startswith("20261102"):
                raise PermissionError(errno.EPERM, "Operation not permitted")
            unlink(name, dir_fd=dir_fd)

        monkeypatch.setattr(os, "unlink", refuse_one)
        with pytest.raises(OSError, match=r"20261102T100000Z\.json cannot be removed: Operation not"):
            keep(tmp_path, "2026-11-04T10:00:00+00:00", most=1)
        assert [each.result_id[:8] for each in list_results(tmp_path)] == ["20261104", "20261102"]

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

    def test_a_removed_gitignore_stays_removed(self, tmp_path: Path) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        (tmp_path / FOLDER / ".gitignore").unlink()
        keep(tmp_path, "2026-11-02T10:00:00+00:00")
        assert not (tmp_path / FOLDER / ".gitignore").exists()

    def test_other_files_are_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / FOLDER).mkdir(parents=True)
        (tmp_path / FOLDER / "notes.txt").write_text("mine", "utf-8")
        keep(tmp_path, "2026-11-01T10:00:00+00:00", most=1)
        keep(tmp_path, "2026-11-02T10:00:00+00:00", most=1)
        names = {path.name for path in (tmp_path / FOLDER).iterdir()}
        assert names == {"20261102T100000Z.json", "notes.txt"}

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

    @pytest.mark.parametrize(
        ("names", "days"),
        [
            ((None, None), ("02", "03")),
            (("1", None), ("02", "03")),
            (("2", None), ("02", "03")),
            (("3", None), ("01", "03")),
            (("1", "3"), ("03", "01")),
        ],
    )
    def test_two_results_are_compared(
        self, names: tuple[str | None, str | None], days: tuple[str, str], tmp_path: Path
    ) -> None:
        for day in ("01", "02", "03"):
            keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
        assert tuple(each.result_id[6:8] for each in find_pair(tmp_path, *names)) == days

    def test_a_result_is_not_compared_with_itself(self, tmp_path: Path) -> None:
        keep(tmp_path, "2026-11-01T10:00:00+00:00")
        with pytest.raises(InvalidInputError, match="the history has 1 result, and comparing takes two"):
            find_pair(tmp_path, "1", None)
        with pytest.raises(InvalidInputError, match="`1` and `2026` are the same result, 20261101T100000Z"):
            find_pair(tmp_path, "1", "2026")


BROKEN = {
    "empty": ("", ":1:1: is not JSON: EOF while parsing a value"),
    "cut off": ('{"schema_version": 1,', ":1:21: is not JSON: EOF while parsing a value"),
    "foreign": ('{"a": 1}', ": is not a results.json of evalgate: it has no schema_version"),
    "link": (None, ": is a link that leads nowhere"),
    "folder": (b"", ": is a folder, and has to be a file: move the folder, or name another file"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_result_is_named_and_the_others_are_listed(kind: str, tmp_path: Path) -> None:
    for day in ("01", "03"):
        keep(tmp_path, f"2026-11-{day}T10:00:00+00:00")
    content, reason = BROKEN[kind]
    name = f"{FOLDER}/20261102T100000Z.json"
    if content is None:
        (tmp_path / name).symlink_to("nowhere")
    elif isinstance(content, bytes):
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_text(content, "utf-8")
    message = f"{name}{reason}. If you do not need it, delete it"

    listed = evalgate("results", "list", cwd=tmp_path)
    assert listed.code == 0
    assert f"  2  20261102T100000Z  {message}" in listed.out.splitlines()
    assert listed.out.count(" passed ") == 2
    rows = json.loads(evalgate("results", "list", "--json", cwd=tmp_path).out)
    assert rows[1] == {"id": "20261102T100000Z", "error": message}
    assert ["error" in row for row in rows] == [False, True, False]
    for command in (["show", "2"], ["diff"], ["diff", "3", "2"]):
        done = evalgate("results", *command, cwd=tmp_path)
        assert (done.code, done.out, done.err.strip()) == (2, "", message)


@pytest.mark.parametrize("obstacle", ["file", "link", "loop"])
@pytest.mark.parametrize("path", [".evalgate", FOLDER])
def test_an_obstacle_in_place_of_the_folder_is_named(
    path: str, obstacle: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    place = project / path
    place.parent.mkdir(exist_ok=True)
    if obstacle == "file":
        place.write_text("mine", "utf-8")
        reason = f"{path} is a file, and has to be a folder: move or delete it"
    else:
        place.symlink_to(project.parent / "no/where/at/all" if obstacle == "link" else place)
        reason = f"{path} is a link that leads to no folder, and has to be a folder: move or delete it"
    done = evalgate("run", cwd=project)
    notice = f"The history of results in {FOLDER} could not be written: {reason}"
    assert (done.code, done.err.splitlines().count(notice)) == (0, 1)
    for command in ("list", "show", "diff"):
        done = evalgate("results", command, cwd=project)
        assert (done.code, done.out, done.err) == (2, "", f"evalgate: {reason}\n")


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
    page = project / "pages/comparison.html"
    assert evalgate("compare", *reversed(results), "--html", str(page), cwd=project) == compared
    written = page.read_text("utf-8")
    assert "was compared with" in written
    assert evalgate("results", "diff", "--html", str(page), cwd=project) == compared
    assert page.read_text("utf-8") == written


def test_a_job_of_ci_keeps_none_unless_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    evalgate("run", cwd=project)
    assert list_results(project) == ()
    evalgate("run", "--keep-results", "2", cwd=project)
    assert len(list_results(project)) == 1
