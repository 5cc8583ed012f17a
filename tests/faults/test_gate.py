"""What can happen to the gate itself: it is killed, its disk is full, its clock jumps, nothing is left to open."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from evalgate.runner.checkpoint.journal import lock_journal, unlock_journal
from tests.cli.test_cli import eval_set

AGENT = """\
import asyncio

async def answer(text):
    await asyncio.sleep(0.005)
    while is_enough():
        await asyncio.sleep(0.005)
    with open("asked.txt", "a") as log:
        log.write(text + "\\n")
    if text == "boom":
        raise ValueError("no such order")
    return text

def is_enough():
    try:
        most = int(open("enough.txt").read() or 0)
        return len(open("asked.txt").readlines()) >= most
    except FileNotFoundError:
        return False

async def answer_without_a_trace(text):
    return text

async def wait(text):
    open("waiting", "w").close()
    await asyncio.sleep(600)
"""
TEXTS = [*(f"question {number}" for number in range(199)), "boom"]
CONCURRENCY = 4
ENOUGH = 10
ENV = ("--env", "PYTHONDONTWRITEBYTECODE")
RUN = (
    *("run", "demo.evalset.json", *ENV),
    *("--agent", "python:agent.py:answer", "--runs", "3", "--concurrency", "4"),
)
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set(*TEXTS))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


def gate(
    folder: Path,
    *arguments: str,
    program: tuple[str, ...] = ("-m", "evalgate"),
    limits: str = "",
    stdin: int | None = None,
) -> subprocess.Popen[str]:
    """A gate that runs; `limits`: what `ulimit` is told before.

    Under a limit nothing is compiled to keep: Python would keep as much of a module as it could write, and
    every later test would load that.
    """
    command = shlex.join([sys.executable, *program, *arguments])
    return subprocess.Popen(
        ["bash", "-c", f"{limits and f'ulimit {limits}; '}exec {command}"],
        cwd=folder,
        env={**_CLEAN, "PYTHONDONTWRITEBYTECODE": "1"} if limits else _CLEAN,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code, and what it said."""
    out, err = process.communicate(timeout=600)
    return process.returncode, out + err


def record(folder: Path) -> Any:
    """The record without what depends on the clock."""
    return _without_times(json.loads((folder / "evalgate-report/results.json").read_text()))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        times = {"duration_s", "created_at"}
        return {key: _without_times(each) for key, each in value.items() if key not in times}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def kept(folder: Path) -> int:
    """Runs in the journal; 0 when there is none."""
    journal = folder / "evalgate-report/journal.jsonl"
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0


def asked(folder: Path) -> int:
    log = folder / "asked.txt"
    return log.read_bytes().count(b"\n") if log.exists() else 0


