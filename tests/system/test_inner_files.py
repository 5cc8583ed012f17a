"""Files of a folder are read, and none that a link in it leads to outside."""

import os
from pathlib import Path

import pytest

from evalgate.system import inner_files
from evalgate.system.inner_files import read_inner_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/file").write_text("text")
    for name, target in {"link": "inner/file", "up": "..", "out": "../secret", "loop": "loop"}.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize("name", ["inner/file", "link", "up/folder/link"])
def test_a_file_of_the_folder_is_read(folder: Path, name: str) -> None:
    assert read_inner_file(folder / name, folder) == b"text"


@pytest.mark.parametrize("name", ["out", "up/secret", "../secret", "loop", "pipe", "inner", "nothing"])
def test_what_is_not_a_file_of_the_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        read_inner_file(folder / name, folder)


@pytest.mark.skipif(not os.access("/proc/self/fd", os.R_OK), reason="the system does not tell opened paths")
def test_a_folder_that_becomes_a_link_in_between_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = inner_files._check_is_inside

    def check_and_swap(place: str, root: str) -> None:
        check(place, root)
        if not (folder / "inner").is_symlink():
            (folder / "inner").rename(folder / "old")
            (folder / "inner").symlink_to("../outside")

    (folder.parent / "outside").mkdir()
    (folder.parent / "outside/file").write_text("secret")
    monkeypatch.setattr(inner_files, "_check_is_inside", check_and_swap)
    with pytest.raises(OSError, match="it leads out of the folder"):
        read_inner_file(folder / "inner/file", folder)
