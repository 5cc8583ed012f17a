"""Measure the cost of ten checks for each case: in the whole command, and for their evaluation alone.

The command runs 10,000 distinct cases with Google ADK's two metrics, and again with ten checks in addition, one
after the other within a round. Its figures are CPU time (user and system) of the process and its children. The
evaluation alone is timed in this process: each run is scored without metrics, with ADK's two metrics, and with the
ten checks.
"""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.distinct_cases import write_distinct
from benchmarks.measure import evalgate, run
from evalgate.config.cli_overrides import Overrides
from evalgate.core.types import CaseRun, Reply, ToolCall
from evalgate.metrics.scoring import score_run
from evalgate.runner.plan import build_plan

CASES = 10_000
PART, STRIDE, TIMES = 20, 200, 25  # runs that are timed together; distance between their starts; repetitions
GOAL_US = 60  # microseconds of CPU to evaluate ten checks of one case
ROUNDS = 3
CHECKS = {
    "never_deletes": {"tools": {"forbid": ["delete_*", "drop_table"]}},
    "searches_first": {"tools": {"order": ["search", "details", "order"]}},
    "knows_its_tools": {"tools": {"only": ["search", "details", "order"]}},
    "orders_once": {"tools": {"require": "order", "max": {"order": 1, "*": 6}}},
    "repeats_nothing": {"tools": {"no_repeats": True, "no_failed_calls": True}},
    "small_order": {"args": {"order": {"count": {"approx": 1, "within": 0.5}}}},
    "sku": {"args": {"details": {"sku": {"matches": "^[0-9]{6}$"}, "size": 42}}},
    "page": {"args": {"search": {"page": {"one_of": [0, 1, 2, 3, 4, 5, 6]}}}},
    "names_the_order": {"response": {"contains": "Order"}},
    "is_short": {"response": {"max_words": 60, "not_contains": ["sorry", "cannot"]}},
}


def main():
    """Print the cost of the checks for each case, in the whole command and for their evaluation alone."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = write_distinct(folder, CASES)
        Path(folder, "checks.yaml").write_text(yaml.safe_dump({"checks": CHECKS}))
        _report_evaluation(Path(folder))
        plain = evalgate(*arguments)
        checked = [*plain, "--thresholds", "checks.yaml"]
        rounds = [
            [run(argv, cwd=folder, expect=(1,)).cpu for argv in (plain, checked)] for _ in range(ROUNDS)
        ]
    added = statistics.median(after - before for before, after in rounds) / CASES * 1e6
    ratio = statistics.median(after / before for before, after in rounds)
    print(
        f"whole command   {min(before for before, _ in rounds) / CASES * 1e6:6.0f} µs a case without, "
        f"{added:.0f} µs more with ten checks (× {ratio:.2f})"
    )


def _report_evaluation(folder):
    overrides = Overrides(eval_sets=("bench.evalset.json",), agent="python:agent.py:answer")
    plan = build_plan(overrides, thresholds_file="checks.yaml", folder=folder, environ={})
    (suite,) = plan.suites
    replies = json.loads((folder / "replies.json").read_text())
    runs = [
        (case, CaseRun(1, "answered", (_build_reply(replies[case.eval_id]),)))
        for case in suite.eval_set.cases
    ]
    metrics = {
        "none": (),
        "two": tuple(bound for bound in suite.metrics if not bound.name.startswith("check/")),
        "ten": tuple(bound for bound in suite.metrics if bound.name.startswith("check/")),
    }
    # Short parts of the set, and the fastest of several repetitions: other load of the machine only adds time.
    rounds = [_time_part(part, metrics) for part in _split(runs)]
    costs = {name: statistics.mean(each[name] for each in rounds) / PART * 1e6 for name in metrics}
    ten, two = (costs[name] - costs["none"] for name in ("ten", "two"))
    print(
        f"to evaluate     {ten:6.1f} µs a case for ten checks (goal {GOAL_US}), next to "
        f"{two:.1f} µs for Google ADK's two metrics (× {ten / two:.2f})"
    )


def _time_part(part, metrics):
    times = [
        {name: asyncio.run(_time_scoring(part, bound)) for name, bound in metrics.items()}
        for _ in range(TIMES)
    ]
    return {name: min(each[name] for each in times) for name in metrics}


def _split(runs):
    return (runs[start : start + PART] for start in range(0, len(runs), STRIDE))


def _build_reply(recorded):
    calls = tuple(ToolCall(call["name"], call["args"]) for call in recorded["calls"])
    return Reply(recorded["text"], calls)


async def _time_scoring(runs, metrics):
    start = time.process_time()
    results = [await score_run(case, made, metrics) for case, made in runs]
    seconds = time.process_time() - start
    failed = sum(any(metric.status == "failed" for metric in result.metrics) for result in results)
    if metrics and failed != len(runs) // 10:
        raise SystemExit(f"checks: {failed} of {len(runs)} cases fail, expected every tenth")
    return seconds
