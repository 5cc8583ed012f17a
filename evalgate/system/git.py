"""Read the checked-out commit and branch, and the files of a commit, from git."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.sanitize import to_one_line
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.workspace import open_workspace

SHA = compile_lazily(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Pattern of the full hash of a commit."""
SHORT_SHA = compile_lazily(r"[0-9a-f]{12,64}")
"""Pattern of the hash of a commit, full or abbreviated to at least 12 characters."""
WHOLE_HISTORY = (
    "check out the whole history (GitHub: `fetch-depth: 0`, GitLab: `GIT_DEPTH: 0`, elsewhere: "
    "`git fetch --unshallow`)"
)
"""Advice for error messages, if a shallow clone lacks a commit."""
SUBMODULE_HISTORY = (
    "check out the submodules with their whole history (GitHub: `submodules: true` and `fetch-depth: 0`, "
    "GitLab: `GIT_SUBMODULE_STRATEGY: normal` and `GIT_DEPTH: 0`, elsewhere: `git submodule update --init` "
    "and `git submodule foreach git fetch --unshallow`)"
)
"""Advice for error messages, if a submodule lacks a commit or is not checked out."""
_GIT_SECONDS = 20
_SHOWN_OF_COMMIT = 12
_OBJECT = compile_lazily(rb"[0-9a-f]+ (blob|tree) (\d+)")
_LINK, _SUBMODULE = "120000", "160000"
MOST_LINKS = 40
"""Largest number of symbolic links that are followed on the way to a file; Linux has the same limit."""
SAFE_SETTINGS = (
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=ssh",
    "core.pager=cat",
    "diff.external=",
    "log.showSignature=false",
    "gpg.program=false",
    "protocol.ext.allow=never",
)
"""Git settings for a repository that an agent can write. With them, git runs no program that the repository's
configuration names."""


def read_commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the hash of the checked-out commit, as the CI service or git reports it; None if unknown."""
    # Without the variables of Jenkins and Buildkite, which may hold `HEAD` instead of a hash.
    known = (
        environ.get("GITHUB_SHA")
        or environ.get("CI_COMMIT_SHA")
        or environ.get("BUILD_SOURCEVERSION")
        or environ.get("BITBUCKET_COMMIT")
    )
    return known or run_git(folder, "rev-parse", "HEAD") or None


def read_branch(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the checked-out branch, as the CI service or git reports it; None if unknown."""
    if environ.get("GITHUB_REF_TYPE") == "branch" and environ.get("GITHUB_REF_NAME"):
        return environ["GITHUB_REF_NAME"]
    ref = environ.get("BUILD_SOURCEBRANCH", "")
    known = (
        environ.get("CI_COMMIT_BRANCH")
        or (ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else "")
        or environ.get("BITBUCKET_BRANCH")
        or (environ.get("BRANCH_NAME") if environ.get("JENKINS_URL") else "")
        or environ.get("BUILDKITE_BRANCH")
    )
    return known or run_git(folder, "symbolic-ref", "--short", "-q", "HEAD") or None


def read_commit_time(folder: Path) -> datetime | None:
    """Return the time of the checked-out commit, in UTC; None if git knows no commit."""
    seconds = run_git(folder, "show", "-s", "--format=%ct", "HEAD")
    return datetime.fromtimestamp(int(seconds), UTC) if seconds.isdecimal() else None


def count_commits_since(folder: Path, commit: str) -> int | None:
    """Return the number of commits in the history of HEAD that are not in the history of `commit`.

    Return None if git cannot count these commits: it does not know `commit`, or the clone is shallow.
    """
    if run_git(folder, "rev-parse", "--is-shallow-repository") != "false":
        return None
    found = find_commit(folder, commit)
    count = run_git(folder, "rev-list", "--count", f"{found}..HEAD") if found else ""
    return int(count) if count.isdecimal() else None


def read_blob(folder: Path, commit: str, path: str) -> bytes:
    """Return the content of a file in a commit; b"" if the commit has no such file.

    `path` is relative to `folder`. Symbolic links within the repository are followed, also links to folders
    on the way, as in a checkout of the commit. A file in a submodule is read at the submodule's commit.

    Raises:
        InvalidInputError: git fails, for example in a clone that left out files, or git does not know the
            commit of a submodule.
    """
    kind, content = _read_object(folder, commit, path, "--batch")
    return content if kind == "blob" else b""


def has_folder(folder: Path, commit: str, path: str) -> bool:
    """Return True if a commit has a folder at `path`, which is relative to `folder`.

    Symbolic links within the repository are followed. A folder in a submodule is looked up at the submodule's
    commit.

    Raises:
        InvalidInputError: git fails, for example in a clone that left out files, or git does not know the
            commit of a submodule.
    """
    return _read_object(folder, commit, path, "--batch-check")[0] == "tree"


