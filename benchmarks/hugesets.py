"""Measure reading and running a huge eval set, and reports of runs in which every case fails."""

import gc
import json
import os
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import ANSWER, CALLS, evalgate, python, run, write_project
from evalgate import __version__
from evalgate.core import plugin_registry
from evalgate.core.protocols import StreamingReporter
from evalgate.core.types import (
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
from evalgate.reporting.terminal import TerminalReport

CASES = int(os.environ.get("EVALGATE_BENCH_HUGE", "200000"))
NOT_GROWING = {"comment", "terminal"}

WRITE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from benchmarks.hugesets import write_huge
write_huge(".", {CASES})
"""
READERS = {
    "floor: json.load": "import json; json.load(open('bench.evalset.json'))",
    "our JSON, item by item": (
        "from pathlib import Path; from evalgate.datasets.large.large_json import read_large_json\n"
        "for item in read_large_json(Path('bench.evalset.json'), 'f').value['eval_cases']: pass"
    ),
    "our cases, each made": (
        "from pathlib import Path; from evalgate.core import plugin_registry; from evalgate.datasets.loading import load_eval_sets\n"
        "load_eval_sets(['bench.evalset.json'], plugin_registry.get_formats(), folder=Path())"
    ),
}


SPLIT = """
import gc, os, resource, sys, types
from pathlib import Path
from evalgate.__main__ import _tune_interpreter
_tune_interpreter()
from evalgate.config.cli_overrides import Overrides
from evalgate.runner.pipeline import RunOptions, run_gate
from evalgate.runner.plan import build_plan

class Nobody:
    def on_runs_planned(self, runs): ...
    def on_run_finished(self, *result): ...

def size(root):
    seen, todo, found = set(), [root], 0
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, (type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(each))
        found += (sys.getsizeof(each) + 15) // 16 * 16  # as Python's allocator rounds
        todo += gc.get_referents(each)
    return found

said = Overrides(eval_sets=("bench.evalset.json",), agent="python:agent.py:answer", concurrency=64)
plan = build_plan(said, thresholds_file=None, folder=Path.cwd(), environ=os.environ)
record = run_gate(plan, Nobody(), run_options=RunOptions(journal_folder=Path.cwd() / "kept"))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
held = size(record) / 2**20
print(f"{peak:.0f} MB, of which {held:.0f} are the record, and {peak - held:.0f} all else (goal: 100)")
"""


def write_huge(folder, cases):
    """Write an agent and an eval set in Google ADK's form, with ids and times: 1.09 KB for each case."""
    folder = Path(folder)
    write_project(folder, 1)
    with (folder / "bench.evalset.json").open("w") as file:
        file.write('{"eval_set_id": "bench", "eval_cases": [\n')
        for number in range(cases):
            file.write(",\n" * bool(number) + json.dumps(_wire_case(number)))
        file.write("\n]}\n")


def _wire_case(number):
    made = 1763700000.0 + number
    question = f"order {number}: which shoes are in stock, and what do they cost with delivery?"
    uses = [{"id": f"call_{number}_{at}", **call} for at, call in enumerate(CALLS)]
    turn = {
        "invocation_id": f"e-{number:08d}",
        "user_content": {"parts": [{"text": question}], "role": "user"},
        "final_response": {"parts": [{"text": ANSWER}], "role": "model"},
        "intermediate_data": {"tool_uses": uses, "intermediate_responses": []},
        "creation_timestamp": made,
    }
    session = {"app_name": "shop", "user_id": f"user_{number % 1000}", "state": {}}
    return {
        "eval_id": f"case_{number}",
        "conversation": [turn],
        "session_input": session,
        "creation_timestamp": made,
    }


def main():
    """Print CPU and peak memory of reading and of running one huge eval set, then time and size of reports.

    Reports are made of 25,000 and of 100,000 failing cases.
    """
    with tempfile.TemporaryDirectory() as folder:
        # In a child process, because the peak of later children is at least the size of this process.
        run(python(WRITE), cwd=folder)
        size = (Path(folder) / "bench.evalset.json").stat().st_size
        print(f"{CASES} cases, {size / 1e6:.0f} MB")
        commands = {name: python(code) for name, code in READERS.items()}
        commands["evalgate validate"] = evalgate("validate", "bench.evalset.json")
        commands["evalgate run"] = evalgate(
            "run", "bench.evalset.json", "--agent", "python:agent.py:answer", "--concurrency", "64"
        )
        for name, command in commands.items():
            cost = run(command, cwd=folder)
            print(f"{name:24} CPU {cost.cpu / CASES * 1e6:5.0f} µs a case  peak {cost.peak_mb:5.0f} MB")
        split = subprocess.run(python(SPLIT), cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
        print(f"the gate of such a run: {split.stdout.strip()}")
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
    """Return the CPU seconds and the number of characters of each report, by name."""
    every = {name: plugin_registry.get_reporter(name) for name in plugin_registry.REPORTERS}
    reporters = {name: each for name, each in every.items() if hasattr(each, "render")}
    return {name: _cost(each, record) for name, each in {**reporters, "terminal": TerminalReport()}.items()}


def _cost(reporter, record):
    gc.collect()
    begin = time.process_time()
    pieces = (
        reporter.iter_chunks(record) if isinstance(reporter, StreamingReporter) else [reporter.render(record)]
    )
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
