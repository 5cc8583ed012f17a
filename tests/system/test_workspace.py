"""The agent's home folder, and what is left of it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.system.workspace import Workspace, resolve_workspace

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


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "No such file or directory"), ("file", "not a folder"), ("loop", os.strerror(errno.ELOOP))],
)
def test_a_folder_that_cannot_be_entered_is_the_users_mistake(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidInputError, match=rf"{name}: cannot work there: {reason}$"):
        resolve_workspace(tmp_path / name)