# Fifty interpreters that start take most of a minute; one that has everything loaded forks in no time.
NURSERY = """\
import os, sys
import evalgate.agents.adapters.python, evalgate.runner.pipeline, evalgate.runner.publish, evalgate.reporting.junit
from evalgate.__main__ import main

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os._exit(main(line.split()))
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Nursery:
    """Starts gates, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._process = gate(folder, program=("-c", NURSERY), stdin=subprocess.PIPE)

    def killed(self, *arguments: str, when: Callable[[], bool]) -> int:
        """The exit code of a gate that is killed at that moment."""
        child = self._asked(" ".join(arguments))
        while not when():
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        return self._answer()

    def close(self) -> None:
        self._process.communicate(timeout=600)

    def _asked(self, line: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def _is_time(folder: Path, more: int, late: float) -> bool:
    return asked(folder) > more or time.monotonic() > late


@pytest.mark.slow
def test_a_gate_that_is_killed_at_fifty_points_loses_nothing_that_was_finished(project: Path) -> None:
    """Each goes on where the one before was killed; what was in flight is the only loss."""
    assert ended(gate(project, *RUN))[0] == 1
    whole, dice, nursery, played = record(project), random.Random(50), Nursery(project), 0
    for _ in range(50):
        (project / "asked.txt").unlink(missing_ok=True)
        before = kept(project)
        # A gate that is killed late has not gone on to its end.
        (project / "enough.txt").write_text(str(ENOUGH))
        more, late = dice.randint(0, ENOUGH - 1), time.monotonic() + dice.random() * 2
        code = nursery.killed(
            *RUN, *(["--resume"] if before else []), when=partial(_is_time, project, more, late)
        )
        assert code == -signal.SIGKILL
        assert kept(project) >= before
        played += asked(project)
    nursery.close()
    (project / "enough.txt").unlink()
    assert kept(project) > 0
    assert played - kept(project) <= 50 * CONCURRENCY
    assert ended(gate(project, *RUN, "--resume"))[0] == 1
    assert record(project) == whole


@pytest.mark.parametrize(("kilobytes", "expected"), [(0, 2), (1, 2), (2, 2), (4, 2), (1024, 0)])
def test_a_disk_that_is_full_at_any_write_never_opens_the_gate(
    project: Path, kilobytes: int, expected: int
) -> None:
    """No file may become larger: the journal breaks off first, then a report. None ends in the middle."""
    (project / "demo.evalset.json").write_text(eval_set(*TEXTS[:20]))
    code, said = ended(
        gate(
            project,
            *("run", "demo.evalset.json", *ENV, "--agent", "python:agent.py:answer_without_a_trace"),
            limits=f"-f {kilobytes}",
        )
    )
    reports = project / "evalgate-report"
    names = {each.name for each in reports.iterdir()} if reports.exists() else set()
    if "results.json" in names:
        json.loads((reports / "results.json").read_text())
    assert "Traceback" not in said
    assert not ("Continue this run with" in said and "cannot be resumed" in said)
    assert not any(name.endswith(".tmp") for name in names)
    if code != 0:
        assert (code, "File too large" in said) == (2, True), said
    else:
        assert names == {"comment.md", "gl-code-quality-report.json", "junit.xml", "results.json"}
    assert code == expected


@pytest.mark.parametrize("fault", ["raise RuntimeError('no report')", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_gate_that_ends_before_its_record_is_written_can_be_resumed(project: Path, fault: str) -> None:
    """Every case is over, and nobody has the results yet."""
    assert ended(gate(project, *RUN))[0] == 1
    whole = record(project)
    breaks = (
        "import os, signal, runpy, sys\nfrom evalgate.runner.publish import Publisher\n"
        f"def publish(self, record):\n    {fault}\nPublisher.publish = publish\n"
        "sys.argv = ['evalgate', *sys.argv[1:]]\nrunpy.run_module('evalgate', run_name='__main__')\n"
    )
    code, _ = ended(gate(project, *RUN, program=("-c", breaks)))
    assert (code in {70, -signal.SIGKILL}, kept(project)) == (True, 3 * len(TEXTS))
    (project / "asked.txt").unlink()
    assert ended(gate(project, *RUN, "--resume"))[0] == 1
    assert (record(project), asked(project), kept(project)) == (whole, 0, 0)


@pytest.mark.parametrize("moment", range(4))
def test_a_gate_that_is_killed_while_it_writes_reports_leaves_no_half_of_one(
    project: Path, moment: int
) -> None:
    """The n-th report is written, and not yet in its place; another run cleans up."""
    (project / "demo.evalset.json").write_text(eval_set(*TEXTS[:3]))
    dies = (
        "import os, signal, runpy, sys\n"
        "replace, written = os.replace, []\n"
        "def replace_or_die(source, target, **folders):\n"
        "    if folders and str(source).endswith('.tmp'):  # a report: they are reached from a descriptor\n"
        f"        if len(written) == {moment}:\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        written.append(target)\n"
        "    replace(source, target, **folders)\n"
        "os.replace = replace_or_die\n"
        "sys.argv = ['evalgate', *sys.argv[1:]]\nrunpy.run_module('evalgate', run_name='__main__')\n"
    )
    assert ended(gate(project, *RUN, program=("-c", dies)))[0] == -signal.SIGKILL
    names = {each.name for each in (project / "evalgate-report").iterdir()}
    halves = {name for name in names if name.endswith(".tmp")}
    assert len(halves) == 1
    assert len(names - halves - {"journal.jsonl"}) == moment
    (project / "evalgate-report" / "..evalgate-probe.1a2b3c.tmp").write_text("")
    assert ended(gate(project, *RUN, "--resume"))[0] == 0
    names = {each.name for each in (project / "evalgate-report").iterdir()}
    assert names - {"results.json.previous"} == {
        "comment.md",
        "gl-code-quality-report.json",
        "junit.xml",
        "results.json",
    }


def test_results_that_no_report_can_take_stay_in_the_journal(project: Path) -> None:
    """`results.json` is larger than what the disk takes, the journal is not."""
    code, said = ended(gate(project, *RUN, limits="-f 200"))
    assert (code, "File too large" in said, kept(project)) == (1, True, 3 * len(TEXTS))
    assert ended(gate(project, *RUN, "--resume"))[0] == 1


BACKWARDS = """\
import datetime, itertools, runpy, sys, time

class Clock(datetime.datetime):
    hours = itertools.count()

    @classmethod
    def now(cls, tz=None):
        return super().now(tz) - datetime.timedelta(hours=next(cls.hours))

seconds = itertools.count(2_000_000_000, -3600)
time.time = lambda: float(next(seconds))
datetime.datetime = Clock
sys.argv = ["evalgate", *sys.argv[1:]]
runpy.run_module("evalgate", run_name="__main__")
"""


def test_a_clock_that_jumps_backwards_changes_nothing(project: Path) -> None:
    assert ended(gate(project, *RUN))[0] == 1
    whole = record(project)
    code, said = ended(gate(project, *RUN, program=("-c", BACKWARDS)))
    assert code == 1, said
    assert record(project) == whole
    found = json.loads((project / "evalgate-report/results.json").read_text())
    assert found["duration_s"] > 0
    assert all(run["duration_s"] >= 0 for case in found["cases"] for run in case["runs"])


@pytest.mark.parametrize(("workers", "code"), [("4", 1), ("64", 3)])
def test_few_file_descriptors_are_enough_or_no_verdict(project: Path, workers: str, code: int) -> None:
    found, said = ended(
        gate(project, *RUN[:-1], "200", "--workers", workers, "--timeout", "120", limits="-n 64")
    )
    assert (found, "Traceback" in said) == (code, False), said
    if code == 3:
        assert "Too many open files" in said


@pytest.mark.parametrize("times", [1, 2, 5])
def test_ctrl_c_ends_everything_and_the_rest_can_be_resumed(project: Path, times: int) -> None:
    """As a terminal does it: the whole foreground group gets the signal; the worker is in one of its own."""
    process = gate(project, *RUN)
    while asked(project) < 20:
        time.sleep(0.002)
    workers = psutil.Process(process.pid).children(recursive=True)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    code, said = ended(process)
    assert (code, "Traceback" in said) == (130, False), said
    _, alive = psutil.wait_procs(workers, timeout=120)
    assert alive == []
    assert kept(project) > 0
    assert ended(gate(project, *RUN, "--resume"))[0] == 1
    assert asked(project) <= 3 * len(TEXTS) + CONCURRENCY


def test_two_gates_never_share_a_folder(project: Path) -> None:
    first = gate(project, *RUN[:-6], "--agent", "python:agent.py:wait", "--timeout", "600")
    while not (project / "waiting").exists():
        time.sleep(0.01)
    code, said = ended(gate(project, *RUN))
    assert (code, "another evalgate is running with this folder" in said) == (2, True)
    assert asked(project) == 0
    first.send_signal(signal.SIGINT)
    assert ended(first)[0] == 130


def test_a_gate_that_is_refused_leaves_the_reports_of_the_one_that_posts_them(project: Path) -> None:
    """The first has written its reports and still holds the folder, as while it posts its comment."""
    assert ended(gate(project, *RUN, "--html"))[0] == 1
    folder = project / "evalgate-report"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    lock = lock_journal(folder)
    try:
        code, said = ended(gate(project, *RUN, "--setup", "touch installed"))
    finally:
        unlock_journal(folder, lock)
    assert (code, "another evalgate is running with this folder" in said) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not (project / "installed").exists()


def test_a_gate_that_never_begins_leaves_the_journal_of_an_unfinished_one(project: Path) -> None:
    process = gate(project, *RUN)
    while kept(project) < 20:
        time.sleep(0.002)
    process.kill()
    ended(process)
    before = kept(project)
    assert ended(gate(project, *RUN, "--setup", "exit 1", "--python", sys.executable))[0] == 3
    assert ended(gate(project, "run", "missing.json", *RUN[2:]))[0] == 2
    assert kept(project) == before
    assert ended(gate(project, *RUN, "--resume"))[0] == 1


def test_what_is_played_is_ended_when_the_minutes_are_over(project: Path) -> None:
    """Each conversation would take ten minutes, and may."""
    (project / "evalgate.yaml").write_text(
        "version: 1\nagent: {entry: 'agent.py:wait', timeout: 600}\nbudget: {minutes: 0.02}\n"
        "criteria: {response_match_score: 0.8}\n"
    )
    (project / "demo.evalset.json").write_text(eval_set(*TEXTS[:20]))
    code, said = ended(gate(project, "run", "demo.evalset.json"))
    assert (code, "not, or not fully, evaluated: 20 of 20 cases" in said) == (3, True), said
    outcomes = {run["outcome"] for case in record(project)["cases"] for run in case["runs"]}
    assert (outcomes, kept(project)) == ({"not_run"}, 0)


UNENDING = """\
import os, re, subprocess, time

def note(*pids):
    with open("pids.new", "w") as file:
        file.write(" ".join(map(str, [os.getpid(), *pids])))
    os.rename("pids.new", "pids")

async def blocks_its_loop(text):
    note()
    time.sleep(3600)

def holds_the_lock(text):
    note()
    re.match("(a+)+$", "a" * 60 + "b")

def has_a_child(text):
    note(subprocess.Popen(["sleep", "3600"]).pid)
    time.sleep(3600)

def has_a_daemon(text):
    note(subprocess.Popen(["sleep", "3600"], start_new_session=True).pid)
    time.sleep(3600)
"""
DEAF = "trap '' TERM HUP; echo $$ > pids.new; mv pids.new pids; while :; do sleep 1; done"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody finds them")
@pytest.mark.parametrize(
    "agent",
    [
        *(
            f"python:unending.py:{name}"
            for name in ("blocks_its_loop", "holds_the_lock", "has_a_child", "has_a_daemon")
        ),
        f"command:sh -c {shlex.quote(DEAF)}",
    ],
)
def test_a_gate_that_is_killed_leaves_no_process_of_its_agent(project: Path, agent: str) -> None:
    (project / "unending.py").write_text(UNENDING)
    (project / "demo.evalset.json").write_text(eval_set("hello"))
    killed = gate(project, "run", "demo.evalset.json", "--agent", agent, "--timeout", "3600")
    pids = project / "pids"
    while not pids.exists():
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.02)
    left = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    killed.kill()
    killed.communicate(timeout=120)  # nobody keeps its pipes open either
    _, alive = psutil.wait_procs(left, timeout=120)
    assert alive == []
