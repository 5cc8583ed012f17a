"""Files and folders that are copied into containers, as tar archives."""

import io
import tarfile
from pathlib import Path

import pytest

from evalgate.agents.containers.copied_files import build_file_archive, build_folder_archive


def list_entries(archive: bytes) -> dict[str, str]:
    """Name and owner of each file in an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {each.name: f"{each.uname}:{each.uid}" for each in opened if each.isfile()}


@pytest.mark.parametrize("target", ["/etc/app.conf", "/app/.venv/app.conf", "/app/node_modules/x/.git/y"])
def test_a_mounted_file_is_copied_to_any_target(tmp_path: Path, target: str) -> None:
    file = tmp_path / "app.conf"
    file.write_text("a: 1")
    assert list_entries(build_file_archive(file, target)) == {target[1:]: "root:0"}


def test_a_folder_is_copied_without_what_can_be_created_again(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", ".git/config", "b/node_modules/d.js", "b/__pycache__/c.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert list_entries(build_folder_archive(tmp_path)) == {"./a.py": "root:0", "./b/c.py": "root:0"}
