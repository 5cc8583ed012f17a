import json
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.report_files import ReportWriteError, check_writable, remove_reports, write_reports
from evalgate.system.files import make_folder, write_atomically
from tests.builders import a_record
from tests.commands import evalgate
from tests.situations import green


@dataclass
class Fixed:
    """A reporter with the same text for every record."""

    file_name: str
    text: str

    def render(self, record: Record) -> str:
        return self.text


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file can grow beyond `room` bytes: writing fails half way, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python would keep the half of a compiled module, and every later test would load it.
    keeps_nothing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = keeps_nothing
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_every_report_is_written_and_named_in_order(tmp_path: Path) -> None:
    reporters = (Fixed("b.txt", "Zoë\n"), Fixed("a.txt", ""))
    written = write_reports(a_record(), check_writable(tmp_path / "deep" / "out"), reporters)
    assert [path.name for path in written] == ["b.txt", "a.txt"]
    assert written[0].read_bytes() == "Zoë\n".encode()
    assert written[0].stat().st_mode & 0o777 == 0o644


def test_a_full_disk_loses_only_the_reports_that_do_not_fit(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("the old one")
    reporters = (Fixed("a.txt", "small"), Fixed("big.txt", "x" * 100_000), Fixed("z.txt", "small"))
    opened = check_writable(tmp_path)
    with full_disk(4096), pytest.raises(ReportWriteError) as caught:
        write_reports(a_record(), opened, reporters)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "big.txt", "z.txt"]
    assert (tmp_path / "big.txt").read_text() == "the old one"
    assert [path.name for path in caught.value.written] == ["a.txt", "z.txt"]
    assert f"{tmp_path / 'big.txt'}: File too large" in str(caught.value)
    assert "--out" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("page", ["small", "x" * 100_000], ids=["written", "too large"])
def test_the_comment_mentions_the_page_only_if_it_was_written(tmp_path: Path, page: str) -> None:
    reporters = (CommentReport(), Fixed("report.html", page))
    opened = check_writable(tmp_path)
    with full_disk(4096), suppress(ReportWriteError):
        written = write_reports(green(), opened, reporters)
        assert [path.name for path in written] == ["comment.md", "report.html"]
    assert ("`report.html`" in (tmp_path / "comment.md").read_text()) == (page == "small")


def test_a_page_is_removed_by_the_name_that_its_reporter_gives_it() -> None:
    assert {
        name: plugin_registry.get_reporter(name).file_name for name in plugin_registry.ON_REQUEST
    } == plugin_registry.ON_REQUEST


def test_a_folder_with_the_name_of_a_report_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(ReportWriteError, match=r"a\.txt: Is a directory"):
        write_reports(a_record(), check_writable(tmp_path), (Fixed("a.txt", ""),))
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_writable_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_with_the_name_of_the_folder_is_an_error(tmp_path: Path, below: str) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(
        InvalidInputError, match=r"report folder .* cannot be written \(.+\)\. Choose another"
    ) as caught:
        check_writable(tmp_path / "out" / below)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("swapped", ["out", "out/deep"])
@pytest.mark.parametrize("by", ["link", "link to the old one", "file"])
def test_a_report_folder_that_is_replaced_during_the_run_is_not_followed(
    tmp_path: Path, swapped: str, by: str
) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (elsewhere / "deep").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "deep"):
        (folder / "a.txt").write_text("precious")
    opened = check_writable(root / "out/deep", root=root)
    (root / swapped).rename(tmp_path / "moved")
    if by == "file":
        (root / swapped).write_text("no folder")
    else:
        (root / swapped).symlink_to(elsewhere if by == "link" else tmp_path / "moved")
    remove_reports(opened, ["a.txt"])
    with pytest.raises(ReportWriteError, match=r"during the run") as caught:
        write_reports(a_record(), opened, (Fixed("a.txt", "report"),))
    assert caught.value.written == ()
    assert [path.read_text() for path in sorted(elsewhere.rglob("a.txt"))] == ["precious"] * 2
    assert [path for path in (tmp_path / "moved").rglob("*") if path.is_file()] == []


