"""Files that the agent opened, in a baseline of several gate runs."""

from dataclasses import replace

from evalgate.baselines.history import add_run, build_baseline, join_baselines, split_baseline
from evalgate.baselines.serialization import dump_baseline, load_baseline
from evalgate.core.types import Baseline, BaselineSource, Record, TrackedFiles
from evalgate.documents.strict_json import parse_json
from tests.builders import a_case_result, a_record

SOURCES = [BaselineSource(f"2026-01-0{day}T00:00:00+00:00", digest=str(day)) for day in (1, 2, 3)]


def a_tracking_record(**files: str) -> Record:
    cases = (a_case_result(eval_set_id="refunds"), a_case_result(eval_set_id="search"))
    tracked = tuple(TrackedFiles(name, tuple(paths.split())) for name, paths in files.items())
    return replace(a_record(*cases), files=tracked)


def read_files(baseline: Baseline | None) -> dict[str, tuple[str, ...]]:
    return {each.eval_set_id: each.paths for each in (baseline.files if baseline else ())}


def test_the_files_of_all_runs_count_until_a_run_tracks_none() -> None:
    baseline = build_baseline(a_tracking_record(refunds="a b", search="c"), SOURCES[0])
    baseline = add_run(baseline, a_tracking_record(refunds="a d", search="c"), SOURCES[1])
    assert read_files(baseline) == {"refunds": ("a", "b", "d"), "search": ("c",)}
    assert read_files(join_baselines(split_baseline(baseline))) == read_files(baseline)
    text = dump_baseline(baseline)
    assert load_baseline(parse_json(text.encode(), "b.json")) == baseline
    baseline = add_run(baseline, a_tracking_record(search="e"), SOURCES[2])
    assert read_files(baseline) == {"search": ("c", "e")}


def test_a_baseline_without_files_has_no_such_key() -> None:
    assert '"files"' not in dump_baseline(build_baseline(a_tracking_record(), SOURCES[0]))


def test_the_digests_are_those_of_the_newest_run() -> None:
    files = [
        TrackedFiles("refunds", ("a", "b"), {"a": "1", "b": "1"}),
        TrackedFiles("refunds", ("a",), {"a": "2"}),
    ]
    records = [replace(a_tracking_record(), files=(each,)) for each in files]
    baseline = add_run(build_baseline(records[0], SOURCES[0]), records[1], SOURCES[1])
    assert baseline.files == (TrackedFiles("refunds", ("a", "b"), {"a": "2"}),)
    assert load_baseline(parse_json(dump_baseline(baseline).encode(), "b.json")) == baseline
