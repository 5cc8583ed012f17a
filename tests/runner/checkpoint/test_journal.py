"""A journal that is cut at any byte returns every complete run."""

import errno
import fcntl
import math
import os
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config.token_prices import Tokens
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Failure, ModelUsage, PlanId, RunResult, Usage
from evalgate.llm.usage import MeteredUsage, RunUsage
from evalgate.runner.checkpoint.journal import FILE_NAME, Journal, lock_journal, unlock_journal
from evalgate.runner.checkpoint.row_codec import dump_run, dump_usage, load_usage
from tests.builders import a_run_result

PLAN = PlanId("sets", "thresholds", "agent")
RUNS = [
    (0, a_run_result()),
    (1, a_run_result(run=1, outcome="crashed", failure=Failure("exited", "Ünerwartet \u2028 ended"))),
    (0, a_run_result(run=2)),
]


def written(folder: Path, rows: list[tuple[int, RunResult]] = RUNS) -> bytes:
    journal = Journal.create(folder, PLAN)
    for index, run in rows:
        journal.append_runs([(index, dump_run(run))])
    journal.close(is_over=False)
    return (folder / FILE_NAME).read_bytes()


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    written(tmp_path)
    journal, finished = Journal.resume(tmp_path, PLAN, "out/journal.jsonl")
    assert finished == {0: (RUNS[0][1], RUNS[2][1]), 1: (RUNS[1][1],)}
    journal.append_runs([(2, dump_run(a_run_result()))])
    journal.close(is_over=False)
    again, finished = Journal.resume(tmp_path, PLAN, "out/journal.jsonl")
    assert set(finished) == {0, 1, 2}
    again.close(is_over=True)
    assert not (tmp_path / FILE_NAME).exists()


def written_at_once(folder: Path) -> bytes:
    """As `written`, all runs in one piece."""
    journal = Journal.create(folder, PLAN)
    journal.append_runs([(index, dump_run(run)) for index, run in RUNS])
    journal.close(is_over=False)
    return (folder / FILE_NAME).read_bytes()


@pytest.mark.parametrize("write", [written, written_at_once])
def test_a_journal_that_is_cut_at_any_byte_loses_at_most_the_line_in_flight(
    tmp_path: Path, write: Callable[[Path], bytes]
) -> None:
    whole = write(tmp_path)
    assert whole == written(tmp_path)
    for cut in range(len(whole) + 1):
        check_cut(tmp_path, whole[:cut])


