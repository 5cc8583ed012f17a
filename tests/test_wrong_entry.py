"""What the user named as the agent does not exist: one line, exit code 2, and nothing of an earlier run changes."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import AGENT, RUN, eval_set
from tests.commands import evalgate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set("hello there", "good bye"))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (
            "python:missing.py:answer",
            "cannot load the agent `missing.py:answer`: there is no file missing.py in {folder}",
        ),
        (
            "python:no.such:answer",
            "cannot load the agent `no.such:answer`: there is no module `no` in {folder} or on the path of {python}",
        ),
        (
            "python:agent.py:anwser",
            "cannot load the agent `agent.py:anwser`: module `agent.py` has no attribute `anwser`; it has: answer, wrong",
        ),
        (
            "adk:nowhere",
            "cannot load the agent `nowhere`: there is no module `nowhere` in {folder} or on the path of {python}",
        ),
        ("command:./nope.sh", "cannot start the agent: there is no command `./nope.sh`"),
        ("command:./nope.sh --fast", "cannot start the agent: there is no command `./nope.sh`"),
    ],
)
def test_an_agent_that_does_not_exist_is_one_line(folder: Path, agent: str, why: str) -> None:
    earlier = evalgate(*RUN, cwd=folder)
    assert earlier.code == 0, earlier.err
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}

    done = evalgate("run", "demo.evalset.json", "--agent", agent, cwd=folder)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"evalgate: {why.format(folder=folder, python=sys.executable)}\n"
    after = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    assert after == before


def test_an_agent_that_exists_and_breaks_has_no_verdict(folder: Path) -> None:
    """An import that fails may be the fault of the change, or of the machine: that is no wrong input."""
    (folder / "broken.py").write_text("import not_there\n")
    done = evalgate("run", "demo.evalset.json", "--agent", "python:broken.py:answer", cwd=folder)
    assert done.code == 3
    assert len(re.findall("not_there", done.out)) == 1
