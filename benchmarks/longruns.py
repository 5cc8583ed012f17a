"""Measure the cost of the journal, of resuming a run from it, and of merging shards.

Each cost is shown as a ratio of the cost of the same run without a journal.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import python, write_project

CASES = int(os.environ.get("EVALGATE_BENCH_CASES", "10000"))
SHARDS = 64
SHOWN = {
    "whole": "",
    "journal": " (goal: 1.05 of whole)",
    "resume": " (goal: 0.15 of whole)",
    "merge": " (goal: 100 µs a case)",
}

STEP = """
import json, os, resource, sys, time
from dataclasses import replace
from pathlib import Path

from evalgate.__main__ import _tune_interpreter

_tune_interpreter()
from evalgate.config.cli_overrides import Overrides
from evalgate.runner.checkpoint.plan_id import compute_plan_id, compute_local_plan_id
from evalgate.runner.checkpoint.journal import Journal
from evalgate.runner.checkpoint.row_codec import dump_run
from evalgate.runner.shard_files import read_shard
from evalgate.runner.sharding import assign_cases
from evalgate.core.types import Shard
from evalgate.runner.pipeline import RunOptions, run_gate
from evalgate.runner.shard_merge import merge_shards
from evalgate.runner.plan import build_plan
from evalgate.datasets.results_io import dump_record, read_record
from evalgate.redaction.redactor import Redactor
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.system.gc import pause_gc


class Nobody:
    def on_runs_planned(self, runs): ...
    def on_run_finished(self, *result): ...


step, entry, concurrency, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path.cwd()
said = Overrides(eval_sets=("bench.evalset.json",), agent=f"python:agent.py:{entry}", concurrency=concurrency)
began = time.perf_counter()
plan = build_plan(said, thresholds_file=None, folder=folder, environ=os.environ)
redactor = LiveRedactor(Redactor.from_environment(os.environ))
if step == "prepare":
    record = read_record(folder / "whole.json", "whole.json")
    journal = Journal.create(folder / "resumed", compute_local_plan_id(plan))
    done = record.cases[: len(record.cases) * 9 // 10]
    journal.append_runs((index, dump_run(case.runs[0])) for index, case in enumerate(done))
    journal.close(is_over=False)
    count = SHARDS
    for number, share in enumerate(assign_cases([1.0] * len(record.cases), count), 1):
        shard = Shard(number, count, share, len(record.cases), compute_plan_id(plan))
        part = replace(record, shard=shard, cases=tuple(record.cases[index] for index in share))
        (folder / f"shard-{number}.json").write_text(dump_record(part))
    sys.exit()
if step == "merge":
    files = sorted(folder.glob("shard-*.json"))
    with pause_gc():
        record = merge_shards(plan, [(file.name, read_shard(file, file.name)) for file in files])
else:
    options = {
        "whole": RunOptions(redactor=redactor),
        "journal": RunOptions(journal_folder=folder / "kept", redactor=redactor),
        "resume": RunOptions(journal_folder=folder / "resumed", resume=True, redactor=redactor),
    }[step]
    record = run_gate(plan, Nobody(), run_options=options)
(folder / f"{step}.json").write_text(dump_record(redactor.redact_tree(record)))
own, agent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
cpu = sum(each.ru_utime + each.ru_stime for each in (own, agent))
print(json.dumps({"wall": time.perf_counter() - began, "cpu": cpu, "mb": own.ru_maxrss / 1024}))
""".replace("SHARDS", str(SHARDS))


def main():
    """Make the same record in each way of `SHOWN`. Print wall time, CPU of gate and worker, and peak memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, CASES)
        whole = _step(folder, "whole")
        _step(folder, "prepare")
        for step, note in SHOWN.items():
            found = whole if step == "whole" else _step(folder, step)
            print(
                f"{step:8} {CASES:7} cases  {found['wall']:6.2f} s  CPU {found['cpu']:6.2f} s "
                f"({found['cpu'] / whole['cpu']:.2f} of whole, {found['cpu'] / CASES * 1e6:.0f} µs a case)  "
                f"{found['mb']:5.0f} MB{note}"
            )
    _measure_waiting_agent()
    _measure_many_conversations()


def _measure_waiting_agent():
    """Resume a run of an agent that waits, as for a model, after nine tenths. Print how much time this saves."""
    cases, seconds, at_once = 1_000, 0.2, 16
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, cases, entry="wait", texts=[str(seconds)] * cases)
        whole = _step(folder, "whole", "wait", at_once)
        _step(folder, "prepare", "wait", at_once)
        resume = _step(folder, "resume", "wait", at_once)
        print(
            f"{cases} cases of {seconds:g} s, {at_once} at once: {whole['wall']:.1f} s; the last tenth of them, "
            f"resumed: {resume['wall']:.1f} s ({resume['wall'] / whole['wall']:.2f} of whole, goal: 0.15)"
        )


def _step(folder, step, entry="answer", concurrency=64):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = str(Path(__file__).parents[1])
    done = subprocess.run(
        [*python(STEP), step, entry, str(concurrency)],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
        check=True,
    )
    return json.loads(done.stdout) if done.stdout else None


def _measure_many_conversations():
    """Run 1,000 conversations of one second at once in one asynchronous worker, and print the cost."""
    from benchmarks.measure import evalgate, run

    with tempfile.TemporaryDirectory() as folder:
        arguments = write_project(folder, 1_000, entry="wait", texts=["1.0"] * 1_000)
        cost = run(evalgate(*arguments, "--concurrency", "1000"), cwd=folder, expect=(0, 1))
        print(f"1,000 conversations of 1 s at once: {cost.wall:.2f} s, CPU {cost.cpu:.2f} s")