def check_cut(tmp_path: Path, data: bytes) -> None:
    kept = max(0, data.count(b"\n") - 1)
    (tmp_path / FILE_NAME).write_bytes(data)
    journal, finished = Journal.resume(tmp_path, PLAN, "journal")
    runs = [(index, run) for index, found in finished.items() for run in found]
    assert sorted(runs, key=RUNS.index) == RUNS[:kept]
    journal.append_runs([(0, dump_run(RUNS[0][1]))])  # the next line does not grow together with the torn one
    journal.close(is_over=False)
    again, finished = Journal.resume(tmp_path, PLAN, "journal")
    assert sum(map(len, finished.values())) == max(kept, 1)
    again.close(is_over=True)


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (PlanId("other", "thresholds", "agent"), "the eval sets, or how often they are run, changed since"),
        (PlanId("sets", "other", "agent"), "the thresholds file changed since"),
        (
            PlanId("sets", "other", "other"),
            "the thresholds file and the agent, its code, or the version of Python, changed since",
        ),
    ],
)
def test_a_run_of_something_else_is_not_resumed(tmp_path: Path, plan: PlanId, what: str) -> None:
    before = written(tmp_path)
    with pytest.raises(InvalidInputError, match=what):
        Journal.resume(tmp_path, plan, "out/journal.jsonl")
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "journal:1:1: is no journal of evalgate"),
        ("{}\n", "journal:1:1: is no journal of evalgate"),
        ("[" * 100_000 + "\n", "journal:1:1: is no journal of evalgate"),
        ('{"kind": "evalgate-journal", "version": 2, "plan": {}}\n', "another version"),
        ('{"kind": "evalgate-journal", "version": 1, "plan": {}}\n', ":1:1: is damaged: leave --resume out"),
        (
            '{"kind": "evalgate-journal", "version": 1, "evalgate": "0.0.1", "plan": {}}\n',
            r"was written by evalgate 0\.0\.1, and this is .*go on with evalgate 0\.0\.1\.",
        ),
    ],
)
def test_what_is_no_journal_is_not_resumed(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        Journal.resume(tmp_path, PLAN, "journal")


def test_a_line_that_is_damaged_in_the_middle_is_told(tmp_path: Path) -> None:
    lines = written(tmp_path).split(b"\n")
    lines[2] = lines[2][:-9]
    (tmp_path / FILE_NAME).write_bytes(b"\n".join(lines))
    with pytest.raises(InvalidInputError, match="journal:3:1: is damaged"):
        Journal.resume(tmp_path, PLAN, "journal")


def test_folder_at_the_path_of_the_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(InvalidInputError, match=r"^j: cannot be resumed: Is a directory: leave --resume out"):
        Journal.resume(tmp_path, PLAN, "j")


def test_nothing_to_resume_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is no run to resume"):
        Journal.resume(tmp_path, PLAN, "journal")


def test_a_new_run_keeps_the_journal_of_an_unfinished_one(tmp_path: Path) -> None:
    before = written(tmp_path)
    Journal.create(tmp_path, PLAN).close(is_over=True)
    assert (tmp_path / f"{FILE_NAME}.previous").read_bytes() == before


def test_a_run_that_kept_nothing_does_not_take_the_place_of_one_that_did(tmp_path: Path) -> None:
    before = written(tmp_path)
    for _ in range(2):
        Journal.create(tmp_path, PLAN).close(is_over=False)
    assert (tmp_path / f"{FILE_NAME}.previous").read_bytes() == before


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_lock_on_a_journal_that_is_gone_is_none(
    tmp_path: Path, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run ends, or begins anew, between our opening the journal and our locking it."""
    path = tmp_path / FILE_NAME
    path.touch()

    def lock(descriptor: int, how: int) -> None:
        monkeypatch.undo()
        path.unlink()
        if fate == "replaced":
            path.touch()
        fcntl.flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock)
    first = Journal.create(tmp_path, PLAN)
    with pytest.raises(InvalidInputError, match="another evalgate is running with this folder"):
        Journal.create(tmp_path, PLAN)
    first.close(is_over=False)
    assert path.stat().st_size > 0


@pytest.mark.parametrize("exists", [False, True])
def test_no_journal_is_written_through_a_link(tmp_path: Path, exists: bool) -> None:
    """A change may bring the link, and a gate that is root would give its target to the agent's user."""
    folder, target = tmp_path / "out", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / FILE_NAME).symlink_to(target)
    if exists:
        target.write_text("precious")
    for use in (lock_journal, lambda folder: Journal.create(folder, PLAN)):
        with pytest.raises(InvalidInputError, match=r"^journal.jsonl: is a link, .*: remove it$"):
            use(folder)
    assert (target.read_text() if exists else target.exists()) == ("precious" if exists else False)


def test_a_pipe_in_the_place_of_an_old_journal_is_not_waited_for(tmp_path: Path) -> None:
    written(tmp_path)
    lock = lock_journal(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    os.mkfifo(tmp_path / FILE_NAME)
    Journal.create(tmp_path, PLAN, lock=lock).close(is_over=False)
    assert (tmp_path / FILE_NAME).is_file()
    assert (tmp_path / f"{FILE_NAME}.previous").is_fifo()


def test_two_runs_never_write_to_one_journal(tmp_path: Path) -> None:
    first = Journal.create(tmp_path, PLAN)
    with pytest.raises(InvalidInputError, match="another evalgate is running with this folder"):
        Journal.create(tmp_path, PLAN)
    with pytest.raises(InvalidInputError, match="another evalgate is running with this folder"):
        Journal.resume(tmp_path, PLAN, "journal")
    first.close(is_over=True)
    Journal.create(tmp_path, PLAN).close(is_over=True)


@pytest.mark.parametrize("is_over", [True, False])
def test_a_disk_that_is_full_ends_the_journal_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """A run whose record is written needs no journal, and nobody is told to resume it."""
    journal = Journal.create(tmp_path, PLAN)

    def write_nothing(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", write_nothing)
    journal.append_runs([(0, dump_run(a_run_result()))])
    assert "space" in journal.fault
    journal.close(is_over=is_over)
    assert (tmp_path / FILE_NAME).is_file() is not is_over


COUNTS = st.integers(0, 10**9)
DOLLARS = st.floats(0, 1e6)
USED = st.builds(
    RunUsage,
    st.builds(
        ModelUsage,
        COUNTS,
        COUNTS,
        COUNTS,
        DOLLARS,
        COUNTS,
        COUNTS,
        st.builds(Usage, COUNTS, COUNTS, DOLLARS),
    ),
    st.builds(MeteredUsage, COUNTS, st.builds(Tokens, COUNTS, COUNTS, COUNTS), DOLLARS, COUNTS, COUNTS),
)


@given(USED)
def test_what_was_used_comes_back(used: RunUsage) -> None:
    assert load_usage(dump_usage(used)) == used


def test_a_number_beyond_all_sense_counts_as_nothing() -> None:
    used = RunUsage(ModelUsage(2, cost_usd=math.inf), MeteredUsage(2, Tokens(10**5000, 3), math.inf))
    assert load_usage(dump_usage(used)) == RunUsage(ModelUsage(2), MeteredUsage(2, Tokens(0, 3)))


def test_what_was_used_last_counts(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, PLAN)
    for calls in (1, 2):
        journal.append_usage(RunUsage(ModelUsage(calls), MeteredUsage(calls)))
        journal.append_runs([(calls, dump_run(a_run_result()))])
    journal.close(is_over=False)
    again, finished = Journal.resume(tmp_path, PLAN, "journal")
    assert (again.used, set(finished)) == (RunUsage(ModelUsage(2), MeteredUsage(2)), {1, 2})
    again.append_usage(RunUsage(ModelUsage(5), MeteredUsage(5)))
    again.close(is_over=False)
    once_more, finished = Journal.resume(tmp_path, PLAN, "journal")
    once_more.close(is_over=True)
    assert (once_more.used.judge_usage.calls, set(finished)) == (5, {1, 2})


def test_damage_to_what_was_used_is_told(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path, PLAN)
    journal.append_usage(RunUsage(ModelUsage(17)))
    journal.close(is_over=False)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"17", b"18"))
    with pytest.raises(InvalidInputError, match=r"journal:2:1: is damaged: leave --resume out"):
        Journal.resume(tmp_path, PLAN, "journal")


@pytest.mark.parametrize("row", [b"{}", b"[]", b'"x"', b"1", b"[1,2]", b"[" * 100_000, b"\xff"])
def test_usage_of_another_shape_is_damage(tmp_path: Path, row: bytes) -> None:
    Journal.create(tmp_path, PLAN).close(is_over=False)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes() + b'["used",%d,%b]\n' % (crc32(row), row))
    with pytest.raises(InvalidInputError, match=r"journal:2:1: is damaged: leave --resume out"):
        Journal.resume(tmp_path, PLAN, "journal")


@pytest.mark.parametrize("error", [errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_disk_that_fails_at_the_end_ends_the_journal_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, is_over: bool
) -> None:
    def fail_to_close(descriptor: int) -> None:
        closed(descriptor)
        raise OSError(error, os.strerror(error))

    journal, closed = Journal.create(tmp_path / "run", PLAN), os.close
    unused = lock_journal(tmp_path / "no run")
    monkeypatch.setattr(os, "close", fail_to_close)
    journal.close(is_over=is_over)
    unlock_journal(tmp_path / "no run", unused)
    assert journal.fault == os.strerror(error)
    assert (tmp_path / "run" / FILE_NAME).exists() is not is_over
