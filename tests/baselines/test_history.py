"""A baseline grows by whole gate runs; runs are neither averaged nor selected."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.baselines.history import (
    add_run,
    build_baseline,
    compute_age_days,
    describe_staleness,
    hash_record,
    join_baselines,
    prune_runs,
    replace_runs,
    split_baseline,
)
from evalgate.core.types import (
    Baseline,
    BaselineSource,
    CaseMetric,
    CaseResult,
    Outcome,
    Record,
    RunMetric,
    RunResult,
)
from tests.builders import RESPONSE, TRAJECTORY, a_case_result, a_record, a_reply, a_run_result, a_turn_result

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def case(
    eval_id: str,
    *scores: float,
    fingerprint: str = "f",
    metrics: dict[str, str] | None = None,
    eval_set_id: str = "travel",
) -> CaseResult:
    """A case with a run for each score; `metrics` are names and fingerprints."""
    metrics = metrics or {TRAJECTORY: "m"}
    runs = tuple(
        a_run_result(run=number, metrics=tuple(RunMetric(name, score, "passed") for name in metrics))
        for number, score in enumerate(scores, 1)
    )
    held = tuple(CaseMetric(name, 1.0, 1.0, "passed", fingerprint=print_) for name, print_ in metrics.items())
    found = a_case_result(eval_id, metrics=held, runs=runs, eval_set_id=eval_set_id)
    return replace(found, fingerprint=fingerprint)


def source(day: int, digest: str = "") -> BaselineSource:
    return BaselineSource(f"2026-11-{day:02d}T00:00:00+00:00", f"sha{day}", "main", digest=digest or str(day))


def grown(*records: Record, keep: int = 20) -> Baseline:
    """One record a day."""
    baseline: Baseline | None = None
    for day, record in enumerate(records, 1):
        baseline = add_run(baseline, record, source(day), keep=keep)
    assert baseline is not None
    return baseline


def scores(baseline: Baseline, eval_id: str, metric: str = TRAJECTORY) -> list[tuple[int, float | None]]:
    """Source and score of every run of a case that was asked of the metric."""
    found = next((each for each in baseline.cases if each.eval_id == eval_id), None)
    runs = found.runs if found else ()
    return [(run.source, run.scores[metric]) for run in runs if metric in run.scores]


def test_runs_are_added_case_by_case() -> None:
    baseline = grown(a_record(case("a", 1.0, 0.0), case("b", 1.0)), a_record(case("b", 0.5), case("c", 0.25)))
    assert scores(baseline, "a") == [(0, 1.0), (0, 0.0)]
    assert scores(baseline, "b") == [(0, 1.0), (1, 0.5)]
    assert scores(baseline, "c") == [(1, 0.25)]
    assert [each.commit for each in baseline.sources] == ["sha1", "sha2"]


def test_a_case_that_asks_something_else_starts_anew() -> None:
    baseline = grown(a_record(case("a", 1.0), case("b", 1.0)), a_record(case("a", 0.5, fingerprint="other")))
    assert scores(baseline, "a") == [(1, 0.5)]
    assert scores(baseline, "b") == [(0, 1.0)]


def test_a_metric_with_other_options_starts_anew_and_the_others_go_on() -> None:
    both = {TRAJECTORY: "m", RESPONSE: "r"}
    baseline = grown(
        a_record(case("a", 1.0, metrics=both)), a_record(case("a", 0.5, metrics={**both, RESPONSE: "r2"}))
    )
    assert scores(baseline, "a") == [(0, 1.0), (1, 0.5)]
    assert scores(baseline, "a", RESPONSE) == [(1, 0.5)]
    assert baseline.cases[0].metric_fingerprints == {TRAJECTORY: "m", RESPONSE: "r2"}


def test_a_metric_that_was_not_asked_of_a_run_has_no_crash_there() -> None:
    crash = replace(case("a", 1.0), runs=(a_run_result(outcome="crashed"),))
    baseline = grown(a_record(crash), a_record(case("a", 1.0, metrics={TRAJECTORY: "m", RESPONSE: "r"})))
    assert scores(baseline, "a") == [(0, None), (1, 1.0)]
    assert scores(baseline, "a", RESPONSE) == [(1, 1.0)]


def test_the_record_of_a_job_that_was_overtaken_takes_its_place_in_time() -> None:
    baseline = add_run(None, a_record(case("a", 1.0)), source(2))
    late = add_run(baseline, a_record(case("a", 0.5)), source(1))
    assert [each.commit for each in late.sources] == ["sha1", "sha2"]
    assert scores(late, "a") == [(0, 0.5), (1, 1.0)]
    assert add_run(baseline, a_record(case("a", 0.5, fingerprint="older")), source(1)).cases == baseline.cases


def test_the_newest_gate_runs_of_each_eval_set_are_kept() -> None:
    other = a_record(case("x", 1.0, eval_set_id="home"))
    records = [a_record(case("a", day / 10)) for day in range(5)]
    baseline = grown(other, *records, keep=2)
    assert scores(baseline, "a") == [(1, 0.3), (2, 0.4)]
    assert scores(baseline, "x") == [(0, 1.0)]
    assert [each.commit for each in baseline.sources] == ["sha1", "sha5", "sha6"]


def test_a_case_that_is_gone_for_long_falls_off_the_end() -> None:
    baseline = grown(a_record(case("a", 1.0), case("gone", 1.0)), *[a_record(case("a", 1.0))] * 3, keep=3)
    assert [each.eval_id for each in baseline.cases] == ["a"]


@pytest.mark.parametrize(
    ("run", "kept"),
    [
        (a_run_result(outcome="crashed"), 1),
        (a_run_result(outcome="timed_out"), 1),
        (a_run_result(outcome="faulted"), 0),
        (a_run_result(outcome="not_run"), 0),
        (replace(a_run_result(), confirms=True), 0),
    ],
)
def test_runs_that_say_nothing_of_the_agent_or_followed_a_suspicion_are_left_out(
    run: RunResult, kept: int
) -> None:
    record = a_record(replace(case("a"), runs=(run,)))
    assert len(build_baseline(record).cases[0].runs) == kept


def test_what_is_saved_twice_counts_once() -> None:
    record = a_record(case("a", 1.0))
    mark = hash_record(record)
    once = add_run(None, record, source(1, mark))
    assert add_run(once, record, source(9, mark)) is once
    other = replace(record, cases=(case("a", 0.5),))
    assert hash_record(other) != mark
    assert len(add_run(once, other, source(2, hash_record(other))).sources) == 2


def test_accepting_replaces_everything_and_says_why() -> None:
    baseline = replace_runs(a_record(case("b", 0.5)), source(20), "the tone is friendlier now")
    assert [each.eval_id for each in baseline.cases] == ["b"]
    assert list(describe_staleness(baseline, NOW)) == [
        "The baseline was accepted on 2026-11-20: the tone is friendlier now"
    ]
    after = add_run(baseline, a_record(case("b", 1.0)), source(21))
    assert list(describe_staleness(after, NOW)) == []


@pytest.mark.parametrize(
    ("created_at", "days"),
    [
        ("2026-11-21T00:00:00+00:00", 0),
        ("2026-11-07T00:00:00Z", 14),
        ("2026-11-06T00:00:00Z", 15),
        ("2027-01-01T00:00:00Z", 0),
        ("2026-11-06T00:00:00", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_age(created_at: str | None, days: int | None) -> None:
    baseline = Baseline((), (BaselineSource(created_at),))
    assert compute_age_days(baseline.sources, NOW) == days
    assert bool(list(describe_staleness(baseline, NOW))) == ((days or 0) > 14)


outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["answered", "crashed"])
histories = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.floats(0, 1), min_size=1, max_size=2), min_size=1),
    min_size=1,
    max_size=6,
)


@given(histories, st.integers(1, 4))
def test_what_was_saved_is_there_and_nothing_else(history: list[dict[str, list[float]]], keep: int) -> None:
    records = [a_record(*(case(name, *found) for name, found in day.items())) for day in history]
    baseline = grown(*records, keep=keep)
    newest = history[-keep:]
    for name in "abc":
        expected = [score for day in newest for score in day.get(name, ())]
        assert [score for _, score in scores(baseline, name)] == expected
    assert prune_runs(baseline, keep=keep) == baseline
    assert all(run.source < len(baseline.sources) for each in baseline.cases for run in each.runs)


@given(
    st.lists(
        st.tuples(st.integers(1, 28), st.sets(st.sampled_from("abc"), min_size=1), st.sampled_from("fg")),
        min_size=1,
        max_size=8,
        unique_by=lambda each: each[0],
    )
)
def test_gate_runs_that_were_parted_tell_the_same_together(saved: list[tuple[int, set[str], str]]) -> None:
    baseline: Baseline | None = None
    for day, names, fingerprint in saved:
        record = a_record(*(case(name, day / 28, fingerprint=fingerprint) for name in sorted(names)))
        baseline = add_run(baseline, record, source(day))
    assert baseline is not None
    parts = split_baseline(baseline)
    assert [part.sources for part in parts] == [(each,) for each in baseline.sources]
    again = join_baselines(reversed(parts))
    assert again is not None
    assert again.sources == baseline.sources
    assert {each.eval_id: each for each in again.cases} == {each.eval_id: each for each in baseline.cases}


def test_the_newest_gate_run_says_what_the_agent_did_unless_that_is_long() -> None:
    short, other, long = (record_at(number, text) for number, text in enumerate(("a", "b", "c" * 5000)))
    grown = add_run(add_run(None, short, source_of(short)), other, source_of(other))
    assert [reply.response for reply in grown.cases[0].replies if reply] == ["b"]
    assert add_run(grown, long, source_of(long)).cases[0].replies == ()


def record_at(hour: int, response: str) -> Record:
    """One case that was answered so, at that hour."""
    run = a_run_result(a_turn_result(actual=a_reply(response)))
    return replace(a_record(a_case_result("a", runs=(run,))), created_at=f"2026-11-20T{hour:02}:00:00+00:00")


def source_of(record: Record) -> BaselineSource:
    return BaselineSource(record.created_at, digest=hash_record(record))