def _read_object(folder: Path, commit: str, path: str, option: str) -> tuple[str, bytes]:
    """Return (kind, content) of the object at `path` in a commit; ("", b"") if there is none.

    The kind is `blob` for a file and `tree` for a folder. `path` is relative to `folder`. Symbolic links are
    followed. A path in a submodule is looked up at the commit of the submodule. A path that leads out of the
    repository has no object.

    `option` is an option of `git cat-file`: `--batch`, or `--batch-check`, with which the content is b"".

    Raises:
        InvalidInputError: git fails, or `path` has a line break. Also raised if `path` is in a submodule, and
            git does not know the commit that the submodule has in `commit`.
    """
    inner = os.path.normpath(path)
    try:
        if _leads_outside(inner) and _leads_outside(os.path.normpath(_read_prefix(folder) + inner)):
            return "", b""
        asked = os.fsencode(f"{commit}:./{_check_is_one_line(inner)}\n")
        found = execute_git(folder, "cat-file", option, "--follow-symlinks", given=asked)
        head, _, content = found.partition(b"\n")
        facts = _OBJECT.fullmatch(head)
        place = None if facts else _find_in_submodule(folder, commit, inner)
    except GitError as error:
        problem = (
            f"git cannot read the version of the commit {commit[:_SHOWN_OF_COMMIT]}: check out without a "
            "filter such as `filter: blob:none`, which leaves out files of other commits. Git says: "
            f"{to_one_line(str(error), 200)}"
        )
        raise InvalidInputError([Problem(path, 0, 0, problem)]) from None
    if place:
        return _read_object(folder / place.submodule, place.commit, place.path, option)
    # Cut at the size, because a line end follows the content.
    return (facts[1].decode(), content[: int(facts[2])]) if facts else ("", b"")


class _PlaceInSubmodule(NamedTuple):
    """Path of a submodule, its commit, and a path within the submodule."""

    submodule: str
    commit: str
    path: str


def _find_in_submodule(folder: Path, commit: str, path: str) -> _PlaceInSubmodule | None:
    """Find the submodule of a commit that contains `path`. Return None if no submodule does.

    Symbolic links on the way to `path` are followed.

    Raises:
        GitError: git fails.
        InvalidInputError: git does not know the submodule's commit.
    """
    prefix = _read_prefix(folder)
    inner = os.path.normpath(prefix + path)  # from the top of the repository
    for _ in range(MOST_LINKS):
        is_outside = _leads_outside(inner) or inner.startswith("/")
        step = None if is_outside else _find_first_step(folder, commit, inner)
        if step is None:
            return None
        mode, found, name = step
        rest = PurePosixPath(inner).relative_to(name)
        if mode == _LINK:
            target = os.fsdecode(execute_git(folder, "cat-file", "blob", found))
            inner = os.path.normpath(PurePosixPath(name).parent / target / rest)
            continue
        submodule = os.path.relpath(name, prefix or os.curdir)
        if not find_submodule_commit(folder / submodule, found):
            problem = (
                f"it is in the submodule {submodule}, and git does not know its commit "
                f"{found[:_SHOWN_OF_COMMIT]}, which the base branch has: {SUBMODULE_HISTORY}"
            )
            raise InvalidInputError([Problem(path, 0, 0, problem)])
        return _PlaceInSubmodule(submodule, found, str(rest))
    return None


def _find_first_step(folder: Path, commit: str, path: str) -> tuple[str, str, str] | None:
    """Return (mode, hash, path) of the first link or submodule among `path` and the folders above it.

    Return None if there is none. Paths are relative to the top of the repository.
    """
    steps = [str(each) for each in (PurePosixPath(path), *PurePosixPath(path).parents)][:-1]
    listed = os.fsdecode(execute_git(folder, "ls-tree", "-z", "--full-tree", commit, "--", *steps))
    for line in listed.split("\0"):
        about, _, name = line.partition("\t")
        # Git lists the other files of the folders on the way as well.
        if name in steps and about.startswith((_LINK, _SUBMODULE)):
            mode, _kind, found = about.split()
            return mode, found, name
    return None


def find_submodule_commit(folder: Path, commit: str) -> str:
    """Return the full hash of `commit` if the submodule in `folder` is checked out and has it, else "".

    If the submodule is not checked out, or if the tested change put files in its place, `folder` belongs to
    the outer repository. Then "" is returned even if the outer repository has a commit with this hash.
    """
    return find_commit(folder, commit) if _is_top(folder) else ""


def _is_top(folder: Path) -> bool:
    """Return True if `folder` is the top of a repository; False if git fails."""
    try:
        return not _read_prefix(folder)
    except GitError:
        return False


def _leads_outside(path: str) -> bool:
    return path == os.pardir or path.startswith(os.pardir + os.sep)


def _read_prefix(folder: Path) -> str:
    """Return the path of `folder` within its repository, with `/` at the end; "" at the top."""
    return os.fsdecode(execute_git(folder, "rev-parse", "--show-prefix")).removesuffix("\n")


def _check_is_one_line(path: str) -> str:
    if "\n" in path:
        raise GitError("a path with a line break cannot be looked up")
    return path