def test_a_link_to_itself_in_the_place_of_a_report_is_removed(tmp_path: Path) -> None:
    opened = check_writable(tmp_path / "reports")
    for name in ("junit.xml", "kept.xml"):
        (opened.path / name).symlink_to(name)
    remove_reports(opened, ["junit.xml", "kept.xml"], but={opened.path / "kept.xml"})
    assert [path.name for path in opened.path.iterdir()] == ["kept.xml"]


@pytest.mark.parametrize("gone", ["out", "out/deep"])
def test_a_report_folder_that_is_removed_during_the_run_is_made_again(tmp_path: Path, gone: str) -> None:
    opened = check_writable(tmp_path / "out/deep", root=tmp_path)
    shutil.rmtree(tmp_path / gone)
    (path,) = write_reports(a_record(), opened, (Fixed("a.txt", "report"),))
    assert path.read_text() == "report"


def test_a_report_folder_that_was_a_link_before_the_run_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    opened = check_writable(tmp_path / "out", root=tmp_path)
    write_reports(a_record(), opened, (Fixed("a.txt", "report"),))
    assert (tmp_path / "elsewhere/a.txt").read_text() == "report"


SWAPPING = """\
import os

def answer(text):
    if not os.path.islink("evalgate-report"):
        os.rename("evalgate-report", "moved")
        os.symlink("elsewhere", "evalgate-report")
    return "Hi"
"""
CASE = {
    "eval_id": "hello",
    "conversation": [
        {"user_content": {"parts": [{"text": "Hi"}]}, "final_response": {"parts": [{"text": "Hi"}]}}
    ],
}


def test_an_agent_that_swaps_the_report_folder_closes_the_gate(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "agent.py").write_text(SWAPPING)
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [CASE]}))
    settings = {"version": 1, "eval_sets": ["a.evalset.json"], "agent": {"entry": "agent.py:answer"}}
    (tmp_path / "evalgate.json").write_text(json.dumps({**settings, "criteria": {"response_match_score": 1}}))
    done = evalgate("run", cwd=tmp_path)
    assert done.code == 2, done.out + done.err
    assert "evalgate-report was replaced by a link or a file during the run" in done.err
    assert "Traceback" not in done.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.txt").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "a.txt", "report")
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "a.txt").is_symlink()


def test_lone_surrogates_are_written_as_escapes(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.txt", "\ud800")
    assert (tmp_path / "a.txt").read_text() == "\\ud800"


def test_files_and_created_folders_belong_to_the_owner(tmp_path: Path) -> None:
    owner = (4711, 4712) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    existing = tmp_path / "existing"
    existing.mkdir()
    write_atomically(existing / "new" / "newer" / "a.txt", "x", owner)
    for path in ("new", "new/newer", "new/newer/a.txt"):
        stat = (existing / path).stat()
        assert (stat.st_uid, stat.st_gid) == owner
    assert existing.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("link", [None, "nowhere", "file/deeper", "taken"])
def test_a_file_or_a_link_to_nothing_is_no_folder(tmp_path: Path, link: str | None) -> None:
    (tmp_path / "file").touch()
    taken = tmp_path / ("file" if link is None else "taken")
    if link is not None:
        taken.symlink_to(link)
    with pytest.raises(NotADirectoryError) as caught:
        make_folder(taken)
    assert caught.value.strerror == f"{taken} is no folder"


def test_a_folder_in_the_place_of_the_previous_record_is_named_before_the_run(tmp_path: Path) -> None:
    reports = tmp_path / "evalgate-report"
    (tmp_path / "agent.py").write_text("def answer(text):\n    return text\n")
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    words = ("run", "a.evalset.json", "--agent", "python:agent.py:answer")
    assert evalgate(*words, cwd=tmp_path).code == 0
    before = (reports / "results.json").read_bytes()
    (reports / "results.json.previous/mine").mkdir(parents=True)
    done = evalgate(*words, cwd=tmp_path)
    assert done.code == 2
    assert "results.json.previous' is a folder, and the record of the last run is kept in a file" in done.err
    assert (reports / "results.json").read_bytes() == before
