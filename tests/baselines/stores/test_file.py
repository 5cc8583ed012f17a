"""A baseline in a file: written, read, and told from other files."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evalgate.baselines.history import add_run, build_baseline
from evalgate.baselines.serialization import dump_baseline
from evalgate.baselines.stores.file import FileStore
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Baseline, BaselineSource, Failure, Record, RunMetric
from evalgate.datasets.results_io import dump_record
from tests.builders import TRAJECTORY, a_case_result, a_record, a_run_result
from tests.situations import regression

RECORD = a_record(
    a_case_result("fine", runs=(a_run_result(metrics=(RunMetric(TRAJECTORY, 1.0, "passed"),)),)),
    a_case_result(
        "böse",
        "errored",
        runs=(a_run_result(outcome="crashed", failure=Failure("exited", "the agent's process ended")),),
    ),
)


def store(folder: Path) -> FileStore:
    return FileStore(folder / "sub/b.json", "sub/b.json")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    written = build_baseline(RECORD, BaselineSource("2026-11-20", "abc"), path="sub/b.json")
    assert store(tmp_path).update(lambda _: written) == written
    assert store(tmp_path).read() == written
    crashed = written.cases[1].runs[0]
    assert (crashed.outcome, crashed.scores) == ("crashed", {TRAJECTORY: None})
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["b.json"]


def test_an_update_that_raises_leaves_everything_as_it_was(tmp_path: Path) -> None:
    store(tmp_path).update(lambda _: build_baseline(RECORD))
    before = (tmp_path / "sub/b.json").read_bytes()

    def refuse(_: Baseline | None) -> Baseline:
        raise InvalidInputError("no")

    with pytest.raises(InvalidInputError, match="no"):
        store(tmp_path).update(refuse)
    assert (tmp_path / "sub/b.json").read_bytes() == before


def test_an_update_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    store(tmp_path).update(lambda _: build_baseline(RECORD))
    for left in (".b.json.1a2b3c4d.tmp", ".other.json.1a2b3c4d.tmp"):
        (tmp_path / "sub" / left).write_text("half of a base")
    store(tmp_path).update(lambda before: before or build_baseline(RECORD))
    assert sorted(path.name for path in (tmp_path / "sub").iterdir()) == [
        ".other.json.1a2b3c4d.tmp",
        "b.json",
    ]


def test_no_update_is_lost_when_many_happen_at_once(tmp_path: Path) -> None:
    def add(number: int) -> None:
        source = BaselineSource(f"2026-11-20T08:00:{number:02d}Z", digest=str(number))
        store(tmp_path).update(lambda before: add_run(before, RECORD, source))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(16)))
    found = store(tmp_path).read()
    assert found is not None
    assert [source.digest for source in found.sources] == [str(number) for number in range(16)]


def test_a_result_is_never_replaced_by_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.json").write_text(dump_record(RECORD), encoding="utf-8")
    with pytest.raises(InvalidInputError, match="this is no baseline but a result, which is left as it is"):
        store(tmp_path).update(lambda _: build_baseline(RECORD))
    assert (tmp_path / "sub/b.json").read_text(encoding="utf-8") == dump_record(RECORD)


def test_a_record_is_a_baseline_too(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.json").write_text(dump_record(RECORD), encoding="utf-8")
    read = store(tmp_path).read()
    assert read is not None
    assert read == build_baseline(RECORD, path="sub/b.json")


def test_a_file_that_is_not_there_is_no_baseline(tmp_path: Path) -> None:
    assert store(tmp_path).read() is None


def edited(**changes: Any) -> Any:
    run = {"source": 0, "outcome": "answered", "scores": {"m": 1.0}, "duration_s": 0.0, "usage": None}
    case = {
        "eval_set_id": "s",
        "eval_id": "c",
        "status": "passed",
        "fingerprint": "f",
        "metric_fingerprints": {},
        "runs": [{**run, **changes.pop("run", {})}],
    }
    document = {
        "schema_version": 1,
        "kind": "evalgate-baseline",
        "sources": [{"created_at": None, "commit": None}],
        "cases": [case] * changes.pop("times", 1),
    }
    return {**document, **changes}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (edited(run={"scores": {"m": "1.0"}}), "must be a number, not '1.0'"),
        (edited(run={"scores": {"m": True}}), "must be a number, not true"),
        (edited(run={"scores": {"m": [1.0]}}), "must be a number, not a list"),
        (edited(run={"source": 3}), "there is no such source"),
        (edited(run={"outcome": "fine"}), "outcome"),
        (edited(), "`m` is missing, which runs of `c` have a score of"),
        (edited(times=2), "the case `c` of `s` is given twice"),
        (edited(sources=[]), "a baseline names at least one source"),
        (edited(schema_version="1"), "`schema_version` must be a whole number"),
        (edited(schema_version=2), "was written by a newer evalgate (schema 2; this one reads up to 1)"),
        (edited(cases=None), "must be a list"),
    ],
)
def test_a_damaged_baseline_is_named_with_its_place(tmp_path: Path, document: Any, problem: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InvalidInputError) as caught:
        store(tmp_path).read()
    assert problem in str(caught.value)
    assert str(caught.value).startswith("sub/b.json:1:")


@pytest.mark.parametrize("dump", [dump_record, lambda record: dump_baseline(build_baseline(record))])
def test_a_baseline_tells_what_the_agent_did(tmp_path: Path, dump: Callable[[Record], str]) -> None:
    record = regression()
    (tmp_path / "b.json").write_text(dump(record), "utf-8")
    baseline = FileStore(tmp_path / "b.json", "b.json").read()
    assert baseline is not None
    assert next(case.replies for case in baseline.cases if case.eval_id == "paris") == tuple(
        turn.actual for turn in record.cases[2].runs[0].turns
    )