def is_tracked(folder: Path, path: str) -> bool:
    """Return True if git tracks the file at `path`, or a file in the folder at `path`, also in submodules.

    Return False if `path` is outside of the repository, or if there is no repository. If git fails, return
    True to be safe: the tested change may have added or edited the file.
    """
    here = Path(os.path.realpath(folder))
    top = run_git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return any((each / ".git").exists() for each in (here, *here.parents))
    name = os.path.relpath(here / path, top)
    if _leads_outside(name):
        return False
    # Not with `--recurse-submodules`, which fails if the change's own .gitmodules is malformed.
    try:
        if execute_git(folder, "ls-files", "-z", "--", f":(top,literal){name}"):
            return True
        parents = [str(each) for each in PurePosixPath(name).parents][:-1]
        for submodule in _list_submodules(folder, parents):
            inner = Path(top, submodule)
            return not _is_top(inner) or is_tracked(inner, os.path.relpath(name, submodule))
    except GitError:
        return True
    return False


def _list_submodules(folder: Path, paths: Sequence[str]) -> list[str]:
    """Return the members of `paths` that are submodules. Paths are relative to the top of the repository."""
    specs = [f":(top,literal){path}" for path in paths]
    if not specs:
        return []
    staged = os.fsdecode(execute_git(folder, "ls-files", "--stage", "--full-name", "-z", "--", *specs))
    fields = [line.partition("\t") for line in staged.split("\0")]
    return [name for about, _, name in fields if about.startswith(_SUBMODULE) and name in paths]


def list_files_of_moved_submodules(folder: Path, commit: str, pathspecs: Sequence[str]) -> list[str]:
    """Return the tracked files that match `pathspecs` in submodules that moved since `commit`.

    A submodule has moved if it is checked out at another commit than `commit` records for it. The paths are
    relative to the top of the repository. If git cannot list the files, return the paths of the moved
    submodules. If git cannot compare the submodules with `commit`, return [].
    """
    # Without `--ignore-submodules`, `ignore = all` in the change's own .gitmodules would hide submodules.
    listed = run_git(
        folder, "diff", "--raw", "-z", "--no-renames", "--no-relative", "--ignore-submodules=dirty", commit
    )
    fields = listed.split("\0")
    moved = {name for about, name in zip(fields[::2], fields[1::2], strict=False) if _SUBMODULE in about}
    if not moved:
        return []
    words = ("ls-files", "--recurse-submodules", "--full-name", "-z", "--", *pathspecs)
    try:
        files = os.fsdecode(execute_git(folder, *words)).split("\0")
    except GitError:  # for example if the change's own .gitmodules is malformed
        return sorted(moved)
    return [file for file in files if not moved.isdisjoint(map(str, PurePosixPath(file).parents))]


def find_commit(folder: Path, revision: str) -> str:
    """Return the full hash of the commit that `revision` names; "" if git does not know it.

    `revision` is a hash, a branch or another name. A short hash is looked up only among hashes, because a tag
    or a branch may have the same name.
    """
    if SHORT_SHA.fullmatch(revision) and not SHA.fullmatch(revision):
        revision = run_git(folder, "rev-parse", f"--disambiguate={revision}")
        if not SHA.fullmatch(revision):
            return ""
    return run_git(folder, "rev-parse", "-q", "--verify", f"{revision}^{{commit}}")


def run_git(folder: Path, *words: str) -> str:
    """Run git in `folder`. Return its stdout without the last line end; "" if git fails or is missing."""
    return run_git_bytes(folder, *words).decode("utf-8", "replace").removesuffix("\n")


def run_git_bytes(folder: Path, *words: str, given: bytes = b"", with_own_settings: bool = False) -> bytes:
    """Run git in `folder` with `given` on stdin and return its stdout; b"" if git fails or is not installed.

    Git runs as the agent's user and without the gate's secrets. It reads the configuration of the machine and
    of the user only if `with_own_settings` is True.
    """
    try:
        return execute_git(folder, *words, given=given, with_own_settings=with_own_settings)
    except GitError:
        return b""


class GitError(Exception):
    """Git failed, took too long or is not installed, or the repository lacks the remote."""


def execute_git(folder: Path, *words: str, given: bytes = b"", with_own_settings: bool = False) -> bytes:
    """Run git in `folder` with `given` on stdin, and return its stdout.

    Git runs as the agent's user and without the gate's secrets, because the agent can write the files that
    git reads. The configuration of the machine and of the user is read only if
    `with_own_settings` is True.

    Raises:
        GitError: git fails, is not installed, or takes longer than 20 seconds.
    """
    unread = {} if with_own_settings else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    never = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
    command = ["git", *(word for setting in SAFE_SETTINGS for word in ("-c", setting)), *words]
    try:
        uid, gid = open_workspace(folder).agent_user or (None, None)
        done = subprocess.run(
            command,
            cwd=folder,
            env={
                **build_agent_environment(os.environ, ()),
                **never,
                **unread,
            },
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
            input=given,
            capture_output=True,
            check=True,
            timeout=_GIT_SECONDS,
        )
    except subprocess.CalledProcessError as error:
        raise GitError(error.stderr.decode("utf-8", "replace").strip()) from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise GitError(str(error)) from None
    return done.stdout
