"""The agent host as a program: its protocol, byte for byte, on every installed Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.play import TINY, environment

CAPTURE = Path(__file__).parent / "capture" / "standin"
WORKER = Path(__file__).parents[3] / "evalgate" / "agents" / "host"
PYENV = Path.home() / ".pyenv" / "versions"


def _version(python: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in python.parents[1].name.split(".") if part.isdigit())


INSTALLED = [str(python) for python in PYENV.glob("*/bin/python")]
NEW = [sys.executable, *(python for python in INSTALLED if _version(Path(python)) >= (3, 9))]
OLD = [python for python in INSTALLED if (3,) <= _version(Path(python)) < (3, 9)]


class Host:
    """An agent host that receives one message at a time."""

    def __init__(self, python: str, entry: str) -> None:
        options = json.dumps({"entry": entry, "threads": 2, "capture": True})
        self.process = subprocess.Popen(
            [python, "-W", "error", str(WORKER / "__main__.py"), options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=TINY,
            env={**environment(), "PYTHONDONTWRITEBYTECODE": "1"},
            text=True,
        )

    def send(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def leave(self) -> tuple[str, str]:
        out, err = self.process.communicate(timeout=300)
        return out, err


GOLDEN = """\
> {"type": "hello", "protocol": 1}
{"type":"ready","protocol":1,"name":"python"}
> {"type": "start", "session": "1", "case": "twice", "app_name": "", "user_id": "ada", "state": {"count": 1}}
> {"type": "turn", "session": "1", "text": "hi"}
{"type":"tool_call","session":"1","name":"count","args":{"to":2}}
{"type":"tool_result","session":"1","name":"count","result":2}
{"type":"done","session":"1","response":"twice ada 0 hi","state":{"count":2}}
> {"type": "turn", "session": "1", "text": "ho \\u00fc"}
{"type":"tool_call","session":"1","name":"count","args":{"to":3}}
{"type":"tool_result","session":"1","name":"count","result":3}
{"type":"done","session":"1","response":"twice ada 2 ho \\u00fc","state":{"count":3}}
> {"type": "cancel", "session": "1"}
{"type":"cancelled","session":"1"}
> {"type": "of a later protocol"}
> {"type": "end", "session": "1"}
"""


@pytest.mark.parametrize("python", NEW)
def test_golden_transcript(python: str) -> None:
    host = Host(python, "agents.py:counts")
    output = []
    for line in GOLDEN.splitlines():
        if line.startswith("> "):
            output.append(line)
            host.send(**json.loads(line[2:]))
        else:
            output.append(host.read_line())
    assert "\n".join(output) + "\n" == GOLDEN
    assert host.leave() == ("", "")
    assert host.process.returncode == 0


@pytest.mark.parametrize("python", NEW)
@pytest.mark.parametrize(
    ("agent", "answer"),
    [
        ("sync_function", {"type": "done", "session": "1", "response": "HI", "state": {}}),
        ("hangs", {"type": "cancelled", "session": "1"}),
        ("hangs_stubbornly", {"type": "cancelled", "session": "1", "still_running": True}),
        ("hangs_in_thread", {"type": "cancelled", "session": "1", "still_running": True}),
    ],
)
def test_answers_on_every_python(python: str, agent: str, answer: dict[str, object]) -> None:
    host = Host(python, f"agents:{agent}")
    host.send(type="hello", protocol=1)
    assert json.loads(host.read_line())["type"] == "ready"
    host.send(type="start", session="1")
    host.send(type="turn", session="1", text="hi")
    if answer["type"] == "cancelled":
        assert json.loads(host.read_line())["text"] == "hanging"
        host.send(type="cancel", session="1")
    assert json.loads(host.read_line()) == answer
    host.leave()
    assert host.process.returncode == 0


@pytest.mark.parametrize("python", NEW)
def test_captures_on_every_python(python: str) -> None:
    host = Host(python, f"{CAPTURE / 'standin_agent.py'}:agent")
    host.send(type="hello", protocol=1)
    assert json.loads(host.read_line())["type"] == "ready"
    host.send(type="start", session="1")
    host.send(type="turn", session="1", text="hi")
    assert json.loads(host.read_line()) == {
        "type": "captured",
        "session": "1",
        "events": [
            {"type": "tool_call", "name": "look", "args": {"at": "hi"}, "id": "1"},
            {"type": "tool_result", "name": "look", "id": "1", "result": {"seen": True}},
        ],
        "usage": {"input_tokens": 4, "output_tokens": 6, "models": ["m"]},
    }
    assert json.loads(host.read_line())["response"] == "seen"
    assert host.leave() == ("", "")


def test_turn_may_be_cancelled_before_its_first_step() -> None:
    host = Host(sys.executable, "agents:hangs")
    host.send(type="hello", protocol=1)
    host.read_line()
    messages = [
        json.dumps({"type": kind, "session": "1", "text": "hi"}) for kind in ("start", "turn", "cancel")
    ]
    assert host.process.stdin is not None
    host.process.stdin.write("\n".join([*messages, ""]))
    host.process.stdin.flush()
    assert host.read_line() == '{"type":"cancelled","session":"1"}'
    assert host.leave() == ("", "")


@pytest.mark.parametrize("python", OLD)
def test_old_python_is_refused_with_a_message(python: str) -> None:
    version = ".".join(str(part) for part in _version(Path(python))[:2])
    host = Host(python, "agents:sync_function")
    assert json.loads(host.read_line()) == {
        "type": "fatal",
        "kind": "import",
        "message": f"the agent's interpreter is Python {version}; 3.9 or later is needed",
    }
    host.leave()


def test_imports_nothing_of_evalgate_and_nothing_outside_the_standard_library() -> None:
    names = "import sys; sys.path.insert(0, sys.argv[1]); import agents"
    before = subprocess.run(
        [sys.executable, "-c", f"{names}; print(*sys.modules)", str(TINY)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    host = Host(sys.executable, "modules.py:loaded")
    host.send(type="hello", protocol=1)
    host.read_line()
    host.send(type="start", session="1")
    host.send(type="turn", session="1", text="")
    loaded = set(json.loads(host.read_line())["response"].split()) - set(before)
    host.leave()
    ours = {name for name in loaded if name.startswith("_evalgate_worker")}
    tops = {name.partition(".")[0] for name in loaded - ours}
    assert ours
    assert tops - set(sys.stdlib_module_names) == {"modules", "evalgate_host"}


def test_copied_folder_works(tmp_path: Path) -> None:
    for file in WORKER.rglob("*.py"):
        target = tmp_path / "host" / file.relative_to(WORKER)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            str(tmp_path / "host" / "__main__.py"),
            '{"entry": "a:b", "threads": 1}',
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )
    assert json.loads(done.stdout)["message"] == (
        f"cannot load the agent `a:b`: there is no module `a` in {tmp_path} or on the path of {sys.executable}"
    )
