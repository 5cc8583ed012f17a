"""Eval sets that are larger than memory should be, and reports of runs in which everything fails."""

import gc
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import evalgate, python, run
from evalgate import __version__, plugins
from evalgate.model import (
    AgentInfo,
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    MetricSummary,
    Record,
    Reply,
    RunMetric,
    RunResult,
    ToolCall,
    Totals,
    TurnResult,
    Verdict,
)
from evalgate.protocols import InPieces
from evalgate.reporters.terminal import TerminalReport

CASES = int(os.environ.get("EVALGATE_BENCH_HUGE", "200000"))
NOT_GROWING = {"comment", "terminal"}

WRITE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from benchmarks.measure import write_project
write_project(".", {CASES})
"""
READERS = {
    "floor: json.load": "import json; json.load(open('bench.evalset.json'))",
    "our JSON, item by item": (
        "from pathlib import Path; from evalgate.reading.longjson import read_large\n"
        "for item in read_large(Path('bench.evalset.json'), 'f', large=1).value['eval_cases']: pass"
    ),
    "our cases, all kept": (
        "from pathlib import Path; from evalgate import plugins; from evalgate.load import load_eval_sets\n"
        "load_eval_sets(['bench.evalset.json'], plugins.formats(), base=Path())"
    ),
}


def main():
    """CPU and peak of reading one huge eval set; then time and size of reports, for n and 4 n failing cases."""
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: the peak of a child counts from its parent's size on.
        run(python(WRITE), cwd=folder)
        size = (Path(folder) / "bench.evalset.json").stat().st_size
        print(f"{CASES} cases, {size / 1e6:.0f} MB")
        commands = {name: python(code) for name, code in READERS.items()}
        commands["evalgate validate"] = evalgate("validate", "bench.evalset.json")
        for name, command in commands.items():
            cost = run(command, cwd=folder)
            print(f"{name:24} CPU {cost.cpu / CASES * 1e6:5.0f} µs a case  peak {cost.peak_mb:5.0f} MB")
    for how in ("failed", "crashed"):
        _reports(how)


def _reports(how):
    fewer, more = (_written(_everything_fails(how, cases)) for cases in (25_000, 100_000))
    for name, (seconds, size) in more.items():
        growth = seconds / fewer[name][0]
        kept = f", {size / fewer[name][1]:.2f} × as long (goal: 1.1)" if name in NOT_GROWING else ""
        print(
            f"100,000 {how}: {name:12} {seconds:5.2f} s, {size / 1e6:7.3f} MB; "
            f"of 25,000: {growth:.1f} × the time (goal: 5){kept}"
        )


def _written(record):
    """Report → CPU seconds and characters."""
    reporters = {name: plugins.reporter(name) for name in plugins.REPORTERS}
    return {name: _cost(each, record) for name, each in {**reporters, "terminal": TerminalReport()}.items()}


def _cost(reporter, record):
    gc.collect()
    begin = time.process_time()
    pieces = reporter.pieces(record) if isinstance(reporter, InPieces) else [reporter.render(record)]
    size = sum(map(len, pieces))
    return time.process_time() - begin, size


def _everything_fails(how, count):
    cases = tuple(_case(how, number) for number in range(count))
    status = cases[0].status
    changes = tuple(CaseChange("bench", case.eval_id, "newly_failing", "passed", status) for case in cases)
    return Record(
        evalgate_version=__version__,
        created_at="2026-11-20T08:30:00Z",
        duration_s=5.0,
        agent=AgentInfo("python", "agent.py:answer"),
        runs=1,
        verdict=Verdict("fail", 1, (f"{count} cases fail that passed in the baseline.",)),
        metrics=(
            MetricSummary("response_match_score", 0.2, 0.8, "failed", 1.0, -0.8, count, 0, compared=count),
        ),
        cases=cases,
        totals=replace(Totals(count), **{status: count}),
        comparison=Comparison("baseline.json", changes=changes),
    )


def _case(how, number):
    expected = Reply("It is on its way.", (ToolCall("look_up", {"order": number}),))
    if how == "crashed":
        reason = f"ValueError: no order {number}"
        failure = Failure("exception", reason, "Traceback\n" + "  File agent.py\n" * 20)
        single = RunResult(
            1, "crashed", 0.1, (TurnResult(f"order {number}", expected, None),), failure=failure
        )
        metric = CaseMetric("response_match_score", None, 0.8, "errored", reason)
        return CaseResult("bench", f"case_{number}", "errored", (metric,), (single,))
    turn = TurnResult(f"order {number}", expected, Reply(f"There is no order {number}."))
    metric = RunMetric("response_match_score", 0.2, "failed", f"says nothing of order {number}")
    single = RunResult(1, "answered", 0.1, (turn,), (metric,))
    whole = CaseMetric("response_match_score", 0.2, 0.8, "failed", metric.reason)
    return CaseResult("bench", f"case_{number}", "failed", (whole,), (single,), path="bench.evalset.json")
