"""The files that a change touches: complete, or an error."""

import subprocess
from pathlib import Path

import pytest

from evalgate.system.changed_files import UnknownChangeError, list_changed_files

WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "protocol.file.allow=always")


def do(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout.strip()


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    do(folder, "add", "-A")
    do(folder, "commit", "-q", "--allow-empty", "-m", "commit")
    return do(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """`main` moved on after `change` left it; `change` is checked out."""
    folder = tmp_path / "repo"
    folder.mkdir()
    do(folder, "init", "-q", "-b", "main")
    commit(folder, agent="1", old="a long line that makes a rename\n" * 9, mains="1")
    do(folder, "checkout", "-q", "-b", "change")
    commit(folder, agent="2")
    do(folder, "checkout", "-q", "main")
    commit(folder, mains="2")
    do(folder, "checkout", "-q", "change")
    return folder


def test_what_only_the_base_changed_does_not_count(repo: Path) -> None:
    assert list_changed_files(repo, "main") == {"agent"}


def test_after_a_force_push_the_whole_change_counts(repo: Path) -> None:
    do(repo, "commit", "-q", "--amend", "--no-edit")
    do(repo, "rebase", "-q", "main")
    assert list_changed_files(repo, "main") == {"agent"}


def test_both_names_of_a_renamed_file_and_files_that_are_not_committed_count(repo: Path) -> None:
    do(repo, "mv", "old", "new")
    (repo / "agent").unlink()
    (repo / "ünträcked\nfile").write_text("", "utf-8")
    (repo / ".gitignore").write_text("ignored\n", "utf-8")
    (repo / "ignored").write_text("", "utf-8")
    assert list_changed_files(repo, "main") == {"agent", "old", "new", "ünträcked\nfile", ".gitignore"}


def test_paths_are_relative_to_the_folder_whatever_the_repository_is_told(repo: Path) -> None:
    do(repo, "config", "diff.relative", "true")
    do(repo, "config", "diff.renames", "copies")
    (repo / "sub").mkdir()
    (repo / "sub/own").write_text("", "utf-8")
    assert list_changed_files(repo / "sub", "main") == {"../agent", "own"}


def test_a_mode_and_a_link_are_changes(repo: Path) -> None:
    (repo / "old").chmod(0o755)
    (repo / "mains").unlink()
    (repo / "mains").symlink_to("old")
    assert list_changed_files(repo, "main") == {"agent", "old", "mains"}


@pytest.mark.parametrize("base", ["origin/main", "0" * 40, "--output=x", "main:agent", ""])
def test_a_base_that_git_does_not_know_is_an_error(repo: Path, base: str) -> None:
    with pytest.raises(UnknownChangeError, match="does not know"):
        list_changed_files(repo, base)


def test_a_shallow_checkout_is_an_error_unless_the_base_is_a_parent(repo: Path, tmp_path: Path) -> None:
    do(repo, "checkout", "-q", "--detach", "main")
    do(repo, "merge", "-q", "--no-ff", "-m", "the host's merge", "change")
    do(repo, "update-ref", "refs/heads/merge", "HEAD")
    for depth in (1, 2):
        folder = tmp_path / f"depth{depth}"
        do(tmp_path, "clone", "-q", f"--depth={depth}", "--no-single-branch", repo.as_uri(), str(folder))
        do(folder, "checkout", "-q", "origin/merge")
        assert list_changed_files(folder, "origin/main") == {"agent"}
        do(folder, "checkout", "-q", "origin/change")
        with pytest.raises(
            UnknownChangeError,
            match=r"shallow, and .*GitLab: `GIT_DEPTH: 0`, elsewhere: `git fetch --unshallow`",
        ):
            list_changed_files(folder, "origin/main")


def test_the_same_commit_is_no_empty_change(repo: Path) -> None:
    with pytest.raises(UnknownChangeError, match="nothing differs from change"):
        list_changed_files(repo, "change")


def test_without_a_common_commit_it_is_an_error(repo: Path) -> None:
    do(repo, "checkout", "-q", "--orphan", "other")
    commit(repo)
    with pytest.raises(UnknownChangeError, match="no commit in common"):
        list_changed_files(repo, "main")


def test_a_submodule_is_an_error(repo: Path, tmp_path: Path) -> None:
    do(repo, "submodule", "add", "-q", "-b", "main", repo.as_uri(), "sub")
    commit(repo)
    base = do(repo, "rev-parse", "HEAD")
    commit(repo, agent="3")
    assert list_changed_files(repo, base) == {"agent"}
    (repo / "sub/agent").write_text("edited", "utf-8")
    with pytest.raises(UnknownChangeError, match="submodule sub"):
        list_changed_files(repo, base)


def test_a_file_with_changes_that_git_ignores_is_an_error(repo: Path) -> None:
    do(repo, "update-index", "--assume-unchanged", "old")
    with pytest.raises(UnknownChangeError, match="ignore changes of old"):
        list_changed_files(repo, "main")


def test_no_repository_and_no_git_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "plain").mkdir()
    with pytest.raises(UnknownChangeError, match="git failed"):
        list_changed_files(tmp_path / "plain", "main")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnknownChangeError, match="git failed"):
        list_changed_files(tmp_path, "main")
