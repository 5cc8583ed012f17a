"""Read a baseline as it was at a tag, a commit or a date: `SOURCE@WHEN` of `gate.anchor`.

SOURCE is a file of the repository, or a branch that holds only baselines.

- A file is read at the tag or commit WHEN, or at the last commit until the date WHEN.
- On the branch, each save is a commit. For a date WHEN, the last save until this date is read. For a tag or
  commit of the agent, the save with the gate run of this commit is read. If there is no such save, the last
  save until the time of the commit is read.

A date without a time means the end of the day in UTC. WHEN cannot be the name of a branch, because branches
move.
"""

import os
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime, time
from pathlib import Path
from typing import NoReturn

from evalgate.baselines.serialization import load_baseline_or_results
from evalgate.baselines.stores.branch import BranchStore, build_branch_store
from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.core.protocols import StoreContext
from evalgate.core.types import Baseline
from evalgate.system.git import WHOLE_HISTORY, GitError, find_commit, read_blob, run_git
from evalgate.system.private_git import PrivateRepository, open_private_repository

_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_TAG = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[\w./+-]{1,200}(?<![/.])")


def open_past_baseline(source: str, when: str, context: StoreContext, tip: str) -> "PastBaseline":
    """Build the store of the baseline as it was at a tag, a commit or a date, without reading anything.

    Args:
        source: A path in the repository, or `branch:NAME`.
        when: The tag, commit or date.
        context: The workspace.
        tip: Newest commit of the history in which a date is looked up, if `source` is a path.

    Raises:
        InvalidInputError: `source` is neither a path nor `branch:NAME` with a valid name; or `when` is
            neither a tag, a commit nor a date, or lies in the future.
    """
    kind, colon, what = source.partition(":")
    is_branch = bool(colon) and kind == "branch"
    if colon and not is_branch and not (context.folder / source).exists():
        raise InvalidInputError(
            f"gate.anchor: {source} has no history, so `@{when}` cannot be read. A file of the repository "
            "and `branch:NAME` have one; or name a baseline that stays as it is."
        )
    day = _parse_time(when)
    if day is None and not _TAG.fullmatch(when):
        raise InvalidInputError(f"gate.anchor: `{when}` is neither a tag, a commit nor a date as 2026-09-01")
    if day is not None and day > datetime.now(UTC) and datetime.now(UTC).date() < day.date():
        raise InvalidInputError(f"gate.anchor: {when} is in the future")
    branch = build_branch_store(what, context) if is_branch else None
    return PastBaseline(context, source, when, day, tip, branch)


