"""What `evalgate init` writes, asks and says, on a terminal and off it."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from evalgate.cli import init as scaffold
from tests.cli.test_cli import AGENT, ROOT, eval_set
from tests.commands import evalgate

ADK = "from google.adk.agents import Agent\n\nroot_agent = Agent(name='shop')\n"
IGNORED = "evalgate-report/\n.evalgate/judge-cache.sqlite*\n__pycache__/\n"
SENTENCE = "This gates the sample agent of `evalgate init`, not yours: point `agent.entry` in evalgate.yaml at your own."


def config(folder: Path) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((folder / "evalgate.yaml").read_text())
    return found


def test_the_scaffold_contains_the_lines_that_init_replaces() -> None:
    text = (ROOT / "evalgate/cli/scaffold/evalgate.yaml").read_text("utf-8")
    assert scaffold._SAMPLE_ENTRY in text
    assert scaffold._SAMPLE_SETS in text
    schema = "https://raw.githubusercontent.com/org/evalgate/v1/docs/evalgate.schema.json"
    assert text.startswith(f"# yaml-language-server: $schema={schema}\n")
    assert (ROOT / schema.partition("/v1/")[2]).is_file()


@pytest.mark.parametrize(
    ("agent", "section"),
    [
        ("python:src/bot.py:reply", {"kind": "python", "entry": "src/bot.py:reply"}),
        ("adk:shop", {"kind": "adk", "entry": "shop"}),
        ("http:http://localhost:8000", {"kind": "http", "url": "http://localhost:8000"}),
        ('command:node "my agent.mjs"', {"kind": "command", "command": 'node "my agent.mjs"'}),
        ("docker:image:1", {"kind": "docker", "image": "image:1"}),
    ],
)
def test_an_agent_of_ones_own_takes_the_place_of_the_sample(
    agent: str, section: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tests/evals").mkdir(parents=True)
    (tmp_path / "tests/evals/a.evalset.json").write_text(eval_set("hello"))
    done = evalgate("init", "--agent", agent, cwd=tmp_path)
    assert done.code == 0, done.err
    assert not (tmp_path / "evals").exists()
    found = config(tmp_path)
    assert found["agent"] == {**section, "timeout": 60, "env": []}
    assert found["eval_sets"] == ["tests/evals/*.evalset.json"]


def test_an_agent_of_ones_own_is_gated_at_once(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set("hello there"))
    assert evalgate("init", "--agent", "python:agent.py:answer", cwd=tmp_path).code == 0
    done = evalgate("run", cwd=tmp_path)
    assert (done.code, "sample agent" in done.out) == (0, False), done.err


def test_without_an_eval_set_the_way_to_the_first_one_is_named_and_works(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "questions.txt").write_text("hello there\n")
    done = evalgate("init", "--agent", "python:agent.py:answer", cwd=tmp_path)
    command = "generate --from questions.txt --to adk -o evals/first.evalset.json"
    assert f"`evalgate {command}`" in done.out
    assert evalgate(*command.split(), cwd=tmp_path).code == 0
    assert evalgate("validate", cwd=tmp_path).code == 0


def test_every_run_says_that_the_sample_is_gated(tmp_path: Path) -> None:
    assert "gates the sample agent" in evalgate("init", cwd=tmp_path).out
    done = evalgate("run", cwd=tmp_path)
    assert done.code == 0
    assert SENTENCE in done.out
    assert SENTENCE in (tmp_path / "evalgate-report/comment.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "entry", "edit", "is_said"),
    [
        ("evals/sample_agent.py", "evals/sample_agent.py", lambda text: text, True),
        ("mine/agent.py", "mine/agent.py", lambda text: text, True),
        ("mine/agent.py", "mine.agent", lambda text: text, True),
        ("agent.py", "agent.py", lambda text: text.replace("\n", "\r\n"), True),
        ("agent.py", "agent.py", lambda text: f"# copied\n{text.replace('stand-in', 'copy')}", True),
        ("evals/sample_agent.py", "evals/sample_agent.py", lambda text: text.replace("It is", "There it is"), False),
        ("agent.py", "agent.py", lambda text: text.replace('"Oslo": "snowy"', '"Oslo": "snowy", "Rome": "mild"'), False),
        ("agent.py", "agent.py", lambda text: f"{text.partition('FORECASTS')[0]}{AGENT}", False),
    ],
)  # fmt: skip
def test_the_sample_is_known_by_what_it_does(
    name: str, entry: str, edit: Callable[[str], str], is_said: bool, tmp_path: Path
) -> None:
    assert evalgate("init", cwd=tmp_path).code == 0
    sample = (tmp_path / "evals/sample_agent.py").read_text("utf-8")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(edit(sample).encode())
    done = evalgate("run", "--agent", f"python:{entry}:answer", cwd=tmp_path)
    assert ("This gates the sample agent" in done.out) is is_said, done.out


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (None, f"{scaffold._IGNORE_HEADING}\n{IGNORED}", "written "),
        ("*.pyc", f"*.pyc\n\n{scaffold._IGNORE_HEADING}\n{IGNORED}", "added to"),
        (IGNORED, IGNORED, "kept    "),
        ("/evalgate-report\n.evalgate/judge-cache.sqlite*\n__pycache__\n", None, "kept    "),
    ],
)
def test_what_runs_leave_behind_is_ignored_but_never_the_baseline(
    before: str | None, after: str | None, word: str, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    if before is not None:
        (tmp_path / ".gitignore").write_text(before)
    done = evalgate("init", cwd=tmp_path)
    assert f"{word} .gitignore" in done.out
    assert (tmp_path / ".gitignore").read_text() == (before if after is None else after)
    assert evalgate("run", cwd=tmp_path).code == 0
    assert evalgate("baseline", "save", cwd=tmp_path).code == 0
    (tmp_path / ".evalgate/judge-cache.sqlite-wal").touch()
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert ".evalgate/baseline.json" in status
    assert "evalgate-report" not in status
    assert "judge-cache" not in status
    assert "__pycache__" not in status


def test_a_baseline_that_git_would_ignore_causes_a_warning(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(".evalgate/\n")
    done = evalgate("init", cwd=tmp_path)
    assert ".gitignore leaves out `.evalgate`, and with it the baseline" in done.out


def test_a_workflow_below_the_root_causes_a_warning(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "agents/desk").mkdir(parents=True)
    assert "repository's root" not in evalgate("init", cwd=tmp_path).out
    done = evalgate("init", cwd=tmp_path / "agents/desk")
    assert "move agents/desk/.github/workflows/evalgate.yml to .github/workflows there" in done.out
    assert "add `working-directory: agents/desk`" in done.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--agent", "pyhton:a.py:b"], "`pyhton`"),
        (["--agent", "python"], "--agent python: write KIND:WHAT"),
        (["--agent", "python: "], "write KIND:WHAT"),
    ],
)
def test_what_is_no_agent_writes_nothing(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = evalgate("init", *arguments, cwd=tmp_path)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert sentence in done.err


@pytest.mark.parametrize("name", ["evalgate.yaml", "evalgate.toml", "pyproject.toml"])
def test_a_thresholds_file_that_is_there_is_kept(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("[tool.evalgate]\nversion = 1\n" if name == "pyproject.toml" else "")
    refused = evalgate("init", "--agent", "python:a.py:b", cwd=tmp_path)
    assert (refused.code, len(list(tmp_path.iterdir()))) == (2, 1)
    assert f"{name}: exists already" in refused.err
    done = evalgate("init", cwd=tmp_path)
    assert (done.code, f"kept     {name}" in done.out) == (0, True)
    assert not (tmp_path / "evals").exists()
    assert [each.name for each in tmp_path.glob("evalgate.*")] == ([] if name == "pyproject.toml" else [name])


def test_the_sample_never_plays_conversations_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/mine.evalset.json").write_text(eval_set("hello"))
    done = evalgate("init", cwd=tmp_path)
    assert "Eval sets that are here: evals/*.evalset.json." in done.out
    assert config(tmp_path)["eval_sets"] == ["evals/sample.evalset.json"]
    assert evalgate("run", cwd=tmp_path).code == 0


def terminal(folder: Path, *answers: str) -> str:
    """What `evalgate init` shows at a terminal where the answers are typed."""
    child, master = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, "-m", "evalgate", "init"])
    shown, end, left = "", time.monotonic() + 60, list(answers)
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        shown += part.decode()
        if left and shown.endswith(("sample agent): ", "[Y/n]: ")):
            os.write(master, f"{left.pop(0)}\n".encode())
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    return shown


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in {
        "shop/__init__.py": "",
        "shop/agent.py": ADK,
        "shop/shop.evalset.json": eval_set("hello"),
        "langgraph.json": '{"graphs": {"desk": "./desk/graph.py:graph"}}',
        "node_modules/x/agent.py": ADK,
        "node_modules/x/__init__.py": "",
        "env/pyvenv.cfg": "",
        "env/agent.py": ADK,
        "env/__init__.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("answers", "kind", "entry"),
    [
        (("",), "python", "evals/sample_agent.py:answer"),
        (("1",), "adk", "shop"),
        (("2",), "python", "desk/graph.py:graph"),
        (("nonsense", "9", "python:bot.py:reply"), "python", "bot.py:reply"),
    ],
)
def test_on_a_terminal_it_asks_and_names_the_agents_that_it_found(
    answers: tuple[str, ...], kind: str, entry: str, repository: Path
) -> None:
    shown = terminal(repository, *answers)
    assert "1  adk:shop" in shown
    assert "2  python:desk/graph.py:graph" in shown
    assert "node_modules" not in shown
    assert "adk:env" not in shown
    agent = config(repository)["agent"]
    assert isinstance(agent, dict)
    assert (agent["kind"], agent["entry"]) == (kind, entry)


def test_folders_that_may_not_be_entered_are_passed_over(tmp_path: Path) -> None:
    done = evalgate("init", "-C", "/proc", cwd=tmp_path)
    assert done.code == 2
    assert "evalgate.yaml: cannot be written" in done.err


def test_on_a_terminal_it_asks_nothing_where_a_thresholds_file_is(tmp_path: Path) -> None:
    (tmp_path / "evalgate.yaml").write_text("")
    assert "Which agent" not in terminal(tmp_path)
