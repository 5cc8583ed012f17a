"""List the files that a change touches; raise an error if the list may be incomplete."""

import os
from pathlib import Path

from evalgate.core.sanitize import to_one_line
from evalgate.system.git import WHOLE_HISTORY, GitError, execute_git

_SUBMODULE = b"160000"
_PARENT = b"parent "
_SHOWN_OF_COMMIT = 12


class UnknownChangeError(Exception):
    """The files that a change touches cannot be listed completely. The message is a sentence."""


def list_changed_files(folder: Path, base_revision: str) -> frozenset[str]:
    """Return the files that differ from the newest common commit of HEAD and `base_revision`.

    Uncommitted changes count, and so do untracked files that git does not ignore. For a renamed file, both
    names are returned.

    Args:
        folder: A folder of the checkout.
        base_revision: A revision, such as `origin/main` or a full hash.

    Returns:
        Paths relative to `folder`, with slashes. The path of a file outside of `folder` begins with `../`.

    Raises:
        UnknownChangeError: git fails or does not know `base_revision`; HEAD and `base_revision` have no
            commit in common; the clone is shallow and `base_revision` is no parent of HEAD; a submodule
            differs; git was told to ignore changes of a file; or nothing differs at all: then the
            checkout probably does not contain the change.
    """
    try:
        return _list_files(folder, base_revision)
    except GitError as error:
        said = to_one_line(str(error), 200) or "it is not installed, or took too long"
        raise UnknownChangeError(f"git failed: {said}") from None


def _list_files(folder: Path, base_revision: str) -> frozenset[str]:
    top = Path(os.fsdecode(execute_git(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))
    untracked = execute_git(top, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    found = {os.fsdecode(name) for name in untracked if name}
    for commit in find_common_commits(top, base_revision):
        # Without renames, so that both names are listed; no setting of the repository may hide a file.
        options = (
            "--raw",
            "-z",
            "--no-renames",
            "--no-relative",
            "--ignore-submodules=none",
            "--no-ext-diff",
        )
        fields = execute_git(top, "-c", "core.ignoreStat=false", "diff", *options, commit, "--").split(b"\0")
        for facts, name in zip(fields[::2], fields[1::2], strict=False):
            path = os.fsdecode(name)
            if _SUBMODULE in facts.removeprefix(b":").split(b" ")[:2]:
                raise UnknownChangeError(f"the submodule {path} differs, and its files are not compared.")
            found.add(path)
    if not found:
        raise UnknownChangeError(
            f"nothing differs from {base_revision}: perhaps the change is not what is checked out."
        )
    if hidden := _find_hidden_file(top):
        raise UnknownChangeError(f"git was told to ignore changes of {hidden} (see `git update-index`).")
    home = os.path.relpath(folder.resolve(), top.resolve())
    return frozenset(Path(os.path.relpath(path, home)).as_posix() for path in found)


def list_repository_files(folder: Path) -> frozenset[str]:
    """Return the tracked files of the repository, and the untracked files that git does not ignore.

    The paths are relative to `folder`. A tracked file is returned even if it is deleted on the disk.

    Raises:
        GitError: git fails, or `folder` is in no repository.
    """
    top = Path(os.fsdecode(execute_git(folder, "rev-parse", "--show-toplevel")).removesuffix("\n"))
    names = execute_git(top, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split(b"\0")
    home = os.path.relpath(folder.resolve(), top.resolve())
    return frozenset(Path(os.path.relpath(os.fsdecode(name), home)).as_posix() for name in names if name)


def find_common_commits(top: Path, base_revision: str) -> tuple[str, ...]:
    """Return the hashes of the newest commits that HEAD and `base_revision` have in common; at least one.

    Raises:
        UnknownChangeError: git does not know `base_revision`; HEAD and `base_revision` have no commit in
            common; or the clone is shallow and `base_revision` is no parent of HEAD.
        GitError: git fails.
    """
    try:
        found = execute_git(
            top, "rev-parse", "-q", "--verify", "--end-of-options", f"{base_revision}^{{commit}}"
        )
    except GitError:
        raise UnknownChangeError(f"git does not know {base_revision} here: fetch it first.") from None
    # In a shallow clone, git shows no parents of its oldest commits, but the commit itself names them.
    commit, head = os.fsdecode(found.strip()), execute_git(top, "cat-file", "commit", "HEAD")
    parents = [line.removeprefix(_PARENT) for line in head.split(b"\n\n")[0].split(b"\n")]
    if commit.encode() in parents:
        return (commit,)
    if execute_git(top, "rev-parse", "--is-shallow-repository").strip() == b"true":
        raise UnknownChangeError(
            f"the checkout is shallow, and {commit[:_SHOWN_OF_COMMIT]} is no parent of what is checked out: "
            f"{WHOLE_HISTORY}."
        )
    try:
        common = execute_git(top, "merge-base", "--all", commit, "HEAD")
    except GitError:
        raise UnknownChangeError(f"this checkout has no commit in common with {base_revision}.") from None
    return tuple(os.fsdecode(common).split())


def _find_hidden_file(top: Path) -> str:
    """Return the path of a file for which git was told not to show changes; "" if there is none."""
    for line in execute_git(top, "ls-files", "-v", "-z").split(b"\0"):
        name = os.fsdecode(line[2:])
        # A sparse checkout marks a file with `S` if it leaves the file out. If the file exists, it may
        # differ.
        if line[:1].islower() or (line[:1] == b"S" and os.path.lexists(top / name)):
            return name
    return ""


def find_unversioned(folder: Path, paths: frozenset[str]) -> frozenset[str]:
    """Return the members of `paths` that git does not track. Paths are relative to `folder`.

    The files need not exist.

    Raises:
        UnknownChangeError: git fails.
    """
    try:
        tracked = execute_git(folder, "ls-files", "-z", "--", ":/").split(b"\0")
    except GitError as error:
        raise UnknownChangeError(f"git failed: {to_one_line(str(error), 200)}") from None
    return paths - {os.fsdecode(name) for name in tracked}


def check_commits_differ(folder: Path, base_revision: str) -> None:
    """Check that the files of HEAD differ from those of its merge base with `base_revision`.

    If CI checked out a commit without the pull request's change, only uncommitted files differ, such as
    reports of earlier steps. They would be mistaken for the change.

    Raises:
        UnknownChangeError: the files do not differ, or cannot be compared.
    """
    try:
        for commit in find_common_commits(folder, base_revision):
            trees = {execute_git(folder, "rev-parse", f"{each}^{{tree}}") for each in (commit, "HEAD")}
            if len(trees) == 1:
                raise UnknownChangeError(
                    "the commit that is checked out does not differ from "
                    f"{base_revision[:_SHOWN_OF_COMMIT]}: perhaps the change is not what is checked out."
                )
    except GitError as error:
        raise UnknownChangeError(f"git failed: {to_one_line(str(error), 200)}") from None
