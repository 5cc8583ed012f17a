"""The files of a commit are those of its checkout, and none is missing because git could not read it."""

import subprocess
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.system.committed_files import CommittedFiles, FolderFiles

WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
PATHS = (
    "lib/m.py",
    "real/lib/m.py",
    "chain/deep/n.py",
    "file.py",
    "dead.py",
    "loop.py",
    "loop/x.py",
    "out/x.py",
    "lib",
    "nothing/m.py",
)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *WHO, *words], cwd=folder, capture_output=True, check=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of a repository, with links to files and folders."""
    folder = tmp_path / "origin/desk"
    (folder / "real/lib/deep").mkdir(parents=True)
    (folder / "real/lib/m.py").write_text("m")
    (folder / "real/lib/deep/n.py").write_text("n")
    (folder.parent / "other").mkdir()
    (folder.parent / "other/x.py").write_text("x")
    for name, target in {
        "lib": "real/lib",
        "chain": "lib",
        "file.py": "chain/deep/n.py",
        "dead.py": "nothing.py",
        "loop.py": "loop.py",
        "loop": "loop",
        "out": "../other",
    }.items():
        (folder / name).symlink_to(target)
    git(folder.parent, "init", "-q")
    git(folder, "add", "--all", ":/")
    git(folder, "commit", "-q", "-m", "links")
    return folder


def test_a_commit_has_the_files_of_its_checkout(home: Path) -> None:
    there, here = CommittedFiles(home, "HEAD"), FolderFiles(home)
    found = [path for path in PATHS if there.is_file(path)]
    assert found == ["lib/m.py", "real/lib/m.py", "chain/deep/n.py", "file.py"]
    assert found == [path for path in PATHS if here.is_file(path)]
    assert there.read_files(found) == here.read_files(found)
    assert there.list_folder("lib") == here.list_folder("lib") == {"lib/m.py": 1, "lib/deep/n.py": 1}


def test_a_chain_of_many_links_is_followed(home: Path) -> None:
    for number in range(9):
        target = "real/lib/m.py" if number == 0 else f"link_{number - 1}.py"
        (home / f"link_{number}.py").symlink_to(target)
    git(home, "add", "--all", ":/")
    git(home, "commit", "-q", "-m", "chain")
    assert CommittedFiles(home, "HEAD").read_files(["link_8.py"]) == {"link_8.py": b"m"}


def test_a_commit_that_git_cannot_read_is_not_an_empty_one(home: Path, tmp_path: Path) -> None:
    git(home, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", home.parent.as_uri(), "clone")
    home.parent.rename(tmp_path / "unreachable")
    with pytest.raises(
        InvalidInputError, match=r"cannot read the code of custom metrics .* without a filter"
    ):
        CommittedFiles(tmp_path / "clone", "HEAD").read_files(["desk/real/lib/m.py"])
