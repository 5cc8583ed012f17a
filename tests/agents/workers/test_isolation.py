"""Agents that run as the user of the gate: they cannot read its memory, and all their processes end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.test_cli import ROOT, eval_set, record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel must have these protections")

AGENT = """
import os, subprocess, time

def curious(text):
    try:
        with open(f"/proc/{os.getppid()}/environ") as environ:
            return "read: " + environ.read()
    except PermissionError:
        return "denied"

SCRIPT = "echo $$ >> {file}; trap '' TERM HUP; while :; do sleep 60; done"

def leaving(text):
    script = SCRIPT.format(file=os.path.abspath("strays"))
    for _ in range(2):
        command = ["setsid", "--fork", "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", script]
        subprocess.run(command, check=True)
    while not os.path.exists("strays") or len(open("strays").readlines()) < 2:
        time.sleep(0.05)
    return text
"""
WITHOUT_TRACING = """
import ctypes, os, sys
for capability in (19, 21, 38):  # root may read any process with SYS_PTRACE, SYS_ADMIN or PERFMON
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "evalgate", *sys.argv[1:]])
"""


def gate(folder: Path, function: str) -> str:
    """Return the agent's answer to a gate with a secret that may not trace other processes."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "demo.evalset.json").write_text(eval_set("hello"))
    (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}')
    command = ["run", "demo.evalset.json", "--agent", f"python:agent.py:{function}"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRACING, *command],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SECRET": "s3cr3t-value"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(record(folder)["cases"][0]["runs"][0]["turns"][0]["actual"]["response"])


def test_agent_cannot_read_the_environment_of_the_gate(tmp_path: Path) -> None:
    assert gate(tmp_path, "curious") == "denied"


def test_process_without_group_and_environment_ends_with_the_agent(tmp_path: Path) -> None:
    assert gate(tmp_path, "leaving") == "hello"
    strays = [int(line) for line in (tmp_path / "strays").read_text().split()]
    assert len(strays) == 2
    assert [pid for pid in strays if outlives(pid)] == []


def outlives(pid: int) -> bool:
    """Return True if a process still runs after thirty seconds."""
    try:
        process = psutil.Process(pid)
        for _ in range(600):
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            time.sleep(0.05)
    except psutil.NoSuchProcess:
        return False
    return True
