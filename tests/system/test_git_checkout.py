"""A commit's files are copied as they are, and the copy does not outlive the block."""

import os
from pathlib import Path

import pytest

from evalgate.system.git_checkout import CheckoutError, check_out_commit
from tests.runner.control.projects import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "desk"
    (folder / "bin").mkdir(parents=True)
    git(folder.parent, "init", "-q")
    (folder / "bin" / "go").write_text("#!/bin/sh\n")
    (folder / "bin" / "go").chmod(0o755)
    (folder / "link").symlink_to("bin/go")
    (folder / "ümlaut.txt").write_bytes(b"\xff\r\n")
    (folder / ".gitattributes").write_text("*.txt export-ignore filter=loud\nbin/go export-subst\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"old")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-q", "-m", "All")
    # A change cannot have its programs run, or its hooks.
    git(folder, "config", "filter.loud.smudge", f"touch {tmp_path}/smudged")
    hook = folder.parent / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    return folder


def test_the_copy_is_what_the_commit_has_and_every_edit_is_seen(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "ümlaut.txt").write_text("edited by the change")
    with check_out_commit(repository, commit) as copy:
        assert copy.folder == copy.root / "desk"
        assert (copy.folder / "ümlaut.txt").read_bytes() == b"\xff\r\n"
        assert os.access(copy.folder / "bin" / "go", os.X_OK)
        assert (copy.folder / "link").readlink() == Path("bin/go")
        assert not (copy.folder / "__pycache__").exists()
        assert not (copy.root / ".git").exists()
        (copy.folder / "new").write_text("of a setup")
        assert copy.find_changed_files() == ()
        (copy.folder / "ümlaut.txt").unlink()
        (copy.folder / "link").unlink()
        (copy.folder / "link").symlink_to("/etc/passwd")
        (copy.folder / "bin").rename(copy.folder / "moved")
        (copy.folder / "bin").symlink_to("moved")
        assert copy.find_changed_files() == ("desk/bin/go", "desk/link", "desk/ümlaut.txt")
        home = copy.root.parent
    assert not home.exists()
    assert not [*tmp_path.glob("*ed")]
    assert git(repository, "worktree", "list").count("\n") == 0


def test_the_folder_of_a_killed_process_is_removed_by_the_next(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "evalgate-control-killed"
    left.mkdir()
    (left / "lock").touch()
    if os.geteuid() == 0:  # then the folder was given to the agent's user
        os.chown(left / "lock", 12345, 12345)
        os.chown(left, 12345, 12345)
    commit = git(repository, "rev-parse", "HEAD")
    with check_out_commit(repository, commit) as first, check_out_commit(repository, commit) as second:
        assert not left.exists()
        assert first.find_changed_files() == second.find_changed_files() == ()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("unknown", "git cannot read its files"),
        ("lfs", "its file model.bin is in Git LFS, which is not read"),
        ("submodule", "it has the submodule vendored, which is not checked out"),
    ],
)
def test_a_commit_that_cannot_be_copied_whole_is_refused(repository: Path, kind: str, sentence: str) -> None:
    top = repository.parent
    if kind == "lfs":
        (top / "model.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        git(top, "add", "model.bin")
    if kind == "submodule":
        head = git(top, "rev-parse", "HEAD")
        git(top, "update-index", "--add", "--cacheinfo", f"160000,{head},vendored")
    git(top, "commit", "-q", "--allow-empty", "-m", kind)
    commit = "0" * 40 if kind == "unknown" else git(top, "rev-parse", "HEAD")
    with pytest.raises(CheckoutError, match=sentence), check_out_commit(repository, commit):
        pass
