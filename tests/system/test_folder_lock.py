"""The lock of a folder, on a file system that has no locks."""

import errno
import os
from pathlib import Path

import pytest

from evalgate.system.folder_lock import lock_folder


@pytest.fixture
def lockless(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("evalgate.system.folder_lock.fcntl.flock", refuse)


@pytest.mark.usefixtures("lockless")
def test_a_required_lock_is_an_error_where_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No locks available"), lock_folder(tmp_path):
        pytest.fail("two writers could lose a run of each other")


@pytest.mark.usefixtures("lockless")
def test_another_lock_is_done_without(tmp_path: Path) -> None:
    with lock_folder(tmp_path, required=False):
        (tmp_path / "written").touch()
    assert (tmp_path / "written").exists()