@frozen
class PastBaseline:
    """Read-only store of a baseline as it was at a tag, a commit or a date."""

    context: StoreContext
    source: str
    when: str
    time: datetime | None
    """Last moment that counts, in UTC; for a date alone, the last second of the day. None: `when` is a tag or
    a commit."""
    tip: str
    branch: BranchStore | None = None

    def read(self) -> Baseline:
        """Read the baseline as it was at `when`.

        Raises:
            InvalidInputError: git fails, does not know the tag or commit, or has no commit until the date; or
                there was no baseline at that time, or the baseline is damaged.
        """
        try:
            if self.branch is None:
                return self._read_file()
            return self.branch.read_past(self.when, self.time, self._find_commit)
        except GitError as error:
            what = (
                "git fails"
                if self.branch
                else "the checkout has no such tag or commit, and git cannot fetch it"
            )
            self._fail(f"{what}: {str(error).rstrip('.')}")

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Raise InvalidInputError, because an older baseline cannot be changed."""
        del change
        raise InvalidInputError(f"{self.source}@{self.when}: an older baseline cannot be changed")

    def _read_file(self) -> Baseline:
        folder = self.context.folder
        path = os.path.relpath(folder / self.source, folder)  # git knows no absolute paths
        if self.time is not None:
            commit = run_git(
                folder, "rev-list", "-1", "--first-parent", f"--before={self.time.isoformat()}", self.tip
            )
            if not commit:
                is_shallow = run_git(folder, "rev-parse", "--is-shallow-repository") == "true"
                hint = f": {WHOLE_HISTORY}" if is_shallow else ""
                self._fail(f"git knows no commit of that time or before{hint}")
            data = read_blob(folder, commit, path)
        else:
            commit = _find_local_commit(folder, self.when)
            data = read_blob(folder, commit, path) if commit else self._fetch_file(path)
        if not data:
            self._fail(f"there was no such file at {self.when}")
        return load_baseline_or_results(data, f"{self.source}@{self.when}")

    def _fetch_file(self, path: str) -> bytes:
        """Fetch the tag or commit `when` from the remote. Return the file's content; b"" without the file.

        `path` is relative to the workspace.
        """
        path = os.path.normpath(run_git(self.context.folder, "rev-parse", "--show-prefix") + path)
        with open_private_repository(self.context.folder, "origin", self.context.environ) as repository:
            commit, _ = self._find_commit(repository)
            if not repository.run_git("ls-tree", commit, "--", path):
                return b""
            return repository.run_git("cat-file", "blob", f"{commit}:{path}").encode()

    def _find_commit(self, repository: PrivateRepository, saves: Collection[str] = ()) -> tuple[str, int]:
        """Return hash and time (Unix seconds) of the commit that `when` names.

        The first match of this list counts:

        1. a tag with the name `when`, in the checkout or at the host
        2. one of `saves` (the commits on the branch of the baseline) with a hash that begins with `when`
        3. a commit in the checkout with a hash that begins with `when`
        4. a commit at the host with the whole hash `when`

        A commit that only the host has is fetched into `repository`.

        Raises:
            InvalidInputError: there is no tag, and `when` cannot be a hash.
            GitError: git cannot fetch the commit.
        """
        folder, name = self.context.folder, f"refs/tags/{self.when}"
        commit, fetched = find_commit(folder, name), ""
        if not commit:
            listed = repository.run_git("ls-remote", repository.fetch_url, name, f"{name}^{{}}").split()
            fetched = listed[-2] if listed else ""  # an annotated tag is listed before its commit
        if not commit and not fetched:
            if not _COMMIT.fullmatch(self.when):
                self._fail(f"there is no tag {self.when}")
            if save := next((each for each in saves if each.startswith(self.when)), ""):
                return save, int(repository.run_git("show", "-s", "--format=%ct", save))
            commit, fetched = _find_local_commit(folder, self.when), self.when
        if commit:
            return commit, int(run_git(folder, "show", "-s", "--format=%ct", commit))
        repository.run_git(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--depth=1",
            repository.fetch_url,
            fetched,
        )
        return fetched, int(repository.run_git("show", "-s", "--format=%ct", fetched))

    def _fail(self, why: str) -> NoReturn:
        raise InvalidInputError(f"gate.anchor: {self.source}@{self.when}: {why}.") from None


def _find_local_commit(folder: Path, name: str) -> str:
    """Return the hash of the commit in the checkout that `name` names: a tag, or the beginning of a hash.

    Return "" if there is no such commit, or if several hashes begin with `name`.
    """
    found = find_commit(folder, f"refs/tags/{name}")
    if found or not _COMMIT.fullmatch(name):
        return found
    listed = run_git(folder, "rev-parse", f"--disambiguate={name}").split()
    return find_commit(folder, listed[0]) if len(listed) == 1 else ""


def _parse_time(text: str) -> datetime | None:
    """Parse a date or time in ISO 8601, and return it in UTC; None for other texts.

    A date alone is the last second of this day. A time without a zone is taken as UTC.
    """
    if not _DATE.fullmatch(text):
        return None
    try:
        found = datetime.fromisoformat(text)
        if len(text) == len("2026-09-01"):
            found = datetime.combine(found, time(23, 59, 59))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # overflow: in UTC the year is 0 or 10000
        return None
