"""Files that a Python agent opens, as audit hooks see them. A hook stays for ever, so a process of its own has it."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import json, os, sys
import evalgate.agents.host.opened_files as module

def take():
    found = opened.take_message() or {"paths": [], "incomplete": False}
    return [found["paths"], found["incomplete"]]

if __name__ == "__main__":
    opened = module.FileRecorder(os.getcwd())
    seen = {"before": take()}
    open("a").close(); seen["links"] = take()
    open("outer/c.txt").close(); seen["folders"] = take()
    open("away/../y.txt").close(); seen["parent"] = take()
    import sqlite3
    sqlite3.connect("file:q%201.sqlite?mode=ro", uri=True).close(); seen["database"] = take()
    open("./own.txt", "w").close(); open("own.txt").close()
    import tempfile
    file = tempfile.NamedTemporaryFile(dir="."); open(file.name).close(); seen["own"] = take()
    import ctypes
    try: ctypes.CDLL("./lib.so")
    except OSError: pass
    seen["library"] = take()
    import multiprocessing
    child = multiprocessing.get_context("spawn").Process(target=print)
    child.start(); child.join(); seen["child"] = take()
    sys.prefix = os.path.dirname(os.getcwd())
    open("around.txt").close(); seen["prefix around"] = take()[0]
    def refuse(path): raise PermissionError(path)
    os.readlink = refuse
    open("unreadable").close(); seen["unreadable link"] = take()[0]
    print(json.dumps(seen))
"""


def test_links_databases_libraries_and_processes_are_seen(tmp_path: Path) -> None:
    for name in (".git", "real", "deep/sub"):
        (tmp_path / name).mkdir(parents=True)
    for name, target in {
        "a": "b",
        "b": "real/c.txt",
        "outer": "inner",
        "inner": "real",
        "away": "deep/sub",
        "unreadable": "around.txt",
    }.items():
        (tmp_path / name).symlink_to(target)
    for name in ("real/c.txt", "deep/y.txt", "lib.so", "around.txt"):
        (tmp_path / name).touch()
    sqlite3.connect(tmp_path / "q 1.sqlite").close()
    (tmp_path / "sitecustomize.py").touch()
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])},
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "before": [["program.py", "sitecustomize.py"], False],  # imported before the hook was there
        "links": [["a", "b", "real/c.txt"], False],
        "folders": [["inner", "outer", "real/c.txt"], False],
        "parent": [["away", "deep/y.txt"], False],
        "database": [["q 1.sqlite"], False],
        "own": [[], False],
        "library": [["lib.so"], False],
        "child": [["program.py"], True],
        "prefix around": ["around.txt"],
        "unreadable link": ["unreadable"],
    }
