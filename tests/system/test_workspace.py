"""The agent's home folder, and what is left of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalgate.system.workspace import Workspace

_CHOOSE_HOME = """
import sys
from pathlib import Path
from evalgate.system.workspace import Workspace

home = Workspace(Path(".")).choose_home({"HOME": sys.argv[1]})
(home / "of the agent").mkdir()
print(home)
"""


def test_a_home_of_the_agents_user_is_kept(tmp_path: Path) -> None:
    assert Workspace(tmp_path).choose_home({"HOME": str(tmp_path)}) == tmp_path


@pytest.mark.parametrize("home", ["", "missing", "file"])
def test_a_temporary_home_is_removed_when_the_process_ends(home: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _CHOOSE_HOME, home and str(tmp_path / home)]

    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)

    assert Path(ended.stdout.strip()).parent == tmp_path
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
