"""Records of shards are read as any record, and written again unchanged."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from evalgate import __version__
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record
from evalgate.datasets.large.lazy_runs import ShardCase
from evalgate.datasets.results_io import dump_record, read_record
from evalgate.runner.shard_files import find_shards, read_shard
from tests.builders import a_case_result, a_record
from tests.datasets.test_results_io import RECORDS


def written(folder: Path, text: str) -> Path:
    path = folder / "results.json"
    path.write_text(text)
    return path


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS)
def test_a_shard_is_read_as_any_record_and_written_as_it_was(tmp_path: Path, record: Record) -> None:
    text = dump_record(replace(record, evalgate_version=__version__))
    path = written(tmp_path, text)
    found = read_shard(path, "results.json")
    assert found == read_record(path, "results.json")
    assert all(isinstance(case, ShardCase) and case.json in text for case in found.cases)
    assert dump_record(found) == text


OURS = replace(a_record(a_case_result("a"), a_case_result("b")), evalgate_version=__version__)


@pytest.mark.parametrize(
    "text",
    [
        dump_record(replace(OURS, evalgate_version="0.0.1")),
        dump_record(OURS).replace("\n", "\r\n"),
        dump_record(OURS).replace(",\n", ","),
        dump_record(OURS).replace("\n", ""),
        dump_record(replace(OURS, cases=())),
        dump_record(OURS).replace('"b"', '\n"b"'),
    ],
    ids=[
        "another version's",
        "other line ends",
        "on fewer lines",
        "on one line",
        "no cases",
        "a broken line",
    ],
)
def test_a_file_that_is_not_as_we_write_it_is_read_all_the_same(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    found = read_shard(path, "results.json")
    assert found == read_record(path, "results.json")
    assert not any(isinstance(case, ShardCase) for case in found.cases)


def test_what_is_wrong_with_a_case_is_told_as_of_any_record(tmp_path: Path) -> None:
    path = written(tmp_path, dump_record(OURS).replace('"eval_id":"b"', '"eval_id":7'))
    with pytest.raises(InvalidInputError, match=r"shard.json:42:35: cases\[1\].eval_id: .* valid string"):
        read_shard(path, "shard.json")


def test_a_case_that_is_changed_is_written_anew(tmp_path: Path) -> None:
    case = read_shard(written(tmp_path, dump_record(OURS)), "results.json").cases[0]
    changed = replace(case, eval_id="renamed")
    assert isinstance(changed, ShardCase)
    assert (changed.json, changed == case, case == OURS.cases[0]) == ("", False, True)
    assert '"eval_id":"renamed"' in dump_record(replace(OURS, cases=(changed,)))


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["all/b/results.json", "all/a/results.json"], ["all/b/results.json", "all/a/results.json"]),
        (["all"], ["all/a/results.json", "all/b/results.json", "all/c/deep/results.json"]),
        (["all/*/results.json"], ["all/a/results.json", "all/b/results.json"]),
        (["all/**/results.json"], ["all/a/results.json", "all/b/results.json", "all/c/deep/results.json"]),
        (["all/a/results.json", "all/a"], ["all/a/results.json", "all/a/results.json"]),
        (["odd[1]/results.json"], ["odd[1]/results.json"]),
        (["none/*.json", "none", "none.json"], ["none/*.json", "none", "none.json"]),
        (["empty"], ["empty/results.json"]),
    ],
)
def test_shards_are_named_by_files_folders_and_globs(
    tmp_path: Path, patterns: list[str], found: list[str]
) -> None:
    for folder in ("all/a", "all/b", "all/c/deep", "odd[1]", "empty"):
        (tmp_path / folder).mkdir(parents=True)
        if folder != "empty":
            written(tmp_path / folder, "{}")
    (tmp_path / "all/a/junit.xml").touch()
    assert find_shards(patterns, folder=tmp_path) == tuple(found)


def test_links_to_their_own_folder_hold_up_no_search_for_shards(tmp_path: Path) -> None:
    (tmp_path / "shards/1").mkdir(parents=True)
    for name in "ab":
        (tmp_path / "shards" / name).symlink_to(".")
    written(tmp_path / "shards/1", "{}")
    for pattern in ("shards", "shards/**/results.json"):
        assert find_shards([pattern], folder=tmp_path) == ("shards/1/results.json",)
