"""The simulation of docs/statistics.md: it runs the gate itself, and draws what it says."""

from pathlib import Path

import pytest

from benchmarks import controlruns, falsealarms
from benchmarks.falsealarms import Cell
from benchmarks.gatechain import CRASH, Chain, Setup, close_missed
from evalgate.baselines.history import build_baseline

ALL = frozenset(
    {"tool_trajectory_avg_score", "response_match_score", "final_session_state", "trajectory_single_tool_use"}
)


@pytest.mark.parametrize("missed", [frozenset[str](), *(frozenset({name}) for name in ALL), ALL], ids=sorted)
def test_a_drawn_run_misses_what_was_drawn_and_nothing_else(missed: frozenset[str]) -> None:
    chain = Chain(Setup(cases=4, runs=1, metrics=4, is_tagged=True))
    assert set(chain.metrics) == ALL
    missed = close_missed(missed)
    record = chain.run(chain.store_runs([[frozenset()]] * 4), lambda index, run: missed)
    for case in record.cases:
        for metric in case.runs[0].metrics:
            assert (metric.status == "failed") == (metric.name in missed), metric
    assert len({metric.scope for case in record.cases for metric in case.metrics}) == 1 + 4


def test_stored_runs_are_those_that_the_gate_would_have_saved() -> None:
    chain = Chain(Setup(cases=5, runs=3))
    outcomes = [[frozenset(), CRASH, frozenset(chain.metrics)]] * 5
    empty = chain.store_runs([[frozenset()]] * 5)
    record = chain.run(empty, lambda index, run: outcomes[index][run - 1])
    saved, made = build_baseline(record), chain.store_runs(outcomes)
    for one, other in zip(saved.cases, made.cases, strict=True):
        assert (one.eval_id, one.status, one.fingerprint) == (other.eval_id, other.status, other.fingerprint)
        assert [(run.outcome, run.scores) for run in one.runs] == [
            (run.outcome, run.scores) for run in other.runs
        ]


def test_a_cell_is_measured_the_same_each_time_and_only_once(tmp_path: Path) -> None:
    cells = [
        Cell("realistic", change, cases=5, runs="auto", stored=10, metrics=1, is_tagged=False)
        for change in ("none", "crash")
    ]
    first = [falsealarms.play(cell, 10) for cell in cells]
    assert first == [falsealarms.play(cell, 10) for cell in cells]
    assert first[1].red == 10
    out = tmp_path / "cells.jsonl"
    for _ in range(2):
        measured = list(falsealarms.measure(cells, 10, 1, out))
        assert {found.cell: found for found in measured} == dict(zip(cells, first, strict=True))
    assert len(out.read_text("utf-8").splitlines()) == 2
    assert "| realistic | 5 | 10 | 100.0 / – |" in list(falsealarms.table(measured))


def test_control_runs_tell_a_drift_from_a_change(tmp_path: Path) -> None:
    """A case that died at the provider opens the gate, one that the change broke closes it."""
    cells = [
        controlruns.Cell("realistic", drift, change, cases=5, runs="auto", stored=10)
        for drift, change in (("1 dead", "none"), ("none", "1 broken"))
    ]
    out = tmp_path / "cells.jsonl"
    found = {each.cell: each for each in controlruns.measure(cells, 10, 1, out)}
    drifted, broke = (found[cell] for cell in cells)
    assert (drifted.red, drifted.closed, drifted.answers) == (10, 0, {"drifted": 10})
    assert broke.red == broke.closed >= 9
    assert {each.cell: each for each in controlruns.read(out)} == found
    assert sum("| realistic | " in line for line in controlruns.table([drifted, broke])) == 2
